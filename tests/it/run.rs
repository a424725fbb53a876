//! One instance: it forwards, leaves, comes back, and loses its state.

use std::time::Duration;

use rustix::process::Signal;

use crate::support::broker::{Broker, shared};
use crate::support::records::Plan;
use crate::support::sink::{Phase, Sink};
use crate::support::stage::{LEAVES_WITHIN, STEADY_WITHIN, Stage};
use crate::support::wait::until;
use crate::support::writer::SteadyWriter;
use crate::support::{needs_broker, seed};

#[test]
fn each_first_occurrence_is_forwarded_once_and_byte_for_byte() {
    needs_broker!();
    let stage = Stage::set(shared(), "forward", 2);
    let home = stage.home();
    stage.writer(seed("forward")).write(20_000);
    let mut sink = Sink::start(&home);
    stage.await_drained(&mut sink);
    until("the program to be ready", STEADY_WITHIN, || sink.is_ready().then_some(()));
    let forwarded = sink.metric("firstseen_records_forwarded_total");
    sink.leave(LEAVES_WITHIN).assert_drained();
    let ledger = stage.assert_clean();
    assert_eq!(ledger.read, 20_000);
    let counted = f64::from(u32::try_from(ledger.forwarded).expect("few"));
    assert_eq!(forwarded, Some(counted), "the metric and the ledger disagree");
}

#[test]
fn sigterm_drains_and_a_second_start_replays_nothing() {
    needs_broker!();
    let stage = Stage::set(shared(), "graceful", 2);
    let home = stage.home();
    let writer = stage.writer(seed("graceful"));
    let mut sink = Sink::start(&home);
    let writer = SteadyWriter::start(writer, 10_000, 5_000);
    sink.await_phase(Phase::Steady, STEADY_WITHIN);
    sink.await_phase(Phase::Commit, STEADY_WITHIN);
    sink.leave(LEAVES_WITHIN).assert_drained();
    let left_at = stage.output_ends();
    let left_committed = stage.admin.committed(&stage.group(), &stage.topic, 2);
    writer.finish();

    let mut sink = Sink::start(&home);
    stage.await_drained(&mut sink);
    let replayed = sink.metric("firstseen_records_replayed_total");
    assert_eq!(replayed, Some(0.0), "a clean leave leaves nothing to replay");
    sink.leave(LEAVES_WITHIN).assert_drained();
    stage.assert_clean();

    let ends = stage.output_ends();
    assert!(left_at.iter().zip(&ends).all(|(before, after)| before <= after));
    let mut idle = Sink::start(&home);
    idle.await_phase(Phase::Steady, STEADY_WITHIN);
    idle.leave(LEAVES_WITHIN).assert_drained();
    assert_eq!(stage.output_ends(), ends, "a start with nothing to do wrote something");
    let committed = stage.admin.committed(&stage.group(), &stage.topic, 2);
    let (before, after) =
        (left_committed.expect("the broker answers"), committed.expect("it does"));
    let kept = before.iter().all(|(partition, offset)| after.get(partition) >= Some(offset));
    assert!(kept, "committed offsets went back: {before:?} to {after:?}");
}

#[test]
fn a_second_signal_leaves_at_once_and_loses_nothing() {
    needs_broker!();
    let mut broker = Broker::start();
    let stage = Stage::set(&broker, "impatient", 2);
    let home = stage.home();
    let writer = SteadyWriter::start(stage.writer(seed("impatient")), 20_000, 5_000);
    let mut sink = Sink::start(&home);
    sink.await_phase(Phase::Commit, STEADY_WITHIN);
    // With a frozen broker nothing in flight can finish, so the first signal alone takes long.
    broker.freeze();
    sink.signal(Signal::TERM);
    sink.await_phase(Phase::Drain, Duration::from_secs(2));
    sink.signal(Signal::TERM);
    sink.wait(Duration::from_secs(2)).assert_failed(1, "E6009");
    broker.thaw();
    writer.finish();
    let mut sink = Sink::start(&home);
    stage.await_drained(&mut sink);
    sink.leave(LEAVES_WITHIN).assert_drained();
    stage.assert_clean();
}

#[test]
fn sigusr1_makes_a_checkpoint_that_was_not_due() {
    needs_broker!();
    let stage = Stage::set(shared(), "now", 1);
    let home = stage.home().set("checkpoint.interval", "10m");
    let mut sink = Sink::start(&home);
    sink.await_phase(Phase::Steady, STEADY_WITHIN);
    stage.writer(seed("now")).write(1_000);
    until("the output", STEADY_WITHIN, || (stage.admin.len(&stage.output, 1) > 800).then_some(()));
    assert!(!stage.is_drained(), "no checkpoint was due yet");
    let before = sink.count(Phase::CheckpointDurable);
    sink.signal(Signal::USR1);
    sink.await_phase_again(Phase::CheckpointDurable, before, Duration::from_secs(10));
    sink.leave(LEAVES_WITHIN).assert_drained();
    stage.assert_clean();
}

#[test]
fn a_broker_that_was_silent_for_longer_than_the_delivery_timeout_costs_nothing() {
    needs_broker!();
    let mut broker = Broker::start();
    let stage = Stage::set(&broker, "silent", 2);
    let home = stage.home();
    let writer = SteadyWriter::start(stage.writer(seed("silent")), 40_000, 5_000);
    let mut sink = Sink::start(&home);
    sink.await_phase(Phase::Commit, STEADY_WITHIN);
    broker.freeze();
    std::thread::sleep(Duration::from_secs(5));
    broker.thaw();
    writer.finish();
    stage.await_drained(&mut sink);
    assert!(!sink.has_ended(), "it should ride it out:\n{}", sink.stderr());
    sink.leave(LEAVES_WITHIN).assert_drained();
    stage.assert_clean();
}

#[test]
fn kills_while_catching_up_and_while_leaving_cost_nothing() {
    needs_broker!();
    let stage = Stage::set(shared(), "again-and-again", 2);
    let home = stage.home().set("source.instance_id", "only-one");
    let writer = SteadyWriter::start(stage.writer(seed("again")), 40_000, 2_000);
    let mut sink = Sink::start(&home);
    let flowing = sink.kill_at(Phase::Commit, Duration::from_millis(3), STEADY_WITHIN);
    assert!(flowing, "nothing was ever committed");
    for phase in [Phase::CatchUp, Phase::CatchUp, Phase::CatchUpEnd, Phase::CatchUp] {
        let mut sink = Sink::start(&home);
        assert!(sink.kill_at(phase, Duration::from_millis(1), STEADY_WITHIN), "no {phase:?}");
    }
    let mut sink = Sink::start(&home);
    sink.await_phase(Phase::Commit, STEADY_WITHIN);
    sink.signal(Signal::TERM);
    sink.kill_at(Phase::Close, Duration::ZERO, LEAVES_WITHIN);
    writer.finish();
    let mut sink = Sink::start(&home);
    stage.await_drained(&mut sink);
    sink.leave(LEAVES_WITHIN).assert_drained();
    stage.assert_clean();
}

/// Runs to the end, deletes the state, writes `more` records full of old keys, and runs again.
fn lose_the_state(stage: &Stage, plan: Plan, seed: u64) {
    let home = stage.home();
    let mut writer = stage.writer_of(plan, seed);
    writer.write(10_000);
    let mut sink = Sink::start(&home);
    stage.await_drained(&mut sink);
    sink.leave(LEAVES_WITHIN).assert_drained();
    home.lose_state();
    writer.write(10_000);
    let mut sink = Sink::start(&home);
    stage.await_drained(&mut sink);
    sink.leave(LEAVES_WITHIN).assert_drained();
    stage.assert_clean();
}

#[test]
fn a_lost_state_is_rebuilt_from_the_output() {
    needs_broker!();
    let stage = Stage::set(shared(), "rebuilt", 2);
    lose_the_state(&stage, Plan::over(2), seed("rebuilt"));
}

#[test]
fn a_lost_state_of_an_old_backfill_is_rebuilt_by_the_records_own_times() {
    needs_broker!();
    let stage = Stage::set(shared(), "backfill", 2);
    let plan = Plan { start_ms: 1_580_000_000_000, ..Plan::over(2) };
    lose_the_state(&stage, plan, seed("backfill"));
}

#[test]
fn a_copy_is_forwarded_again_once_its_window_is_over() {
    needs_broker!();
    let window = Duration::from_secs(60);
    let stage = Stage { window, ..Stage::set(shared(), "window", 2) };
    let home = stage.home().set("dedup.window", "60s");
    // 20,000 records over 2,000 s: many copies lie outside the window, some late ones near its edge.
    let start_ms = Plan::over(2).start_ms - 2_000_000;
    let plan = Plan { start_ms, step_ms: 100, duplicate_one_in: 3, ..Plan::over(2) };
    stage.writer_of(plan, seed("window")).write(20_000);
    let mut sink = Sink::start(&home);
    stage.await_drained(&mut sink);
    sink.leave(LEAVES_WITHIN).assert_drained();
    // A late copy too old to judge is forwarded. It is byte for byte the first one, so to the ledger
    // it is that one out of its place.
    let ledger = stage.ledger();
    let faults = ledger.lost + ledger.repeated + ledger.altered + ledger.phantom;
    assert_eq!(faults, 0, "{ledger}");
}
