//! Modes, times, rights and the group.

use super::super::mode::{Delivery, choose};
use super::Severity::{Breaks, Ok as Good, Unknown, Weakens};
use super::*;
use crate::config::{DeliveryMode, Membership};
use crate::kafka::survey::Member;

/// What a transaction probe that fails leaves unknown, or tells as well.
const PROBED: &[Kind] = &[Kind::Mode, Kind::TransactionalId, Kind::TransactionTimeout, Kind::Clock];

fn denied(world: &mut World) {
    let refused = refusal(RDKafkaErrorCode::TransactionalIdAuthorizationFailed);
    world.facts.transactions = Transactions::Cannot(refused);
}

fn absent(world: &mut World) {
    let refused = refusal(RDKafkaErrorCode::UnsupportedFeature);
    world.facts.transactions = Transactions::Cannot(refused);
}

fn away(world: &mut World) {
    world.facts.transactions = Transactions::NotNow(silence());
}

fn too_long(world: &mut World) {
    let refused = refusal(RDKafkaErrorCode::InvalidTransactionTimeout);
    world.facts.transactions = Transactions::Misconfigured(refused);
}

fn fenced(world: &mut World) {
    let refused = refusal(RDKafkaErrorCode::ProducerFenced);
    world.facts.transactions = Transactions::Fenced(refused);
}

fn hide_brokers(world: &mut World) {
    let refused = refusal(RDKafkaErrorCode::ClusterAuthorizationFailed);
    world.facts.source.brokers[1].settings = Err(refused);
}

/// Every setting that is read from brokers.
const BROKER_SETTINGS: &[Kind] = &[Kind::SessionTimeout, Kind::OffsetsRetention];

#[test]
fn a_mode_that_does_without_transactions_is_told() {
    each(
        Kind::Mode,
        PROBED,
        &[
            ("transactions begin", Good, |_| {}),
            ("dedup is asked for", Good, |w| {
                w.config.delivery.mode = DeliveryMode::Dedup;
                w.facts.transactions = Transactions::NotAsked;
            }),
            ("the id is refused", Weakens, denied),
            ("the broker has none", Weakens, absent),
            ("the output is on another cluster", Weakens, elsewhere),
            ("the other cluster is the same", Weakens, |w| {
                elsewhere(w);
                w.facts.output.as_mut().unwrap().id = w.facts.source.id.clone();
            }),
        ],
    );
}

fn elsewhere(world: &mut World) {
    world.config.sink.bootstrap_servers = Some("other:9092".to_owned());
    let id = Some("other".to_owned());
    world.facts.output = Some(ClusterSurvey { id, ..world.facts.source.clone() });
    world.facts.transactions = Transactions::NotAsked;
}

/// What changes, what is chosen then, and how good that is.
type Case = (fn(&mut World), Delivery, Severity);

#[test]
fn auto_does_without_transactions_only_where_they_cannot_be_had() {
    let cases: [Case; 7] = [
        (|_| {}, Delivery::Transactional, Good),
        (denied, Delivery::Dedup, Weakens),
        (absent, Delivery::Dedup, Weakens),
        (elsewhere, Delivery::Dedup, Weakens),
        (too_long, Delivery::Refused, Breaks),
        (fenced, Delivery::Unknown, Unknown),
        (away, Delivery::Unknown, Unknown),
    ];
    for (n, (change, delivery, severity)) in cases.into_iter().enumerate() {
        let mut world = World::clean();
        change(&mut world);
        let choice = choose(&world.config, &world.facts);
        assert_eq!((choice.delivery, choice.severity), (delivery, severity), "{n}: {choice:?}");
    }
}

#[test]
fn transactions_that_are_a_must_are_not_done_without() {
    let cases: [Case; 3] = [
        (|_| {}, Delivery::Transactional, Good),
        (denied, Delivery::Refused, Breaks),
        (away, Delivery::Unknown, Unknown),
    ];
    for (n, (change, delivery, severity)) in cases.into_iter().enumerate() {
        let mut world = World::clean();
        world.config.delivery.mode = DeliveryMode::Transactional;
        change(&mut world);
        let choice = choose(&world.config, &world.facts);
        assert_eq!((choice.delivery, choice.severity), (delivery, severity), "{n}: {choice:?}");
    }
}

#[test]
fn a_membership_without_a_group_weakens() {
    each(
        Kind::Membership,
        &[],
        &[
            ("in a group", Good, |_| {}),
            ("alone", Weakens, |w| w.config.source.membership = Membership::Alone),
        ],
    );
}

#[test]
fn what_run_warns_of_is_told_too() {
    each(
        Kind::Config,
        &[],
        &[("a password in the clear is allowed", Weakens, |w| {
            w.config.kafka.allow_insecure = true;
        })],
    );
}

#[test]
fn a_ceiling_below_the_transaction_timeout_breaks_it_and_so_does_a_long_checkpoint() {
    each(
        Kind::TransactionTimeout,
        PROBED,
        &[
            ("below the ceiling", Good, |_| {}),
            ("one broker's ceiling is lower", Breaks, |w| {
                w.facts.source.brokers[2].settings = Ok(settings(
                    &[&BROKER[..3], &[("transaction.max.timeout.ms", "30000")]].concat(),
                ));
            }),
            ("the coordinator refuses it", Breaks, too_long),
            ("checkpoints are too far apart", Breaks, |w| {
                w.config.checkpoint.interval = seconds(60);
            }),
            ("brokers tell nothing and the probe nothing else", Unknown, |w| {
                away(w);
                for broker in &mut w.facts.source.brokers {
                    broker.settings = Ok(settings(&BROKER[..3]));
                }
            }),
            ("brokers tell nothing and transactions begin", Good, |w| {
                for broker in &mut w.facts.source.brokers {
                    broker.settings = Ok(settings(&BROKER[..3]));
                }
            }),
        ],
    );
}

#[test]
fn a_session_that_the_brokers_refuse_breaks_it() {
    each(
        Kind::SessionTimeout,
        BROKER_SETTINGS,
        &[
            ("within the limits", Good, |_| {}),
            ("too short", Breaks, |w| w.set_brokers("group.min.session.timeout.ms", "60000")),
            ("too long", Breaks, |w| w.set_brokers("group.max.session.timeout.ms", "30000")),
            ("one broker may not be asked", Unknown, hide_brokers),
        ],
    );
}

#[test]
fn a_delivery_that_outlasts_the_session_breaks_it() {
    each(
        Kind::DeliveryTimeout,
        &[],
        &[
            ("it ends before", Good, |_| {}),
            ("it ends with it", Breaks, |w| w.config.sink.delivery_timeout = seconds(43)),
        ],
    );
}

#[test]
fn a_group_that_does_not_wait_for_a_drain_weakens() {
    each(
        Kind::PollInterval,
        &[],
        &[
            ("it waits", Good, |_| {}),
            ("it does not", Weakens, |w| {
                let client = &mut w.config.kafka.client;
                client.insert("max.poll.interval.ms".to_owned(), "40000".to_owned());
            }),
        ],
    );
}

#[test]
fn heartbeats_that_are_rare_weaken() {
    each(
        Kind::Heartbeat,
        &[],
        &[
            ("often enough", Good, |_| {}),
            ("too rare", Weakens, |w| {
                let client = &mut w.config.kafka.client;
                client.insert("heartbeat.interval.ms".to_owned(), "20000".to_owned());
            }),
        ],
    );
}

#[test]
fn offsets_that_are_forgotten_within_a_window_weaken() {
    each(
        Kind::OffsetsRetention,
        BROKER_SETTINGS,
        &[
            ("kept for longer", Good, |_| {}),
            ("forgotten sooner", Weakens, |w| w.set_brokers("offsets.retention.minutes", "60")),
            ("one broker may not be asked", Unknown, hide_brokers),
        ],
    );
}

fn noted(world: &mut World, ms: i64) {
    let broker = Timestamp(NOW.0 + ms);
    let clock = Clock { before: NOW, broker, after: Timestamp(NOW.0 + 20) };
    world.facts.transactions = Transactions::Work { clock: Ok(clock) };
}

#[test]
fn clocks_that_are_apart_weaken_and_a_time_that_nobody_told_is_unknown() {
    each(
        Kind::Clock,
        PROBED,
        &[
            ("equal", Good, |_| {}),
            ("a little apart", Good, |w| noted(w, 30_000)),
            ("the broker is ahead", Weakens, |w| noted(w, 120_000)),
            ("the broker is behind", Weakens, |w| noted(w, -120_000)),
            ("the log may not be asked", Unknown, |w| {
                let refused = refusal(RDKafkaErrorCode::TopicAuthorizationFailed);
                w.facts.transactions = Transactions::Work { clock: Err(refused) };
            }),
            ("transactions cannot be had", Unknown, denied),
        ],
    );
}

#[test]
fn a_right_that_is_missing_breaks_it_and_one_that_is_not_told_is_unknown() {
    use Operation::{Describe, Read};
    each(
        Kind::TopicRights,
        &[Kind::SourceTopic, Kind::OpenTransaction, Kind::StateSpace],
        &[
            ("all of them", Good, |_| {}),
            ("the source may not be read", Breaks, |w| {
                w.source().operations = Some(vec![Describe]);
            }),
            ("the output may only be read", Breaks, |w| {
                w.output().operations = Some(vec![Describe, Read]);
            }),
            ("the dead-letter topic may not be written", Breaks, |w| {
                let mut dead = topic("payments.dead");
                found(&mut dead).operations = Some(vec![Describe, Read]);
                w.facts.dead_letter = Some(dead);
            }),
            ("the source may not be described", Breaks, |w| {
                let refused = refusal(RDKafkaErrorCode::TopicAuthorizationFailed);
                w.facts.pairs[0].source.topic.found = Err(refused);
            }),
            ("not told", Unknown, |w| w.output().operations = None),
        ],
    );
}

#[test]
fn a_group_that_may_not_be_read_breaks_it() {
    each(
        Kind::GroupRights,
        &[Kind::GroupMembers],
        &[
            ("all of them", Good, |_| {}),
            ("it may not be read", Breaks, |w| {
                w.facts.group.as_mut().unwrap().operations = Some(vec![Operation::Describe]);
            }),
            ("it may not be described", Breaks, |w| {
                let refused = refusal(RDKafkaErrorCode::GroupAuthorizationFailed);
                w.facts.group = Err(refused);
            }),
            ("not told", Unknown, |w| w.facts.group.as_mut().unwrap().operations = None),
            ("nobody answers", Unknown, |w| w.facts.group = Err(silence())),
        ],
    );
}

#[test]
fn a_producer_that_gets_no_id_weakens() {
    each(
        Kind::IdempotentWrite,
        &[],
        &[
            ("it gets one", Good, |_| {}),
            ("it is refused", Weakens, |w| {
                let refused = refusal(RDKafkaErrorCode::ClusterAuthorizationFailed);
                w.facts.producing.idempotence = Idempotence::Refused(refused);
            }),
            ("the broker has none to give", Weakens, |w| {
                let refused = refusal(RDKafkaErrorCode::UnsupportedFeature);
                w.facts.producing.idempotence = Idempotence::Refused(refused);
            }),
            ("no answer", Unknown, |w| {
                w.facts.producing.idempotence = Idempotence::Unknown(silence());
            }),
        ],
    );
}

#[test]
fn a_transactional_id_is_tried_and_what_came_of_it_is_told() {
    each(
        Kind::TransactionalId,
        PROBED,
        &[
            ("transactions begin", Good, |_| {}),
            ("the id is refused", Weakens, denied),
            ("the broker has none", Weakens, absent),
            ("the timeout is over the ceiling", Breaks, too_long),
            ("another check runs", Unknown, fenced),
            ("the coordinator does not answer", Unknown, away),
        ],
    );
}

#[test]
fn brokers_that_lack_requests_are_told_by_what_they_lack() {
    each(
        Kind::Features,
        &[],
        &[
            ("all there", Good, |_| {}),
            ("an older one", Good, |w| {
                let apis = Apis::of(&[(3, 12), (22, 4), (24, 4), (25, 3), (26, 3), (28, 3)]);
                w.facts.producing.apis = Some(apis);
            }),
            ("no transactions", Weakens, |w| {
                w.facts.producing.apis = Some(Apis::of(&[(3, 12), (22, 4)]));
            }),
            ("no topic ids", Weakens, |w| {
                let apis = Apis::of(&[(3, 7), (22, 1), (24, 1), (25, 1), (26, 1), (28, 1)]);
                w.facts.producing.apis = Some(apis);
            }),
            ("not told", Unknown, |w| w.facts.producing.apis = None),
        ],
    );
}

fn joined(world: &mut World, client: &str, instance: Option<&str>) {
    let group = world.facts.group.as_mut().unwrap();
    group.assignor = "cooperative-sticky".to_owned();
    group.members.push(Member {
        client_id: client.to_owned(),
        instance_id: instance.map(str::to_owned),
        host: "/10.0.0.7".to_owned(),
    });
}

#[test]
fn members_that_would_take_our_place_are_told() {
    each(
        Kind::GroupMembers,
        &[Kind::GroupRights, Kind::Membership],
        &[
            ("nobody", Good, |_| {}),
            ("other instances", Good, |w| {
                joined(w, "firstseen", Some("sink-2"));
                joined(w, "firstseen", None);
            }),
            ("the same instance id", Breaks, |w| joined(w, "firstseen", Some("sink-1"))),
            ("another client", Weakens, |w| joined(w, "console-consumer", None)),
            ("another assignor", Breaks, |w| {
                joined(w, "firstseen", None);
                w.facts.group.as_mut().unwrap().assignor = "range".to_owned();
            }),
            ("a member beside one that is alone", Breaks, |w| {
                w.config.source.membership = Membership::Alone;
                w.config.source.instance_id = None;
                joined(w, "firstseen", None);
            }),
            ("nobody answers", Unknown, |w| w.facts.group = Err(silence())),
        ],
    );
}
