//! Child processes that never outlive the tests, even if those are killed.

use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};

use super::wait::try_until;

/// A child process with a watchdog: a shell that kills it as soon as this process is gone.
pub(crate) struct Guarded {
    child: Child,
    watchdog: Child,
    status: Option<ExitStatus>,
}

impl Guarded {
    /// Starts `command`.
    ///
    /// # Errors
    /// Where the program cannot be started.
    pub(crate) fn spawn(command: &mut Command) -> std::io::Result<Self> {
        Self::spawn_in(command, None)
    }

    /// Starts `command`, whose directory `home` is removed with it when this process is gone.
    ///
    /// # Errors
    /// Where the program cannot be started.
    pub(crate) fn spawn_in(command: &mut Command, home: Option<&Path>) -> std::io::Result<Self> {
        let mut child = command.spawn()?;
        match watch(&child, home) {
            Ok(watchdog) => Ok(Self { child, watchdog, status: None }),
            Err(error) => {
                stop(&mut child);
                Err(error)
            }
        }
    }

    /// Takes the child's stderr, where it is a pipe and was not taken before.
    pub(crate) fn take_stderr(&mut self) -> Option<std::process::ChildStderr> {
        self.child.stderr.take()
    }

    /// Sends a signal; a child that has ended gets none.
    pub(crate) fn signal(&mut self, signal: Signal) {
        if self.ended().is_none() {
            let pid = Pid::from_child(&self.child);
            kill_process(pid, signal).expect("our own child can be signalled");
        }
    }

    /// Lets the child's files grow to `bytes` and no more, as a full disk would; `None` lifts that.
    pub(crate) fn limit_files(&self, bytes: Option<u64>) {
        let limit = Rlimit { current: bytes, maximum: None };
        let pid = Pid::from_child(&self.child);
        prlimit(Some(pid), Resource::Fsize, limit).expect("our own child can be limited");
    }

    /// Returns how the child ended, or `None` while it runs.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        if self.status.is_none() {
            self.status = self.child.try_wait().expect("our own child can be waited for");
        }
        self.status
    }

    /// Waits up to `limit` for the child to end.
    pub(crate) fn wait(&mut self, limit: Duration) -> Option<ExitStatus> {
        try_until(limit, || self.ended())
    }

    /// Ends the child with SIGKILL and waits for it.
    pub(crate) fn kill(&mut self) -> ExitStatus {
        self.signal(Signal::KILL);
        if self.status.is_none() {
            self.status = Some(self.child.wait().expect("our own child can be waited for"));
        }
        self.status.expect("set above")
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // The watchdog first: it must not meet a process id that somebody else got.
        stop(&mut self.watchdog);
        if self.status.is_none() {
            stop(&mut self.child);
        }
    }
}

/// Starts a shell whose stdin is a pipe that only this process holds open.
fn watch(child: &Child, home: Option<&Path>) -> std::io::Result<Child> {
    // The directory is tried again, since a process may write for a moment after it was killed.
    const WATCH: &str = "read -r line; kill -9 \"$1\"; \
        for try in 1 2 3; do [ -z \"$2\" ] || rm -rf \"$2\" && break; sleep 1; done";
    Command::new("sh")
        .args(["-c", WATCH, "watchdog", &child.id().to_string()])
        .arg(home.unwrap_or(Path::new("")))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
}

fn stop(child: &mut Child) {
    if let Err(error) = child.kill().and_then(|()| child.wait()) {
        eprintln!("process {} could not be ended: {error}", child.id());
    }
}
