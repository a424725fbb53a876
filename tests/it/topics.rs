//! Topics that are missing, made again, too small or too few: a code and a stop, never a loss.

use std::time::Duration;

use crate::support::admin::unique;
use crate::support::broker::shared;
use crate::support::reader::read_all;
use crate::support::records::{Made, Plan};
use crate::support::sink::{Exit, Phase, Sink};
use crate::support::stage::{LEAVES_WITHIN, Stage};
use crate::support::wait::{try_until, until};
use crate::support::writer::SteadyWriter;
use crate::support::{needs_broker, seed};

/// Bad news must not keep anybody waiting.
const SAID_WITHIN: Duration = Duration::from_secs(10);

/// What changes under way is looked at every few seconds.
const NOTICED_WITHIN: Duration = Duration::from_secs(40);

/// Returns a plan without odd records, whose keys are `key-000000000000` and on.
fn plain() -> Plan {
    Plan { odd: false, duplicate_one_in: 0, ..Plan::over(1) }
}

/// Forwards 1,000 plain records and leaves.
fn forwarded(stage: &Stage) -> crate::support::config::Home {
    let home = stage.home();
    stage.writer_of(plain(), 1).write(1_000);
    let mut sink = Sink::start(&home);
    stage.await_drained(&mut sink);
    sink.leave(LEAVES_WITHIN).assert_drained();
    home
}

#[test]
fn a_missing_output_topic_is_named_within_ten_seconds() {
    needs_broker!();
    let stage = Stage::set_without_output(shared(), "nowhere", 1);
    stage.writer_of(plain(), 1).write(10);
    let exit = Sink::start(&stage.home()).wait(SAID_WITHIN);
    exit.assert_failed(1, "E3001");
    assert!(exit.error().contains(&stage.output), "the topic is not named: {}", exit.error());
}

#[test]
fn a_topic_of_a_pattern_waits_for_its_output_while_the_others_flow() {
    needs_broker!();
    let stage = Stage::set(shared(), "waits", 1);
    let other = Stage::set_without_output(shared(), "waits", 1);
    for stage in [&stage, &other] {
        stage.writer_of(plain(), 1).write(500);
    }
    let home = stage.home().set("source.topics", "^waits-[0-9]+");
    let mut sink = Sink::start(&home);
    stage.await_drained(&mut sink);
    assert!(!sink.is_ready(), "ready though a topic waits");
    assert!(sink.stderr().contains(&other.output), "it is not named:\n{}", sink.stderr());
    assert!(sink.metric("firstseen_failures_total") >= Some(1.0), "it is not counted");
    other.admin.create(&other.output, 1);
    let drained = || other.admin.is_drained(&stage.group(), &other.topic, 1).then_some(());
    let served = try_until(NOTICED_WITHIN, drained);
    assert!(served.is_some(), "it still waits:\n{}", sink.stderr());
    until("the program to be ready", NOTICED_WITHIN, || sink.is_ready().then_some(()));
    sink.leave(LEAVES_WITHIN).assert_drained();
    assert_eq!([stage.assert_clean().forwarded, other.assert_clean().forwarded], [500, 500]);
}

#[test]
fn a_pattern_of_which_no_topic_has_an_output_is_refused() {
    needs_broker!();
    let stage = Stage::set_without_output(shared(), "outputless", 1);
    let home = stage.home().set("source.topics", "^outputless-[0-9]+");
    Sink::start(&home).wait(SAID_WITHIN).assert_failed(1, "E3001");
}

#[test]
fn an_output_that_is_deleted_under_load_is_missing_and_not_too_small() {
    needs_broker!();
    let stage = Stage::set(shared(), "deleted", 2);
    let home = stage.home();
    let writer = SteadyWriter::start(stage.writer(seed("deleted")), 30_000, 2_000);
    let mut sink = Sink::start(&home);
    sink.await_phase(Phase::Commit, NOTICED_WITHIN);
    stage.admin.delete(&stage.output);
    sink.wait(NOTICED_WITHIN).assert_failed(1, "E3001");
    writer.finish();
}

#[test]
fn an_output_with_fewer_partitions_is_refused() {
    needs_broker!();
    let stage = Stage::set_without_output(shared(), "narrow", 3);
    stage.admin.create(&stage.output, 2);
    Sink::start(&stage.home()).wait(SAID_WITHIN).assert_failed(1, "E3003");
}

#[test]
fn two_sources_into_one_output_are_refused() {
    needs_broker!();
    let stage = Stage::set(shared(), "shared", 1);
    let other = unique("shared");
    stage.admin.create(&other, 1);
    let home = stage
        .home()
        .set("source.topics", vec![stage.topic.clone(), other])
        .set("sink.topic", stage.output.clone());
    Sink::start(&home).wait(SAID_WITHIN).assert_failed(2, "E3009");
}

#[test]
fn a_source_made_again_is_noticed_though_it_is_shorter() {
    needs_broker!();
    made_again(10).assert_failed(1, "E3002");
}

#[test]
fn a_source_made_again_is_noticed_though_the_old_offset_is_valid_again() {
    needs_broker!();
    made_again(2_000).assert_failed(1, "E3002");
}

/// Forwards a topic, makes it again with `count` records, and returns how the next run ends.
fn made_again(count: usize) -> Exit {
    let stage = Stage::set(shared(), "again", 1);
    let home = forwarded(&stage);
    let before = stage.output_ends();
    stage.admin.delete(&stage.topic);
    stage.admin.create(&stage.topic, 1);
    // The same seed, so the same keys.
    stage.writer_of(plain(), 1).write(count);
    let exit = Sink::start(&home).wait(SAID_WITHIN);
    assert_eq!(stage.output_ends(), before, "records of another log were judged by this state");
    exit
}

#[test]
fn an_output_made_again_is_named_or_served_anew() {
    needs_broker!();
    let stage = Stage::set(shared(), "fresh", 1);
    let home = forwarded(&stage);
    stage.admin.delete(&stage.output);
    stage.admin.create(&stage.output, 1);
    let mut writer = stage.writer_of(plain(), 1);
    // Known keys first: none of them may pass for being on an output that is gone unsaid.
    writer.write(1_100);
    let mut sink = Sink::start(&home);
    let settled = crate::support::wait::try_until(SAID_WITHIN, || {
        (sink.has_ended() || stage.is_drained()).then_some(())
    });
    assert!(settled.is_some(), "neither served nor named:\n{}", sink.stderr());
    if sink.has_ended() {
        let exit = sink.wait(SAID_WITHIN);
        let named = ["E3002", "E3006"].iter().any(|code| exit.error().contains(code));
        assert!(named && exit.code == Some(1), "{:?}", exit);
        return;
    }
    let exit = sink.leave(LEAVES_WITHIN);
    exit.assert_drained();
    assert!(exit.stderr.contains("made again"), "no word of it:\n{}", exit.stderr);
    let there = read_all(&stage.address, &stage.output, 0);
    for n in 1_000..1_100 {
        let key = format!("key-{n:012}").into_bytes();
        let count = there.iter().filter(|record| record.key.as_ref() == Some(&key)).count();
        assert_eq!(count, 1, "new record {n} is on the new output {count} times");
    }
}

/// Makes topics whose output takes small records only, and writes 100 records of which the one at
/// offset 50 is large.
fn one_too_large() -> Stage {
    let stage = Stage::set_without_output(shared(), "large", 1);
    stage.admin.create_with(&stage.output, 1, &[("max.message.bytes", "20000")]);
    let mut writer = stage.writer_of(plain(), seed("too large"));
    writer.write(50);
    writer.write_these(&[Made::incompressible(100_000)]);
    writer.write(49);
    stage
}

#[test]
fn a_record_too_large_for_the_output_stops_the_program_below_it() {
    needs_broker!();
    let stage = one_too_large();
    let home = stage.home();
    let exit = Sink::start(&home).wait(SAID_WITHIN);
    exit.assert_failed(1, "E4001");
    let committed = stage.admin.committed(&stage.group(), &stage.topic, 1).expect("it answers");
    assert!(committed.get(&0).is_none_or(|offset| *offset <= 50), "{committed:?}");

    // Once the output takes it, everything goes on where it stood.
    stage.admin.set_topic(&stage.output, "max.message.bytes", "1000000");
    let mut sink = Sink::start(&home);
    stage.await_drained(&mut sink);
    sink.leave(LEAVES_WITHIN).assert_drained();
    assert_eq!(stage.assert_clean().forwarded, 100);
}

#[test]
fn a_limit_that_is_lowered_under_way_stops_the_program_below_the_record() {
    needs_broker!();
    let stage = Stage::set(shared(), "lowered", 1);
    let home = stage.home();
    let mut writer = stage.writer_of(plain(), seed("lowered"));
    let mut sink = Sink::start(&home);
    writer.write(50);
    stage.await_drained(&mut sink);
    stage.admin.set_topic(&stage.output, "max.message.bytes", "20000");
    writer.write_these(&[Made::incompressible(100_000)]);
    writer.write(49);
    let exit = sink.wait(SAID_WITHIN);
    // The broker refuses whole batches, so it need not be this record that is named too large.
    let named = ["error[E4001]", "error[E4002]"].iter().any(|code| exit.error().contains(code));
    assert!(named && exit.code == Some(1), "{exit:?}");
    let committed = stage.admin.committed(&stage.group(), &stage.topic, 1).expect("it answers");
    assert_eq!(committed.get(&0), Some(&50));

    stage.admin.set_topic(&stage.output, "max.message.bytes", "1000000");
    let mut sink = Sink::start(&home);
    stage.await_drained(&mut sink);
    sink.leave(LEAVES_WITHIN).assert_drained();
    assert_eq!(stage.assert_clean().forwarded, 100);
}

#[test]
fn a_record_too_large_for_the_output_goes_to_the_dead_letters_if_told_so() {
    needs_broker!();
    let stage = one_too_large();
    let dead = unique("dead");
    stage.admin.create(&dead, 1);
    let home = stage
        .home()
        .set("sink.on_undeliverable", "dead-letter")
        .set("sink.dead_letter_topic", dead.clone());
    let mut sink = Sink::start(&home);
    stage.await_drained(&mut sink);
    sink.leave(LEAVES_WITHIN).assert_drained();
    let ledger = stage.ledger();
    assert_eq!((ledger.forwarded, ledger.lost, ledger.repeated), (99, 1, 0), "{ledger}");
    assert_eq!(ledger.faults[0].source.map(|offset| offset.0), Some(50));
    let dead = read_all(&stage.address, &dead, 0);
    assert_eq!(dead.len(), 1);
    assert_eq!(dead[0].key.as_deref(), Some(&b"large"[..]));
    assert_eq!(dead[0].value.as_ref().map(Vec::len), Some(100_000));
}
