//! What a play with a sink borrows from the machine: a directory, a port, and the user's signals.

use std::fs::{DirBuilder, Permissions};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::Error;

/// Returns a loopback address that is free now.
pub(in crate::commands) fn free_address() -> Result<SocketAddr, Error> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|listener| listener.local_addr())
        .map_err(|source| Error::Process { attempt: "find a free port for", source })
}

/// Set once the user asked to stop. A second signal ends the process at once.
pub(in crate::commands) struct Interrupt {
    flag: Arc<AtomicBool>,
    ids: Vec<signal_hook::SigId>,
}

impl Interrupt {
    pub(in crate::commands) fn watch() -> Result<Self, Error> {
        let mut watch = Self { flag: Arc::default(), ids: Vec::new() };
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            watch
                .register(signal)
                .map_err(|source| Error::Process { attempt: "watch for signals beside", source })?;
        }
        Ok(watch)
    }

    fn register(&mut self, signal: i32) -> io::Result<()> {
        // In this order: the second signal finds the flag set, and ends the process at once.
        let again = Arc::clone(&self.flag);
        self.ids.push(signal_hook::flag::register_conditional_shutdown(signal, 1, again)?);
        self.ids.push(signal_hook::flag::register(signal, Arc::clone(&self.flag))?);
        Ok(())
    }

    pub(in crate::commands) fn must_not_be_set(&self) -> Result<(), Error> {
        if self.flag.load(Ordering::Relaxed) { Err(Error::Interrupted) } else { Ok(()) }
    }
}

impl Drop for Interrupt {
    fn drop(&mut self) {
        for id in self.ids.drain(..) {
            signal_hook::low_level::unregister(id);
        }
    }
}

/// A private directory that goes away with this value, unless it is to be kept.
pub(in crate::commands) struct WorkDir {
    path: PathBuf,
    keep: bool,
}

impl WorkDir {
    pub(in crate::commands) fn make(command: &str, keep: bool) -> Result<Self, Error> {
        let name = format!("firstseen-{command}-{}", random_name()?);
        let path = std::env::temp_dir().join(name);
        let failed = |source| Error::Work { attempt: "make", path: path.clone(), source };
        DirBuilder::new().mode(0o700).create(&path).map_err(failed)?;
        std::fs::set_permissions(&path, Permissions::from_mode(0o700)).map_err(failed)?;
        if keep {
            tracing::info!(path = %path.display(), "working directory will be kept");
        }
        Ok(Self { path, keep })
    }

    pub(in crate::commands) fn path(&self) -> &Path {
        &self.path
    }

    pub(in crate::commands) fn keep(&mut self) {
        self.keep = true;
    }

    pub(in crate::commands) fn leave(self) -> Option<PathBuf> {
        self.keep.then(|| self.path.clone())
    }
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        if self.keep {
            return;
        }
        if let Err(error) = std::fs::remove_dir_all(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "working directory not removed");
        }
    }
}

/// Returns a name that nothing else has.
pub(in crate::commands) fn random_name() -> Result<String, Error> {
    let number = getrandom::u64().map_err(|error| Error::Process {
        attempt: "name a directory for",
        source: std::io::Error::other(error.to_string()),
    })?;
    Ok(format!("{number:016x}"))
}
