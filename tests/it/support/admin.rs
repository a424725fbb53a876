//! Topics and groups, made and looked at.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rdkafka::admin::{
    AdminClient, AdminOptions, AlterConfig, NewTopic, ResourceSpecifier, TopicReplication,
};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::metadata::{Metadata, MetadataTopic};
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::{Offset, TopicPartitionList};

use super::broker::Broker;
use super::wait::until;

/// How long one question to the broker may take.
const ASK: Duration = Duration::from_secs(15);

/// Asks one broker.
pub(crate) struct Admin {
    address: String,
    client: AdminClient<DefaultClientContext>,
    watermarks: BaseConsumer,
    /// Sees what belongs to open transactions, too.
    uncommitted: BaseConsumer,
}

/// Returns the settings that all clients of the tests share.
pub(crate) fn client(address: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", address);
    config.set("reconnect.backoff.max.ms", "500");
    config.set("topic.metadata.refresh.fast.interval.ms", "20");
    config
}

/// Returns a topic name that no other test uses.
pub(crate) fn unique(stem: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{stem}-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

impl Admin {
    /// Connects to a broker.
    pub(crate) fn of(broker: &Broker) -> Self {
        Self::at(&broker.address())
    }

    /// Connects to the broker at `address`.
    pub(crate) fn at(address: &str) -> Self {
        Self {
            address: address.to_owned(),
            client: client(address).create().expect("a plain client"),
            watermarks: client(address).create().expect("a plain client"),
            uncommitted: client(address)
                .set("isolation.level", "read_uncommitted")
                .create()
                .expect("a plain client"),
        }
    }

    /// Makes a topic and waits until it has leaders.
    pub(crate) fn create(&self, topic: &str, partitions: i32) {
        self.create_with(topic, partitions, &[]);
    }

    /// Makes a topic with settings and waits until it has leaders.
    pub(crate) fn create_with(&self, topic: &str, partitions: i32, settings: &[(&str, &str)]) {
        let new = settings
            .iter()
            .fold(NewTopic::new(topic, partitions, TopicReplication::Fixed(1)), |new, (k, v)| {
                new.set(k, v)
            });
        until("the topic to be made", ASK, || {
            let results = block_on(self.client.create_topics([&new], &options())).ok()?;
            match results.into_iter().next()? {
                Ok(_) => Some(()),
                // A topic of that name is still being deleted.
                Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => None,
                Err((topic, code)) => panic!("cannot make {topic}: {code}"),
            }
        });
        until("the topic's leaders", ASK, || self.has_leaders(topic, partitions).then_some(()));
    }

    /// Asks the broker itself: a watermark query would wait for a refresh of what the client knows.
    fn has_leaders(&self, topic: &str, partitions: i32) -> bool {
        let metadata = self.watermarks.fetch_metadata(Some(topic), ASK).ok();
        let found = metadata.iter().flat_map(Metadata::topics).find(|found| found.name() == topic);
        let led = |found: &MetadataTopic| {
            let leaders = found.partitions().iter().filter(|partition| partition.leader() >= 0);
            i32::try_from(leaders.count()) == Ok(partitions)
        };
        found.is_some_and(led)
    }

    /// Deletes a topic and waits until it is gone.
    pub(crate) fn delete(&self, topic: &str) {
        let results = block_on(self.client.delete_topics(&[topic], &options()));
        for result in results.expect("the broker answers") {
            result.unwrap_or_else(|(topic, code)| panic!("cannot delete {topic}: {code}"));
        }
        until("the topic to be gone", ASK, || {
            let metadata = self.watermarks.fetch_metadata(Some(topic), ASK).ok()?;
            let found = metadata.topics().iter().find(|found| found.name() == topic);
            found.is_none_or(|found| found.error().is_some()).then_some(())
        });
    }

    /// Deletes the records of a partition below `before`, as retention would.
    pub(crate) fn delete_records(&self, topic: &str, partition: i32, before: i64) {
        let mut list = TopicPartitionList::new();
        let offset = Offset::Offset(before);
        list.add_partition_offset(topic, partition, offset).expect("a valid offset");
        let results = block_on(self.client.delete_records(&list, &options()));
        for element in results.expect("the broker answers").elements() {
            element.error().expect("the records are deleted");
        }
        until("the records to be gone", ASK, || {
            (self.watermarks(topic, partition).0 >= before).then_some(())
        });
    }

    /// Sets one setting of a topic; the others go back to their defaults.
    pub(crate) fn set_topic(&self, topic: &str, setting: &str, value: &str) {
        let change = AlterConfig::new(ResourceSpecifier::Topic(topic)).set(setting, value);
        let results = block_on(self.client.alter_configs([&change], &options()));
        for result in results.expect("the broker answers") {
            result.unwrap_or_else(|(_, code)| panic!("cannot set {setting} of {topic}: {code}"));
        }
    }

    /// Returns the first offset of a partition and the one behind its last.
    ///
    /// # Panics
    /// Where the broker does not answer in time.
    pub(crate) fn watermarks(&self, topic: &str, partition: i32) -> (i64, i64) {
        until("the watermarks", ASK * 2, || self.watermarks_of(topic, partition).ok())
    }

    /// Returns where the records of a partition end, those of open transactions included. Where
    /// that is more than [`Admin::watermarks`] says, one is open.
    pub(crate) fn high_watermark(&self, topic: &str, partition: i32) -> i64 {
        until("the high watermark", ASK * 2, || {
            self.uncommitted.fetch_watermarks(topic, partition, Duration::from_secs(5)).ok()
        })
        .1
    }

    /// Fails unless readers of committed records can read each partition to its end.
    pub(crate) fn assert_nothing_open(&self, topic: &str, partitions: i32) {
        for partition in 0..partitions {
            let (stable, high) =
                (self.watermarks(topic, partition).1, self.high_watermark(topic, partition));
            assert_eq!(stable, high, "a transaction is open in {topic}/{partition}");
        }
    }

    fn watermarks_of(
        &self,
        topic: &str,
        partition: i32,
    ) -> rdkafka::error::KafkaResult<(i64, i64)> {
        self.watermarks.fetch_watermarks(topic, partition, Duration::from_secs(5))
    }

    /// Returns the end offset of each partition.
    pub(crate) fn ends(&self, topic: &str, partitions: i32) -> Vec<i64> {
        (0..partitions).map(|partition| self.watermarks(topic, partition).1).collect()
    }

    /// Returns how many records the topic's partitions hold.
    pub(crate) fn len(&self, topic: &str, partitions: i32) -> i64 {
        let all = (0..partitions).map(|partition| self.watermarks(topic, partition));
        all.map(|(start, end)| end - start).sum()
    }

    /// Returns what the group committed, by partition; `None` where the broker does not answer.
    pub(crate) fn committed(
        &self,
        group: &str,
        topic: &str,
        partitions: i32,
    ) -> Option<BTreeMap<i32, i64>> {
        let consumer: BaseConsumer =
            client(&self.address).set("group.id", group).create().expect("a plain client");
        let mut list = TopicPartitionList::new();
        list.add_partition_range(topic, 0, partitions - 1);
        let answered = consumer.committed_offsets(list, Duration::from_secs(5)).ok()?;
        let offsets = answered.elements().into_iter().filter_map(|element| {
            let Offset::Offset(offset) = element.offset() else { return None };
            Some((element.partition(), offset))
        });
        Some(offsets.collect())
    }

    /// Returns whether the group has committed the end of every partition that holds records.
    pub(crate) fn is_drained(&self, group: &str, topic: &str, partitions: i32) -> bool {
        let Some(committed) = self.committed(group, topic, partitions) else { return false };
        (0..).zip(self.ends(topic, partitions)).all(|(partition, end)| {
            end == 0 || committed.get(&partition).is_some_and(|offset| *offset == end)
        })
    }
}

fn options() -> AdminOptions {
    AdminOptions::new().operation_timeout(Some(ASK)).request_timeout(Some(ASK))
}

fn block_on<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.expect("a runtime without I/O can be made").block_on(future)
}
