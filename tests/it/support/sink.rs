//! The real program as a child process: its logs read as they come, its phases awaited.

use std::io::{BufRead, BufReader};
use std::process::{ChildStderr, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use super::config::Home;
use super::http;
use super::process::Guarded;

/// A point in the program's life that it marks in its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Open,
    Wait,
    CatchUp,
    CatchUpEnd,
    Steady,
    CheckpointBegin,
    TransactionCommit,
    CheckpointDurable,
    Commit,
    Drain,
    Close,
}

impl Phase {
    fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Wait => "wait",
            Self::CatchUp => "catch-up",
            Self::CatchUpEnd => "catch-up-end",
            Self::Steady => "steady",
            Self::CheckpointBegin => "checkpoint-begin",
            Self::TransactionCommit => "transaction-commit",
            Self::CheckpointDurable => "checkpoint-durable",
            Self::Commit => "commit",
            Self::Drain => "drain",
            Self::Close => "close",
        }
    }
}

/// A running program.
pub(crate) struct Sink {
    process: Guarded,
    told: Arc<Told>,
    reader: Option<JoinHandle<()>>,
    status_port: u16,
}

/// What the program has told so far.
#[derive(Default)]
struct Told {
    text: Mutex<Text>,
    more: Condvar,
}

#[derive(Default)]
struct Text {
    lines: Vec<String>,
    phases: Vec<String>,
    ended: bool,
}

/// How a program ended.
#[derive(Debug)]
pub(crate) struct Exit {
    /// The exit code; `None` where a signal ended it.
    pub(crate) code: Option<i32>,
    /// All it wrote to stderr.
    pub(crate) stderr: String,
}

impl Sink {
    /// Starts `firstseen run` with the home's config.
    pub(crate) fn start(home: &Home) -> Self {
        Self::start_with(home, &[])
    }

    /// Starts `firstseen run` with environment variables besides.
    pub(crate) fn start_with(home: &Home, environment: &[(&str, &str)]) -> Self {
        Self::start_as(home, &[], environment)
    }

    /// Starts `firstseen run` with more arguments and environment variables.
    pub(crate) fn start_as(home: &Home, arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_firstseen"));
        command.args(["run", "--log", "json", "--config"]).arg(home.write()).args(arguments);
        command.env("FIRSTSEEN_LOG", "info,firstseen::phase=debug");
        command.envs(environment.iter().copied()).current_dir(home.path());
        Self::launch(command, home.status_port)
    }

    /// Starts any program that writes such logs.
    pub(crate) fn launch(mut command: Command, status_port: u16) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut process = Guarded::spawn(&mut command).expect("the program can be started");
        let stderr = process.take_stderr().expect("it was piped");
        let told = Arc::new(Told::default());
        let listener = Arc::clone(&told);
        let reader = std::thread::spawn(move || listener.listen(stderr));
        Self { process, told, reader: Some(reader), status_port }
    }

    /// Returns how often the program has marked `phase`.
    pub(crate) fn count(&self, phase: Phase) -> usize {
        self.told.lock().count(phase)
    }

    /// Waits until the program has marked `phase` once.
    ///
    /// # Panics
    /// Where that does not happen in time, with what the program told.
    pub(crate) fn await_phase(&self, phase: Phase, limit: Duration) {
        self.await_phase_again(phase, 0, limit);
    }

    /// Waits until the program has marked `phase` more often than `seen`.
    pub(crate) fn await_phase_again(&self, phase: Phase, seen: usize, limit: Duration) {
        if !self.reaches(phase, seen, limit) {
            panic!("no {phase:?} within {limit:?}; the program told:\n{}", self.stderr());
        }
    }

    /// Waits for `phase` to be marked more often than `seen`; returns whether it was, before the
    /// program ended and the time was over.
    pub(crate) fn reaches(&self, phase: Phase, seen: usize, limit: Duration) -> bool {
        self.told.wait(limit, |text| text.count(phase) > seen)
    }

    /// Returns all that the program wrote to stderr so far.
    pub(crate) fn stderr(&self) -> String {
        self.told.lock().lines.join("\n")
    }

    /// Sends a signal.
    pub(crate) fn signal(&mut self, signal: Signal) {
        self.process.signal(signal);
    }

    /// Returns whether the program has ended by itself.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.process.ended().is_some()
    }

    /// Ends the program with SIGKILL as soon as it marks `phase`, and a little later. Returns
    /// whether it got that far within `limit`; it is killed either way.
    pub(crate) fn kill_at(&mut self, phase: Phase, delay: Duration, limit: Duration) -> bool {
        let reached = self.reaches(phase, 0, limit);
        if reached {
            spin(delay);
        }
        self.kill();
        reached
    }

    /// Ends the program with SIGKILL.
    pub(crate) fn kill(&mut self) -> Exit {
        let status = self.process.kill();
        self.exit(status)
    }

    /// Waits for the program to end by itself.
    ///
    /// # Panics
    /// Where that does not happen in time, with what the program told.
    pub(crate) fn wait(&mut self, limit: Duration) -> Exit {
        let Some(status) = self.process.wait(limit) else {
            panic!("still running after {limit:?}; the program told:\n{}", self.stderr());
        };
        self.exit(status)
    }

    /// Asks the program to leave with SIGTERM and waits for it.
    pub(crate) fn leave(&mut self, limit: Duration) -> Exit {
        self.signal(Signal::TERM);
        self.wait(limit)
    }

    fn exit(&mut self, status: std::process::ExitStatus) -> Exit {
        if let Some(reader) = self.reader.take() {
            reader.join().expect("the listener does not fail");
        }
        Exit { code: status.code(), stderr: self.stderr() }
    }

    /// Lets the program's files grow to `bytes` and no more, as a full disk would.
    pub(crate) fn limit_files(&self, bytes: Option<u64>) {
        self.process.limit_files(bytes);
    }

    /// Returns whether `/health/ready` says yes.
    pub(crate) fn is_ready(&self) -> bool {
        http::get(self.status_port, "/health/ready").is_ok_and(|answer| answer.status == 200)
    }

    /// Returns a metric with these labels, written as the program writes them; `None` as for
    /// [`Sink::metric`].
    pub(crate) fn series(&self, name: &str, labels: &str) -> Option<f64> {
        let page = http::get(self.status_port, "/metrics").ok()?.body;
        let wanted = format!("{name}{{{labels}}} ");
        page.lines().find_map(|line| line.strip_prefix(&wanted)?.parse().ok())
    }

    /// Returns a metric, summed over its labels; `None` where there is none of that name or the
    /// status address does not answer.
    pub(crate) fn metric(&self, name: &str) -> Option<f64> {
        http::sums(&http::get(self.status_port, "/metrics").ok()?.body).get(name).copied()
    }
}

/// Waits for a moment more exactly than a sleep could.
fn spin(delay: Duration) {
    const COARSE: Duration = Duration::from_millis(2);
    let until = Instant::now() + delay;
    std::thread::sleep(delay.saturating_sub(COARSE));
    while Instant::now() < until {
        std::hint::spin_loop();
    }
}

impl Told {
    fn lock(&self) -> std::sync::MutexGuard<'_, Text> {
        self.text.lock().expect("no holder panics")
    }

    fn listen(&self, stderr: ChildStderr) {
        for line in BufReader::new(stderr).split(b'\n') {
            let line = line.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
            let line = line.unwrap_or_else(|error| format!("reading stderr: {error}"));
            let mut text = self.lock();
            text.phases.extend(phase_of(&line));
            text.lines.push(line);
            self.more.notify_all();
        }
        self.lock().ended = true;
        self.more.notify_all();
    }

    /// Waits until `seen` holds; returns whether it did before the program ended or time was over.
    fn wait(&self, limit: Duration, seen: impl Fn(&Text) -> bool) -> bool {
        let waits = |text: &mut Text| !text.ended && !seen(text);
        let waited = self.more.wait_timeout_while(self.lock(), limit, waits);
        seen(&waited.expect("no holder panics").0)
    }
}

impl Text {
    fn count(&self, phase: Phase) -> usize {
        self.phases.iter().filter(|marked| *marked == phase.as_str()).count()
    }
}

/// Returns the phase that a log line marks.
fn phase_of(line: &str) -> Option<String> {
    let line: Value = serde_json::from_str(line).ok()?;
    if line.get("target")?.as_str()? != "firstseen::phase" {
        return None;
    }
    let phase = line.get("fields").and_then(|fields| fields.get("phase")).or(line.get("phase"))?;
    phase.as_str().map(str::to_owned)
}

impl Exit {
    /// Returns the one line that tells why the program failed.
    pub(crate) fn error(&self) -> &str {
        self.stderr.lines().find(|line| line.starts_with("error[")).unwrap_or("(no error line)")
    }

    /// Fails unless the program ended with `code` because of `error`.
    pub(crate) fn assert_failed(&self, code: i32, error: &str) {
        let mark = format!("error[{error}]:");
        let told = self.stderr.lines().filter(|line| line.starts_with(&mark)).count();
        assert!(
            self.code == Some(code) && told == 1,
            "expected exit {code} and one line {mark}, got exit {:?} and:\n{}",
            self.code,
            self.stderr
        );
    }

    /// Fails unless the program ended well.
    pub(crate) fn assert_drained(&self) {
        assert_eq!(self.code, Some(0), "it told:\n{}", self.stderr);
    }
}
