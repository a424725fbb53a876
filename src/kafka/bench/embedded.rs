//! The mock broker in this process.

use rdkafka::error::KafkaError;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;

use super::super::error::Error;

/// The mock broker. It ends, and forgets everything, when this is dropped.
///
/// It keeps 5 MiB a partition and silently drops what is older, and has no transactions.
pub struct Embedded(MockCluster<'static, DefaultProducerContext>);

impl Embedded {
    /// How many bytes of a partition are safe, batch headers included.
    pub const PARTITION_MAX_BYTES: u64 = 4 << 20;

    /// Starts it on a free loopback port.
    ///
    /// # Errors
    /// The system refuses a port or a thread.
    pub fn start() -> Result<Self, Error> {
        MockCluster::new(1).map(Self).map_err(|error| failed("start the embedded broker", error))
    }

    /// Returns its `host:port`.
    pub fn address(&self) -> String {
        self.0.bootstrap_servers()
    }

    /// Makes a topic.
    ///
    /// # Errors
    /// It is there already.
    pub fn make(&self, topic: &str, partitions: i32) -> Result<(), Error> {
        let made = self.0.create_topic(topic, partitions, 1);
        made.map_err(|error| failed("make a topic on the embedded broker", error))
    }
}

impl std::fmt::Debug for Embedded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Embedded")
    }
}

fn failed(task: &'static str, error: KafkaError) -> Error {
    Error::Client { task, cause: error.into() }
}
