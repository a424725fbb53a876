//! The mock broker in this process, and the demo's own way of reading it.

use std::time::Duration;

use rdkafka::config::ClientConfig;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::message::BorrowedMessage;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use rdkafka::{ClientContext, Offset, TopicPartitionList};

use super::Error;

/// The topic the made records are written to.
pub(super) const SOURCE: &str = "payments";
/// The topic the sink writes.
pub(super) const OUTPUT: &str = "payments.dedup";
/// The sink's consumer group; its commits tell how far the sink has come.
pub(super) const GROUP: &str = "firstseen-demo";

const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// The mock broker. It ends, and forgets everything, when this is dropped.
pub(super) struct Broker {
    mock: MockCluster<'static, DefaultProducerContext>,
    partitions: i32,
}

impl Broker {
    /// Starts it on a free loopback port and makes both topics.
    pub(super) fn start(partitions: i32) -> Result<Self, Error> {
        let mock = MockCluster::new(1).map_err(failed("start"))?;
        for topic in [SOURCE, OUTPUT] {
            mock.create_topic(topic, partitions, 1).map_err(failed("make a topic on"))?;
        }
        Ok(Self { mock, partitions })
    }

    /// Returns its `host:port`.
    pub(super) fn address(&self) -> String {
        self.mock.bootstrap_servers()
    }

    /// Returns how many partitions each topic has.
    pub(super) fn partitions(&self) -> i32 {
        self.partitions
    }

    /// Opens a reader of all of `topic`, from its first record on.
    pub(super) fn read(&self, topic: &'static str) -> Result<Reader, Error> {
        Reader::open(&self.address(), topic, self.partitions)
    }
}

/// Maps a client error to the demo's, saying what was tried.
pub(super) fn failed(attempt: &'static str) -> impl Fn(KafkaError) -> Error {
    move |source| Error::Broker { attempt, source }
}

/// Keeps the client's own complaints out of the demo's output: a killed sink means broken
/// connections, and those are expected here.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quiet;

impl ClientContext for Quiet {
    fn log(&self, _level: RDKafkaLogLevel, facility: &str, text: &str) {
        tracing::trace!(facility, text, "client log");
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(%error, reason, "client error");
    }
}

impl ConsumerContext for Quiet {}

/// Reads one topic from its beginning.
pub(super) struct Reader {
    consumer: BaseConsumer<Quiet>,
    topic: &'static str,
    partitions: i32,
}

impl Reader {
    fn open(address: &str, topic: &'static str, partitions: i32) -> Result<Self, Error> {
        let consumer: BaseConsumer<Quiet> = ClientConfig::new()
            .set("bootstrap.servers", address)
            .set("group.id", GROUP)
            .set("enable.auto.commit", "false")
            .set("auto.offset.reset", "error")
            // The mock broker answers an empty fetch only after the whole wait.
            .set("fetch.wait.max.ms", "10")
            .set("fetch.queue.backoff.ms", "5")
            .create_with_context(Quiet)
            .map_err(failed("make a consumer for"))?;
        let reader = Self { consumer, topic, partitions };
        let from_the_start = reader.list(Offset::Offset(0)).map_err(failed("read"))?;
        reader.consumer.assign(&from_the_start).map_err(failed("read"))?;
        Ok(reader)
    }

    fn list(&self, offset: Offset) -> KafkaResult<TopicPartitionList> {
        let mut list = TopicPartitionList::new();
        for partition in 0..self.partitions {
            list.add_partition_offset(self.topic, partition, offset)?;
        }
        Ok(list)
    }

    /// Waits up to `wait` for the next record. `None` also stands for a passing client event.
    pub(super) fn next(&self, wait: Duration) -> Result<Option<BorrowedMessage<'_>>, Error> {
        match self.consumer.poll(wait) {
            Some(Ok(record)) => Ok(Some(record)),
            Some(Err(KafkaError::MessageConsumption(code))) if is_passing(code) => Ok(None),
            Some(Err(error)) => Err(failed("read")(error)),
            None => Ok(None),
        }
    }

    /// Returns the end offset of each partition, and refuses a topic whose beginning was dropped.
    pub(super) fn ends(&self) -> Result<Vec<i64>, Error> {
        (0..self.partitions)
            .map(|partition| {
                let (low, high) = self
                    .consumer
                    .fetch_watermarks(self.topic, partition, ANSWER_TIMEOUT)
                    .map_err(failed("ask"))?;
                if low > 0 {
                    return Err(Error::Retention { topic: self.topic, partition, low });
                }
                Ok(high)
            })
            .collect()
    }

    /// Returns what the sink's group has committed for this topic, summed over its partitions.
    pub(super) fn committed(&self) -> Result<i64, Error> {
        let asked = self.list(Offset::Invalid).map_err(failed("ask"))?;
        let committed =
            self.consumer.committed_offsets(asked, ANSWER_TIMEOUT).map_err(failed("ask"))?;
        let offsets = committed.elements().into_iter().map(|element| match element.offset() {
            Offset::Offset(offset) => offset,
            _ => 0,
        });
        Ok(offsets.sum())
    }
}

fn is_passing(code: rdkafka::types::RDKafkaErrorCode) -> bool {
    use rdkafka::types::RDKafkaErrorCode as Code;
    matches!(code, Code::BrokerTransportFailure | Code::AllBrokersDown | Code::OperationTimedOut)
}
