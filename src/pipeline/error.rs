//! Why a pipeline stops.

use std::path::PathBuf;

use crate::key::Missing;
use crate::words::{Code, Coded, OutputPosition, RecordOffset, ResumeOffset, SourcePartition};
use crate::{engine, kafka, seen};

/// A failure of the pipeline. Nothing is lost by any of them: the resume offset stays below
/// whatever is not done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Kafka failed.
    #[error(transparent)]
    Kafka(#[from] kafka::Error),
    /// The state failed.
    #[error(transparent)]
    State(#[from] seen::Error),
    /// A partition's state failed.
    #[error("failed to keep the state of {partition}")]
    PartitionState {
        /// Whose.
        partition: SourcePartition,
        /// What happened.
        #[source]
        source: seen::Error,
    },
    /// Reading or writing for a partition failed.
    #[error("failed to start {partition}")]
    Take {
        /// Which.
        partition: SourcePartition,
        /// What happened.
        #[source]
        source: kafka::Error,
    },
    /// The output refused a record for good.
    #[error(
        "failed to deliver the record at {partition}, offset {offset}, to {role} topic `{topic}`"
    )]
    Undeliverable {
        /// Where it was read.
        partition: SourcePartition,
        /// Its offset there.
        offset: RecordOffset,
        /// `output` or `dead-letter`.
        role: &'static str,
        /// Where it was to go.
        topic: String,
        /// What the broker or client said.
        #[source]
        source: Box<kafka::Error>,
    },
    /// A record has no dedup key and the rule says to stop.
    #[error(
        "failed to make a dedup key of the record at {partition}, offset {offset}: what `dedup.key` names is {why}"
    )]
    NoKey {
        /// Where it was read.
        partition: SourcePartition,
        /// Its offset there.
        offset: RecordOffset,
        /// What is missing.
        why: Missing,
    },
    /// A topic was deleted and made again.
    #[error(
        "failed to resume {partition}: {which} topic `{topic}` was deleted and made again since the last checkpoint"
    )]
    Recreated {
        /// Whose state it is.
        partition: SourcePartition,
        /// `source` or `output`.
        which: &'static str,
        /// The topic.
        topic: String,
        /// Where the state is.
        dir: PathBuf,
    },
    /// The resume offset is not in the source.
    #[error(
        "failed to resume {partition} at offset {resume}: the source holds offsets {low} to {high}"
    )]
    OutOfRange {
        /// Which partition.
        partition: SourcePartition,
        /// Where it was to resume.
        resume: ResumeOffset,
        /// The first offset there.
        low: i64,
        /// The next offset to be written.
        high: i64,
    },
    /// The output ends before the stored position.
    #[error(
        "failed to catch up {partition}: output `{topic}` ends at offset {high}, but records up to {position} were confirmed on it"
    )]
    OutputTruncated {
        /// Whose output it is.
        partition: SourcePartition,
        /// The output topic.
        topic: String,
        /// Its end.
        high: i64,
        /// What was confirmed.
        position: OutputPosition,
    },
    /// State is missing and the config says to stop.
    #[error("failed to start {partition}: the group committed offset {committed}, but `{}` holds no state for it", dir.display())]
    Missing {
        /// Which partition.
        partition: SourcePartition,
        /// What the group committed.
        committed: ResumeOffset,
        /// Where state should be.
        dir: PathBuf,
    },
    /// State is damaged and the config says to stop.
    #[error("failed to start {partition}: its state was damaged and is set aside in `{}`", set_aside.display())]
    Damaged {
        /// Which partition.
        partition: SourcePartition,
        /// Where the damaged state is now.
        set_aside: PathBuf,
        /// What is wrong with it.
        #[source]
        source: seen::Error,
    },
    /// Neither state nor committed offset, and `start = "stop"`.
    #[error(
        "failed to start {partition}: there is neither state nor a committed offset, and `source.start` is `stop`"
    )]
    NoStart {
        /// Which partition.
        partition: SourcePartition,
    },
    /// The output topic is missing.
    #[error("failed to find {role} topic `{topic}`")]
    TopicMissing {
        /// `source`, `output` or `dead-letter`.
        role: &'static str,
        /// The topic.
        topic: String,
    },
    /// The output has fewer partitions than the source.
    #[error(
        "failed to keep partition numbers: source `{source_topic}` has {source_partitions} partitions, output `{output_topic}` has {output_partitions}"
    )]
    PartitionCount {
        /// The source topic.
        source_topic: String,
        /// How many partitions it has.
        source_partitions: i32,
        /// The output topic.
        output_topic: String,
        /// How many it has.
        output_partitions: i32,
    },
    /// The output stamps records with the broker's time.
    #[error(
        "failed to keep timestamps: output `{topic}` has `message.timestamp.type = LogAppendTime`"
    )]
    TimestampType {
        /// The output topic.
        topic: String,
    },
    /// Two source topics of a pattern write to one output topic.
    #[error(
        "failed to keep outputs apart: source topics `{first}` and `{second}` both write to `{output}`"
    )]
    SharedOutput {
        /// One of them.
        first: String,
        /// The other.
        second: String,
        /// The output.
        output: String,
    },
    /// A source topic is its own output.
    #[error("failed to keep topics apart: source topic `{topic}` is its own output")]
    SameTopic {
        /// The topic.
        topic: String,
    },
    /// Nothing to read.
    #[error("failed to find a source topic that matches `{pattern}`")]
    NoTopics {
        /// What was asked for.
        pattern: String,
    },
    /// What was in flight did not finish in time.
    #[error("failed to finish {records} records in flight within {}", humantime::format_duration(*limit))]
    DrainTimeout {
        /// How many are left.
        records: usize,
        /// How long was waited.
        limit: std::time::Duration,
    },
    /// The last checkpoint did not become durable in time.
    #[error(
        "failed to make the last checkpoint of {partition} durable within {}",
        humantime::format_duration(*limit)
    )]
    CheckpointTimeout {
        /// Whose.
        partition: SourcePartition,
        /// How long was waited.
        limit: std::time::Duration,
    },
    /// Randomness for the incarnation was not to be had.
    #[error("failed to get random bytes from the operating system")]
    Random(#[source] getrandom::Error),
    /// A thread could not be made.
    #[error("failed to start a thread")]
    Thread(#[source] std::io::Error),
    /// An invariant does not hold.
    #[error("failed an internal check")]
    Broken(#[from] engine::Broken),
}

impl Error {
    /// Whether a partition that was left with this is in good hands: its next owner finds out what
    /// became of it, and goes on from there.
    pub(super) fn is_for_the_successor(&self) -> bool {
        matches!(
            self,
            Self::DrainTimeout { .. }
                | Self::Kafka(
                    kafka::Error::Transaction { .. }
                        | kafka::Error::TransactionFenced { .. }
                        | kafka::Error::Delivery(_)
                        | kafka::Error::ProducerFatal { .. }
                )
        )
    }
}

impl Coded for Error {
    fn code(&self) -> Code {
        match self {
            Self::Kafka(error) => error.code(),
            Self::State(error) | Self::PartitionState { source: error, .. } => error.code(),
            Self::Take { source, .. } => source.code(),
            Self::Undeliverable { source, .. } => match source.code() {
                code @ (Code::RecordTooLarge | Code::RecordRefused | Code::BrokerAuthorization) => {
                    code
                }
                _ => Code::DeliveryFailed,
            },
            Self::NoKey { .. } => Code::RecordKeyMissing,
            Self::Recreated { .. } => Code::TopicRecreated,
            Self::OutOfRange { .. } => Code::OffsetOutOfRange,
            Self::OutputTruncated { .. } => Code::OutputTruncated,
            Self::Missing { .. } | Self::NoStart { .. } => Code::StateMissing,
            Self::Damaged { .. } => Code::StateCorrupt,
            Self::TopicMissing { .. } => Code::TopicMissing,
            Self::PartitionCount { .. } => Code::PartitionCount,
            Self::TimestampType { .. } => Code::TimestampType,
            Self::SharedOutput { .. } => Code::SharedOutput,
            Self::SameTopic { .. } => Code::ConfigSameTopic,
            Self::NoTopics { .. } => Code::NoTopics,
            Self::DrainTimeout { .. } => Code::DrainTimeout,
            Self::CheckpointTimeout { .. } => Code::StateIo,
            Self::Random(_) | Self::Thread(_) | Self::Broken(_) => Code::Internal,
        }
    }

    fn fix(&self) -> String {
        match self {
            Self::Kafka(error) | Self::Take { source: error, .. } => error.fix(),
            Self::State(error) | Self::PartitionState { source: error, .. } => error.fix(),
            Self::Undeliverable { role: "output", source, .. } if is_of_the_record(source) => {
                format!("{}; or set `sink.on_undeliverable` to `dead-letter`", source.fix())
            }
            Self::Undeliverable { source, .. } => source.fix(),
            Self::NoKey { partition, .. } => format!(
                "set `dedup.on_missing_key` to `forward` or `dead-letter`, or correct `dedup.key` \
                 (or the same in `[topics.{}]`)",
                partition.topic
            ),
            Self::Recreated { which, dir, .. } => {
                let offsets = match *which {
                    "source" => " and delete the offsets of `source.group` for it",
                    _ => "",
                };
                let dir = dir.display();
                format!(
                    "to start over with the new {which} topic, remove the directory `{dir}`{offsets}"
                )
            }
            Self::OutOfRange { partition, .. } => format!(
                "raise `retention.ms` of topic `{}`; to accept the gap, reset the offset of \
                 `source.group` to one that exists and remove the partition's directory in \
                 `state.dir`",
                partition.topic
            ),
            Self::OutputTruncated { topic, .. } => format!(
                "find out why `{topic}` lost records; then set `state.on_missing_state` to \
                 `rebuild` to read back what is left"
            ),
            Self::Missing { .. } | Self::Damaged { .. } => {
                "put the state back, or set `state.on_missing_state` to `rebuild`".into()
            }
            Self::NoStart { .. } => "set `source.start` to `earliest` or `latest`".into(),
            Self::TopicMissing { role, topic } => {
                let setting = match *role {
                    "source" => "source.topics",
                    "dead-letter" => "sink.dead_letter_topic",
                    _ => "sink.topic",
                };
                format!("create `{topic}`, or correct `{setting}`")
            }
            Self::PartitionCount { output_topic, source_partitions, .. } => {
                format!("give `{output_topic}` at least {source_partitions} partitions")
            }
            Self::TimestampType { topic } => format!(
                "set `message.timestamp.type=CreateTime` on `{topic}`, since windows are rebuilt \
                 from the timestamps there"
            ),
            Self::SharedOutput { .. } => {
                "put `{topic}` into `sink.topic`, so that each source has an output of its own"
                    .into()
            }
            Self::SameTopic { .. } => "change `sink.topic` or `source.topics`".into(),
            Self::NoTopics { .. } => "create the topic, or correct `source.topics`".into(),
            Self::DrainTimeout { .. } => {
                "check the output's brokers, or raise `sink.delivery_timeout`; what is in flight \
                 is read again at the next start"
                    .into()
            }
            Self::CheckpointTimeout { .. } => {
                "check the disk of `state.dir`, or raise `checkpoint.timeout`".into()
            }
            Self::Random(_) | Self::Thread(_) => "look at the limits of this process".into(),
            Self::Broken(_) => "report this as a defect, with the log".into(),
        }
    }
}

/// Returns whether the record itself is at fault, so that the dead-letter topic is a way out.
fn is_of_the_record(error: &kafka::Error) -> bool {
    matches!(error.code(), Code::RecordTooLarge | Code::RecordRefused | Code::RecordCorrupt)
}
