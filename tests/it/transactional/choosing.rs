//! `auto`: what the brokers say, and what follows from it.

use std::time::Duration;

use rdkafka::producer::{BaseProducer, Producer};

use super::{shows_mode, transactional};
use crate::support::admin::client;
use crate::support::broker::{Broker, shared};
use crate::support::needs_broker;
use crate::support::proxy::{Api, Frames, Proxy};
use crate::support::seed;
use crate::support::sink::Sink;
use crate::support::stage::{LEAVES_WITHIN, STEADY_WITHIN, Stage};
use crate::support::wait::until;

/// How long a program may take to find out that it cannot start.
const REFUSES_WITHIN: Duration = Duration::from_secs(40);

/// Everybody may do everything that no rule forbids; transactions may last ten seconds.
const WITH_RULES: &str = "
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
allow.everyone.if.no.acl.found=true
transaction.max.timeout.ms=12000
";

/// The coordinator's topic cannot be made on one broker, so there is no coordinator.
const WITHOUT_COORDINATOR: &str = "
transaction.state.log.replication.factor=3
";

fn auto(stage: &Stage) -> crate::support::config::Home {
    transactional(stage).set("delivery.mode", "auto")
}

#[test]
fn where_transactions_are_allowed_auto_uses_them_and_asks_once() {
    needs_broker!();
    let stage = Stage::set(shared(), "allowed", 1);
    let mut writer = stage.writer(seed("allowed"));
    writer.write(1_000);
    let proxy = Proxy::before(&stage.address);
    let home = auto(&stage).set("kafka.bootstrap_servers", proxy.address());
    for reason in ["probe-succeeded", "probe-succeeded"] {
        let mut sink = Sink::start(&home);
        stage.await_drained(&mut sink);
        assert!(shows_mode(&sink, "transactional", reason), "{}", sink.stderr());
        sink.leave(LEAVES_WITHIN).assert_drained();
        writer.write(1_000);
    }
    // One more start: a single producer takes an id over, that of the partition.
    let asked = proxy.delay_answers(Frames::of(Api::INIT_PRODUCER_ID), Duration::ZERO);
    let ids = || asked.count();
    let mut sink = Sink::start(&home);
    stage.await_drained(&mut sink);
    let kept = ids();
    sink.leave(LEAVES_WITHIN).assert_drained();
    let mut sink = Sink::start_as(&home, &["--redecide"], &[]);
    until("the program to be ready", STEADY_WITHIN, || sink.is_ready().then_some(()));
    assert!(ids() - kept > kept, "the brokers were not asked anew: {kept} and {}", ids());
    sink.leave(LEAVES_WITHIN).assert_drained();
    stage.assert_clean();
}

#[test]
fn a_broker_that_denies_transactions_or_even_idempotence_gets_delivery_without() {
    needs_broker!();
    let broker = Broker::start_with(WITH_RULES);
    let stage = Stage::set(&broker, "denied", 1);
    let mut writer = stage.writer(seed("denied"));
    writer.write(2_000);
    let home = auto(&stage).set("delivery.transaction_timeout", "10s");

    let over_the_ceiling = transactional(&stage).set("delivery.transaction_timeout", "1h");
    Sink::start(&over_the_ceiling).wait(REFUSES_WITHIN).assert_failed(2, "E6013");
    let auto_over_it = auto(&stage).set("delivery.transaction_timeout", "1h");
    Sink::start(&auto_over_it).wait(REFUSES_WITHIN).assert_failed(2, "E6013");

    let all_ids = ["--deny-principal", "User:*", "--operation", "All", "--transactional-id", "*"];
    broker.access_rules(&[&["--add"], &all_ids[..]].concat());
    let asked_for = transactional(&stage).set("delivery.transaction_timeout", "10s");
    Sink::start(&asked_for).wait(REFUSES_WITHIN).assert_failed(1, "E6011");
    let mut sink = Sink::start(&home);
    stage.await_drained(&mut sink);
    assert!(shows_mode(&sink, "dedup", "transactional-id-denied"), "{}", sink.stderr());
    sink.leave(LEAVES_WITHIN).assert_drained();

    // What was answered stays until somebody has it asked again.
    broker.access_rules(&[&["--remove", "--force"], &all_ids[..]].concat());
    writer.write(2_000);
    let mut sink = Sink::start(&home);
    stage.await_drained(&mut sink);
    assert!(shows_mode(&sink, "dedup", "transactional-id-denied"), "{}", sink.stderr());
    sink.leave(LEAVES_WITHIN).assert_drained();
    let mut sink = Sink::start_as(&home, &["--redecide"], &[]);
    until("the program to be ready", STEADY_WITHIN, || sink.is_ready().then_some(()));
    assert!(shows_mode(&sink, "transactional", "probe-succeeded"), "{}", sink.stderr());
    sink.leave(LEAVES_WITHIN).assert_drained();

    // Where nobody may write by rule, an idempotent producer is refused; the topics of this test
    // have no rule. (The broker tries a topic of this name to find out.)
    writer.write(2_000);
    broker.access_rules(&[&["--add"], &all_ids[..]].concat());
    let allow = ["--add", "--allow-principal", "User:*", "--operation", "All", "--cluster"];
    broker.access_rules(&allow);
    let deny = ["--add", "--deny-principal", "User:*", "--operation"];
    broker.access_rules(&[&deny[..], &["Write", "--topic", "hardcode"]].concat());
    broker.access_rules(&[&deny[..], &["IdempotentWrite", "--cluster"]].concat());
    let mut sink = Sink::start_as(&home, &["--redecide"], &[]);
    stage.await_drained(&mut sink);
    assert!(shows_mode(&sink, "dedup-plain", "transactional-id-denied"), "{}", sink.stderr());
    sink.leave(LEAVES_WITHIN).assert_drained();
    assert_eq!(stage.assert_clean().read, 6_000);
}

#[test]
fn without_a_coordinator_auto_refuses_to_start_unless_it_may_do_without() {
    needs_broker!();
    let broker = Broker::start_with(WITHOUT_COORDINATOR);
    let stage = Stage::set(&broker, "no-coordinator", 1);
    stage.writer(seed("no-coordinator")).write(1_000);
    Sink::start(&auto(&stage)).wait(REFUSES_WITHIN).assert_failed(1, "E6014");
    Sink::start(&transactional(&stage)).wait(REFUSES_WITHIN).assert_failed(1, "E6014");
    let home = auto(&stage).set("delivery.fallback_on_timeout", true);
    let mut sink = Sink::start(&home);
    stage.await_drained(&mut sink);
    assert!(shows_mode(&sink, "dedup", "probe-timed-out"), "{}", sink.stderr());
    sink.leave(LEAVES_WITHIN).assert_drained();
    stage.assert_clean();
}

#[test]
fn a_broker_that_answers_too_late_is_no_broker_without_transactions() {
    needs_broker!();
    let stage = Stage::set(shared(), "late-answer", 1);
    let proxy = Proxy::before(&stage.address);
    let held = proxy.hold_answers(Frames::of(Api::ADD_OFFSETS_TO_TXN));
    let home = auto(&stage).set("kafka.bootstrap_servers", proxy.address());
    Sink::start(&home).wait(REFUSES_WITHIN).assert_failed(1, "E6014");
    assert!(held.lift() > 0, "the probe did not come so far");
    let mut sink = Sink::start(&home);
    until("the program to be ready", STEADY_WITHIN, || sink.is_ready().then_some(()));
    assert!(shows_mode(&sink, "transactional", "probe-succeeded"), "{}", sink.stderr());
    sink.leave(LEAVES_WITHIN).assert_drained();
}

#[test]
fn another_cluster_for_the_output_is_a_reason_of_its_own() {
    needs_broker!();
    let stage = Stage::set(shared(), "two-clusters", 1);
    stage.writer(seed("two-clusters")).write(500);
    // The same broker by another name will do.
    let elsewhere = stage.address.replace("127.0.0.1", "localhost");
    let home = auto(&stage).set("sink.bootstrap_servers", elsewhere);
    let mut sink = Sink::start(&home);
    stage.await_drained(&mut sink);
    assert!(shows_mode(&sink, "dedup", "two-clusters"), "{}", sink.stderr());
    sink.leave(LEAVES_WITHIN).assert_drained();
    stage.assert_clean();
}

#[test]
fn an_id_that_somebody_else_keeps_taking_ends_the_program_and_never_falls_back() {
    needs_broker!();
    let stage = Stage::set(shared(), "taken-id", 1);
    let home = auto(&stage);
    let mut writer = stage.writer(seed("taken-id"));
    let mut sink = Sink::start(&home);
    until("the program to be ready", STEADY_WITHIN, || sink.is_ready().then_some(()));
    let id = format!("{}-{}-0", stage.group(), stage.topic);
    let mut thieves: Vec<BaseProducer> = Vec::new();
    let exit = until("the program to give up", Duration::from_secs(60), || {
        writer.write(200);
        let thief: BaseProducer =
            client(&stage.address).set("transactional.id", &id).create().expect("a producer");
        thief.init_transactions(Duration::from_secs(10)).expect("it takes the id over");
        thieves.push(thief);
        std::thread::sleep(Duration::from_millis(500));
        sink.has_ended().then(|| sink.wait(LEAVES_WITHIN))
    });
    exit.assert_failed(1, "E6012");
    drop(thieves);
    // Nobody takes it any more: what was open is ended, and nothing is missing.
    let mut sink = Sink::start(&home);
    stage.await_drained(&mut sink);
    assert!(shows_mode(&sink, "transactional", "probe-succeeded"), "{}", sink.stderr());
    sink.leave(LEAVES_WITHIN).assert_drained();
    stage.admin.assert_nothing_open(&stage.output, 1);
    stage.assert_clean();
}
