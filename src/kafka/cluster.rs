//! Questions about topics. Asks, never changes or creates.

use std::time::Duration;

use rdkafka::consumer::Consumer;
use rdkafka::types::RDKafkaErrorCode;

use super::client::{Consuming, Reach};
use super::error::{Cause, Class, Error};
use super::ffi;
use crate::config::Config;
use crate::words::TopicId;

/// A connection that answers questions about a cluster.
pub struct Cluster {
    client: Consuming,
    timeout: Duration,
}

/// What the broker tells about a topic. Where a fact is `None` the broker does not tell it, which
/// is not the same as a default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicFacts {
    /// How many partitions it has.
    pub partitions: i32,
    /// Which topic of this name it is.
    pub id: Option<TopicId>,
    /// Whose time its records carry.
    pub timestamp_type: Option<TimestampType>,
    /// The largest batch it takes, in bytes.
    pub max_message_bytes: Option<u64>,
    /// Whether and how records go away: `delete`, `compact`, or both.
    pub cleanup_policy: Option<String>,
    /// How long records stay, in milliseconds; -1 is for ever.
    pub retention_ms: Option<i64>,
}

/// Whose time a topic's records carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimestampType {
    /// The producer's.
    Create,
    /// The broker's: record timestamps are replaced.
    LogAppend,
}

impl Cluster {
    /// Connects to the source's cluster and waits until a broker answers.
    ///
    /// # Errors
    /// [`Error::Unreachable`], [`Error::Tls`] or [`Error::Authentication`], within `timeout`.
    pub fn connect(config: &Config, timeout: Duration) -> Result<Self, Error> {
        Self::at(&Reach::source(config), timeout)
    }

    /// Connects to the output's cluster, where it differs.
    ///
    /// # Errors
    /// As [`Cluster::connect`].
    pub fn connect_to_output(config: &Config, timeout: Duration) -> Result<Self, Error> {
        Self::at(&Reach::output(config), timeout)
    }

    fn at(reach: &Reach, timeout: Duration) -> Result<Self, Error> {
        let cluster = Self { client: Consuming::lookup(reach)?, timeout };
        let client = &cluster.client.client;
        // The id is known from the first answer, whatever it was; some systems have none.
        cluster.client.ask("connect", timeout, |slice| {
            match client.client().fetch_cluster_id(slice) {
                Some(_) => Ok(()),
                None => client.fetch_metadata(None, slice).map(drop),
            }
        })?;
        Ok(cluster)
    }

    /// Returns the cluster's id; `None` where it has none.
    pub fn cluster_id(&self) -> Option<String> {
        self.client.client.client().fetch_cluster_id(self.timeout)
    }

    /// Returns what the broker tells about a topic; `None` where it is not there.
    ///
    /// # Errors
    /// [`Error::BrokerAuthorization`] where the topic may not be described, or a connection error.
    pub fn topic(&self, name: &str) -> Result<Option<TopicFacts>, Error> {
        let metadata = self.metadata("describe a topic", Some(name))?;
        let Some(topic) = metadata.topics().iter().find(|topic| topic.name() == name) else {
            return Ok(None);
        };
        if let Some(error) = topic.error() {
            let cause = Cause::of(RDKafkaErrorCode::from(error));
            return match cause.class() {
                Class::TopicMissing => Ok(None),
                Class::TopicAuthorization => {
                    Err(Error::BrokerAuthorization { resource: format!("topic `{name}`"), cause })
                }
                // A leader is being chosen: the partitions are known all the same.
                _ if topic.partitions().is_empty() => {
                    Err(Error::Client { task: "describe a topic", cause })
                }
                _ => Ok(Some(self.facts(name, topic.partitions().len()))),
            };
        }
        Ok(Some(self.facts(name, topic.partitions().len())))
    }

    /// Returns the names of all topics whose whole name matches, sorted; internal ones left out.
    ///
    /// # Errors
    /// [`Error::Pattern`] where it is not a regular expression, or a connection error.
    pub fn topics_matching(&self, pattern: &str) -> Result<Vec<String>, Error> {
        let whole = regex::Regex::new(&format!("^(?:{pattern})$")).map_err(|error| {
            Error::Pattern { pattern: pattern.to_owned(), cause: Box::new(error) }
        })?;
        let metadata = self.metadata("list topics", None)?;
        let mut names: Vec<String> = metadata
            .topics()
            .iter()
            .map(|topic| topic.name().to_owned())
            .filter(|name| whole.is_match(name) && !name.starts_with("__"))
            .collect();
        names.sort_unstable();
        Ok(names)
    }

    fn metadata(
        &self,
        task: &'static str,
        topic: Option<&str>,
    ) -> Result<rdkafka::metadata::Metadata, Error> {
        let client = &self.client.client;
        self.client.ask(task, self.timeout, |slice| client.fetch_metadata(topic, slice))
    }

    fn facts(&self, name: &str, partitions: usize) -> TopicFacts {
        let native = self.client.client.client().native_client();
        let id = ffi::describe_topic(native, name, self.timeout).map(topic_id);
        let settings = ffi::describe_config(native, name, self.timeout).unwrap_or_default();
        self.client.serve();
        let get = |key: &str| settings.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str());
        TopicFacts {
            partitions: i32::try_from(partitions).unwrap_or(i32::MAX),
            id,
            timestamp_type: match get("message.timestamp.type") {
                Some("CreateTime") => Some(TimestampType::Create),
                Some("LogAppendTime") => Some(TimestampType::LogAppend),
                _ => None,
            },
            max_message_bytes: get("max.message.bytes").and_then(|v| v.parse().ok()),
            cleanup_policy: get("cleanup.policy").map(str::to_owned),
            retention_ms: get("retention.ms").and_then(|v| v.parse().ok()),
        }
    }
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster").field("servers", &self.client.servers).finish_non_exhaustive()
    }
}

fn topic_id((high, low): (i64, i64)) -> TopicId {
    let mut bytes = [0; 16];
    let (front, back) = bytes.split_at_mut(8);
    front.copy_from_slice(&high.to_be_bytes());
    back.copy_from_slice(&low.to_be_bytes());
    TopicId(bytes)
}
