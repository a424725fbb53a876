//! Why a bench could not be started or finished, or what it found.

use std::io;
use std::path::PathBuf;

use crate::commands::demo;
use crate::kafka;
use crate::seen;
use crate::words::{Code, Coded};

/// A bench that failed, or that must not be taken for a clean one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Kafka refused or did not answer.
    #[error(transparent)]
    Kafka(#[from] kafka::Error),
    /// A child process, the working directory, or the user's signal.
    #[error(transparent)]
    Play(#[from] demo::Error),
    /// The known keys could not be written into a state.
    #[error("failed to make a state with known keys")]
    State(#[from] seen::Error),
    /// A topic the bench wants to make is there already.
    #[error("topic `{topic}` exists already")]
    TopicThere {
        /// The topic.
        topic: String,
    },
    /// The brokers do not let this user make topics.
    #[error("failed to create topic `{topic}`")]
    TopicRefused {
        /// The topic.
        topic: String,
        /// The broker's words.
        #[source]
        cause: kafka::Cause,
    },
    /// Something failed in the middle; what was measured before is reported.
    #[error("the measuring was cut short in {turn}")]
    CutShort {
        /// Round and mode.
        turn: String,
        /// Why.
        #[source]
        source: Box<Error>,
    },
    /// Nothing moved for too long.
    #[error("nothing moved for {seconds} s, at {reached} of {wanted} records")]
    Stalled {
        /// How long was waited.
        seconds: u64,
        /// Records there.
        reached: i64,
        /// Records that should be there.
        wanted: i64,
    },
    /// The load could not be written as fast as asked for.
    #[error("the rate of {wanted} records/s was not reached: {reached} records/s were written")]
    RateNotReached {
        /// Records a second asked for.
        wanted: u64,
        /// Records a second written, in the slowest round.
        reached: u64,
    },
    /// Modes lost, repeated or reordered records.
    #[error("ledger found faults: {found}")]
    Ledger {
        /// Which mode, what and where.
        found: String,
    },
    /// The report could not be turned into JSON.
    #[error("failed to write the report as JSON")]
    Json(#[source] serde_json::Error),
    /// A file could not be read or written.
    #[error("failed to {attempt} `{}`", path.display())]
    File {
        /// What was tried.
        attempt: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The options ask for something that cannot be.
    #[error("{0}")]
    Options(String),
}

impl Coded for Error {
    fn code(&self) -> Code {
        match self {
            Self::Kafka(error) => error.code(),
            Self::Play(error) => error.code(),
            Self::State(error) => error.code(),
            Self::TopicThere { .. } | Self::TopicRefused { .. } => Code::BenchTopics,
            Self::CutShort { .. } => Code::BenchCutShort,
            Self::RateNotReached { .. } => Code::BenchRate,
            Self::Ledger { .. } => Code::LedgerFaults,
            Self::Stalled { .. } | Self::Json(_) | Self::File { .. } => Code::CommandFailed,
            Self::Options(_) => Code::ConfigOutOfRange,
        }
    }

    fn fix(&self) -> String {
        match self {
            Self::Kafka(error) => return error.fix(),
            Self::Play(error) => return error.fix(),
            Self::State(error) => return error.fix(),
            Self::CutShort { source, .. } => {
                return format!("{}; what was measured until then is in the report", source.fix());
            }
            Self::TopicThere { topic } => {
                return format!(
                    "remove what an earlier bench kept (`{topic}` and its like), or choose another \
                     `--name`"
                );
            }
            Self::TopicRefused { .. } => {
                "grant this user Create, Write, Read and Delete on topics with the prefix \
                 `firstseen-bench-`, and check `--replication`"
            }
            Self::Stalled { .. } => "check that the brokers answer and have room",
            Self::RateNotReached { .. } => {
                "lower `--rate`: latencies at this rate tell of the load's own delay"
            }
            Self::Ledger { .. } => {
                "run it again with the same `--seed` and `--keep`, and report it with what was kept"
            }
            Self::Json(_) => "report this as a bug",
            Self::File { .. } => "check the path, and that this user may use it",
            Self::Options(_) => "see `firstseen bench --help`",
        }
        .to_owned()
    }
}
