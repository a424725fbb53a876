//! Delivery in transactions, what happens when they fail, and how `auto` chooses.
//!
//! The kills of a program that works in transactions are in `kill_loop`.

mod choosing;
mod speed;
mod switching;
mod unsure;
mod zombies;

use std::time::Duration;

use crate::support::broker::shared;
use crate::support::config::Home;
use crate::support::records::{Maker, Plan};
use crate::support::sink::Sink;
use crate::support::stage::{LEAVES_WITHIN, STEADY_WITHIN, Stage};
use crate::support::wait::until;
use crate::support::writer::SteadyWriter;
use crate::support::{needs_broker, seed};

const COMMITTED: &str = "firstseen_transactions_committed_total";
const ABORTED: &str = "firstseen_transactions_aborted_total";
const ANEW: &str = "firstseen_transactions_reinitialised_total";

/// Returns a home that works in transactions.
fn transactional(stage: &Stage) -> Home {
    stage.home().set("delivery.mode", "transactional").set("delivery.transaction_timeout", "12s")
}

/// Returns the mode and the reason that a running program shows.
fn shows_mode(sink: &Sink, mode: &str, reason: &str) -> bool {
    let labels = format!("mode=\"{mode}\",reason=\"{reason}\"");
    sink.series("firstseen_delivery_mode", &labels) == Some(1.0)
}

#[test]
fn what_is_forwarded_in_transactions_is_seen_once_and_nothing_stays_open() {
    needs_broker!();
    let stage = Stage::set(shared(), "in-transactions", 2);
    let home = transactional(&stage);
    let mut writer = stage.writer(seed("in-transactions"));
    writer.write(20_000);
    let mut sink = Sink::start(&home);
    stage.await_drained(&mut sink);
    assert!(shows_mode(&sink, "transactional", "configured"), "{}", sink.stderr());
    assert_eq!((sink.metric(ABORTED), sink.metric(ANEW)), (Some(0.0), Some(0.0)));
    assert_eq!(sink.metric("firstseen_late_writes_total"), Some(0.0), "marks are no late writes");
    writer.write(5_000);
    stage.await_drained(&mut sink);
    sink.leave(LEAVES_WITHIN).assert_drained();
    stage.admin.assert_nothing_open(&stage.output, 2);
    assert_eq!(stage.assert_clean().read, 25_000);

    let mut idle = Sink::start(&home);
    until("the program to be ready", STEADY_WITHIN, || idle.is_ready().then_some(()));
    assert_eq!(idle.metric("firstseen_records_replayed_total"), Some(0.0));
    idle.leave(LEAVES_WITHIN).assert_drained();
}

#[test]
fn a_batch_of_nothing_but_duplicates_commits_its_offsets_all_the_same() {
    needs_broker!();
    let stage = Stage::set(shared(), "only-duplicates", 1);
    let home = transactional(&stage);
    let mut maker = Maker::new(Plan::over(1), seed("only-duplicates"));
    let made = (0..500).map(|_| maker.next());
    let records: Vec<_> = made.filter(|made| made.key.is_some()).collect();
    let writer = stage.writer(1);
    writer.write_these(&records);
    let mut sink = Sink::start(&home);
    stage.await_drained(&mut sink);
    let length = stage.admin.high_watermark(&stage.output, 0);
    writer.write_these(&records);
    stage.await_drained(&mut sink);
    assert_eq!(stage.admin.high_watermark(&stage.output, 0), length, "a duplicate was written");
    sink.leave(LEAVES_WITHIN).assert_drained();
}

#[test]
fn more_records_than_a_transaction_takes_are_split_over_several() {
    needs_broker!();
    let stage = Stage::set(shared(), "split", 1);
    let writer = SteadyWriter::start(stage.writer(seed("split")), 30_000, 5_000);
    let home = transactional(&stage)
        .set("delivery.transaction_timeout", "60s")
        .set("checkpoint.interval", "30s")
        .set("checkpoint.max_records", 1_000);
    let mut sink = Sink::start(&home);
    until("the transactions", Duration::from_secs(25), || {
        (sink.metric(COMMITTED)? >= 5.0).then_some(())
    });
    sink.leave(LEAVES_WITHIN).assert_drained();
    writer.finish();
    let home = home.set("checkpoint.interval", "200ms");
    let mut rest = Sink::start(&home);
    stage.await_drained(&mut rest);
    rest.leave(LEAVES_WITHIN).assert_drained();
    stage.assert_clean();
}
