//! The harness itself: what it says about the program is worth as much as what is shown here.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::support::admin::{Admin, unique};
use crate::support::audit::{Promise, assert_clean, assert_kept, ledger};
use crate::support::broker::{Broker, shared};
use crate::support::http;
use crate::support::needs_broker;
use crate::support::process::Guarded;
use crate::support::reader::read_all;
use crate::support::records::{Made, Plan};
use crate::support::seed;
use crate::support::sink::{Phase, Sink};
use crate::support::writer::Writer;

const WINDOW: Duration = Duration::from_secs(24 * 3_600);

/// Writes made records and returns the input topic with an output topic that holds what `spoil`
/// left of the first occurrences.
fn made_topics(spoil: impl FnOnce(&mut Vec<Made>)) -> (String, String) {
    let address = shared().address();
    let admin = Admin::of(shared());
    let (input, output) = (unique("made-in"), unique("made-out"));
    admin.create(&input, 2);
    admin.create(&output, 2);
    let seed = seed("made topics");
    let mut writer = Writer::new(&address, &input, Plan::over(2), seed);
    writer.write(20_000);
    assert_eq!(writer.acknowledged(), 20_000);
    let mut seen = std::collections::HashSet::new();
    let mut firsts = Vec::new();
    for partition in 0..2 {
        let records = read_all(&address, &input, partition);
        let first = records
            .into_iter()
            .filter(|record| record.key.is_none() || seen.insert((partition, record.key.clone())));
        firsts.extend(first.map(|record| copy(partition, record)));
    }
    spoil(&mut firsts);
    Writer::new(&address, &output, Plan::over(2), seed).write_these(&firsts);
    (input, output)
}

fn copy(partition: i32, record: firstseen::ledger::Record) -> Made {
    let text = |name: Vec<u8>| String::from_utf8(name).expect("made names are text");
    Made {
        partition,
        key: record.key,
        value: record.value,
        headers: record.headers.into_iter().map(|(name, value)| (text(name), value)).collect(),
        timestamp: record.timestamp.expect("made records have times").0,
    }
}

fn judged(spoil: impl FnOnce(&mut Vec<Made>)) -> firstseen::ledger::Ledger {
    let (input, output) = made_topics(spoil);
    ledger(&shared().address(), &input, &output, 2, WINDOW)
}

#[test]
fn a_perfect_copy_on_real_kafka_is_clean() {
    needs_broker!();
    let ledger = judged(|_| ());
    assert_clean(&ledger);
    assert_eq!(ledger.read, 20_000);
    let share = ledger.suppressed * 100 / ledger.read;
    assert!((8..=15).contains(&share), "about a tenth should be duplicates, not {share} %");
}

#[test]
fn a_bad_copy_on_real_kafka_is_told_fault_by_fault() {
    needs_broker!();
    let ledger = judged(|records| {
        let plain = |record: &Made| record.key.as_ref().is_some_and(|key| !key.is_empty());
        let middle = records.iter().skip(100).position(plain).expect("most are plain") + 100;
        let again = records[middle].clone();
        records.push(again);
        let stranger = Made { key: Some(b"stranger".to_vec()), ..records[middle].clone() };
        records.insert(middle, stranger);
        records.retain(|record| plain(record));
        records.remove(200);
        records.swap(300, 301);
        records[400].value = Some(b"something else".to_vec());
        records[401].timestamp += 1;
        records[402].headers.push(("late".to_owned(), None));
    });
    assert_eq!((ledger.repeated, ledger.phantom), (1, 1), "{ledger}");
    assert_eq!((ledger.reordered, ledger.altered), (1, 3), "{ledger}");
    assert!(ledger.lost > 1, "records without a key were left out: {ledger}");
}

#[test]
fn an_output_partition_that_stayed_empty_is_loss() {
    needs_broker!();
    let ledger = judged(|records| records.retain(|record| record.partition == 0));
    assert!(ledger.lost > 5_000, "{ledger}");
    assert!(ledger.faults.iter().any(|fault| fault.partition == 1), "{ledger}");
}

#[test]
fn a_commit_beyond_what_the_output_holds_is_noticed() {
    needs_broker!();
    let (input, output) = made_topics(|_| ());
    let address = shared().address();
    let [_, end] = [0, 1].map(|partition| Admin::of(shared()).watermarks(&output, partition).1);
    let kept = Promise { partition: 1, committed: i64::MAX, output_end: end };
    assert_kept(&address, &input, &output, &[kept]);
    // The last first occurrence may be a keyless one; a thousand records less is surely too short.
    let broken = Promise { output_end: end - 1_000, ..kept };
    let verdict = std::panic::catch_unwind(|| assert_kept(&address, &input, &output, &[broken]));
    assert!(verdict.is_err(), "a broken promise was not noticed");
}

#[test]
fn what_was_written_survives_a_killed_broker() {
    needs_broker!();
    let mut broker = Broker::start();
    eprintln!("the broker started in {:?}", broker.started_in);
    let admin = Admin::of(&broker);
    admin.create("kept", 1);
    let mut writer = Writer::new(&broker.address(), "kept", Plan::over(1), 1);
    writer.write(1_000);
    broker.kill();
    broker.restart();
    eprintln!("the broker started again in {:?}", broker.started_in);
    writer.write(1_000);
    assert_eq!(read_all(&broker.address(), "kept", 0).len(), 2_000);
}

#[test]
fn a_frozen_broker_answers_again_after_it_thawed() {
    needs_broker!();
    let mut broker = Broker::start();
    let admin = Admin::of(&broker);
    admin.create("cold", 1);
    broker.freeze();
    let silent = admin.committed("nobody", "cold", 1);
    assert_eq!(silent, None, "a frozen broker cannot answer");
    broker.thaw();
    assert_eq!(admin.watermarks("cold", 0), (0, 0));
}

#[test]
fn a_topic_can_be_deleted_and_made_again_under_its_name() {
    needs_broker!();
    let admin = Admin::of(shared());
    let topic = unique("again");
    admin.create(&topic, 1);
    let mut writer = Writer::new(&shared().address(), &topic, Plan::over(1), 1);
    writer.write(10);
    assert_eq!(admin.len(&topic, 1), 10);
    drop(writer);
    admin.delete(&topic);
    admin.create(&topic, 1);
    assert_eq!(admin.len(&topic, 1), 0);
}

#[test]
fn a_child_can_be_stopped_continued_and_killed() {
    let started = Instant::now();
    let mut child = Guarded::spawn(std::process::Command::new("sleep").arg("600")).expect("sleep");
    child.signal(Signal::STOP);
    assert_eq!(child.ended(), None);
    child.signal(Signal::CONT);
    child.signal(Signal::TERM);
    let status = child.wait(Duration::from_secs(10)).expect("it ends on SIGTERM");
    assert_eq!(status.code(), None, "a signal ended it");
    assert!(started.elapsed() < Duration::from_secs(10));
}

/// Starts a shell script in place of the program.
fn script(text: &str) -> Sink {
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", text]);
    Sink::launch(shell, 0)
}

/// Two marks, some other lines, and then it waits until it is told to leave.
const MARKS: &str = r#"trap 'echo "error[E6009]: told; fix: none" >&2; exit 1' TERM
    echo 'not json' >&2
    echo '{"target":"firstseen::phase","fields":{"phase":"open","partition":0}}' >&2
    echo '{"target":"firstseen::other","fields":{"phase":"steady"}}' >&2
    echo '{"target":"firstseen::phase","fields":{"phase":"open","partition":1}}' >&2
    while :; do sleep 0.05; done"#;

#[test]
fn marked_phases_are_counted_and_awaited() {
    let sink = script(MARKS);
    sink.await_phase(Phase::Open, Duration::from_secs(10));
    sink.await_phase_again(Phase::Open, 1, Duration::from_secs(10));
    assert_eq!((sink.count(Phase::Open), sink.count(Phase::Steady)), (2, 0));
    assert!(!sink.reaches(Phase::Steady, 0, Duration::from_millis(50)));
}

#[test]
fn a_program_that_leaves_tells_its_code_and_its_error() {
    let mut sink = script(MARKS);
    sink.await_phase(Phase::Open, Duration::from_secs(10));
    sink.leave(Duration::from_secs(10)).assert_failed(1, "E6009");
    let wrong = std::panic::catch_unwind(|| script("exit 0").wait(Duration::from_secs(10)));
    let wrong = wrong.expect("it ends");
    wrong.assert_drained();
    let verdict = std::panic::catch_unwind(|| wrong.assert_failed(1, "E6009"));
    assert!(verdict.is_err(), "a good end passed for a failure");
}

#[test]
fn a_program_is_killed_at_its_mark_and_not_awaited_after_its_end() {
    let mut sink = script(MARKS);
    assert!(sink.kill_at(Phase::Open, Duration::from_millis(3), Duration::from_secs(10)));
    assert_eq!(sink.kill().code, None);
    let started = Instant::now();
    assert!(!script("exit 1").reaches(Phase::Open, 0, Duration::from_secs(60)));
    assert!(started.elapsed() < Duration::from_secs(10), "a dead program was waited for");
}

#[test]
fn metrics_are_summed_over_their_labels() {
    let sums = http::sums("# HELP a_total x\na_total{p=\"0\"} 2\na_total{p=\"1\"} 3\nb 1.5\n");
    assert_eq!(sums["a_total"], 5.0);
    assert_eq!(sums["b"], 1.5);
}
