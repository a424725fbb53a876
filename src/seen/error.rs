//! What can go wrong with the state, as a user meets it.

use std::path::PathBuf;

use crate::store;
use crate::words::{Code, Coded};

/// A failure of the state.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Another process holds the state directory.
    #[error("failed to lock state directory `{dir}`: {}", holder_text(*holder))]
    Locked {
        /// The directory.
        dir: PathBuf,
        /// The holder's process id, where it could be read.
        holder: Option<u32>,
    },
    /// The state directory cannot be made, read or written.
    #[error("failed to use state directory `{dir}`")]
    Unwritable {
        /// The directory.
        dir: PathBuf,
        #[source]
        /// What was refused.
        source: Failure,
    },
    /// There is no state where one was looked for; nothing was made.
    #[error("failed to find a state in `{dir}`")]
    Absent {
        /// The directory.
        dir: PathBuf,
    },
    /// Others can change the state.
    #[error("failed to trust `{path}`: {why}")]
    Permissions {
        /// The directory or file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The state is damaged.
    #[error("failed to read the state: {what}")]
    Corrupt {
        /// What does not fit.
        what: String,
        #[source]
        /// What was found, where something below failed.
        source: Option<Failure>,
    },
    /// A newer build wrote the state; nothing was touched.
    #[error(
        "failed to open state directory `{dir}`: its layout is version {found}, this build reads \
         up to {known}"
    )]
    Newer {
        /// The directory.
        dir: PathBuf,
        /// The layout found.
        found: u32,
        /// The newest layout this build reads.
        known: u32,
    },
    /// The state belongs to something else.
    #[error("the state belongs to something else: {field} was `{stored}`, now it is `{wanted}`")]
    Foreign {
        /// What differs.
        field: &'static str,
        /// Its value in the state.
        stored: String,
        /// Its value now.
        wanted: String,
    },
    /// The fingerprints in the state were made by another rule.
    #[error("the state was made by another rule: {field} was `{stored}`, now it is `{wanted}`")]
    RuleChanged {
        /// What differs.
        field: &'static str,
        /// Its value in the state.
        stored: String,
        /// Its value now.
        wanted: String,
    },
    /// The disk is full. What was durable before is untouched.
    #[error("failed to write the state for want of disk space")]
    NoSpace(#[source] Failure),
    /// The disk failed, or it is unknown what it holds.
    #[error("failed to make the state durable")]
    Io(#[source] Failure),
    /// An earlier call failed, so nothing more is read or written until the state is opened anew.
    #[error("the state failed earlier and takes no more calls")]
    Poisoned,
}

/// The failed operation below; opaque, for its text and its source.
#[derive(Debug)]
pub struct Failure(pub(super) store::Error);

impl Failure {
    /// Returns the failure of the operating system to `what` the file or directory `path`.
    pub fn io(what: &'static str, path: impl Into<PathBuf>, source: std::io::Error) -> Self {
        Self(store::Error::io(what, path)(source))
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Failure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

impl Error {
    pub(super) fn corrupt(what: impl Into<String>) -> Self {
        Self::Corrupt { what: what.into(), source: None }
    }

    /// Says what `source` means for a state that is being opened.
    pub(super) fn opening(what: impl Into<String>, source: store::Error) -> Self {
        if source.is_environment() {
            return Self::from(source);
        }
        Self::Corrupt { what: what.into(), source: Some(Failure(source)) }
    }

    /// Returns whether the state itself is at fault, so that it should be set aside.
    pub(super) fn is_damage(&self) -> bool {
        matches!(self, Self::Corrupt { .. })
    }
}

impl From<store::Error> for Error {
    fn from(source: store::Error) -> Self {
        match source {
            store::Error::Poisoned => Self::Poisoned,
            full if full.is_no_space() => Self::NoSpace(Failure(full)),
            other => Self::Io(Failure(other)),
        }
    }
}

impl Coded for Error {
    fn code(&self) -> Code {
        match self {
            Self::Locked { .. } => Code::StateLocked,
            Self::Unwritable { .. } => Code::StateUnwritable,
            Self::Absent { .. } => Code::StateMissing,
            Self::Permissions { .. } => Code::StatePermissions,
            Self::Corrupt { .. } => Code::StateCorrupt,
            Self::Newer { .. } => Code::StateNewer,
            Self::Foreign { .. } => Code::StateForeign,
            Self::RuleChanged { .. } => Code::StateRuleChanged,
            Self::NoSpace(_) => Code::StateNoSpace,
            Self::Io(_) | Self::Poisoned => Code::StateIo,
        }
    }

    fn fix(&self) -> String {
        match self {
            Self::Locked { holder: Some(pid), .. } => {
                format!("stop process {pid}, or give this one a `state.dir` of its own")
            }
            Self::Locked { holder: None, .. } => {
                "stop the other process, or give this one a `state.dir` of its own".to_owned()
            }
            Self::Unwritable { .. } => {
                "set `state.dir` to a directory that this user may write".to_owned()
            }
            Self::Absent { .. } => {
                "set `state.dir` to the directory that `firstseen run` uses, or let it run first"
                    .to_owned()
            }
            Self::Permissions { path, .. } => format!(
                "make `{}` belong to this user alone (directories 0700, files 0600)",
                path.display()
            ),
            Self::Corrupt { .. } => "move the content of `state.dir` away and start again with \
                                     `state.on_missing_state = \"rebuild\"`"
                .to_owned(),
            Self::Newer { .. } => {
                "run the newer build, or set `state.dir` to an empty directory".to_owned()
            }
            Self::Foreign { field, .. } => {
                format!("{}, or give this config a `state.dir` of its own", restore_text(field))
            }
            Self::RuleChanged { field, .. } => format!(
                "{}, or run `firstseen state reset` for this topic so that the state is rebuilt \
                 under the new one",
                restore_text(field)
            ),
            Self::NoSpace(_) => "free disk space under `state.dir`, then start again".to_owned(),
            Self::Io(_) | Self::Poisoned => {
                "check the disk under `state.dir`, then start again".to_owned()
            }
        }
    }
}

fn holder_text(holder: Option<u32>) -> String {
    holder.map_or_else(
        || "another process holds it".to_owned(),
        |pid| format!("process {pid} holds it"),
    )
}

/// Says how to undo a change of `field`, one of those an identity has.
fn restore_text(field: &str) -> &'static str {
    match field {
        "the output topic" => "restore `sink.topic`",
        "the key rule" => "restore `dedup.key`",
        "the hash" => "restore `dedup.hash`",
        "the window's clock" => "restore `dedup.clock`",
        "the secret's id" => "restore the file `secret` in `state.dir`",
        _ => "put the directories back under their own names",
    }
}
