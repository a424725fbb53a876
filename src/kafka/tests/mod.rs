//! Against the client library's own mock broker, which has no isolation, fencing or retention to
//! speak of: what needs a real broker is in `tests/it/kafka_edge.rs`.

mod delivery;
mod group;
mod reading;
mod records;

use std::time::{Duration, Instant};

use rdkafka::client::Client;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use rdkafka::types::RDKafkaType;

use super::client::{Context, Handle, Producing};
use super::ffi::{self, Outgoing, OwnHeaders, Queue, Topic};
use super::*;
use crate::config::{ClientProperties, Config, Environment, Membership, load_text};
use crate::words::{ResumeOffset, SourcePartition};

const SOON: Duration = Duration::from_secs(10);

pub(super) fn mock(topics: &[(&str, i32)]) -> MockCluster<'static, DefaultProducerContext> {
    let cluster = MockCluster::new(1).unwrap();
    for (topic, partitions) in topics {
        cluster.create_topic(topic, *partitions, 1).unwrap();
    }
    cluster
}

pub(super) fn config(servers: &str, topic: &str) -> Config {
    // The mock's empty fetches always wait as long as they are told to.
    let text = format!(
        r#"
        kafka = {{ bootstrap_servers = "{servers}", client = {{ "fetch.wait.max.ms" = "20" }} }}
        source = {{ group = "readers", topics = ["{topic}"], session_timeout = "7s" }}
        sink = {{ topic = "out", delivery_timeout = "4s" }}
        dedup = {{ key = "record-key", window = "1h" }}
        "#
    );
    let env = Environment::from_pairs::<String, String>([]);
    load_text(&text, "test", &env).unwrap_or_else(|faults| panic!("{faults:?}"))
}

pub(super) fn properties(pairs: &[(&str, &str)]) -> ClientProperties {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// Writes records as no safe interface can.
pub(super) struct Raw {
    topic: Topic,
    producer: Producing,
}

impl Raw {
    pub(super) fn new(servers: &str, topic: &str) -> Self {
        let mut config = rdkafka::ClientConfig::new();
        config.set("bootstrap.servers", servers);
        let native = config.create_native_config().unwrap();
        ffi::enable_producer_events(&native);
        let client =
            Client::new(&config, native, RDKafkaType::RD_KAFKA_PRODUCER, Context::default())
                .unwrap();
        let queue = Queue::main(client.native_client()).unwrap();
        let topic = Topic::new(client.native_client(), topic).unwrap();
        let client = std::sync::Arc::new(client);
        let producer = Handle { queue, client, servers: servers.to_owned() };
        Self { topic, producer }
    }

    pub(super) fn write(&self, partition: i32, values: &[&[u8]]) {
        for value in values {
            self.put(partition, Some(b"k"), Some(value), 1_000, None);
        }
        self.flush();
    }

    pub(super) fn put(
        &self,
        partition: i32,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        timestamp: i64,
        headers: Option<&OwnHeaders>,
    ) {
        let headers = headers.map(OwnHeaders::list);
        let record = Outgoing { partition, key, value, timestamp, headers, token: 0 };
        ffi::produce(self.producer.client.native_client(), &self.topic, record).unwrap();
    }

    pub(super) fn flush(&self) {
        let start = Instant::now();
        while ffi::in_flight(self.producer.client.native_client()) > 0 {
            assert!(start.elapsed() < SOON, "records were not written in time");
            if let Some(event) = self.producer.queue.poll(Duration::from_millis(50)) {
                event.each_delivery(&mut |delivery| assert_eq!(delivery.error, None));
            }
        }
    }
}

/// Polls until `wanted` returns something.
pub(super) fn until<T>(source: &mut Source, mut wanted: impl FnMut(Polled<'_>) -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = wanted(source.poll(Duration::from_millis(100))) {
            return found;
        }
        assert!(start.elapsed() < 3 * SOON, "nothing came in time");
    }
}

/// Is alone, and was given a partition that it has not accepted yet.
pub(super) fn given(config: &Config, partition: &SourcePartition) -> Source {
    let mut config = config.clone();
    config.source.membership = Membership::Alone;
    let mut source = Source::connect(&config).unwrap();
    source.assign_alone(vec![partition.clone()]);
    let given = until(&mut source, |polled| match polled {
        Polled::Assigned(partitions) => Some(partitions),
        other => panic!("{other:?}"),
    });
    assert_eq!(given, vec![partition.clone()]);
    source
}

/// Reads alone, from `from` on.
pub(super) fn alone(config: &Config, partition: &SourcePartition, from: i64) -> Source {
    let mut source = given(config, partition);
    source.accept(&[(partition.clone(), None)]).unwrap();
    source.begin(partition, ResumeOffset(from), SOON).unwrap();
    source
}

/// Reads `count` records and returns their offsets.
pub(super) fn offsets(source: &mut Source, count: usize) -> Vec<i64> {
    let mut found = Vec::new();
    while found.len() < count {
        found.push(until(source, |polled| match polled {
            Polled::Record(record) => Some(record.offset().0),
            Polled::Failed(error) => panic!("{error}"),
            _ => None,
        }));
    }
    found
}
