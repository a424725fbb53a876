//! The play itself: write, run, kill, restart, drain, audit.
//!
//! Writing and killing move in lockstep. The records are cut into one part more than there are
//! kills; the writer may go on to the next part only when the kill of this one is done. Each kill
//! waits until the *output* has come to a seeded place in the middle of its part, so it always meets
//! a sink with work before it and unfinished work behind it, however fast or slow the machine is.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::audit::{self, Ledger};
use super::broker::{Broker, OUTPUT, Reader, SOURCE};
use super::plan::{self, Plan, Random};
use super::progress::{Progress, Seen};
use super::report;
use super::sink::{Sink, SinkCommand};
use super::surroundings::{Interrupt, WorkDir, free_address};
use super::writer::Writer;
use super::{Error, Options};
use crate::ledger;

/// How long nothing may move before the demo gives up.
const STALL: Duration = Duration::from_secs(20);
/// How long one turn waits for the output.
const TURN: Duration = Duration::from_millis(5);
/// A kill comes when this much of its part is on the output: at least, and up to this much more.
const KILL_FROM_PERCENT: u64 = 30;
const KILL_SPREAD_PERCENT: u64 = 40;

/// What came of a demo.
#[derive(Debug)]
#[non_exhaustive]
pub struct Outcome {
    /// The ledger.
    pub ledger: Ledger,
    /// The config the sink ran with.
    pub config: String,
    /// The working directory, where it was kept: on request, or because the ledger is not clean.
    pub kept: Option<PathBuf>,
    /// Whether the sink told how much it had replayed; if not, the ledger says 0.
    pub replayed_is_known: bool,
    /// How long it all took.
    pub took: Duration,
    found: ledger::Ledger,
}

impl Outcome {
    #[cfg(test)]
    pub(super) fn for_test(ledger: Ledger) -> Self {
        Self {
            ledger,
            config: "[kafka]\n".to_owned(),
            kept: None,
            replayed_is_known: false,
            took: Duration::from_secs(8),
            found: ledger::Ledger::default(),
        }
    }

    /// Returns whether the promise was kept.
    ///
    /// # Errors
    /// Records were lost, repeated, reordered or altered.
    pub fn verdict(self) -> Result<(), Error> {
        if self.found.is_clean() {
            return Ok(());
        }
        Err(Error::Ledger { found: Box::new(self.found) })
    }
}

/// Plays the demo with `sink` as the program under test, and reports to `progress`.
///
/// # Errors
/// The demo could not be played to its end. A ledger that is not clean is not an error here; see
/// [`Outcome::verdict`].
pub fn play(
    options: &Options,
    sink: &SinkCommand,
    progress: &mut Progress,
) -> Result<Outcome, Error> {
    let start = Instant::now();
    let mut work = WorkDir::make("demo", options.keep)?;
    let mut stage = Stage::set(options, sink, progress, work.path())?;
    stage.kill_again_and_again()?;
    stage.drain()?;
    stage.progress.tell("reading both topics back with a client of its own");
    let found = audit::audit(&stage.broker)?;
    if !found.is_clean() {
        work.keep();
    }
    let replayed = stage.replayed;
    let ledger = Ledger::new(&found, replayed.unwrap_or(0), stage.kills);
    let config = std::mem::take(&mut stage.config_text);
    stage.progress.end();
    drop(stage);
    Ok(Outcome {
        ledger,
        config,
        kept: work.leave(),
        replayed_is_known: replayed.is_some(),
        took: start.elapsed(),
        found,
    })
}

struct Stage<'a> {
    options: &'a Options,
    command: &'a SinkCommand,
    progress: &'a mut Progress,
    config_text: String,
    config: PathBuf,
    log: PathBuf,
    status: SocketAddr,
    // The readers and the writer go before the broker they talk to.
    output: Reader,
    writer: Writer,
    broker: Broker,
    random: Random,
    on_output: u64,
    kills: u64,
    /// What the sink says, once it has come to the end.
    replayed: Option<u64>,
    interrupted: Interrupt,
    moved: Instant,
}

impl<'a> Stage<'a> {
    fn set(
        options: &'a Options,
        command: &'a SinkCommand,
        progress: &'a mut Progress,
        work: &Path,
    ) -> Result<Self, Error> {
        let interrupted = Interrupt::watch()?;
        let broker = Broker::start(plan::partitions(options.records))?;
        let address = broker.address();
        let status = free_address()?;
        let config = work.join("firstseen.toml");
        let config_text = report::config(&address, &work.join("state"), status);
        std::fs::write(&config, &config_text).map_err(|source| Error::Work {
            attempt: "write",
            path: config.clone(),
            source,
        })?;
        let output = broker.read(OUTPUT)?;
        let plan = Plan::new(options.seed, options.records);
        let writer = Writer::start(&address, plan, options.records)?;
        Ok(Self {
            options,
            command,
            progress,
            config_text,
            config,
            log: work.join("sink.log"),
            status,
            output,
            writer,
            broker,
            random: Random::new(!options.seed),
            on_output: 0,
            kills: 0,
            replayed: None,
            interrupted,
            moved: Instant::now(),
        })
    }

    fn kill_again_and_again(&mut self) -> Result<(), Error> {
        let firsts = first_occurrences(self.options);
        let parts = u64::from(self.options.kills) + 1;
        for part in 0..u64::from(self.options.kills) {
            self.writer.allow(self.options.records * (part + 1) / parts);
            let percent = KILL_FROM_PERCENT + self.random.below(KILL_SPREAD_PERCENT + 1);
            let place = place_in_part(&firsts, self.options.records, parts, part, percent);
            let mut sink = self.start()?;
            while self.on_output < place {
                self.turn(&mut sink, "while the output should grow")?;
            }
            sink.kill()?;
            self.kills += 1;
            self.progress.killed(&self.seen());
        }
        Ok(())
    }

    /// Lets one more sink finish everything, and leave when asked.
    fn drain(&mut self) -> Result<(), Error> {
        self.writer.allow(self.options.records);
        let mut sink = self.start()?;
        while !self.writer.is_finished() {
            self.turn(&mut sink, "while the source is written")?;
        }
        self.writer.finish()?;
        let source = self.broker.read(SOURCE)?;
        let end: i64 = source.ends()?.iter().sum();
        let mut committed = 0;
        while committed < end {
            self.turn(&mut sink, "with records left in the source")?;
            let now = source.committed()?;
            if now != committed {
                self.moved = Instant::now();
            }
            committed = now;
        }
        self.replayed = sink.replayed();
        self.stop(sink)
    }

    fn stop(&mut self, mut sink: Sink) -> Result<(), Error> {
        sink.ask_to_stop()?;
        self.moved = Instant::now();
        loop {
            match sink.exited()? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => {
                    return Err(Error::SinkEnded { status, last_lines: sink.last_lines() });
                }
                None => self.look(&sink, "after SIGTERM")?,
            }
        }
    }

    fn start(&mut self) -> Result<Sink, Error> {
        self.moved = Instant::now();
        Sink::start(self.command, &self.config, &self.log, self.status)
    }

    fn turn(&mut self, sink: &mut Sink, doing: &'static str) -> Result<(), Error> {
        // Before the sink: it may have got the same signal, and left as it should.
        self.interrupted.must_not_be_set()?;
        sink.must_run()?;
        self.look(sink, doing)
    }

    /// Takes what is new on the output, and gives up where nothing moves or the user wants out.
    fn look(&mut self, sink: &Sink, doing: &'static str) -> Result<(), Error> {
        let until = Instant::now() + TURN;
        let before = self.on_output;
        while self.output.next(until.saturating_duration_since(Instant::now()))?.is_some() {
            self.on_output += 1;
            if Instant::now() >= until {
                break;
            }
        }
        if self.on_output != before {
            self.moved = Instant::now();
        }
        self.progress.show(&self.seen());
        if self.moved.elapsed() > STALL {
            let last_lines = sink.last_lines();
            return Err(Error::Stalled { seconds: STALL.as_secs(), doing, last_lines });
        }
        Ok(())
    }

    fn seen(&self) -> Seen {
        Seen { written: self.writer.written(), forwarded: self.on_output, kills: self.kills }
    }
}

/// Returns, for each number of records written, how many first occurrences are among them.
fn first_occurrences(options: &Options) -> Vec<u64> {
    let mut keys = std::collections::HashSet::new();
    let plan = Plan::new(options.seed, options.records);
    plan.map(|record| {
        keys.insert(record.key);
        u64::try_from(keys.len()).unwrap_or(u64::MAX)
    })
    .collect()
}

/// Returns how many records are on the output when `percent` of part `part` is done.
fn place_in_part(firsts: &[u64], records: u64, parts: u64, part: u64, percent: u64) -> u64 {
    let record = records * (part * 100 + percent) / (parts * 100);
    let at = usize::try_from(record).unwrap_or(usize::MAX);
    firsts.get(at).or(firsts.last()).copied().unwrap_or(0)
}
