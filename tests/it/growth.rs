//! Partitions that are added while the program runs, and the one instance that is alone.

use std::time::Duration;

use toml::Table;

use crate::support::admin::Admin;
use crate::support::broker::{Broker, shared};
use crate::support::needs_broker;
use crate::support::records::Plan;
use crate::support::sink::{Phase, Sink};
use crate::support::stage::{LEAVES_WITHIN, STEADY_WITHIN, Stage};
use crate::support::wait::until;

/// Records without odd ones.
fn plain(partitions: i32) -> Plan {
    Plan { odd: false, ..Plan::over(partitions) }
}

/// Gives source and output one more partition, with records in it before anybody can know of it.
fn grow(stage: &mut Stage) {
    stage.partitions += 1;
    stage.admin.grow(&stage.output, stage.partitions);
    stage.admin.grow(&stage.topic, stage.partitions);
    stage.writer_of(plain(stage.partitions), 2).write(2_000);
}

#[test]
fn what_lies_in_a_partition_that_is_added_is_read_although_the_start_is_latest() {
    needs_broker!();
    let mut stage = Stage::set(shared(), "added", 1);
    let refresh = "topic.metadata.refresh.interval.ms";
    let home = stage
        .home()
        .set("source.start", "latest")
        .set("kafka.client", Table::from_iter([(refresh.to_owned(), 500.into())]));
    let mut sink = Sink::start(&home);
    sink.await_phase(Phase::Steady, STEADY_WITHIN);
    grow(&mut stage);
    stage.await_drained(&mut sink);
    sink.leave(LEAVES_WITHIN).assert_drained();
    stage.assert_clean();
}

#[test]
fn the_only_instance_takes_a_partition_that_is_added() {
    needs_broker!();
    let mut stage = Stage::set(shared(), "alone-added", 1);
    let home = stage.home().set("source.membership", "alone");
    let mut sink = Sink::start(&home);
    sink.await_phase(Phase::Steady, STEADY_WITHIN);
    grow(&mut stage);
    stage.await_drained(&mut sink);
    sink.leave(LEAVES_WITHIN).assert_drained();
    stage.assert_clean();
}

#[test]
fn the_only_instance_is_not_ready_while_its_broker_is_frozen() {
    needs_broker!();
    let mut broker = Broker::start();
    let stage = Stage::set(&broker, "alone-frozen", 1);
    let home = stage.home().set("source.membership", "alone");
    let mut sink = Sink::start(&home);
    sink.await_phase(Phase::Steady, STEADY_WITHIN);
    until("it to be ready", STEADY_WITHIN, || sink.is_ready().then_some(()));
    broker.freeze();
    // The session timeout of these tests is 6 s.
    until("it to say so", Duration::from_secs(20), || (!sink.is_ready()).then_some(()));
    broker.thaw();
    until("it to be ready again", STEADY_WITHIN, || sink.is_ready().then_some(()));
    let admin = Admin::of(&broker);
    assert_eq!(admin.watermarks(&stage.output, 0), (0, 0));
    sink.leave(LEAVES_WITHIN).assert_drained();
}
