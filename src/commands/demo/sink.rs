//! The sink as a child process: start, watch, ask for its counters, kill, stop.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::Error;

/// The counter of records read again after a restart.
const REPLAYED: &str = "firstseen_records_replayed_total";
const SCRAPE_TIMEOUT: Duration = Duration::from_millis(500);
const LAST_LINES: usize = 8;

/// How to run a sink on a config file. Tests put other programs here, good and bad ones.
#[derive(Clone)]
pub struct SinkCommand(Arc<dyn Fn(&Path) -> Command + Send + Sync>);

impl SinkCommand {
    /// Runs what `make` returns for the path of the config file.
    pub fn new(make: impl Fn(&Path) -> Command + Send + Sync + 'static) -> Self {
        Self(Arc::new(make))
    }

    /// Runs `run --config FILE` of the program this process runs.
    ///
    /// # Errors
    /// The system cannot tell which program that is.
    pub fn this_program() -> Result<Self, Error> {
        let program = std::env::current_exe()
            .map_err(|source| Error::Process { attempt: "find the program of", source })?;
        Ok(Self::new(move |config| {
            let mut command = Command::new(&program);
            command.arg("run").arg("--config").arg(config);
            command
        }))
    }
}

impl fmt::Debug for SinkCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SinkCommand")
    }
}

/// A running sink. Dropping it kills it.
#[derive(Debug)]
pub(in crate::commands) struct Sink {
    child: Child,
    log: PathBuf,
    status: SocketAddr,
}

impl Sink {
    /// Starts one; its stderr is appended to the file `log`, its counters are asked at `status`.
    pub(in crate::commands) fn start(
        command: &SinkCommand,
        config: &Path,
        log: &Path,
        status: SocketAddr,
    ) -> Result<Self, Error> {
        let stderr = File::options()
            .create(true)
            .append(true)
            .open(log)
            .map_err(|source| Error::Work { attempt: "open", path: log.to_owned(), source })?;
        let child = (command.0)(config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(stderr)
            .spawn()
            .map_err(process("start"))?;
        Ok(Self { child, log: log.to_owned(), status })
    }

    /// Fails if it has ended, which nobody asked it to.
    pub(in crate::commands) fn must_run(&mut self) -> Result<(), Error> {
        match self.exited()? {
            None => Ok(()),
            Some(status) => Err(Error::SinkEnded { status, last_lines: self.last_lines() }),
        }
    }

    /// Returns how it ended, if it has.
    pub(in crate::commands) fn exited(&mut self) -> Result<Option<ExitStatus>, Error> {
        self.child.try_wait().map_err(process("watch"))
    }

    /// Kills it with SIGKILL and collects it. True if it was alive until then.
    pub(in crate::commands) fn kill(&mut self) -> Result<(), Error> {
        self.must_run()?;
        self.child.kill().map_err(process("kill"))?;
        let status = self.child.wait().map_err(process("collect"))?;
        if status.code().is_some() {
            // It ended by itself between the look and the kill.
            return Err(Error::SinkEnded { status, last_lines: self.last_lines() });
        }
        Ok(())
    }

    /// Asks it to drain and leave (SIGTERM).
    pub(in crate::commands) fn ask_to_stop(&self) -> Result<(), Error> {
        let id = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let Some(pid) = id else {
            let source = io::Error::from(io::ErrorKind::NotFound);
            return Err(process("signal")(source));
        };
        kill_process(pid, Signal::TERM).map_err(|errno| process("signal")(errno.into()))
    }

    /// Returns how many records it says it has replayed, if it answers.
    pub(in crate::commands) fn replayed(&self) -> Option<u64> {
        self.metrics().as_deref().and_then(|page| counter(page, REPLAYED))
    }

    /// Returns its metrics page, if it answers.
    pub(in crate::commands) fn metrics(&self) -> Option<String> {
        scrape(self.status).ok()
    }

    /// Returns its process id.
    pub(in crate::commands) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the end of what it wrote to stderr, on one line.
    pub(in crate::commands) fn last_lines(&self) -> String {
        match std::fs::read(&self.log) {
            Ok(bytes) => {
                let text = String::from_utf8_lossy(&bytes);
                let lines: Vec<_> = text.lines().filter(|line| !line.trim().is_empty()).collect();
                let from = lines.len().saturating_sub(LAST_LINES);
                let last = lines.get(from..).unwrap_or_default();
                if last.is_empty() { "(none)".to_owned() } else { last.join(" | ") }
            }
            Err(error) => format!("(unreadable: {error})"),
        }
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        // Both fail only for a child that was collected already.
        self.child.kill().unwrap_or_default();
        self.child.wait().map(|_| ()).unwrap_or_default();
    }
}

fn process(attempt: &'static str) -> impl Fn(io::Error) -> Error {
    move |source| Error::Process { attempt, source }
}

fn scrape(address: SocketAddr) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, SCRAPE_TIMEOUT)?;
    stream.set_read_timeout(Some(SCRAPE_TIMEOUT))?;
    stream.set_write_timeout(Some(SCRAPE_TIMEOUT))?;
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut page = Vec::new();
    stream.read_to_end(&mut page)?;
    Ok(String::from_utf8_lossy(&page).into_owned())
}

/// Sums all series of the counter `name` on a metrics page; `None` where it is not there.
fn counter(page: &str, name: &str) -> Option<u64> {
    let mut total = None;
    for line in page.lines() {
        let Some(rest) = line.strip_prefix(name) else { continue };
        if !rest.starts_with(['{', ' ']) {
            continue;
        }
        let value: Option<u64> = rest.rsplit(' ').next().and_then(|number| number.parse().ok());
        total = Some(total.unwrap_or(0) + value?);
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_is_summed_over_its_series_and_not_mistaken_for_another() {
        let page = "# TYPE firstseen_records_replayed counter\n\
                    firstseen_records_replayed_total{partition=\"0\"} 3\n\
                    firstseen_records_replayed_total{partition=\"1\"} 4\n\
                    firstseen_records_replayed_total_other 100\n";
        assert_eq!(counter(page, REPLAYED), Some(7));
        assert_eq!(counter("firstseen_records_replayed_total 9", REPLAYED), Some(9));
        assert_eq!(counter("other 9", REPLAYED), None);
    }
}
