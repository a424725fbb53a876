//! The Kafka room by itself against a real broker: what the client library's mock cannot show.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use firstseen::config::{Config, Environment, Membership, load_text};
use firstseen::kafka::{
    Closed, Cluster, Error, Outcome, OutputReader, Polled, Report, Sink, Source, TimeLookup,
    TimestampType,
};
use firstseen::words::{Code, Coded, OutputPosition, ResumeOffset, SourcePartition, Timestamp};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};

use crate::support::admin::{Admin, client, unique};
use crate::support::broker;
use crate::support::needs_broker;

const SOON: Duration = Duration::from_secs(20);

fn config(topic: &str, extra: &str) -> Config {
    let address = broker::shared().address();
    let text = format!(
        r#"
        kafka = {{ bootstrap_servers = "{address}", client = {{ {extra} }} }}
        source = {{ group = "{topic}-group", topics = ["{topic}"], session_timeout = "7s" }}
        sink = {{ topic = "{topic}-out", delivery_timeout = "4s" }}
        dedup = {{ key = "record-key", window = "1h" }}
        "#
    );
    let env = Environment::from_pairs::<String, String>([]);
    load_text(&text, "test", &env).unwrap_or_else(|faults| panic!("{faults:?}"))
}

/// Makes a topic with `partitions` and returns its name.
fn topic(stem: &str, partitions: i32, settings: &[(&str, &str)]) -> String {
    let name = unique(stem);
    Admin::of(broker::shared()).create_with(&name, partitions, settings);
    name
}

fn writer(settings: &[(&str, &str)]) -> BaseProducer {
    let mut config = client(&broker::shared().address());
    settings.iter().for_each(|(name, value)| {
        config.set(*name, *value);
    });
    config.create().expect("a plain producer")
}

fn write(producer: &BaseProducer, topic: &str, partition: i32, count: i64) {
    for number in 0..count {
        let value = number.to_string();
        let record = BaseRecord::<[u8], str>::to(topic)
            .partition(partition)
            .timestamp(1_000 + number)
            .payload(value.as_str());
        producer.send(record).map_err(|(error, _)| error).expect("there is room");
    }
    producer.flush(SOON).expect("the broker takes them");
}

fn until<T>(source: &mut Source, mut wanted: impl FnMut(Polled<'_>) -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = wanted(source.poll(Duration::from_millis(50))) {
            return found;
        }
        assert!(start.elapsed() < 2 * SOON, "nothing came in time");
    }
}

fn alone(config: &Config, partition: &SourcePartition, from: i64) -> Source {
    let mut config = config.clone();
    config.source.membership = Membership::Alone;
    let mut source = Source::connect(&config).expect("good settings");
    source.assign_alone(vec![partition.clone()]);
    until(&mut source, |polled| matches!(polled, Polled::Assigned(_)).then_some(()));
    source.accept(&[(partition.clone(), None)]).expect("taken");
    source.begin(partition, ResumeOffset(from), SOON).expect("begun");
    source
}

fn offsets(source: &mut Source, count: usize) -> Vec<i64> {
    let one = |polled: Polled<'_>| match polled {
        Polled::Record(record) => Some(record.offset().0),
        Polled::Failed(error) => panic!("{error}"),
        _ => None,
    };
    (0..count).map(|_| until(source, one)).collect()
}

fn read(reader: &OutputReader, topic: &str, to: i64, idle: Duration) -> Result<Vec<i64>, Error> {
    let mut found = Vec::new();
    let stop = AtomicBool::new(false);
    let (from, to) = (OutputPosition(0), OutputPosition(to));
    let mut each = |record: &firstseen::kafka::SourceRecord<'_>| {
        found.push(record.offset().0);
        true
    };
    reader.read(topic, 0, from, to, &stop, idle, &mut each)?;
    Ok(found)
}

/// A member that answers each rebalance only after `later` has passed, polling all the while.
struct Member {
    source: Source,
    held: Vec<SourcePartition>,
}

impl Member {
    fn join(config: &Config) -> Self {
        let mut source = Source::connect(config).expect("good settings");
        source.subscribe().expect("subscribed");
        Self { source, held: Vec::new() }
    }

    fn step(&mut self, later: Duration) -> Vec<(i32, i64)> {
        match self.source.poll(Duration::from_millis(20)) {
            Polled::Record(record) => return vec![(record.partition(), record.offset().0)],
            Polled::Assigned(partitions) => {
                self.wait(later);
                let all: Vec<_> = partitions.iter().map(|p| (p.clone(), None)).collect();
                self.source.accept(&all).expect("taken");
                for partition in partitions {
                    self.source.begin(&partition, ResumeOffset(0), SOON).expect("begun");
                    self.held.push(partition);
                }
            }
            Polled::Revoked { partitions, lost } => {
                assert!(!lost, "{partitions:?} were lost");
                self.wait(later);
                self.source.release(&partitions).expect("released");
                self.held.retain(|p| !partitions.contains(p));
            }
            Polled::Failed(error) => panic!("{error}"),
            Polled::Committed { .. } | Polled::Nothing => {}
        }
        Vec::new()
    }

    fn wait(&mut self, later: Duration) {
        let start = Instant::now();
        while start.elapsed() < later {
            let polled = self.source.poll(Duration::from_millis(20));
            assert!(matches!(polled, Polled::Nothing), "while a rebalance waits: {polled:?}");
        }
    }
}

fn two_members(strategy: &str) {
    let name = topic("edge-group", 4, &[]);
    let mut config = config(&name, "");
    // Not for users to choose; both must work all the same.
    let property = ("partition.assignment.strategy".to_owned(), strategy.to_owned());
    config.kafka.client.extend([property]);
    let producer = writer(&[]);
    (0..4).for_each(|partition| write(&producer, &name, partition, 3));
    let later = Duration::from_secs(1);
    let mut first = Member::join(&config);
    let mut seen = std::collections::BTreeSet::new();
    let start = Instant::now();
    while seen.len() < 12 {
        seen.extend(first.step(later));
        assert!(start.elapsed() < 2 * SOON, "{:?} {seen:?}", first.held);
    }
    let mut second = Member::join(&config);
    let start = Instant::now();
    while (first.held.len(), second.held.len()) != (2, 2) {
        first.step(later);
        second.step(later);
        assert!(start.elapsed() < 3 * SOON, "{:?} {:?}", first.held, second.held);
    }
    (0..4).for_each(|partition| write(&producer, &name, partition, 1));
    let mut fresh = std::collections::BTreeSet::new();
    let start = Instant::now();
    while fresh.len() < 4 {
        fresh.extend(first.step(later).into_iter().filter(|(_, offset)| *offset == 3));
        fresh.extend(second.step(later).into_iter().filter(|(_, offset)| *offset == 3));
        assert!(start.elapsed() < 2 * SOON, "{fresh:?}");
    }
    assert_eq!(second.source.close(SOON), Closed::Clean);
    let start = Instant::now();
    while first.held.len() < 4 {
        first.step(later);
        assert!(start.elapsed() < 3 * SOON, "what the second left is not taken: {:?}", first.held);
    }
    assert_eq!(first.source.close(SOON), Closed::Clean);
}

#[test]
fn a_rebalance_can_be_answered_a_second_later_with_eager_assignment() {
    needs_broker!();
    two_members("range");
}

#[test]
fn a_rebalance_can_be_answered_a_second_later_with_cooperative_assignment() {
    needs_broker!();
    two_members("cooperative-sticky");
}

#[test]
fn records_come_from_exactly_where_a_partition_begins_every_time() {
    needs_broker!();
    let name = topic("edge-begin", 1, &[]);
    let config = config(&name, "");
    write(&writer(&[]), &name, 0, 10);
    let partition = SourcePartition::new(name, 0);
    for begin in [0, 1, 5, 9, 0, 3] {
        let mut source = alone(&config, &partition, begin);
        let count = usize::try_from(10 - begin).unwrap();
        assert_eq!(offsets(&mut source, count), (begin..10).collect::<Vec<_>>());
        source.pause(&partition).unwrap();
        source.begin(&partition, ResumeOffset(4), SOON).unwrap();
        assert_eq!(offsets(&mut source, 6), [4, 5, 6, 7, 8, 9]);
    }
}

#[test]
fn aborted_records_and_markers_are_passed_over_and_leave_no_lag() {
    needs_broker!();
    let name = topic("edge-aborted", 1, &[]);
    let config = config(&name, "");
    let producer = writer(&[("transactional.id", &name)]);
    producer.init_transactions(SOON).unwrap();
    for commit in [true, false, true, false] {
        producer.begin_transaction().unwrap();
        write(&producer, &name, 0, 2);
        if commit {
            producer.commit_transaction(SOON).unwrap();
        } else {
            producer.abort_transaction(SOON).unwrap();
        }
    }
    // 0 1 C, 3 4 A, 6 7 C, 9 10 A: twelve offsets, four records.
    let reader = OutputReader::connect(&config, SOON).unwrap();
    assert_eq!(reader.bounds(&name, 0).unwrap(), (OutputPosition(0), OutputPosition(12)));
    assert_eq!(read(&reader, &name, 12, SOON).unwrap(), [0, 1, 6, 7]);

    let partition = SourcePartition::new(name, 0);
    let mut source = alone(&config, &partition, 0);
    assert_eq!(offsets(&mut source, 4), [0, 1, 6, 7]);
    let start = Instant::now();
    while source.lag(&partition, ResumeOffset(8)) != Some(0) {
        assert!(matches!(source.poll(Duration::from_millis(50)), Polled::Nothing));
        assert!(start.elapsed() < SOON, "{:?}", source.lag(&partition, ResumeOffset(8)));
    }
    assert!(source.lag(&partition, ResumeOffset(6)) > Some(0));
}

#[test]
fn an_open_transaction_holds_reading_back_and_is_blamed() {
    needs_broker!();
    let name = topic("edge-open", 1, &[]);
    let config = config(&name, "");
    write(&writer(&[]), &name, 0, 3);
    let producer = writer(&[("transactional.id", &name)]);
    producer.init_transactions(SOON).unwrap();
    producer.begin_transaction().unwrap();
    write(&producer, &name, 0, 2);
    let reader = OutputReader::connect(&config, SOON).unwrap();
    assert_eq!(reader.bounds(&name, 0).unwrap().1, OutputPosition(5), "the high watermark");
    let error = read(&reader, &name, 5, Duration::from_secs(1)).unwrap_err();
    assert_eq!(error.code(), Code::CatchUpStuck);
    assert!(error.to_string().contains("the last stable offset is 3"), "{error}");
    producer.commit_transaction(SOON).unwrap();
    assert_eq!(read(&reader, &name, 5, SOON).unwrap(), [0, 1, 2, 3, 4]);
}

#[test]
fn a_time_is_found_and_a_time_behind_the_end_is_said_so() {
    needs_broker!();
    let name = topic("edge-time", 1, &[]);
    let config = config(&name, "");
    let producer = writer(&[]);
    let reader = OutputReader::connect(&config, SOON).unwrap();
    let at = |ms| reader.offset_for_time(&name, 0, Timestamp(ms)).unwrap();
    assert_eq!(at(0), TimeLookup::AfterEnd);
    write(&producer, &name, 0, 10);
    assert_eq!(at(i64::MIN), TimeLookup::At(OutputPosition(0)));
    assert_eq!(at(1_004), TimeLookup::At(OutputPosition(4)));
    assert_eq!(at(5_000), TimeLookup::AfterEnd);
}

#[test]
fn the_facts_of_a_topic_are_told_and_a_topic_made_again_is_another() {
    needs_broker!();
    let settings = [
        ("message.timestamp.type", "LogAppendTime"),
        ("max.message.bytes", "2000000"),
        ("cleanup.policy", "compact"),
        ("retention.ms", "86400000"),
    ];
    let name = topic("edge-facts", 3, &settings);
    let config = config(&name, "");
    let cluster = Cluster::connect(&config, SOON).unwrap();
    assert!(cluster.cluster_id().is_some());
    let facts = cluster.topic(&name).unwrap().unwrap();
    assert_eq!(facts.partitions, 3);
    assert_eq!(facts.timestamp_type, Some(TimestampType::LogAppend));
    assert_eq!(facts.max_message_bytes, Some(2_000_000));
    assert_eq!(facts.cleanup_policy.as_deref(), Some("compact"));
    assert_eq!(facts.retention_ms, Some(86_400_000));
    let admin = Admin::of(broker::shared());
    admin.delete(&name);
    assert_eq!(cluster.topic(&name).unwrap(), None, "and asking did not make it");
    admin.create(&name, 3);
    let again = cluster.topic(&name).unwrap().unwrap();
    assert!(facts.id.is_some() && again.id.is_some());
    assert_ne!(facts.id, again.id);
}

#[test]
fn a_record_larger_than_the_topic_takes_is_that_records_fault_alone() {
    needs_broker!();
    let name = topic("edge-size", 1, &[]);
    let out = topic("edge-size-out", 1, &[("max.message.bytes", "5000")]);
    let config = config(&name, "");
    let producer = writer(&[]);
    for size in [10, 20_000, 10] {
        let value = vec![b'x'; size];
        let record = BaseRecord::<[u8], [u8]>::to(&name).partition(0).payload(&value);
        producer.send(record).map_err(|(error, _)| error).unwrap();
    }
    producer.flush(SOON).unwrap();
    // The limit is not known to the client, so the broker is the one to refuse.
    let mut sink = Sink::connect(&config, Some(1_000_000), Some(1_000_000)).unwrap();
    let target = sink.target(&out).unwrap();
    let mut source = alone(&config, &SourcePartition::new(name, 0), 0);
    let mut reports: Vec<Report> = Vec::new();
    for token in 0..3 {
        until(&mut source, |polled| match polled {
            Polled::Record(record) => {
                sink.send(&record, target, 0, token).unwrap();
                Some(())
            }
            _ => None,
        });
        assert!(sink.flush(Instant::now() + SOON, &mut reports));
    }
    let good: Vec<_> =
        reports.iter().map(|r| matches!(r.outcome, Outcome::Confirmed { .. })).collect();
    assert_eq!(good, [true, false, true]);
    let Outcome::Failed { error, .. } = &reports[1].outcome else { panic!("{reports:?}") };
    assert_eq!(error.code(), Code::RecordRefused);
}

#[test]
fn a_plaintext_listener_asked_for_tls_is_explained_within_seconds() {
    needs_broker!();
    let config = config("edge-tls", r#""security.protocol" = "ssl""#);
    let start = Instant::now();
    let error = Cluster::connect(&config, SOON).unwrap_err();
    assert!(matches!(error.code(), Code::BrokerTls | Code::BrokerUnreachable), "{error}");
    let cause = std::error::Error::source(&error).unwrap().to_string().to_lowercase();
    assert!(cause.contains("ssl"), "{cause}");
    assert!(start.elapsed() < SOON + Duration::from_secs(5));
}

#[test]
fn a_partition_taken_at_an_offset_that_is_gone_begins_where_it_is_told_to() {
    needs_broker!();
    let topic = topic("gone", 1, &[]);
    write(&writer(&[]), &topic, 0, 100);
    Admin::of(broker::shared()).delete_records(&topic, 0, 60);
    let mut config = config(&topic, "");
    config.source.membership = Membership::Alone;
    let partition = SourcePartition::new(topic.as_str(), 0);
    let mut source = Source::connect(&config).expect("good settings");
    source.assign_alone(vec![partition.clone()]);
    until(&mut source, |polled| matches!(polled, Polled::Assigned(_)).then_some(()));
    source.accept(&[(partition.clone(), None)]).expect("taken");
    // A pause is no promise: the client may have asked for records before.
    source.resume(&partition).expect("resumed");
    let start = Instant::now();
    while source.transient_errors() == 0 {
        let polled = source.poll(Duration::from_millis(10));
        assert!(matches!(polled, Polled::Nothing), "{polled:?}");
        assert!(start.elapsed() < SOON, "the client never noticed that offset 0 is gone");
    }
    source.begin(&partition, ResumeOffset(60), SOON).expect("begun");
    assert_eq!(offsets(&mut source, 40), (60..100).collect::<Vec<_>>());
}
