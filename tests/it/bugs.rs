//! Seeded bugs: the program is built with the feature `bugs`, told to have one, and run through a
//! scenario that a correct program passes. A scenario that no bug can fail proves nothing.

use std::time::Duration;

use firstseen::ledger::Ledger;

use crate::support::broker::Broker;
use crate::support::config::Home;
use crate::support::records::{Made, Plan};
use crate::support::sink::{Phase, Sink};
use crate::support::stage::{LEAVES_WITHIN, STEADY_WITHIN, Stage};
use crate::support::wait::{try_until, until};
use crate::support::{needs_broker, seed};

/// How often a scenario is tried before a bug counts as missed: kills hit by chance.
const TRIES: u64 = 4;

/// Records that wait when the program starts: more than are settled before the broker freezes.
const BACKLOG: usize = 40_000;

/// Kills the program while the broker is frozen: what was sent is not confirmed, and a checkpoint
/// that claims otherwise is caught. In the end all is drained and judged.
fn killed_beside_a_frozen_broker(bug: &str, seed: u64) -> Ledger {
    let mut broker = Broker::start();
    let stage = Stage::set(&broker, "frozen", 2);
    let home = stage.home().set("checkpoint.interval", "100ms");
    let mut writer = stage.writer(seed);
    for _ in 0..3 {
        writer.write(BACKLOG);
        let before = stage.admin.len(&stage.output, 2);
        let mut sink = Sink::start_with(&home, &[("FIRSTSEEN_BUG", bug)]);
        sink.await_phase(Phase::Steady, STEADY_WITHIN);
        // The first records are there, so the bulk of the backlog is in flight.
        let begun = || (stage.admin.len(&stage.output, 2) > before).then_some(());
        until("the first of the backlog", STEADY_WITHIN, begun);
        broker.freeze();
        let marked = sink.count(Phase::CheckpointDurable);
        // A correct program has little to make durable now, so this may well not come.
        sink.reaches(Phase::CheckpointDurable, marked + 1, Duration::from_millis(500));
        sink.kill();
        broker.thaw();
    }
    drained(&stage, &home, bug);
    stage.ledger()
}

/// Lowers the output's limit while the program runs, so that the broker itself refuses a record. A
/// correct program stops below it; one that ignores the failure goes on and has lost it.
fn refused_by_the_output(bug: &str, seed: u64) -> Ledger {
    let broker = Broker::start();
    let stage = Stage::set(&broker, "refused", 1);
    let plan = Plan { odd: false, duplicate_one_in: 0, ..Plan::over(1) };
    let mut writer = stage.writer_of(plan, seed);
    let home = stage.home();
    let mut sink = Sink::start_with(&home, &[("FIRSTSEEN_BUG", bug)]);
    writer.write(100);
    stage.await_drained(&mut sink);
    stage.admin.set_topic(&stage.output, "max.message.bytes", "20000");
    writer.write_these(&[Made::incompressible(100_000)]);
    writer.write(100);
    let went_on = try_until(Duration::from_secs(10), || {
        (sink.has_ended() || stage.is_drained()).then(|| stage.is_drained())
    });
    sink.kill();
    if went_on == Some(true) {
        return stage.ledger();
    }
    // It stopped, as it should; with room for the record the rest must follow.
    stage.admin.set_topic(&stage.output, "max.message.bytes", "1000000");
    drained(&stage, &home, bug);
    stage.ledger()
}

fn drained(stage: &Stage, home: &Home, bug: &str) {
    let mut sink = Sink::start_with(home, &[("FIRSTSEEN_BUG", bug)]);
    stage.await_drained(&mut sink);
    sink.leave(LEAVES_WITHIN);
}

/// Fails unless the scenario finds a fault that `wanted` names, in a few tries.
fn assert_caught(
    bug: &str,
    scenario: impl Fn(&str, u64) -> Ledger,
    wanted: impl Fn(&Ledger) -> u64,
) {
    let seed = seed(bug);
    let caught = (0..TRIES).any(|n| wanted(&scenario(bug, seed + n)) > 0);
    assert!(caught, "the bug {bug} was not caught in {TRIES} tries");
}

#[test]
fn without_a_bug_the_scenarios_are_clean() {
    needs_broker!();
    let seed = seed("no bug");
    let ledger = killed_beside_a_frozen_broker("", seed);
    assert!(ledger.is_clean(), "{ledger}");
    // What lies behind a record that the broker refuses may be accepted before the program stops:
    // without transactions that one then comes late (README, Limits).
    let ledger = refused_by_the_output("", seed);
    let faults = ledger.lost + ledger.repeated + ledger.altered + ledger.phantom;
    assert_eq!(faults, 0, "{ledger}");
}

#[test]
fn marking_a_key_before_its_acknowledgement_is_caught() {
    needs_broker!();
    assert_caught("mark-before-ack", killed_beside_a_frozen_broker, |ledger| ledger.lost);
}

#[test]
fn committing_before_the_acknowledgement_is_caught() {
    needs_broker!();
    assert_caught("commit-before-ack", killed_beside_a_frozen_broker, |ledger| ledger.lost);
}

#[test]
fn skipping_the_catch_up_is_caught() {
    needs_broker!();
    assert_caught("skip-catch-up", killed_beside_a_frozen_broker, |ledger| ledger.repeated);
}

#[test]
fn ignoring_a_failed_delivery_is_caught() {
    needs_broker!();
    assert_caught("ignore-failed-delivery", refused_by_the_output, |ledger| ledger.lost);
}
