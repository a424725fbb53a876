//! Reads topics back, by a consumer of its own.

use std::time::Duration;

use firstseen::ledger::Record;
use firstseen::words::{RecordOffset, Timestamp, WallClock};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Headers};
use rdkafka::{Message, Offset, TopicPartitionList};

use super::admin::client;

/// How long the broker may send nothing while there is more to read.
const SILENCE: Duration = Duration::from_secs(30);

/// Returns the time now.
pub(crate) fn now_ms() -> i64 {
    WallClock::system().now().0
}

/// Reads a partition from its first record to its end at this moment, committed records only, and
/// hands each one over in order.
///
/// # Panics
/// Where the end is not reached: a short read must never look like a loss.
pub(crate) fn read(address: &str, topic: &str, partition: i32, mut take: impl FnMut(Record)) {
    let consumer: BaseConsumer = client(address)
        .set("group.id", "reader")
        .set("isolation.level", "read_committed")
        .set("enable.auto.commit", "false")
        .set("auto.offset.reset", "error")
        .set("enable.partition.eof", "true")
        .set("fetch.queue.backoff.ms", "5")
        .set("fetch.wait.max.ms", "10")
        .set("check.crcs", "true")
        .create()
        .expect("a plain consumer");
    // Without this the client learns the partition's leader only at its next timer tick.
    consumer.fetch_metadata(Some(topic), SILENCE).expect("the broker answers");
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(topic, partition, Offset::Beginning).expect("a valid offset");
    consumer.assign(&list).expect("a partition can be assigned");
    loop {
        match consumer.poll(SILENCE) {
            Some(Ok(message)) => take(record(&message)),
            Some(Err(KafkaError::PartitionEOF(_))) => return,
            Some(Err(error)) => eprintln!("reading {topic}/{partition}: {error}"),
            None => panic!("reading {topic}/{partition}: nothing came for {SILENCE:?}"),
        }
    }
}

/// Returns all records of a partition.
pub(crate) fn read_all(address: &str, topic: &str, partition: i32) -> Vec<Record> {
    let mut records = Vec::new();
    read(address, topic, partition, |record| records.push(record));
    records
}

fn record(message: &BorrowedMessage<'_>) -> Record {
    let headers = message.headers().into_iter().flat_map(Headers::iter);
    Record {
        offset: RecordOffset(message.offset()),
        key: message.key().map(<[u8]>::to_vec),
        value: message.payload().map(<[u8]>::to_vec),
        headers: headers
            .map(|header| (header.key.as_bytes().to_vec(), header.value.map(<[u8]>::to_vec)))
            .collect(),
        timestamp: message.timestamp().to_millis().map(Timestamp),
    }
}
