//! Every comparison, one by one: a clean world, one thing changed, one finding more.
//!
//! `FIRSTSEEN_BLESS=1` rewrites the golden texts and the page.

mod broker;
mod machine;
mod report;
mod topics;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaErrorCode;

use super::facts::{Facts, Pair, Watched};
use super::finding::{Finding, Kind, Severity};
use super::judge::judge;
use super::place::{FileSystem, Place};
use super::report::table;
use crate::config::{Config, Environment, load_text};
use crate::kafka::survey::{
    Apis, BrokerSurvey, Clock, ClusterSurvey, Described, GroupSurvey, Idempotence, OffsetFacts,
    Operation, PartitionFacts, Producing, Settings, TopicSurvey, Transactions,
};
use crate::kafka::{Cause, TimestampType, TopicFacts};
use crate::words::Timestamp;

const NOW: Timestamp = Timestamp(1_800_000_000_000);
const HOUR: i64 = 3_600_000;

/// A config and what was told about it.
struct World {
    config: Config,
    facts: Facts,
}

/// One thing that is changed in a clean world.
type Case = (&'static str, Severity, fn(&mut World));

impl World {
    /// Three brokers, everything as it should be.
    fn clean() -> Self {
        let text = r#"
            [kafka]
            bootstrap_servers = "kafka-1:9092,kafka-2:9092"
            [source]
            group = "payments-dedup"
            topics = ["payments"]
            instance_id = "sink-1"
            [state]
            dir = "/var/lib/firstseen"
        "#;
        let config = load_text(text, "firstseen.toml", &Environment::default());
        let config = config.unwrap_or_else(|faults| panic!("{faults:?}"));
        Self { config, facts: facts() }
    }

    fn findings(&self) -> Vec<Finding> {
        judge(&self.config, &self.facts).1
    }

    fn source(&mut self) -> &mut Described {
        found(&mut self.facts.pairs[0].source.topic)
    }

    fn output(&mut self) -> &mut Described {
        found(&mut self.facts.pairs[0].output.topic)
    }

    /// Sets a setting of the output, as a broker would tell it.
    fn set_output(&mut self, name: &str, value: &str) {
        reset(self.output(), name, Some(value));
    }

    /// Sets a setting of every broker.
    fn set_brokers(&mut self, name: &str, value: &str) {
        for broker in &mut self.facts.source.brokers {
            let told = broker.settings.as_ref().unwrap();
            broker.settings = Ok(with(told, BROKER, name, Some(value)));
        }
    }
}

fn found(topic: &mut TopicSurvey) -> &mut Described {
    topic.found.as_mut().unwrap().as_mut().unwrap()
}

/// Tells a topic's settings again with one changed or left out.
fn reset(topic: &mut Described, name: &str, value: Option<&str>) {
    let told = with(topic.settings.as_ref().unwrap(), TOPIC, name, value);
    topic.facts = read(topic.facts.partitions, &told);
    topic.settings = Ok(told);
}

fn with(told: &Settings, all: &[(&str, &str)], name: &str, value: Option<&str>) -> Settings {
    let others = all.iter().map(|(known, _)| *known).filter(|known| *known != name);
    let mut pairs: Vec<(String, String)> =
        others.filter_map(|known| Some((known.to_owned(), told.text(known)?.to_owned()))).collect();
    pairs.extend(value.map(|value| (name.to_owned(), value.to_owned())));
    Settings::new(pairs)
}

/// What nobody was told by.
fn silence() -> Cause {
    Cause::text("Local: Timed out")
}

fn refusal(code: RDKafkaErrorCode) -> Cause {
    Cause::from(KafkaError::Global(code))
}

const TOPIC: &[(&str, &str)] = &[
    ("cleanup.policy", "delete"),
    ("max.message.bytes", "1048588"),
    ("message.timestamp.after.max.ms", "3600000"),
    ("message.timestamp.before.max.ms", "9223372036854775807"),
    ("message.timestamp.type", "CreateTime"),
    ("min.insync.replicas", "2"),
    ("retention.bytes", "-1"),
    ("retention.ms", "604800000"),
    ("unclean.leader.election.enable", "false"),
];

const BROKER: &[(&str, &str)] = &[
    ("group.max.session.timeout.ms", "1800000"),
    ("group.min.session.timeout.ms", "6000"),
    ("offsets.retention.minutes", "10080"),
    ("transaction.max.timeout.ms", "900000"),
];

fn settings(pairs: &[(&str, &str)]) -> Settings {
    Settings::new(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())))
}

fn read(partitions: i32, told: &Settings) -> TopicFacts {
    TopicFacts {
        partitions,
        id: None,
        timestamp_type: match told.text("message.timestamp.type") {
            Some("CreateTime") => Some(TimestampType::Create),
            Some("LogAppendTime") => Some(TimestampType::LogAppend),
            _ => None,
        },
        max_message_bytes: told.number("max.message.bytes"),
        cleanup_policy: told.text("cleanup.policy").map(str::to_owned),
        retention_ms: told.number("retention.ms"),
    }
}

fn topic(name: &str) -> TopicSurvey {
    use Operation::{Describe, DescribeConfigs, Read, Write};
    let told = settings(TOPIC);
    let partitions = (0..3).map(|partition| PartitionFacts {
        partition,
        leader: Some(1),
        replicas: 3,
        in_sync: 3,
    });
    // A thousand records in each partition's last hour.
    let offsets = (0..3).map(|partition| OffsetFacts {
        partition,
        start: 0,
        end: 24_000,
        stable: 24_000,
        window: Some((0, Timestamp(NOW.0 - 24 * HOUR))),
        recent: Some((23_000, Timestamp(NOW.0 - HOUR))),
    });
    let described = Described {
        facts: read(3, &told),
        settings: Ok(told),
        partitions: partitions.collect(),
        operations: Some(vec![Read, Write, Describe, DescribeConfigs]),
        offsets: Ok(offsets.collect()),
    };
    TopicSurvey { name: name.to_owned(), found: Ok(Some(described)) }
}

fn facts() -> Facts {
    use Operation::{Describe, Read};
    let watched = |name: &str| Watched { topic: topic(name), looked: Instant::now(), again: None };
    let broker = |id| BrokerSurvey { id, settings: Ok(settings(BROKER)) };
    let clock = Clock { before: NOW, broker: Timestamp(NOW.0 + 5), after: Timestamp(NOW.0 + 20) };
    Facts {
        now: NOW,
        source: ClusterSurvey {
            id: Some("cluster".to_owned()),
            brokers: (1..=3).map(broker).collect(),
        },
        output: None,
        pairs: vec![Pair { source: watched("payments"), output: watched("payments.dedup") }],
        dead_letter: None,
        group: Ok(GroupSurvey {
            assignor: String::new(),
            members: Vec::new(),
            operations: Some(vec![Describe, Read]),
        }),
        producing: Producing {
            idempotence: Idempotence::Works,
            apis: Some(Apis::of(&[(3, 13), (22, 5), (24, 5), (25, 4), (26, 5), (28, 5)])),
        },
        transactions: Transactions::Work { clock: Ok(clock) },
        place: Place {
            dir: "/var/lib/firstseen".into(),
            base: "/var/lib/firstseen".into(),
            shared: Ok(None),
            unwritable: None,
            file_system: Some(FileSystem::Local("ext4")),
            free: Ok(10 << 30),
            used: Ok(0),
            held: Ok(None),
        },
        port_taken: None,
    }
}

/// Changes one thing at a time and looks at the worst finding of `kind`: it has to be this bad, no
/// other kind but `also` may tell of it, and all texts have to be those of its golden file.
fn each(kind: Kind, also: &[Kind], cases: &[Case]) {
    let mut text = String::new();
    for (when, severity, change) in cases {
        let mut world = World::clean();
        change(&mut world);
        let findings = world.findings();
        let of_kind: Vec<_> = findings.iter().filter(|finding| finding.kind == kind).collect();
        let worst = of_kind.first().unwrap_or_else(|| panic!("{kind}, {when}: not judged"));
        assert_eq!(worst.severity, *severity, "{kind}, {when}: {worst:?}");
        let others = findings.iter().filter(|f| f.kind != kind && !also.contains(&f.kind));
        for other in others {
            assert_eq!(other.severity, Severity::Ok, "{kind}, {when}: {other:?}");
        }
        let told = worst.severity == Severity::Ok || !worst.fix.is_empty();
        assert!(told, "{kind}, {when}: says nothing that mends it");
        text.push_str(&format!("{when}\n{}\n", table(&[(*worst).clone()])));
    }
    golden(kind.name(), &text);
}

fn golden(name: &str, text: &str) {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/check");
    compare(&Path::new(dir).join(format!("{name}.txt")), text);
}

fn compare(path: &Path, text: &str) {
    if std::env::var_os("FIRSTSEEN_BLESS").is_some() {
        fs::write(path, text).unwrap();
        return;
    }
    let committed = fs::read_to_string(path)
        .unwrap_or_else(|e| panic!("{}: {e}; FIRSTSEEN_BLESS=1 writes it", path.display()));
    assert_eq!(committed, text, "{} differs; FIRSTSEEN_BLESS=1 rewrites it", path.display());
}

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

#[test]
fn a_clean_world_has_no_finding_and_each_kind_is_judged_in_some_test() {
    for finding in World::clean().findings() {
        assert_eq!(finding.severity, Severity::Ok, "{finding:?}");
    }
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/check");
    for kind in Kind::ALL {
        let path = Path::new(dir).join(format!("{}.txt", kind.name()));
        assert!(path.is_file(), "{kind} has no golden text");
    }
}
