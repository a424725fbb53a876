//! One latency turn: records at a steady rate, timed from when they were due to when a
//! read_committed reader has them; then a SIGKILL, timed to the first record written after it.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::Error;
use super::audit::audit;
use super::child::{self, Job};
use super::figures::{Figures, float};
use super::matrix::Case;
use super::pen::{Pen, WARM_UP, Wish};
use super::place::{end, stalled};
use super::plan::{Plan, Purpose, Stamp};
use super::setup::Setup;
use super::throughput::Turn;
use crate::commands::demo::sink::Sink;
use crate::config::Config;
use crate::kafka::bench::{Follower, Loader, Next};

/// Longer than any start: a rebuild of nothing, a group to join.
const STALL: Duration = Duration::from_secs(60);
/// How long after the last timed record is waited for those still missing.
const PATIENCE: Duration = Duration::from_secs(10);
const TURN: Duration = Duration::from_millis(5);
const LINGER: Duration = Duration::from_millis(1);

/// What came of a turn, with every latency in microseconds.
#[derive(Debug)]
pub(super) struct Steady {
    pub(super) turn: Turn,
    pub(super) latencies: Histogram<u64>,
    /// Records a second that the load reached.
    pub(super) rate: f64,
}

/// Measures `case` in round `round`.
pub(super) fn measure(setup: &mut Setup<'_>, case: Case, round: u32) -> Result<Steady, Error> {
    let suffix = format!("{}-{}", setup.turns + 1, round + 1);
    let from = setup.place.make(&format!("steady-in-{suffix}"), setup.partitions)?;
    let to = setup.place.make(&format!("steady-out-{suffix}"), setup.partitions)?;
    let (job, config) = setup.job(case, &from, &to)?;
    let mut watch = Watch::start(setup, case, &job, &config)?;
    watch.wait_for_first()?;
    watch.time()?;
    if case.mode.is_run() {
        watch.kill(&job)?;
    }
    let Watch { latencies, notes, recovery, sink, pen, .. } = watch;
    let written = pen.finish()?;
    drain(setup, case, &job, &config, &sink, written.records)?;
    child::leave(sink)?;
    setup.progress.doing("reading both topics back for the ledger");
    let (partitions, window) = (setup.partitions, setup.options.window);
    let alive = || setup.go_on();
    let ledger = audit(&config, (&from, &to), partitions, case.mode, window, &alive)?;
    for topic in [&from, &to] {
        setup.place.remove(topic);
    }
    setup.clear(&job);
    let recovery_ms = recovery.map(|took| took.as_secs_f64() * 1e3);
    let figures = Figures { recovery_ms, ..figures(&latencies) };
    Ok(Steady { turn: Turn { figures, ledger, notes }, latencies, rate: written.rate })
}

fn figures(latencies: &Histogram<u64>) -> Figures {
    if latencies.is_empty() {
        return Figures::default();
    }
    let at = |quantile: f64| Some(float(latencies.value_at_quantile(quantile)) / 1e3);
    Figures {
        latency_p50_ms: at(0.5),
        latency_p99_ms: at(0.99),
        latency_p999_ms: at(0.999),
        latency_max_ms: Some(float(latencies.max()) / 1e3),
        ..Figures::default()
    }
}

/// Waits until the child has done all there is.
fn drain(
    setup: &Setup<'_>,
    case: Case,
    job: &Job,
    config: &Config,
    sink: &Sink,
    records: u64,
) -> Result<(), Error> {
    let source = Follower::watch(config, &job.from, setup.partitions)?;
    let output = Follower::watch(config, &job.to, setup.partitions)?;
    let wanted = i64::try_from(records).unwrap_or(i64::MAX);
    let (mut last, mut moved) = (-1, Instant::now());
    loop {
        setup.go_on()?;
        let reached = if case.mode.is_run() { source.committed()? } else { end(&output)? };
        if reached >= wanted {
            return Ok(());
        }
        if reached != last {
            (last, moved) = (reached, Instant::now());
        } else if moved.elapsed() > STALL {
            tracing::debug!(lines = sink.last_lines(), "the sink's last lines");
            return Err(stalled(STALL, reached, wanted));
        }
        std::thread::sleep(TURN * 4);
    }
}

/// The child at work, and what was seen of it.
struct Watch<'s, 'a> {
    setup: &'s Setup<'a>,
    case: Case,
    epoch: Instant,
    output: Follower,
    sink: Sink,
    pen: Pen,
    latencies: Histogram<u64>,
    notes: Vec<String>,
    recovery: Option<Duration>,
}

impl<'s, 'a> Watch<'s, 'a> {
    fn start(setup: &'s Setup<'a>, case: Case, job: &Job, config: &Config) -> Result<Self, Error> {
        let output = Follower::open(config, &job.to, setup.partitions)?;
        let sink = job.start(&setup.base)?;
        let loader = Loader::connect(config, &job.from, LINGER)?;
        let epoch = Instant::now();
        let wish = Wish { rate: setup.options.rate, timed: setup.options.rate_for };
        let pen = Pen::start(loader, Plan::new(setup.shape()), wish, epoch)?;
        let latencies = empty_histogram()?;
        let (notes, recovery) = (Vec::new(), None);
        Ok(Self { setup, case, epoch, output, sink, pen, latencies, notes, recovery })
    }

    /// Waits until the path is up, and begins the steady pace.
    fn wait_for_first(&mut self) -> Result<(), Error> {
        self.setup.progress.doing(&format!("{}: waiting for the first record", self.case));
        let deadline = Instant::now() + STALL;
        while self.next()?.is_none() {
            if Instant::now() > deadline {
                return Err(stalled(STALL, 0, 1));
            }
        }
        self.pen.go();
        Ok(())
    }

    /// Times records until the wish is over and all of them have come.
    fn time(&mut self) -> Result<(), Error> {
        let lasts = WARM_UP + self.setup.options.rate_for;
        let until = Instant::now() + lasts;
        let mut backlog = None;
        loop {
            if let Some((stamp, at)) = self.next()?
                && stamp.purpose == Purpose::Timed
            {
                let took = at.saturating_sub(Duration::from_nanos(stamp.due_ns));
                let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
                self.latencies.saturating_record(us);
            }
            let now = Instant::now();
            if now < until {
                let left = until - now;
                let done = lasts.saturating_sub(left).as_secs();
                self.setup.progress.counted(
                    &format!("{}: s at the steady rate", self.case),
                    done,
                    lasts.as_secs(),
                );
                continue;
            }
            let missing = self.pen.timed_keys().saturating_sub(self.latencies.len());
            backlog.get_or_insert(missing);
            if missing == 0 || now > until + PATIENCE {
                break;
            }
        }
        self.note_backlog(backlog.unwrap_or(0));
        Ok(())
    }

    fn note_backlog(&mut self, backlog: u64) {
        let second = self.setup.options.rate;
        let usual = self.case.interval.map_or(0, |interval| {
            u64::try_from(interval.as_millis()).unwrap_or(u64::MAX).saturating_mul(second) / 1_000
        });
        if backlog > usual.saturating_add(second) {
            self.notes.push(format!(
                "could not keep up with {second} records/s: {backlog} were missing at the end"
            ));
        }
    }

    /// Kills the child, starts it again, and waits for the first record that was due after that.
    fn kill(&mut self, job: &Job) -> Result<(), Error> {
        self.setup.progress.doing(&format!("{}: kill -9", self.case));
        self.sink.kill()?;
        let killed = self.epoch.elapsed();
        self.sink = job.start(&self.setup.base)?;
        let deadline = Instant::now() + STALL;
        loop {
            match self.next()? {
                Some((stamp, at)) if Duration::from_nanos(stamp.due_ns) > killed => {
                    self.recovery = Some(at.saturating_sub(killed));
                    return Ok(());
                }
                _ if Instant::now() > deadline => {
                    return Err(stalled(STALL, 0, 1));
                }
                _ => {}
            }
        }
    }

    /// Takes the next record off the output, with the moment it was met.
    fn next(&mut self) -> Result<Option<(Stamp, Duration)>, Error> {
        match self.output.next(TURN)? {
            Next::Record(record) => {
                let at = self.epoch.elapsed();
                Ok(record.value().and_then(Stamp::read).map(|stamp| (stamp, at)))
            }
            Next::End(_) | Next::Nothing => {
                self.setup.go_on()?;
                self.sink.must_run()?;
                self.pen.must_write()?;
                Ok(None)
            }
        }
    }
}

/// Three digits, in microseconds, up to ten minutes.
pub(super) fn empty_histogram() -> Result<Histogram<u64>, Error> {
    Histogram::new_with_bounds(1, 600_000_000, 3)
        .map_err(|error| Error::Options(format!("no histogram can be made: {error}")))
}
