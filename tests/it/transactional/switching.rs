//! From one delivery to the other and back, under load, with kills.

use std::time::Duration;

use super::transactional;
use crate::support::broker::Broker;
use crate::support::config::Home;
use crate::support::needs_broker;
use crate::support::seed;
use crate::support::sink::{Phase, Sink};
use crate::support::stage::{LEAVES_WITHIN, STEADY_WITHIN, Stage};
use crate::support::writer::SteadyWriter;

const PARTITIONS: i32 = 2;

/// Writes `mode` into the config; settings of transactions go with it.
fn in_mode(home: Home, mode: &str) -> Home {
    match mode {
        "dedup" => home.set("delivery.mode", mode).unset("delivery.transaction_timeout"),
        _ => home.set("delivery.mode", mode).set("delivery.transaction_timeout", "12s"),
    }
}

#[test]
fn changing_the_delivery_under_kills_loses_and_repeats_nothing() {
    needs_broker!();
    let broker = Broker::start();
    let stage = Stage::set(&broker, "switched", PARTITIONS);
    let mut home = transactional(&stage).set("source.instance_id", "only-one");
    let mut writer = stage.writer(seed("switched"));
    writer.write(10_000);
    let writer = SteadyWriter::start(writer, 100_000, 3_000);
    let kills = [
        ("dedup", Phase::Commit),
        ("transactional", Phase::TransactionCommit),
        ("dedup", Phase::CheckpointDurable),
        ("transactional", Phase::CheckpointBegin),
        ("transactional", Phase::Commit),
        ("dedup", Phase::CatchUp),
        ("dedup", Phase::Steady),
        ("transactional", Phase::Open),
        ("transactional", Phase::Steady),
        ("dedup", Phase::Wait),
        ("auto", Phase::TransactionCommit),
        ("dedup", Phase::Commit),
    ];
    for (round, (mode, phase)) in kills.into_iter().enumerate() {
        home = in_mode(home, mode);
        let mut sink = Sink::start(&home);
        let delay = Duration::from_millis(u64::try_from(round).expect("few") % 4 * 3);
        let reached = sink.kill_at(phase, delay, STEADY_WITHIN);
        assert!(reached, "round {round}, {mode}: no {phase:?}:\n{}", sink.stderr());
    }
    writer.finish();
    for mode in ["transactional", "dedup"] {
        home = in_mode(home, mode);
        let mut sink = Sink::start(&home);
        stage.await_drained(&mut sink);
        sink.leave(LEAVES_WITHIN).assert_drained();
    }
    stage.admin.assert_nothing_open(&stage.output, PARTITIONS);
    assert_eq!(stage.assert_clean().read, 110_000);
}
