//! What can go wrong with Kafka, and which error code of the client means what.

use std::fmt;
use std::time::Duration;

use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaErrorCode as K;

use crate::words::{Code, Coded, OutputPosition, SourcePartition};

/// The client's or the broker's own words about a failure.
#[derive(Clone, Debug)]
pub struct Cause {
    code: Option<K>,
    text: String,
}

/// Everything Kafka can refuse, each with what a person needs to find it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The client library does not take a property. The value may be secret and is not kept.
    #[error("failed to set up the Kafka client: {property}")]
    Setting {
        /// The property and what is wrong with it.
        property: String,
    },
    /// Nothing answered.
    #[error("failed to {task} at `{servers}` within {}", rounded(*waited))]
    Unreachable {
        /// What was tried.
        task: &'static str,
        /// The configured addresses.
        servers: String,
        /// For how long.
        waited: Duration,
        /// The client's last words.
        #[source]
        cause: Cause,
    },
    /// The TLS handshake failed.
    #[error("failed to open a TLS connection to `{servers}`")]
    Tls {
        /// The configured addresses.
        servers: String,
        /// The client's words.
        #[source]
        cause: Cause,
    },
    /// The broker refused the credentials, or the way they are sent.
    #[error("failed to log in at `{servers}`")]
    Authentication {
        /// The configured addresses.
        servers: String,
        /// The client's words.
        #[source]
        cause: Cause,
    },
    /// The broker refused a permission.
    #[error("not allowed to use {resource}")]
    BrokerAuthorization {
        /// Topic, group or cluster, with its name.
        resource: String,
        /// The broker's words.
        #[source]
        cause: Cause,
    },
    /// The broker refuses an idempotent producer.
    #[error("not allowed to write idempotently to `{servers}`")]
    IdempotenceRefused {
        /// The configured addresses.
        servers: String,
        /// The broker's words.
        #[source]
        cause: Cause,
    },
    /// The brokers have no transactions for us.
    #[error("the brokers at `{servers}` do not allow transactions with id `{id}`")]
    TransactionsRefused {
        /// The configured addresses.
        servers: String,
        /// The transactional id.
        id: String,
        /// The broker's words.
        #[source]
        cause: Cause,
    },
    /// The transaction timeout is more than the brokers allow.
    #[error(
        "the brokers at `{servers}` do not take `delivery.transaction_timeout` of {}, which is \
         over their `transaction.max.timeout.ms`",
        humantime::format_duration(*timeout)
    )]
    TransactionTimeout {
        /// The configured addresses.
        servers: String,
        /// What was asked for.
        timeout: Duration,
        /// The broker's words.
        #[source]
        cause: Cause,
    },
    /// Whether there are transactions could not be found out.
    #[error(
        "failed to find out within {} whether the brokers at `{servers}` allow transactions",
        rounded(*waited)
    )]
    TransactionsUnanswered {
        /// The configured addresses.
        servers: String,
        /// For how long.
        waited: Duration,
        /// The client's last words.
        #[source]
        cause: Cause,
    },
    /// Another producer took this transactional id.
    #[error("another producer uses the transactional id `{id}`")]
    TransactionFenced {
        /// The transactional id.
        id: String,
        /// The broker's words.
        #[source]
        cause: Cause,
    },
    /// A transaction was not committed, or not known to be.
    #[error("failed to commit the transaction of `{id}`")]
    Transaction {
        /// The transactional id.
        id: String,
        /// The client's words.
        #[source]
        cause: Cause,
    },
    /// A topic is not there.
    #[error("topic `{topic}` does not exist")]
    TopicMissing {
        /// The topic.
        topic: String,
    },
    /// A topic lacks a partition.
    #[error("topic `{topic}` has no partition {partition}")]
    PartitionMissing {
        /// The topic.
        topic: String,
        /// The partition.
        partition: i32,
    },
    /// The offset to read from is not in the source.
    #[error("offset {offset} is not in source partition {partition}")]
    OffsetOutOfRange {
        /// The partition.
        partition: SourcePartition,
        /// The offset that was asked for; negative where it is not known.
        offset: i64,
        /// The client's words.
        #[source]
        cause: Cause,
    },
    /// The position to read from is not in the output.
    #[error("offset {offset} is not in partition {partition} of output topic `{topic}`")]
    OutputOutOfRange {
        /// The topic.
        topic: String,
        /// The partition.
        partition: i32,
        /// The offset that was asked for.
        offset: i64,
        /// The client's words.
        #[source]
        cause: Cause,
    },
    /// A record is larger than the output takes. Who sends it knows where it was read.
    #[error("with its {size} bytes it is over the limit of {limit} bytes of topic `{output}`")]
    RecordTooLarge {
        /// Key, value and headers together.
        size: usize,
        /// What the output takes.
        limit: usize,
        /// The output topic.
        output: String,
    },
    /// The broker will never take this record.
    #[error("the brokers refused it for good")]
    RecordRefused(#[source] Cause),
    /// A record cannot be read.
    #[error("failed to read the record at {partition}, offset {offset}")]
    RecordCorrupt {
        /// Where it is.
        partition: SourcePartition,
        /// Its offset, or that of its batch.
        offset: i64,
        /// The client's words.
        #[source]
        cause: Cause,
    },
    /// A batch cannot be decompressed.
    #[error("failed to decompress the batch at {partition}, offset {offset}")]
    RecordCodec {
        /// Where it is.
        partition: SourcePartition,
        /// The offset of the batch.
        offset: i64,
        /// The client's words, which name the codec.
        #[source]
        cause: Cause,
    },
    /// The producer will not send again.
    #[error("the producer for `{servers}` failed for good")]
    ProducerFatal {
        /// The configured addresses.
        servers: String,
        /// The client's words.
        #[source]
        cause: Cause,
    },
    /// One delivery failed, and may or may not have been written.
    #[error("it may or may not have been written")]
    Delivery(#[source] Cause),
    /// Reading the output stands still before its end.
    #[error(
        "reading partition {partition} of output topic `{topic}` stands at offset {reached}, \
         before {target}, for {}; the last stable offset is {}",
        rounded(*waited),
        stable.map_or_else(|| "not known".to_owned(), |offset| offset.to_string())
    )]
    CatchUpStuck {
        /// The topic.
        topic: String,
        /// The partition.
        partition: i32,
        /// The position reached.
        reached: OutputPosition,
        /// The position wanted.
        target: OutputPosition,
        /// Where the broker stops handing out records, where it says so.
        stable: Option<OutputPosition>,
        /// How long nothing came.
        waited: Duration,
        /// The client's last words.
        #[source]
        cause: Cause,
    },
    /// Reading was told to stop.
    #[error("stopped reading partition {partition} of output topic `{topic}`")]
    Stopped {
        /// The topic.
        topic: String,
        /// The partition.
        partition: i32,
    },
    /// The group threw this instance out because it did not poll.
    #[error("consumer group `{group}` expelled this instance for not polling in time")]
    PollExceeded {
        /// The group.
        group: String,
        /// The client's words, which hold the times.
        #[source]
        cause: Cause,
    },
    /// Another instance took this instance id.
    #[error("another instance in group `{group}` uses the same `source.instance_id`")]
    InstanceFenced {
        /// The group.
        group: String,
        /// The broker's words.
        #[source]
        cause: Cause,
    },
    /// The group did not take offsets.
    #[error("failed to commit offsets to group `{group}`")]
    Commit {
        /// The group.
        group: String,
        /// The broker's words.
        #[source]
        cause: Cause,
    },
    /// A pattern is not a regular expression.
    #[error("`source.topics` is not a regular expression: `{pattern}`")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// What is wrong with it.
        #[source]
        cause: Box<regex::Error>,
    },
    /// A call that should not fail did.
    #[error("failed to {task}")]
    Client {
        /// What was tried.
        task: &'static str,
        /// The client's words.
        #[source]
        cause: Cause,
    },
}

impl Coded for Error {
    fn code(&self) -> Code {
        match self {
            Self::Setting { .. } | Self::Pattern { .. } => Code::ClientSetting,
            Self::Unreachable { .. } => Code::BrokerUnreachable,
            Self::Tls { .. } => Code::BrokerTls,
            Self::Authentication { .. } => Code::BrokerAuthentication,
            Self::BrokerAuthorization { .. } | Self::IdempotenceRefused { .. } => {
                Code::BrokerAuthorization
            }
            Self::TransactionsRefused { .. } => Code::TransactionsRefused,
            Self::TransactionTimeout { .. } => Code::TransactionTimeout,
            Self::TransactionsUnanswered { .. } => Code::TransactionsUnanswered,
            Self::TransactionFenced { .. } => Code::TransactionFenced,
            Self::Transaction { .. } => Code::TransactionFailed,
            Self::TopicMissing { .. } => Code::TopicMissing,
            Self::PartitionMissing { .. } => Code::PartitionCount,
            Self::OffsetOutOfRange { .. } => Code::OffsetOutOfRange,
            Self::OutputOutOfRange { .. } => Code::OutputTruncated,
            Self::RecordTooLarge { .. } => Code::RecordTooLarge,
            Self::RecordRefused(_) => Code::RecordRefused,
            Self::RecordCorrupt { .. } => Code::RecordCorrupt,
            Self::RecordCodec { .. } => Code::RecordCodec,
            Self::ProducerFatal { .. } => Code::ProducerFatal,
            Self::Delivery(_) => Code::DeliveryFailed,
            Self::CatchUpStuck { .. } | Self::Stopped { .. } => Code::CatchUpStuck,
            Self::PollExceeded { .. } => Code::PollExceeded,
            Self::InstanceFenced { .. } => Code::InstanceFenced,
            Self::Commit { .. } => Code::CommitFailed,
            Self::Client { .. } => Code::Internal,
        }
    }

    fn fix(&self) -> String {
        match self {
            Self::Setting { .. } => "correct the property in `[kafka.client]` or `[sink.client]`",
            Self::Unreachable { .. } => {
                "check `kafka.bootstrap_servers` (or `sink.bootstrap_servers`), the network, and \
                 that the listener speaks the configured `security.protocol`"
            }
            Self::Tls { .. } => {
                "check `ssl.ca.location` and the broker's certificate, host name and listener"
            }
            Self::Authentication { .. } => {
                "check `sasl.mechanism`, `sasl.username` and `sasl.password` in `[kafka.client]` \
                 (or `[sink.client]`)"
            }
            Self::BrokerAuthorization { resource, .. } => {
                return format!("grant this user {} {resource}", permissions_on(resource));
            }
            Self::IdempotenceRefused { .. } => {
                "grant this user IdempotentWrite on the cluster, or Write on the output topic on \
                 brokers since 2.8"
            }
            Self::TransactionsRefused { .. } => {
                "allow Write and Describe on the transactional ids that begin with \
                 `delivery.transactional_id_prefix` (by default the group), or set `delivery.mode` \
                 to `dedup`; where `auto` chose transactions before, start once with `--redecide`"
            }
            Self::TransactionTimeout { .. } => {
                "lower `delivery.transaction_timeout`, or raise `transaction.max.timeout.ms` of the \
                 brokers"
            }
            Self::TransactionsUnanswered { .. } => {
                "start again when the transaction coordinator answers; to have delivery without \
                 transactions meanwhile, set `delivery.fallback_on_timeout` or `delivery.mode = \
                 \"dedup\"`"
            }
            Self::TransactionFenced { .. } => {
                "give each group its own `delivery.transactional_id_prefix`, and find out what else \
                 uses this one"
            }
            Self::Transaction { .. } => {
                "check the transaction coordinator; nothing of the transaction counts, and it is \
                 made again"
            }
            Self::TopicMissing { topic } => {
                return format!("create topic `{topic}`, or correct its name in the config");
            }
            Self::PartitionMissing { topic, partition } => {
                let wanted = partition.saturating_add(1);
                return format!("give topic `{topic}` at least {wanted} partitions");
            }
            Self::OffsetOutOfRange { partition, .. } => {
                return format!(
                    "raise `retention.ms` of topic `{}`; to accept the gap, reset the offset of \
                     `source.group` to one that exists and remove the partition's directory in \
                     `state.dir`",
                    partition.topic
                );
            }
            Self::OutputOutOfRange { topic, .. } => {
                return format!(
                    "find out whether `{topic}` was truncated or made again; then set \
                     `state.on_missing_state` to `rebuild` to read back what is left"
                );
            }
            Self::RecordTooLarge { output, .. } => {
                return format!(
                    "raise `max.message.bytes` of topic `{output}`, and `message.max.bytes` in \
                     `[sink.client]` where it is set"
                );
            }
            Self::RecordRefused(_) => {
                "compare the record with the topic's settings, such as `max.message.bytes` and \
                 `message.timestamp.before.max.ms`"
            }
            Self::RecordCorrupt { partition, .. } => {
                return format!(
                    "repair the log of topic `{}` on its brokers; the record is not skipped",
                    partition.topic
                );
            }
            Self::RecordCodec { partition, .. } => {
                return format!(
                    "have the records of topic `{}` written with gzip, snappy, lz4 or zstd",
                    partition.topic
                );
            }
            Self::ProducerFatal { .. } | Self::Delivery(_) => {
                "check the output's brokers: nothing past the record is committed, and the output is \
                 read again before anything is sent"
            }
            Self::CatchUpStuck { .. } => {
                "find the open transaction on the output topic that holds its last stable offset \
                 back, or the broker that does not answer"
            }
            Self::Stopped { .. } => "start firstseen again",
            Self::PollExceeded { .. } => {
                "find what blocks the process, or raise `max.poll.interval.ms` in `[kafka.client]`"
            }
            Self::InstanceFenced { .. } => "give each instance its own `source.instance_id`",
            Self::Commit { group, .. } => {
                return format!(
                    "check the group coordinator, and the permission to read group `{group}`"
                );
            }
            Self::Pattern { .. } => "correct the pattern in `source.topics`",
            Self::Client { .. } => "report this, with the log lines before it",
        }
        .to_owned()
    }
}

/// Returns the permissions that are needed on `resource`, which may be a source or an output.
fn permissions_on(resource: &str) -> &'static str {
    match resource {
        "the cluster" => "Describe (and IdempotentWrite before Kafka 2.8) on",
        group if group.starts_with("group") => "Read on",
        _ => "Describe and Read (and Write, where it is written to) on",
    }
}

/// Writes a time that was measured: nobody needs its nanoseconds.
fn rounded(waited: Duration) -> humantime::FormattedDuration {
    let exact = waited.as_millis().try_into().map_or(waited, Duration::from_millis);
    if exact < Duration::from_secs(2) {
        return humantime::format_duration(exact);
    }
    humantime::format_duration(Duration::from_secs((exact + Duration::from_millis(500)).as_secs()))
}

/// What a client error code means for us: the one table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// Passes by itself, or the client keeps trying.
    Transient,
    Tls,
    Authentication,
    TopicAuthorization,
    GroupAuthorization,
    ClusterAuthorization,
    TopicMissing,
    PartitionMissing,
    OffsetReset,
    Corrupt,
    Codec,
    /// This record's fault; no retry cures it.
    Record,
    Timeout,
    Purged,
    PollExceeded,
    Fenced,
    Fatal,
}

pub(super) fn class(code: K) -> Class {
    match code {
        K::SSL => Class::Tls,
        K::Authentication
        | K::SaslAuthenticationFailed
        | K::UnsupportedSASLMechanism
        | K::IllegalSASLState
        | K::SecurityDisabled => Class::Authentication,
        K::TopicAuthorizationFailed => Class::TopicAuthorization,
        K::GroupAuthorizationFailed => Class::GroupAuthorization,
        K::ClusterAuthorizationFailed => Class::ClusterAuthorization,
        K::UnknownTopic | K::UnknownTopicOrPartition | K::InvalidTopic | K::UnknownTopicId => {
            Class::TopicMissing
        }
        K::UnknownPartition => Class::PartitionMissing,
        K::AutoOffsetReset | K::OffsetOutOfRange | K::LogTruncation => Class::OffsetReset,
        K::BadMessage | K::InvalidMessage | K::Underflow => Class::Corrupt,
        K::BadCompression | K::NotImplemented | K::UnsupportedCompressionType => Class::Codec,
        K::MessageSizeTooLarge
        | K::MessageBatchTooLarge
        | K::InvalidRecord
        | K::InvalidTimestamp
        | K::InvalidMessageSize
        | K::PolicyViolation => Class::Record,
        K::MessageTimedOut | K::RequestTimedOut | K::OperationTimedOut | K::TimedOutQueue => {
            Class::Timeout
        }
        K::PurgeQueue | K::PurgeInflight => Class::Purged,
        K::PollExceeded => Class::PollExceeded,
        K::FencedInstanceId | K::UnreleasedInstanceId => Class::Fenced,
        K::Fatal
        | K::Fenced
        | K::Inconsistent
        | K::GaplessGuarantee
        | K::OutOfOrderSequenceNumber
        | K::UnknownProducerId
        | K::InvalidProducerEpoch
        | K::InvalidProducerIdMapping
        | K::ProducerFenced
        | K::UnsupportedFeature
        | K::InvalidGroupId
        | K::InvalidSessionTimeout
        | K::InconsistentGroupProtocol
        | K::UnsupportedAssignor => Class::Fatal,
        _ => Class::Transient,
    }
}

impl Error {
    /// What a transaction is given up with whose partition has to go back.
    pub(crate) fn going_back() -> Self {
        Self::Delivery(Cause::text("its partition goes back to what is committed"))
    }

    /// What records are left with whose partition was given up before the broker answered.
    pub(crate) fn given_up() -> Self {
        Self::Delivery(Cause::text("their partition was left before the broker answered"))
    }
}

impl Cause {
    pub(super) fn new(code: K, text: impl Into<String>) -> Self {
        Self { code: Some(code), text: text.into() }
    }

    pub(super) fn of(code: K) -> Self {
        Self { code: Some(code), text: code.to_string() }
    }

    pub(super) fn code(&self) -> Option<K> {
        self.code
    }

    /// Returns a cause that has no error code, only words.
    pub fn text(text: impl Into<String>) -> Self {
        Self { code: None, text: text.into() }
    }

    /// Returns whether the broker refused a permission.
    pub fn is_denied(&self) -> bool {
        let of_an_id = self.code == Some(K::TransactionalIdAuthorizationFailed);
        of_an_id
            || matches!(
                self.class(),
                Class::TopicAuthorization | Class::GroupAuthorization | Class::ClusterAuthorization
            )
    }

    pub(super) fn class(&self) -> Class {
        self.code.map_or(Class::Transient, class)
    }
}

impl From<KafkaError> for Cause {
    fn from(error: KafkaError) -> Self {
        let text = match &error {
            // The value of a setting may be secret.
            KafkaError::ClientConfig(_, _, property, _) => format!("`{property}`"),
            other => match other.rdkafka_error_code() {
                Some(code) => code.to_string(),
                None => other.to_string(),
            },
        };
        Self { code: error.rdkafka_error_code(), text }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Cause {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_that_must_stop_us_has_a_class_of_its_own() {
        let table = [
            (K::SSL, Class::Tls),
            (K::Authentication, Class::Authentication),
            (K::TopicAuthorizationFailed, Class::TopicAuthorization),
            (K::GroupAuthorizationFailed, Class::GroupAuthorization),
            (K::UnknownTopicOrPartition, Class::TopicMissing),
            (K::UnknownPartition, Class::PartitionMissing),
            (K::AutoOffsetReset, Class::OffsetReset),
            (K::BadMessage, Class::Corrupt),
            (K::BadCompression, Class::Codec),
            (K::MessageSizeTooLarge, Class::Record),
            (K::InvalidTimestamp, Class::Record),
            (K::MessageTimedOut, Class::Timeout),
            (K::PurgeInflight, Class::Purged),
            (K::PollExceeded, Class::PollExceeded),
            (K::FencedInstanceId, Class::Fenced),
            (K::OutOfOrderSequenceNumber, Class::Fatal),
        ];
        for (code, expected) in table {
            assert_eq!(class(code), expected, "{code:?}");
        }
    }

    #[test]
    fn what_the_client_retries_is_transient() {
        for code in [
            K::AllBrokersDown,
            K::BrokerTransportFailure,
            K::Resolve,
            K::NotEnoughReplicas,
            K::NotEnoughReplicasAfterAppend,
            K::LeaderNotAvailable,
            K::CoordinatorLoadInProgress,
            K::KafkaStorageError,
        ] {
            assert_eq!(class(code), Class::Transient, "{code:?}");
        }
    }

    #[test]
    fn the_value_of_a_refused_property_is_not_kept() {
        let mut config = rdkafka::ClientConfig::new();
        config.set("sasl.pasword", "hunter2");
        let error = config.create_native_config().err().unwrap();
        assert_eq!(Cause::from(error).to_string(), "`sasl.pasword`");
    }

    #[test]
    fn an_error_does_not_repeat_its_cause() {
        let cause = Cause::of(K::OutOfOrderSequenceNumber);
        let error = Error::ProducerFatal { servers: "b:1".to_owned(), cause };
        let cause = std::error::Error::source(&error).unwrap().to_string();
        assert!(!error.to_string().contains(&cause));
        assert_eq!(error.code(), Code::ProducerFatal);
    }
}
