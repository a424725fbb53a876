//! Faults as whoever is on call meets them: nothing is lost, and the program says what to do.

use std::time::Duration;

use crate::support::broker::{Broker, shared};
use crate::support::config::Home;
use crate::support::reader::read_all;
use crate::support::records::{Made, Plan};
use crate::support::sink::{Phase, Sink};
use crate::support::stage::{LEAVES_WITHIN, STEADY_WITHIN, Stage};
use crate::support::wait::{try_until, until};
use crate::support::writer::SteadyWriter;
use crate::support::{needs_broker, seed};

/// The program looks every ten seconds whether its topics are still the same ones.
const NOTICED_WITHIN: Duration = Duration::from_secs(30);

/// A plan without odd records or duplicates.
fn plain() -> Plan {
    Plan { odd: false, duplicate_one_in: 0, ..Plan::over(1) }
}

#[test]
fn a_source_whose_first_records_are_gone_starts_wherever_it_is_taken_up() {
    needs_broker!();
    let stage = Stage::set(shared(), "retention", 1);
    let mut writer = stage.writer(seed("retention"));
    writer.write(1_000);
    stage.admin.delete_records(&stage.topic, 0, 500);
    let home = stage.home();
    for round in 0..3 {
        let mut sink = Sink::start(&home);
        stage.await_drained(&mut sink);
        sink.leave(LEAVES_WITHIN).assert_drained();
        // Then from the end, with the state and with nothing but the group's offset.
        if round == 1 {
            home.lose_state();
        }
        writer.write(10);
    }
    // From the first record that is there, which neither state nor group knows.
    let home = home.set("source.group", format!("{}-other", stage.group()));
    home.lose_state();
    let mut sink = Sink::start(&home);
    sink.await_phase(Phase::Steady, STEADY_WITHIN);
    sink.leave(LEAVES_WITHIN).assert_drained();
}

#[test]
fn a_state_that_is_deleted_under_way_ends_the_program_at_once_and_costs_nothing() {
    needs_broker!();
    let stage = Stage::set(shared(), "swept", 2);
    let home = stage.home();
    let writer = SteadyWriter::start(stage.writer(seed("swept")), 6_000, 2_000);
    let mut sink = Sink::start(&home);
    sink.await_phase(Phase::Commit, STEADY_WITHIN);
    home.lose_state();
    let exit = sink.wait(Duration::from_secs(8));
    exit.assert_failed(1, "E5010");
    writer.finish();
    let mut sink = Sink::start(&home);
    stage.await_drained(&mut sink);
    sink.leave(LEAVES_WITHIN).assert_drained();
    stage.assert_clean();
}

#[test]
fn a_broker_that_is_away_makes_the_program_unready_until_it_is_back() {
    needs_broker!();
    let mut broker = Broker::start();
    let stage = Stage::set(&broker, "away", 2);
    let home = stage.home();
    let mut sink = Sink::start(&home);
    sink.await_phase(Phase::Commit, STEADY_WITHIN);
    until("the program to be ready", STEADY_WITHIN, || sink.is_ready().then_some(()));
    broker.freeze();
    until("the program to be unready", STEADY_WITHIN, || (!sink.is_ready()).then_some(()));
    // The session is over by then: the client gives the partitions up.
    let unready = std::time::Instant::now();
    while unready.elapsed() < Duration::from_secs(8) {
        assert!(!sink.is_ready(), "ready without its broker");
        std::thread::sleep(Duration::from_millis(100));
    }
    broker.thaw();
    let ready = try_until(STEADY_WITHIN, || sink.is_ready().then_some(()));
    assert!(ready.is_some(), "not ready again; it told:\n{}", sink.stderr());
    sink.leave(LEAVES_WITHIN).assert_drained();
}

/// Forwards some records, then makes `which` topic again under the running program and writes
/// as many again with keys of their own.
fn made_again_under_way(stem: &str, which: fn(&Stage) -> &str) -> (Stage, Home, Sink) {
    let stage = Stage::set(shared(), stem, 1);
    stage.writer_of(plain(), 1).write(1_000);
    let home = stage.home();
    let mut sink = Sink::start(&home);
    stage.await_drained(&mut sink);
    stage.admin.delete(which(&stage));
    stage.admin.create(which(&stage), 1);
    let fresh = |n| Made { key: Some(format!("fresh-{n}").into_bytes()), ..Made::small() };
    stage.writer_of(plain(), 2).write_these(&(0..1_500).map(fresh).collect::<Vec<_>>());
    (stage, home, sink)
}

#[test]
fn a_source_that_is_made_again_under_way_is_named_and_not_half_skipped() {
    needs_broker!();
    let (_stage, _home, mut sink) = made_again_under_way("source-again", |stage| &stage.topic);
    let exit = sink.wait(NOTICED_WITHIN);
    // Where the client asks before the new topic is as long as the old one, the offset is gone.
    let named = ["error[E3002]", "error[E3005]"].iter().any(|code| exit.error().contains(code));
    assert!(named && exit.code == Some(1), "{exit:?}");
}

#[test]
fn an_output_that_is_made_again_under_way_is_noticed_and_served_anew() {
    needs_broker!();
    let (stage, _home, mut sink) = made_again_under_way("output-again", |stage| &stage.output);
    let noticed = try_until(NOTICED_WITHIN, || {
        sink.stderr().contains("the output topic was made again").then_some(())
    });
    assert!(noticed.is_some(), "no word of it:\n{}", sink.stderr());
    stage.await_drained(&mut sink);
    sink.leave(LEAVES_WITHIN).assert_drained();
    let fresh = read_all(&stage.address, &stage.output, 0);
    assert_eq!(fresh.len(), 1_500, "each new record is on the new output once");
}

#[test]
fn a_disk_that_fills_up_under_way_is_waited_for_and_costs_nothing() {
    needs_broker!();
    let stage = Stage::set(shared(), "full", 2);
    let home = stage.home();
    let writer = SteadyWriter::start(stage.writer(seed("full")), 20_000, 2_000);
    let mut sink = Sink::start(&home);
    sink.await_phase(Phase::Commit, STEADY_WITHIN);
    sink.limit_files(Some(4_096));
    let waits = try_until(STEADY_WITHIN, || {
        (sink.has_ended() || sink.stderr().contains("error[E5009]")).then_some(())
    });
    assert!(waits.is_some() && !sink.has_ended(), "it told:\n{}", sink.stderr());
    until("the program to be unready", STEADY_WITHIN, || (!sink.is_ready()).then_some(()));
    sink.limit_files(None);
    writer.finish();
    stage.await_drained(&mut sink);
    sink.leave(LEAVES_WITHIN).assert_drained();
    stage.assert_clean();
}
