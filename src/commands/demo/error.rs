//! Why the demo could not be played to its end, or what it found.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

use crate::ledger::Ledger;
use crate::words::{Code, Coded};

/// A demo that failed, or whose ledger is not clean.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The embedded broker could not be started or asked.
    #[error("failed to {attempt} the embedded broker")]
    Broker {
        /// What was tried.
        attempt: &'static str,
        /// What the client said.
        #[source]
        source: rdkafka::error::KafkaError,
    },
    /// The embedded broker lost the beginning of a topic, so nothing can be judged.
    #[error(
        "failed to audit topic `{topic}`, partition {partition}: \
         the embedded broker kept records from offset {low} only"
    )]
    Retention {
        /// The topic.
        topic: &'static str,
        /// The partition.
        partition: i32,
        /// The first offset still there.
        low: i64,
    },
    /// A topic could not be read to its end.
    #[error("failed to read the last {left} records of a topic back from the embedded broker")]
    Unreadable {
        /// How many are missing.
        left: i64,
    },
    /// The embedded broker did not take the made records.
    #[error("failed to write {failed} of the made records to the embedded broker")]
    Writer {
        /// How many were refused.
        failed: u64,
    },
    /// The working directory, or something in it, could not be used.
    #[error("failed to {attempt} `{}`", path.display())]
    Work {
        /// What was tried.
        attempt: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The sink could not be started, signalled or waited for.
    #[error("failed to {attempt} the sink process")]
    Process {
        /// What was tried.
        attempt: &'static str,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The sink ended although nobody had asked it to, or did not end well when asked.
    #[error("sink process ended by itself ({status}); its last lines: {last_lines}")]
    SinkEnded {
        /// How it ended.
        status: ExitStatus,
        /// The end of what it wrote to stderr.
        last_lines: String,
    },
    /// Nothing moved for too long.
    #[error("sink process made no progress for {seconds} s {doing}; its last lines: {last_lines}")]
    Stalled {
        /// How long was waited.
        seconds: u64,
        /// What it should have been doing.
        doing: &'static str,
        /// The end of what it wrote to stderr.
        last_lines: String,
    },
    /// The user asked to stop.
    #[error("stopped by a signal before the ledger was complete")]
    Interrupted,
    /// The ledger could not be turned into JSON.
    #[error("failed to write the ledger as JSON")]
    Json {
        /// What the serializer said.
        #[source]
        source: serde_json::Error,
    },
    /// The ledger is not clean.
    #[error("ledger found {}", faults_of(found))]
    Ledger {
        /// Everything the audit found.
        found: Box<Ledger>,
    },
}

/// How many faults are told with their coordinates.
const TOLD: usize = 3;

fn faults_of(found: &Ledger) -> String {
    let counts = [
        (found.lost, "lost"),
        (found.repeated, "repeated"),
        (found.reordered, "reordered"),
        (found.altered, "altered"),
        (found.phantom, "phantom"),
    ];
    let counts: Vec<_> = counts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, kind)| format!("{count} {kind}"))
        .collect();
    let told: Vec<_> = found.faults.iter().take(TOLD).map(ToString::to_string).collect();
    format!("{} records ({})", counts.join(", "), told.join("; "))
}

impl Coded for Error {
    fn code(&self) -> Code {
        match self {
            Self::Ledger { .. } => Code::LedgerFaults,
            _ => Code::CommandFailed,
        }
    }

    fn fix(&self) -> String {
        match self {
            Self::Ledger { .. } => {
                "run it again with the same `--seed` to see whether it stays, and report it with what was kept"
            }
            Self::Broker { .. } => "check that this machine may use loopback addresses",
            Self::Retention { .. } | Self::Unreadable { .. } | Self::Writer { .. } => "run again with fewer `--records`",
            Self::Work { .. } => "set TMPDIR to a directory that can be written",
            Self::Process { .. } => "check the limits on processes of this user",
            Self::SinkEnded { .. } => "mend what its last lines name, then run the demo again",
            Self::Stalled { .. } => {
                "run again with `--keep` and FIRSTSEEN_LOG=debug, and read `sink.log` in what is kept"
            }
            Self::Interrupted => "run it again when there is time",
            Self::Json { .. } => "report it as a bug",
        }
        .to_owned()
    }
}
