//! What can go wrong below the seen-set.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// A failed store operation.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("failed to {what} `{path}`")]
    Io { what: &'static str, path: PathBuf, source: io::Error },
    #[error("failed to {what} the block store `{path}`")]
    Sled { what: &'static str, path: PathBuf, source: sled::Error },
    #[error("the block store panicked while it tried to {what}: {message}")]
    Panicked { what: &'static str, message: String },
    #[error("failed to open the state within {limit:?}")]
    TimedOut { limit: Duration },
    #[error("a file is missing, shortened or of the wrong kind: `{path}`")]
    Missing { path: PathBuf },
    #[error("the checksum of `{path}` does not match")]
    Checksum { path: PathBuf },
    #[error("a value of {len} bytes exceeds the limit of {limit}", limit = super::MAX_VALUE)]
    TooLong { len: usize },
    #[error("the store failed earlier and takes no more calls")]
    Poisoned,
    #[error("the layout step {step} failed")]
    #[expect(dead_code, reason = "there is only one layout yet")]
    Migration { step: u32, source: Box<Error> },
}

/// What sled says where a database is open already.
pub(super) const BUSY: &str = "could not acquire lock";

impl Error {
    pub(crate) fn io(
        what: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { what, path, source }
    }

    pub(crate) fn sled(
        what: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(sled::Error) -> Self {
        let path = path.into();
        move |source| Self::Sled { what, path, source }
    }

    /// Returns the I/O error at the bottom, if there is one.
    pub(crate) fn io_source(&self) -> Option<&io::Error> {
        match self {
            Self::Io { source, .. } | Self::Sled { source: sled::Error::Io(source), .. } => {
                Some(source)
            }
            Self::Migration { source, .. } => source.io_source(),
            _ => None,
        }
    }

    /// Returns whether the disk has no room left.
    pub(crate) fn is_no_space(&self) -> bool {
        self.io_source().is_some_and(|source| {
            matches!(
                source.kind(),
                io::ErrorKind::StorageFull
                    | io::ErrorKind::QuotaExceeded
                    | io::ErrorKind::FileTooLarge
            )
        })
    }

    /// Returns whether permissions or a read-only mount are in the way.
    pub(crate) fn is_unwritable(&self) -> bool {
        self.io_source().is_some_and(|source| {
            matches!(
                source.kind(),
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
            )
        })
    }

    /// Returns whether this process has not closed the database yet: it is whole, and in use.
    pub(crate) fn is_busy(&self) -> bool {
        // sled gives it no kind of its own.
        self.io_source().is_some_and(|source| source.to_string().contains(BUSY))
    }

    /// Returns whether the surroundings failed and not the state: no reason to set it aside.
    pub(crate) fn is_environment(&self) -> bool {
        const TOO_MANY_FILES: [i32; 2] = [23, 24]; // ENFILE, EMFILE
        let other = self.io_source().is_some_and(|source| {
            matches!(source.kind(), io::ErrorKind::OutOfMemory | io::ErrorKind::Interrupted)
                || source.raw_os_error().is_some_and(|code| TOO_MANY_FILES.contains(&code))
        });
        other
            || self.is_busy()
            || self.is_no_space()
            || self.is_unwritable()
            || matches!(self, Self::Poisoned)
    }
}
