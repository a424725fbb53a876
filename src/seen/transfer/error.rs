//! What can go wrong with an export or import.

use std::path::PathBuf;

use crate::seen::Error;
use crate::words::{Code, Coded, SourcePartition};

/// A state that could not be exported or imported. Nothing is left half done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransferError {
    /// The file cannot be read or written.
    #[error("failed to {attempt} export file `{path}`")]
    File {
        /// What was tried.
        attempt: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The file is not an export, or not the one that was written.
    #[error("failed to read export file `{path}`: {what} (frame at byte {at})")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What does not fit.
        what: String,
        /// Where the frame that could not be read begins.
        at: u64,
    },
    /// A newer build wrote the file.
    #[error(
        "failed to read export file `{path}`: its format is version {found}, this build reads up \
         to {known}"
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// The version found.
        found: u32,
        /// The newest version this build reads.
        known: u32,
    },
    /// A state would be overwritten.
    #[error("failed to import the state of {partition}: there is one in `{dir}`")]
    Exists {
        /// The partition.
        partition: SourcePartition,
        /// Where its state is.
        dir: PathBuf,
    },
    /// The file holds a partition that this config does not read.
    #[error("failed to import the state of {partition}: this config does not read that topic")]
    NotRead {
        /// The partition.
        partition: SourcePartition,
    },
    /// The state.
    #[error(transparent)]
    State(#[from] Error),
}

impl Coded for TransferError {
    fn code(&self) -> Code {
        match self {
            Self::File { .. } => Code::CommandFailed,
            Self::Damaged { .. } => Code::StateExportDamaged,
            Self::Newer { .. } => Code::StateNewer,
            Self::Exists { .. } => Code::StateExists,
            Self::NotRead { .. } => Code::StateForeign,
            Self::State(error) => error.code(),
        }
    }

    fn fix(&self) -> String {
        match self {
            Self::File { source, .. } if source.kind() == std::io::ErrorKind::AlreadyExists => {
                "choose another file name; none is overwritten".to_owned()
            }
            Self::File { .. } => "check the path, its permissions and the disk it is on".to_owned(),
            Self::Damaged { .. } => {
                "make the export again with `firstseen state export`, and copy it whole".to_owned()
            }
            Self::Newer { .. } => "import it with the newer build".to_owned(),
            Self::Exists { partition, .. } => format!(
                "if the imported one is to count, remove the present one with `firstseen state \
                 reset --topic {} --partition {}`",
                partition.topic, partition.partition
            ),
            Self::NotRead { .. } => {
                "import it with the config of its topic, or choose with `--topic` and `--partition`"
                    .to_owned()
            }
            Self::State(error) => error.fix(),
        }
    }
}
