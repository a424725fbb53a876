//! The demo's own eyes: it must see what a bad sink does, or its clean ledger means nothing.
//!
//! The sinks here are this test binary started again; [`act_as_a_sink_when_a_demo_asks`] plays them.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use firstseen::commands::{DemoError, DemoOptions, Outcome, Progress, SinkCommand, play};
use firstseen::error::render;
use firstseen::ledger::{Fault, FaultKind, Ledger};
use firstseen::words::{Coded, RecordOffset};
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::message::{BorrowedMessage, Message};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{Offset, TopicPartitionList};

const ROLE: &str = "FIRSTSEEN_TEST_SINK_ROLE";
const CONFIG: &str = "FIRSTSEEN_TEST_SINK_CONFIG";

fn demo_with(role: &'static str) -> Result<Outcome, DemoError> {
    let sink = SinkCommand::new(move |config| {
        let mut command = Command::new(std::env::current_exe().expect("this test"));
        command
            .args(["--exact", "demo::act_as_a_sink_when_a_demo_asks", "--nocapture"])
            .env("RUST_BACKTRACE", "0")
            .env(ROLE, role)
            .env(CONFIG, config);
        command
    });
    let options = DemoOptions { kills: 3, records: 8_000, ..DemoOptions::default() };
    play(&options, &sink, &mut Progress::silent())
}

#[test]
fn a_sink_that_reads_its_output_back_has_a_clean_ledger() {
    let outcome = demo_with("honest").expect("played");
    let ledger = outcome.ledger;
    assert_eq!((ledger.lost, ledger.repeated, ledger.kills), (0, 0, 3));
    assert_eq!(ledger.read, 8_000);
    assert!(ledger.suppressed > 1_000, "{ledger:?}");
    assert_eq!(ledger.read, ledger.forwarded + ledger.suppressed);
    outcome.verdict().expect("clean");
}

#[test]
fn a_sink_that_forgets_when_killed_is_caught_repeating() {
    let outcome = demo_with("forgetful").expect("played");
    assert!(outcome.ledger.repeated > 0, "{:?}", outcome.ledger);
    assert_eq!(outcome.ledger.lost, 0);
    assert_eq!(outcome.verdict().expect_err("repeated").code().exit_code(), 3);
}

#[test]
fn a_sink_that_skips_records_is_caught_losing() {
    let outcome = demo_with("careless").expect("played");
    assert!(outcome.ledger.lost > 0, "{:?}", outcome.ledger);
    assert_eq!(outcome.ledger.repeated, 0);
    assert_eq!(outcome.verdict().expect_err("lost").code().exit_code(), 3);
}

#[test]
fn a_sink_that_changes_a_value_is_caught_altering() {
    let outcome = demo_with("inventive").expect("played");
    assert_eq!((outcome.ledger.lost, outcome.ledger.repeated), (0, 0));
    let error = outcome.verdict().expect_err("altered");
    assert_eq!(error.code().exit_code(), 3);
    assert!(error.to_string().contains("altered"), "{error}");
}

#[test]
fn a_sink_that_dies_by_itself_ends_the_demo_with_its_last_words() {
    let error = demo_with("mortal").expect_err("no sink left");
    assert!(matches!(error, DemoError::SinkEnded { .. }), "{error:?}");
    assert!(error.to_string().contains("the disk is on fire"), "{error}");
    assert_eq!(error.code().exit_code(), 1);
}

#[test]
fn what_a_demo_says_when_it_fails_is_golden() {
    let fault = Fault {
        kind: FaultKind::Repeated,
        partition: 2,
        source: Some(RecordOffset(40)),
        output: Some(RecordOffset(31)),
        first: Some(RecordOffset(30)),
    };
    let found = Ledger { repeated: 7, lost: 1, faults: vec![fault], ..Ledger::default() };
    let faults = DemoError::Ledger { found: Box::new(found) };
    golden("E7001-demo-repeated", &faults);
    let last_lines = "error[E5009]: the disk is full".to_owned();
    let stalled = DemoError::Stalled { seconds: 20, doing: "after SIGTERM", last_lines };
    golden("E7002-demo-stalled", &stalled);
    golden("E7002-demo-interrupted", &DemoError::Interrupted);
}

fn golden(name: &str, error: &DemoError) {
    let line = format!("{}\nexit {}\n", render(error), error.code().exit_code());
    super::config::compare(Path::new(&format!("tests/golden/{name}.txt")), &line);
}

/// Not a test of anything when run as one: the program the demos above start.
#[test]
fn act_as_a_sink_when_a_demo_asks() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let config = std::fs::read_to_string(std::env::var(CONFIG).expect("set with the role"));
    let config: toml::Table = config.expect("readable").parse().expect("TOML");
    FakeSink::open(&role, &config).run();
}

/// Deduplicates in memory and commits now and then. Honest only where it reads the output first.
struct FakeSink {
    role: String,
    consumer: BaseConsumer,
    producer: BaseProducer,
    /// The source offset each key was first met at, and where it was written already.
    first_met: HashMap<Vec<u8>, (i32, i64)>,
    written: HashSet<Vec<u8>>,
    resume: HashMap<i32, i64>,
}

const SOURCE: &str = "payments";
const OUTPUT: &str = "payments.dedup";
const TIMEOUT: Duration = Duration::from_secs(10);

impl FakeSink {
    fn open(role: &str, config: &toml::Table) -> Self {
        let brokers = config["kafka"]["bootstrap_servers"].as_str().expect("text");
        let mut client = ClientConfig::new();
        client
            .set("bootstrap.servers", brokers)
            .set("group.id", config["source"]["group"].as_str().expect("text"))
            .set("enable.auto.commit", "false")
            .set("auto.offset.reset", "earliest")
            .set("fetch.wait.max.ms", "10");
        let consumer: BaseConsumer = client.create().expect("a consumer");
        let producer = ClientConfig::new()
            .set("bootstrap.servers", brokers)
            .set("linger.ms", "5")
            .create()
            .expect("a producer");
        let mut sink = Self {
            role: role.to_owned(),
            consumer,
            producer,
            first_met: HashMap::new(),
            written: HashSet::new(),
            resume: HashMap::new(),
        };
        if role != "forgetful" {
            sink.read_output_back();
        }
        sink.assign(SOURCE, role == "forgetful");
        sink
    }

    fn partitions(&self, topic: &str) -> Vec<i32> {
        let metadata = self.consumer.fetch_metadata(Some(topic), TIMEOUT).expect("metadata");
        metadata.topics()[0].partitions().iter().map(|partition| partition.id()).collect()
    }

    fn assign(&self, topic: &str, from_commit: bool) {
        let from = if from_commit { Offset::Stored } else { Offset::Beginning };
        let mut list = TopicPartitionList::new();
        for partition in self.partitions(topic) {
            list.add_partition_offset(topic, partition, from).expect("a valid offset");
        }
        self.consumer.assign(&list).expect("assigned");
    }

    fn read_output_back(&mut self) {
        let ends = self.partitions(OUTPUT).into_iter().map(|partition| {
            self.consumer.fetch_watermarks(OUTPUT, partition, TIMEOUT).expect("watermarks").1
        });
        let mut left: i64 = ends.sum();
        self.assign(OUTPUT, false);
        while left > 0 {
            if let Some(Ok(record)) = self.consumer.poll(TIMEOUT) {
                self.written.insert(record.key().expect("a key").to_vec());
                left -= 1;
            }
        }
    }

    fn run(mut self) {
        let stop = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(signal_hook::consts::SIGTERM, Arc::clone(&stop))
            .expect("registered");
        let mut committed = Instant::now();
        let mut seen = 0;
        while !stop.load(Ordering::Relaxed) {
            if let Some(Ok(record)) = self.consumer.poll(Duration::from_millis(5)) {
                self.resume.insert(record.partition(), record.offset() + 1);
                let (key, place) = (record.key().expect("a key").to_vec(), place(&record));
                let first = *self.first_met.entry(key.clone()).or_insert(place) == place;
                if first && !self.written.contains(&key) {
                    write(&self.producer, &self.role, &record);
                }
                seen += 1;
                assert!(self.role != "mortal" || seen < 500, "the disk is on fire");
            }
            self.producer.poll(Duration::ZERO);
            if committed.elapsed() > Duration::from_millis(100) {
                self.commit();
                committed = Instant::now();
            }
        }
        self.commit();
    }

    fn commit(&self) {
        self.producer.flush(TIMEOUT).expect("flushed");
        let mut list = TopicPartitionList::new();
        for (&partition, &resume) in &self.resume {
            list.add_partition_offset(SOURCE, partition, Offset::Offset(resume)).expect("valid");
        }
        if list.count() > 0 {
            self.consumer.commit(&list, CommitMode::Sync).expect("committed");
        }
    }
}

fn place(record: &BorrowedMessage<'_>) -> (i32, i64) {
    (record.partition(), record.offset())
}

fn write(producer: &BaseProducer, role: &str, record: &BorrowedMessage<'_>) {
    let unlucky = record.offset() % 500 == 0;
    if role == "careless" && unlucky {
        return;
    }
    let mut value = record.payload().expect("a value").to_vec();
    if role == "inventive" && unlucky {
        value.push(b' ');
    }
    let copy = BaseRecord::to(OUTPUT)
        .partition(record.partition())
        .key(record.key().expect("a key"))
        .payload(&value)
        .timestamp(record.timestamp().to_millis().expect("a timestamp"));
    producer.send(copy).map_err(|(error, _)| error).expect("queued");
}
