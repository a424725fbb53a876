//! Every error as its user sees it: one line that names the place, the value and the way out.
//!
//! The values are made as the rooms make them. `FIRSTSEEN_BLESS=1` rewrites the texts. Errors of
//! the config are in `config`, those of the demo in `demo`.

use std::io;
use std::path::Path;
use std::time::Duration;

use firstseen::commands::Forced;
use firstseen::engine::Broken;
use firstseen::error::render;
use firstseen::kafka::{Cause, Error as Kafka};
use firstseen::key::Missing;
use firstseen::pipeline::{Closed, Error as Pipeline};
use firstseen::seen::{Error as Seen, Failure};
use firstseen::status::Error as Status;
use firstseen::words::{Code, Coded, OutputPosition, RecordOffset, ResumeOffset, SourcePartition};
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaErrorCode;

use super::config::{GOLDEN, compare, files, stem};

const SERVERS: &str = "kafka-1:9092,kafka-2:9092";
const STATE: &str = "/var/lib/firstseen";

type Table = Vec<(&'static str, Box<dyn Coded>)>;

#[test]
fn every_error_is_one_line_with_its_golden_text() {
    let all = [connecting(), topics(), records(), state(), run_time()];
    for (name, error) in all.into_iter().flatten() {
        let (code, line) = (error.code(), render(error.as_ref()));
        assert!(name.starts_with(code.as_str()), "{name} has code {code}");
        assert_eq!(line.lines().count(), 1, "{name}: {line}");
        assert!(line.contains("; fix: "), "{name} does not say what to do: {line}");
        golden(name, &format!("{line}\nexit {}\n", code.exit_code()));
    }
}

/// These do not stop the program: they are told in the log, with the code as a field.
#[test]
fn every_reason_to_take_no_records_in_has_its_golden_text() {
    let reasons = [
        ("E5009-little-left", Closed::NoSpace { dir: STATE.into(), min_free: 1 << 30 }),
        ("E6005", Closed::NoLease { group: "dedup".to_owned() }),
    ];
    for (name, reason) in reasons {
        let code = reason.code().expect("a reason that is logged");
        assert!(name.starts_with(code.as_str()), "{name} has code {code}");
        golden(name, &format!("{}\ncode {code}\n", reason.line()));
    }
}

#[test]
fn every_code_has_a_golden_text_and_every_golden_text_a_code() {
    let texts: Vec<_> = files(GOLDEN, "txt").iter().map(|path| stem(path)).collect();
    for code in Code::ALL {
        let has = texts.iter().any(|name| name.starts_with(code.as_str()));
        assert!(has, "{code} has no golden text");
    }
    for name in texts.iter().filter(|name| name.starts_with('E')) {
        let has = Code::ALL.iter().any(|code| name.starts_with(code.as_str()));
        assert!(has, "{name}.txt is of no code");
    }
}

fn golden(name: &str, text: &str) {
    compare(&Path::new(GOLDEN).join(format!("{name}.txt")), text);
}

fn connecting() -> Table {
    let servers = || SERVERS.to_owned();
    let unreachable = Kafka::Unreachable {
        task: "describe a topic",
        servers: servers(),
        waited: Duration::new(8, 108_715_062),
        cause: Cause::text("kafka-1:9092/bootstrap: Connect to ipv4#10.0.0.1:9092 failed"),
    };
    let refused = |resource: &str, code| Kafka::BrokerAuthorization {
        resource: resource.to_owned(),
        cause: said(code),
    };
    let pattern = "^payments-(";
    let cause = Box::new(regex::Error::Syntax("unclosed group".to_owned()));
    vec![
        ("E2001", Box::new(unreachable)),
        (
            "E2002",
            Box::new(Kafka::Tls {
                servers: servers(),
                cause: Cause::text("certificate verify failed: unable to get local issuer"),
            }),
        ),
        (
            "E2003",
            Box::new(Kafka::Authentication {
                servers: servers(),
                cause: Cause::text("SASL SCRAM-SHA-512 mechanism handshake failed"),
            }),
        ),
        (
            "E2004-topic",
            Box::new(refused("topic `payments`", RDKafkaErrorCode::TopicAuthorizationFailed)),
        ),
        (
            "E2004-group",
            Box::new(refused("group `dedup`", RDKafkaErrorCode::GroupAuthorizationFailed)),
        ),
        (
            "E2004-output",
            Box::new(undeliverable(refused(
                "the topic",
                RDKafkaErrorCode::TopicAuthorizationFailed,
            ))),
        ),
        (
            "E2004-idempotence",
            Box::new(Kafka::IdempotenceRefused {
                servers: servers(),
                cause: said(RDKafkaErrorCode::ClusterAuthorizationFailed),
            }),
        ),
        (
            "E2005",
            Box::new(Kafka::Setting {
                property: "property `linger.ms` is not known or has a value it does not take"
                    .to_owned(),
            }),
        ),
        ("E2005-pattern", Box::new(Kafka::Pattern { pattern: pattern.to_owned(), cause })),
    ]
}

fn topics() -> Table {
    let missing =
        |role, topic: &str| Box::new(Pipeline::TopicMissing { role, topic: topic.to_owned() });
    let recreated = |which, topic: &str| {
        Box::new(Pipeline::Recreated {
            partition: partition(),
            which,
            topic: topic.to_owned(),
            dir: format!("{STATE}/partitions/payments-3").into(),
        })
    };
    vec![
        ("E3001-source", missing("source", "payments")),
        ("E3001-output", missing("output", "payments.dedup")),
        ("E3001-dead-letter", missing("dead-letter", "payments.dead")),
        ("E3001-gone", Box::new(Kafka::TopicMissing { topic: "payments".to_owned() })),
        ("E3002-source", recreated("source", "payments")),
        ("E3002-output", recreated("output", "payments.dedup")),
        (
            "E3003",
            Box::new(Pipeline::PartitionCount {
                source_topic: "payments".to_owned(),
                source_partitions: 12,
                output_topic: "payments.dedup".to_owned(),
                output_partitions: 6,
            }),
        ),
        (
            "E3003-gone",
            Box::new(Kafka::PartitionMissing { topic: "payments.dedup".to_owned(), partition: 7 }),
        ),
        (
            "E3005",
            Box::new(Pipeline::OutOfRange {
                partition: partition(),
                resume: ResumeOffset(41),
                low: 1_000,
                high: 2_000,
            }),
        ),
        (
            "E3005-while-reading",
            Box::new(Kafka::OffsetOutOfRange {
                partition: partition(),
                offset: 41,
                cause: said(RDKafkaErrorCode::AutoOffsetReset),
            }),
        ),
        (
            "E3006",
            Box::new(Pipeline::OutputTruncated {
                partition: partition(),
                topic: "payments.dedup".to_owned(),
                high: 30,
                position: OutputPosition(41),
            }),
        ),
        (
            "E3006-while-reading",
            Box::new(take(Kafka::OutputOutOfRange {
                topic: "payments.dedup".to_owned(),
                partition: 3,
                offset: 41,
                cause: said(RDKafkaErrorCode::OffsetOutOfRange),
            })),
        ),
        ("E3008", Box::new(Pipeline::TimestampType { topic: "payments.dedup".to_owned() })),
        (
            "E3009-found-at-run-time",
            Box::new(Pipeline::SharedOutput {
                first: "payments".to_owned(),
                second: "refunds".to_owned(),
                output: "all.dedup".to_owned(),
            }),
        ),
        ("E1010-found-at-run-time", Box::new(Pipeline::SameTopic { topic: "payments".to_owned() })),
        ("E3010", Box::new(Pipeline::NoTopics { pattern: "^payments-.*".to_owned() })),
    ]
}

fn records() -> Table {
    let too_large = |output: &str| Kafka::RecordTooLarge {
        size: 100_074,
        limit: 20_000,
        output: output.to_owned(),
    };
    vec![
        ("E4001", Box::new(undeliverable(too_large("payments.dedup")))),
        (
            "E4001-dead-letter",
            Box::new(Pipeline::Undeliverable {
                partition: partition(),
                offset: RecordOffset(41),
                role: "dead-letter",
                topic: "payments.dead".to_owned(),
                source: Box::new(too_large("payments.dead")),
            }),
        ),
        (
            "E4002",
            Box::new(undeliverable(Kafka::RecordRefused(said(RDKafkaErrorCode::InvalidTimestamp)))),
        ),
        (
            "E4003",
            Box::new(Pipeline::NoKey {
                partition: partition(),
                offset: RecordOffset(41),
                why: Missing::Absent,
            }),
        ),
        (
            "E4004",
            Box::new(Kafka::RecordCorrupt {
                partition: partition(),
                offset: 41,
                cause: said(RDKafkaErrorCode::BadMessage),
            }),
        ),
        (
            "E4005",
            Box::new(Kafka::RecordCodec {
                partition: partition(),
                offset: 41,
                cause: Cause::text("Codec 5 not supported: message at offset 41 not decompressed"),
            }),
        ),
    ]
}

fn state() -> Table {
    let dir = || STATE.into();
    let (holder, damage) = (Some(4_711), "`/var/lib/firstseen/secret` is missing");
    let corrupt = |what: &str| Seen::Corrupt { what: what.to_owned(), source: None };
    let full = || Failure::io("write", format!("{STATE}/partitions/payments-3/1"), os(28));
    vec![
        ("E5001", Box::new(Seen::Locked { dir: dir(), holder })),
        (
            "E5002",
            Box::new(Seen::Unwritable {
                dir: dir(),
                source: Failure::io("create directory", STATE, os(30)),
            }),
        ),
        (
            "E5003",
            Box::new(Seen::Permissions {
                path: dir(),
                why: "others may write to it (mode 0770)".to_owned(),
            }),
        ),
        ("E5004", Box::new(corrupt(damage))),
        (
            "E5004-set-aside",
            Box::new(Pipeline::Damaged {
                partition: partition(),
                set_aside: format!("{STATE}/quarantine-20260102T030405Z-0").into(),
                source: corrupt("the checkpoint in segment 7 is damaged"),
            }),
        ),
        ("E5005", Box::new(Seen::Newer { dir: dir(), found: 2, known: 1 })),
        (
            "E5006",
            Box::new(kept(Seen::Foreign {
                field: "the output topic",
                stored: "payments.dedup".to_owned(),
                wanted: "payments.once".to_owned(),
            })),
        ),
        (
            "E5007",
            Box::new(kept(Seen::RuleChanged {
                field: "the key rule",
                stored: "key".to_owned(),
                wanted: "json:/id".to_owned(),
            })),
        ),
        (
            "E5008",
            Box::new(Pipeline::Missing {
                partition: partition(),
                committed: ResumeOffset(41),
                dir: format!("{STATE}/partitions/payments-3").into(),
            }),
        ),
        ("E5008-no-start", Box::new(Pipeline::NoStart { partition: partition() })),
        ("E5009", Box::new(kept(Seen::NoSpace(full())))),
        ("E5010", Box::new(kept(Seen::Io(Failure::io("sync", STATE, os(5)))))),
        (
            "E5010-checkpoint",
            Box::new(Pipeline::CheckpointTimeout {
                partition: partition(),
                limit: Duration::from_secs(30),
            }),
        ),
    ]
}

fn run_time() -> Table {
    let group = || "dedup".to_owned();
    let stuck = Kafka::CatchUpStuck {
        topic: "payments.dedup".to_owned(),
        partition: 3,
        reached: OutputPosition(30),
        target: OutputPosition(41),
        stable: Some(OutputPosition(30)),
        waited: Duration::new(30, 4_211_000),
        cause: Cause::text("a transaction is open there, or is not yet decided"),
    };
    vec![
        (
            "E6001",
            Box::new(Kafka::ProducerFatal {
                servers: SERVERS.to_owned(),
                cause: said(RDKafkaErrorCode::OutOfOrderSequenceNumber),
            }),
        ),
        (
            "E6002",
            Box::new(undeliverable(Kafka::Delivery(said(RDKafkaErrorCode::MessageTimedOut)))),
        ),
        ("E6003", Box::new(take(stuck))),
        (
            "E6004",
            Box::new(Kafka::PollExceeded {
                group: group(),
                cause: Cause::text(
                    "Application maximum poll interval (300000ms) exceeded by 412ms",
                ),
            }),
        ),
        (
            "E6006",
            Box::new(Kafka::Commit {
                group: group(),
                cause: said(RDKafkaErrorCode::CoordinatorNotAvailable),
            }),
        ),
        ("E6007", Box::new(Pipeline::DrainTimeout { records: 12, limit: Duration::from_secs(32) })),
        (
            "E6008",
            Box::new(Status::Listen {
                addr: "127.0.0.1:9464".parse().expect("one"),
                source: os(98),
            }),
        ),
        (
            "E6011",
            Box::new(Kafka::TransactionsRefused {
                servers: SERVERS.to_owned(),
                id: "dedup-probe-00ff".to_owned(),
                cause: said(RDKafkaErrorCode::TransactionalIdAuthorizationFailed),
            }),
        ),
        (
            "E6012",
            Box::new(Kafka::TransactionFenced {
                id: "dedup-payments-3".to_owned(),
                cause: said(RDKafkaErrorCode::ProducerFenced),
            }),
        ),
        (
            "E6013",
            Box::new(Kafka::TransactionTimeout {
                servers: SERVERS.to_owned(),
                timeout: Duration::from_secs(3600),
                cause: said(RDKafkaErrorCode::InvalidTransactionTimeout),
            }),
        ),
        (
            "E6014",
            Box::new(Kafka::TransactionsUnanswered {
                servers: SERVERS.to_owned(),
                waited: Duration::from_millis(30_041),
                cause: said(RDKafkaErrorCode::OperationTimedOut),
            }),
        ),
        (
            "E6015",
            Box::new(Kafka::Transaction {
                id: "dedup-payments-3".to_owned(),
                cause: said(RDKafkaErrorCode::IllegalGeneration),
            }),
        ),
        ("E6009", Box::new(Forced)),
        (
            "E6010",
            Box::new(Kafka::InstanceFenced {
                group: group(),
                cause: said(RDKafkaErrorCode::FencedInstanceId),
            }),
        ),
        (
            "E6999",
            Box::new(Pipeline::Broken(Broken(
                "a delivery report names a delivery that is not in flight",
            ))),
        ),
        (
            "E6999-client",
            Box::new(Kafka::Client {
                task: "look up a time",
                cause: said(RDKafkaErrorCode::InvalidArgument),
            }),
        ),
    ]
}

fn partition() -> SourcePartition {
    SourcePartition::new("payments", 3)
}

/// What the client says when it has nothing but a code.
fn said(code: RDKafkaErrorCode) -> Cause {
    KafkaError::Global(code).into()
}

fn os(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}

fn undeliverable(source: Kafka) -> Pipeline {
    Pipeline::Undeliverable {
        partition: partition(),
        offset: RecordOffset(41),
        role: "output",
        topic: "payments.dedup".to_owned(),
        source: Box::new(source),
    }
}

fn take(source: Kafka) -> Pipeline {
    Pipeline::Take { partition: partition(), source }
}

fn kept(source: Seen) -> Pipeline {
    Pipeline::PartitionState { partition: partition(), source }
}
