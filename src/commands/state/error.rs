//! What can go wrong with `firstseen state`, beside the state itself.

use std::path::PathBuf;

use crate::words::{Code, Coded};

/// Why a command on the state failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The arguments do not fit the state or the config.
    #[error("{what}")]
    Arguments {
        /// What does not fit.
        what: String,
        /// What to do.
        fix: String,
    },
    /// Another process holds the state, and could not be asked.
    #[error("failed to ask {} that holds state directory `{dir}`: {why}", holder_text(*holder))]
    Busy {
        /// The directory.
        dir: PathBuf,
        /// The holder's process id, where it could be read.
        holder: Option<u32>,
        /// Why it does not answer.
        why: String,
    },
    /// A file that holds a part of the record could not be read.
    #[error("failed to read `{path}`")]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The state has faults.
    #[error("verify found {} in state directory `{dir}`; the first: {first}", faults_text(*faults))]
    Faults {
        /// The directory.
        dir: PathBuf,
        /// How many.
        faults: usize,
        /// Where and what the first one is.
        first: String,
    },
}

fn holder_text(holder: Option<u32>) -> String {
    holder.map_or_else(|| "the process".to_owned(), |pid| format!("process {pid}"))
}

fn faults_text(faults: usize) -> String {
    if faults == 1 { "1 fault".to_owned() } else { format!("{faults} faults") }
}

impl Error {
    pub(super) fn arguments(what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self::Arguments { what: what.into(), fix: fix.into() }
    }
}

impl Coded for Error {
    fn code(&self) -> Code {
        match self {
            Self::Arguments { .. } => Code::CommandArguments,
            Self::Busy { .. } => Code::StateLocked,
            Self::File { .. } => Code::CommandFailed,
            Self::Faults { .. } => Code::StateFaults,
        }
    }

    fn fix(&self) -> String {
        match self {
            Self::Arguments { fix, .. } => fix.clone(),
            Self::Busy { holder, .. } => format!(
                "give it a `status.listen` with `status.state = \"loopback\"`, or stop {} and run \
                 the command again",
                holder_text(*holder)
            ),
            Self::File { .. } => "check the path and its permissions".to_owned(),
            Self::Faults { .. } => {
                "start `firstseen run`: it sets what is damaged aside and does as \
                 `state.on_missing_state` says"
                    .to_owned()
            }
        }
    }
}
