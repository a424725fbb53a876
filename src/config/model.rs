//! The config as the rest of the program sees it: checked, resolved, and with no optional traps.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::key::{HashKind, KeyRule};
use crate::words::Span;

/// Everything `run` needs to know.
#[derive(Clone, Debug)]
pub struct Config {
    /// How to reach the brokers.
    pub kafka: KafkaConfig,
    /// What to read, and as whom.
    pub source: SourceConfig,
    /// Where to write, and what to do when it fails.
    pub sink: SinkConfig,
    /// The rule for topics without a section of their own.
    pub dedup: DedupRule,
    /// Rules by source topic name; each is complete (unset keys were taken from `dedup`).
    pub topics: BTreeMap<String, DedupRule>,
    /// How records are delivered.
    pub delivery: DeliveryConfig,
    /// When progress is made durable.
    pub checkpoint: CheckpointConfig,
    /// Where and how the seen-set lives.
    pub state: StateConfig,
    /// The address that serves metrics and health.
    pub status: StatusConfig,
}

/// Client properties by librdkafka name. Values may be secret: never print them directly.
pub type ClientProperties = BTreeMap<String, String>;

/// `[kafka]`: how to reach the brokers.
#[derive(Clone)]
pub struct KafkaConfig {
    /// Comma-separated `host:port` list.
    pub bootstrap_servers: String,
    /// Pass-through client properties; those firstseen owns were refused.
    pub client: ClientProperties,
    /// Whether passwords may cross the network unencrypted. Enforced while loading.
    pub allow_insecure: bool,
}

/// Which topics to read.
#[derive(Clone, Debug)]
pub enum TopicSelection {
    /// Exactly these.
    List(Vec<String>),
    /// Every topic whose whole name matches this regular expression (without the leading `^`).
    Pattern(String),
}

/// How partitions are handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Membership {
    /// The consumer group shares partitions among instances.
    Group,
    /// This instance takes every partition, with no group protocol. Only one may run.
    Alone,
}

/// Where to begin where neither state nor a committed offset exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartAt {
    /// The oldest record still there.
    Earliest,
    /// Only records written from now on.
    Latest,
    /// Refuse to start.
    Stop,
}

/// `[source]`: what to read, and as whom.
#[derive(Clone, Debug)]
pub struct SourceConfig {
    /// The consumer group.
    pub group: String,
    /// Static membership (`group.instance.id`): a restart takes its partitions back at once.
    pub instance_id: Option<String>,
    /// The topics.
    pub topics: TopicSelection,
    /// How partitions are handed out.
    pub membership: Membership,
    /// Where to begin without state or committed offset.
    pub start: StartAt,
    /// How long the group waits for a silent member; also bounds the lease.
    pub session_timeout: Duration,
}

/// What to do with a record whose delivery failed for good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OnUndeliverable {
    /// Stop the process; nothing is skipped.
    Stop,
    /// Write it to this topic; it is done once that copy is confirmed.
    DeadLetter(String),
}

/// `[sink]`: where to write, and what to do when it fails.
#[derive(Clone)]
pub struct SinkConfig {
    /// The output topic; `{topic}` stands for the source topic's name.
    pub topic: String,
    /// How long the client tries to deliver one record.
    pub delivery_timeout: Duration,
    /// What to do when a delivery fails for good.
    pub on_undeliverable: OnUndeliverable,
    /// The dead-letter topic that any policy names, if one does.
    pub dead_letter_topic: Option<String>,
    /// How many bytes of records may be in flight, over all partitions.
    pub in_flight_max_bytes: u64,
    /// The output's own cluster, where it differs from `[kafka]`.
    pub bootstrap_servers: Option<String>,
    /// Client properties for the output's producer and readers only.
    pub client: ClientProperties,
}

/// Which time a window is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowClock {
    /// The record's own timestamp: the same after a replay.
    Event,
    /// When this instance first read the record.
    Arrival,
}

/// What to do with a record that has no dedup key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnMissingKey {
    /// Forward it, never deduplicated, counted.
    Forward,
    /// Write it to the dead-letter topic, counted.
    DeadLetter,
    /// Stop the process.
    Stop,
}

/// Records left out on purpose, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DropRule {
    /// Leave out records whose value is null (tombstones).
    pub null_value: bool,
    /// Leave out records whose value is there and has no bytes.
    pub empty_value: bool,
}

/// What to do where state is missing or cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnMissingState {
    /// Read the output back over one window.
    Rebuild,
    /// Refuse to run.
    Stop,
    /// Start with an empty seen-set, loudly.
    Empty,
}

/// `[dedup]` and `[topics.NAME]`: what makes two records the same, and for how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DedupRule {
    /// What the dedup key is made of.
    pub key: KeyRule,
    /// How it is hashed.
    pub hash: HashKind,
    /// How long a key is remembered, at least.
    pub window: Span,
    /// Which time the window is counted in.
    pub clock: WindowClock,
    /// How far ahead of the wall clock an event time may be before it is clamped.
    pub max_future: Span,
    /// Whether a duplicate starts the window anew.
    pub refresh: bool,
    /// What to do without a dedup key.
    pub on_missing_key: OnMissingKey,
    /// What to leave out on purpose.
    pub drop: DropRule,
}

/// How records are delivered, as asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryMode {
    /// What the brokers allow.
    Auto,
    /// Without transactions.
    Dedup,
    /// In transactions, or not at all.
    Transactional,
}

/// `[delivery]`: how records are delivered.
#[derive(Clone, Debug)]
pub struct DeliveryConfig {
    /// The mode asked for.
    pub mode: DeliveryMode,
    /// What transactional ids begin with, where it is not the group.
    pub transactional_id_prefix: Option<String>,
    /// How long a transaction may stay open before the brokers abort it.
    pub transaction_timeout: Duration,
    /// Whether `Auto` may do without transactions where the brokers do not answer in time.
    pub fallback_on_timeout: bool,
}

/// `[checkpoint]`: when progress is made durable.
#[derive(Clone, Debug)]
pub struct CheckpointConfig {
    /// The time between two checkpoints.
    pub interval: Duration,
    /// A checkpoint is also due after this many first occurrences in one partition.
    pub max_records: usize,
    /// A checkpoint that takes longer is reported as slow.
    pub timeout: Duration,
}

/// `[state]`: where and how the seen-set lives.
#[derive(Clone, Debug)]
pub struct StateConfig {
    /// The directory; made with mode 0700 if absent.
    pub dir: PathBuf,
    /// What to do where state is missing or cannot be used.
    pub on_missing_state: OnMissingState,
    /// How many bytes caches and filters may take together, over all partitions.
    pub memory: u64,
    /// Consuming pauses below this much free disk space, in bytes.
    pub min_free_bytes: u64,
}

/// `[status]`: the address that serves metrics and health.
#[derive(Clone, Debug)]
pub struct StatusConfig {
    /// Where to listen; nothing is served when absent.
    pub listen: Option<SocketAddr>,
}

impl Config {
    /// Returns the rule of source topic `topic`.
    pub fn rule(&self, topic: &str) -> &DedupRule {
        self.topics.get(topic).unwrap_or(&self.dedup)
    }

    /// Returns the output topic of source topic `topic`.
    pub fn output_topic(&self, topic: &str) -> String {
        self.sink.topic.replace("{topic}", topic)
    }

    /// Returns what transactional ids begin with.
    pub fn transactional_id_prefix(&self) -> &str {
        self.delivery.transactional_id_prefix.as_deref().unwrap_or(&self.source.group)
    }

    /// Returns the brokers of the output.
    pub fn sink_bootstrap_servers(&self) -> &str {
        self.sink.bootstrap_servers.as_deref().unwrap_or(&self.kafka.bootstrap_servers)
    }

    /// Returns the client properties for the output's producer and readers.
    ///
    /// Those of `[sink.client]` come over those of `[kafka.client]`. Where the output has brokers
    /// of its own they stand alone: the credentials of one cluster are never shown to another.
    pub fn sink_client(&self) -> ClientProperties {
        let mut client = match self.sink.bootstrap_servers {
            None => self.kafka.client.clone(),
            Some(_) => ClientProperties::new(),
        };
        client.extend(self.sink.client.clone());
        // Two names of one property: the more specific section decides.
        for (one, other) in [("sasl.mechanism", "sasl.mechanisms")] {
            for (set, unset) in [(one, other), (other, one)] {
                if self.sink.client.contains_key(set) && !self.sink.client.contains_key(unset) {
                    client.remove(unset);
                }
            }
        }
        client
    }
}

impl std::fmt::Debug for KafkaConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KafkaConfig")
            .field("bootstrap_servers", &self.bootstrap_servers)
            .field("client", &Masked(&self.client))
            .field("allow_insecure", &self.allow_insecure)
            .finish()
    }
}

impl std::fmt::Debug for SinkConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SinkConfig")
            .field("topic", &self.topic)
            .field("delivery_timeout", &self.delivery_timeout)
            .field("on_undeliverable", &self.on_undeliverable)
            .field("dead_letter_topic", &self.dead_letter_topic)
            .field("in_flight_max_bytes", &self.in_flight_max_bytes)
            .field("bootstrap_servers", &self.bootstrap_servers)
            .field("client", &Masked(&self.client))
            .finish()
    }
}

/// Client properties with every value hidden that is not known to be harmless.
struct Masked<'a>(&'a ClientProperties);

impl std::fmt::Debug for Masked<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown = |(name, value): (&'_ String, &'_ String)| {
            (name.clone(), super::client::printable(name, value).to_owned())
        };
        f.debug_map().entries(self.0.iter().map(shown)).finish()
    }
}
