//! One throughput turn: a child copies the whole source, and the growth of its output is watched.
//!
//! The output keeps the producer's times, since `run` refuses one that does not. So the pace is
//! taken from the output's end, asked of the broker every 20 ms: a record counts once the broker
//! has appended it, and start-up does not count at all.

use std::time::{Duration, Instant};

use super::Error;
use super::audit::audit;
use super::child::{self, Job};
use super::figures::{Figures, float};
use super::matrix::Case;
use super::place::{end, stalled};
use super::proc;
use super::series::{self, Pace, Sample};
use super::setup::Setup;
use crate::commands::demo::sink::Sink;
use crate::config::Config;
use crate::kafka::bench::Follower;
use crate::ledger::Ledger;

const EVERY: Duration = Duration::from_millis(20);
const STALL: Duration = Duration::from_secs(60);
/// How often the group's committed offset is asked for once the output stands still.
const LOOK: Duration = Duration::from_millis(100);

/// What came of a turn.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) figures: Figures,
    pub(super) ledger: Ledger,
    pub(super) notes: Vec<String>,
}

/// Measures `case` in round `round`.
pub(super) fn measure(setup: &mut Setup<'_>, case: Case, round: u32) -> Result<Turn, Error> {
    let suffix = format!("out-{}-{}", setup.turns + 1, round + 1);
    let to = setup.place.make(&suffix, setup.partitions)?;
    let from = setup.source.topic.clone();
    let (job, config) = setup.job(case, &from, &to)?;
    let mut watch = Watch::start(setup, case, &job, &config)?;
    watch.run()?;
    let Watch { mut sink, samples, .. } = watch;
    let mut figures =
        Figures { peak_rss_mib: mib(proc::peak_rss(sink.id())), ..Figures::default() };
    let took = sink.metrics().and_then(|page| proc::histogram(&page, CHECKPOINTS));
    figures.checkpoint_mean_ms = took.map(|took| took.mean_ms);
    figures.checkpoint_p99_ms = took.and_then(|took| took.p99_ms);
    sink.must_run()?;
    child::leave(sink)?;
    if case.mode.is_run() {
        figures.state_mib = mib(Some(proc::bytes_below(&job.state())));
    }
    let mut notes = Vec::new();
    match series::pace(&samples) {
        Some(pace) => put_pace(setup, case, &pace, &mut figures, &mut notes),
        None => notes.push("the output came in one piece: too few records to time".to_owned()),
    }
    setup.progress.doing("reading both topics back for the ledger");
    let ledger =
        audit(&config, (&from, &to), setup.partitions, case.mode, setup.options.window, &|| {
            setup.go_on()
        })?;
    setup.place.remove(&to);
    setup.clear(&job);
    Ok(Turn { figures, ledger, notes })
}

const CHECKPOINTS: &str = "firstseen_checkpoint_duration_seconds";

pub(super) fn mib(bytes: Option<u64>) -> Option<f64> {
    bytes.map(|bytes| float(bytes) / f64::from(1 << 20))
}

/// Turns output records into input records: duplicates are spread evenly over the source.
fn put_pace(
    setup: &Setup<'_>,
    case: Case,
    pace: &Pace,
    figures: &mut Figures,
    notes: &mut Vec<String>,
) {
    let share = if case.mode.is_run() {
        float(setup.source.keys) / float(setup.source.records)
    } else {
        1.0
    };
    let records = float(u64::try_from(pace.records).unwrap_or(0)) / share;
    let per_s = records / pace.took.as_secs_f64();
    figures.records_per_s = Some(per_s);
    figures.mb_per_s = Some(per_s * float(setup.options.record_bytes()) / 1e6);
    figures.cpu_s_per_million = Some(pace.cpu.as_secs_f64() / records * 1e6);
    if pace.took < Duration::from_secs(1) {
        let ms = pace.took.as_millis();
        notes.push(format!("all of it took {ms} ms: raise `--records` for figures to rely on"));
    }
}

/// The child at work, and what was seen of it.
struct Watch<'s, 'a> {
    setup: &'s Setup<'a>,
    case: Case,
    sink: Sink,
    source: Follower,
    output: Follower,
    samples: Vec<Sample>,
    begun: Instant,
    moved: Instant,
}

impl<'s, 'a> Watch<'s, 'a> {
    fn start(setup: &'s Setup<'a>, case: Case, job: &Job, config: &Config) -> Result<Self, Error> {
        let (source, output) = (
            Follower::watch(config, &job.from, setup.partitions)?,
            Follower::watch(config, &job.to, setup.partitions)?,
        );
        let begun = Instant::now();
        let sink = job.start(&setup.base)?;
        let samples = vec![Sample { at: Duration::ZERO, end: 0, cpu: Duration::ZERO }];
        Ok(Self { setup, case, sink, source, output, samples, begun, moved: begun })
    }

    fn run(&mut self) -> Result<(), Error> {
        let wanted = i64::try_from(self.setup.source.records).unwrap_or(i64::MAX);
        let mut looked = self.begun;
        loop {
            self.setup.go_on()?;
            self.sink.must_run()?;
            let reached = self.sample()?;
            let still = self.moved.elapsed();
            let done = if self.case.mode.is_run() {
                // Asking costs the broker little, but nothing while the output grows.
                still > LOOK && looked.elapsed() > LOOK && {
                    looked = Instant::now();
                    self.source.committed()? >= wanted
                }
            } else {
                reached >= wanted
            };
            if done {
                return Ok(());
            }
            if still > STALL {
                return Err(stalled(STALL, reached, wanted));
            }
            std::thread::sleep(EVERY);
        }
    }

    fn sample(&mut self) -> Result<i64, Error> {
        let reached = end(&self.output)?;
        let at = self.begun.elapsed();
        let cpu = proc::cpu_time(self.sink.id()).unwrap_or_default();
        if self.samples.last().is_none_or(|last| last.end != reached) {
            self.moved = Instant::now();
            let text = self.case.to_string();
            self.setup.progress.counted(
                &text,
                u64::try_from(reached).unwrap_or(0),
                self.setup.source.records,
            );
        }
        self.samples.push(Sample { at, end: reached, cpu });
        Ok(reached)
    }
}
