//! Questions about topics. Asks, never changes or creates.

use std::time::Duration;

use rdkafka::consumer::Consumer;
use rdkafka::types::RDKafkaErrorCode;

use super::client::{Consuming, Reach};
use super::error::{Cause, Class, Error};
use super::ffi;
use super::ffi::admin::Resource;
use super::survey::Settings;
use crate::config::{Config, TopicSelection};
use crate::words::TopicId;

/// A connection that answers questions about a cluster.
pub struct Cluster {
    pub(super) client: Consuming,
    pub(super) timeout: Duration,
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

    pub(super) fn at(reach: &Reach, timeout: Duration) -> Result<Self, Error> {
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
                _ => Ok(Some(self.facts(name, topic.partitions().len(), &metadata))),
            };
        }
        Ok(Some(self.facts(name, topic.partitions().len(), &metadata)))
    }

    /// Returns the topics that are to be read, as they are now; none where a pattern matches none.
    ///
    /// # Errors
    /// As [`Cluster::topics_matching`].
    pub fn selected(&self, topics: &TopicSelection) -> Result<Vec<String>, Error> {
        match topics {
            TopicSelection::List(topics) => Ok(topics.clone()),
            TopicSelection::Pattern(pattern) => {
                self.topics_matching(pattern.trim_start_matches('^'))
            }
        }
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

    fn facts(
        &self,
        name: &str,
        partitions: usize,
        metadata: &rdkafka::metadata::Metadata,
    ) -> TopicFacts {
        let native = self.client.client.client().native_client();
        // Where the controller is no broker that exists, as on the embedded one, the client
        // would wait for it until the time is up.
        let controller = ffi::controller(native);
        let answers = metadata.brokers().iter().any(|broker| broker.id() == controller);
        let timeout = answers.then_some(self.timeout);
        let id = timeout
            .and_then(|timeout| ffi::admin::describe_topic(native, name, timeout).ok())
            .and_then(|topic| topic.id);
        let settings = timeout
            .and_then(|timeout| {
                ffi::admin::describe_config(native, Resource::Topic(name), timeout).ok()
            })
            .unwrap_or_default();
        self.client.serve();
        let partitions = i32::try_from(partitions).unwrap_or(i32::MAX);
        TopicFacts::new(partitions, id.map(topic_id), &Settings::new(settings))
    }
}

impl TopicFacts {
    /// Reads the facts out of a topic's settings, as the broker writes them.
    pub(super) fn new(partitions: i32, id: Option<TopicId>, settings: &Settings) -> Self {
        Self {
            partitions,
            id,
            timestamp_type: match settings.text("message.timestamp.type") {
                Some("CreateTime") => Some(TimestampType::Create),
                Some("LogAppendTime") => Some(TimestampType::LogAppend),
                _ => None,
            },
            max_message_bytes: settings.number("max.message.bytes"),
            cleanup_policy: settings.text("cleanup.policy").map(str::to_owned),
            retention_ms: settings.number("retention.ms"),
        }
    }
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster").field("servers", &self.client.servers).finish_non_exhaustive()
    }
}

pub(super) fn topic_id((high, low): (i64, i64)) -> TopicId {
    let mut bytes = [0; 16];
    let (front, back) = bytes.split_at_mut(8);
    front.copy_from_slice(&high.to_be_bytes());
    back.copy_from_slice(&low.to_be_bytes());
    TopicId(bytes)
}
