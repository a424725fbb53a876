//! Everything a bench found, ready to be shown. Pure: made of what the turns measured.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::Serialize;

use super::figures::{Figures, METRICS, Summary, float, summarise};
use super::matrix::{Case, Mode};
use super::place::TopicCount;
use super::{Error, Options, verdict};
use crate::ledger::{FaultKind, Ledger};

/// What one row measured, round by round.
#[derive(Debug)]
pub(super) struct Collected {
    pub(super) case: Case,
    /// By round; a round that was cut short has what it got.
    pub(super) rounds: BTreeMap<u32, Figures>,
    /// Over all turns.
    pub(super) ledger: Ledger,
    pub(super) latencies: Histogram<u64>,
    /// The slowest load of a latency turn, in records a second.
    pub(super) rate: Option<f64>,
    pub(super) notes: Vec<String>,
}

/// Where and with what it was measured.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Surroundings {
    /// The brokers, or that it is the embedded one.
    pub brokers: String,
    /// Whether it is the embedded one.
    pub embedded: bool,
    /// Processors of this machine.
    pub processors: usize,
    /// The build.
    pub version: String,
    /// When it began, as RFC 3339.
    pub began: String,
    /// How long all of it took, in seconds.
    pub took_s: f64,
}

/// Everything a bench found.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Report {
    /// Where and with what.
    pub surroundings: Surroundings,
    /// What was asked for.
    pub settings: Settings,
    /// A row for each path and interval.
    pub rows: Vec<Row>,
    /// What it comes to, in words.
    pub verdict: Vec<String>,
    /// What limits it.
    pub notes: Vec<String>,
    /// What was made on the brokers.
    pub topics: TopicCount,
    /// Why and where it was cut short, if it was.
    pub partial: Option<String>,
}

/// What was asked for.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Settings {
    /// Rounds.
    pub rounds: u32,
    /// Records of the source.
    pub records: u64,
    /// Bytes of a key.
    pub key_bytes: usize,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// Partitions of each topic.
    pub partitions: i32,
    /// Of 10,000 records, how many repeat a key.
    pub duplicates_per_10k: u64,
    /// How many keys back.
    pub distance: u64,
    /// The window in seconds.
    pub window_s: f64,
    /// Records a second for latencies.
    pub rate: u64,
    /// How long they were timed, in seconds.
    pub rate_for_s: f64,
    /// Keys known before the first record.
    pub known_keys: u64,
    /// The p99 that is wanted, in milliseconds.
    pub target_p99_ms: Option<f64>,
    /// The seed.
    pub seed: u64,
}

/// One path at one interval.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    /// How it is called.
    pub name: String,
    /// The path.
    pub mode: Mode,
    /// Between checkpoints.
    pub interval_ms: Option<f64>,
    /// What the ledger counted, over all turns.
    pub ledger: LedgerCounts,
    /// What is wrong, where the ledger is not clean; then there are no figures.
    pub faults: Option<String>,
    /// Each figure, summed up over the rounds.
    pub metrics: BTreeMap<&'static str, Summary>,
    /// Percentile and milliseconds.
    pub latency_curve: Vec<(f64, f64)>,
    /// The slowest load of a latency turn, in records a second.
    pub rate_reached: Option<f64>,
    /// Each round's own figures.
    pub rounds: BTreeMap<u32, Figures>,
    /// What limits this row.
    pub notes: Vec<String>,
}

/// The ledger's counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct LedgerCounts {
    pub read: u64,
    pub forwarded: u64,
    pub suppressed: u64,
    pub lost: u64,
    pub repeated: u64,
    pub reordered: u64,
    pub altered: u64,
    pub phantom: u64,
}

impl From<&Ledger> for LedgerCounts {
    fn from(ledger: &Ledger) -> Self {
        Self {
            read: ledger.read,
            forwarded: ledger.forwarded,
            suppressed: ledger.suppressed,
            lost: ledger.lost,
            repeated: ledger.repeated,
            reordered: ledger.reordered,
            altered: ledger.altered,
            phantom: ledger.phantom,
        }
    }
}

impl Row {
    /// Returns what the rounds say of the figure `name`.
    pub(super) fn metric(&self, name: &str) -> Option<&Summary> {
        self.metrics.get(name)
    }
}

/// How much slower than asked for a load may be and still count as that.
const RATE_TOLERANCE: f64 = 0.98;

impl Report {
    /// Makes the rows and the verdict.
    pub(super) fn new(
        surroundings: Surroundings,
        settings: Settings,
        collected: &[Collected],
        mut notes: Vec<String>,
        topics: TopicCount,
        partial: Option<String>,
    ) -> Self {
        let base = collected.iter().find(|row| row.case.mode == Mode::Passthrough);
        let base = base.filter(|row| row.ledger.is_clean()).map(|row| &row.rounds);
        let rows: Vec<Row> = collected.iter().map(|one| row(one, base)).collect();
        if surroundings.embedded {
            notes.insert(0, EMBEDDED.to_owned());
        }
        let mut report =
            Self { surroundings, settings, rows, verdict: Vec::new(), notes, topics, partial };
        report.verdict = verdict::verdict(&report);
        report
    }

    /// Returns whether the figures may be taken for what was asked for.
    ///
    /// # Errors
    /// A row's ledger is not clean, or the load was slower than asked for.
    pub(super) fn verdict_on_itself(&self) -> Result<(), Error> {
        let faults: Vec<String> = self
            .rows
            .iter()
            .filter_map(|row| Some(format!("{}: {}", row.name, row.faults.as_ref()?)))
            .collect();
        if !faults.is_empty() {
            return Err(Error::Ledger { found: faults.join("; ") });
        }
        let reached = self.rows.iter().filter_map(|row| row.rate_reached).reduce(f64::min);
        match reached {
            Some(reached) if reached < float(self.settings.rate) * RATE_TOLERANCE => {
                Err(Error::RateNotReached { wanted: self.settings.rate, reached: whole(reached) })
            }
            _ => Ok(()),
        }
    }
}

const EMBEDDED: &str = "Measured on the embedded broker, which lives in the bench's own process \
    and keeps records in memory: these figures compare the paths only roughly, and say nothing of \
    transactions. Use --config with brokers of your own.";

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate for people")]
fn whole(number: f64) -> u64 {
    number.max(0.0).round() as u64
}

fn row(collected: &Collected, base: Option<&BTreeMap<u32, Figures>>) -> Row {
    let clean = collected.ledger.is_clean();
    let mut row = Row {
        name: collected.case.to_string(),
        mode: collected.case.mode,
        interval_ms: collected.case.interval.map(|interval| interval.as_secs_f64() * 1e3),
        ledger: LedgerCounts::from(&collected.ledger),
        faults: (!clean).then(|| faults(&collected.ledger)),
        metrics: BTreeMap::new(),
        latency_curve: Vec::new(),
        rate_reached: collected.rate,
        rounds: BTreeMap::new(),
        notes: collected.notes.clone(),
    };
    row.notes.sort();
    row.notes.dedup();
    if !clean {
        return row;
    }
    for metric in METRICS {
        let rounds: Vec<_> = collected
            .rounds
            .iter()
            .map(|(round, own)| {
                let base = base.and_then(|base| base.get(round)).and_then(metric.of);
                ((metric.of)(own), base)
            })
            .collect();
        if let Some(summary) = summarise(&rounds) {
            row.metrics.insert(metric.name, summary);
        }
    }
    row.latency_curve = curve(&collected.latencies);
    row.rounds = collected.rounds.clone();
    row
}

/// Percentiles worth a point on a curve.
const PERCENTILES: [f64; 12] =
    [0.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99, 100.0];

fn curve(latencies: &Histogram<u64>) -> Vec<(f64, f64)> {
    if latencies.is_empty() {
        return Vec::new();
    }
    let at = |percentile: f64| float(latencies.value_at_percentile(percentile)) / 1e3;
    PERCENTILES.into_iter().map(|percentile| (percentile, at(percentile))).collect()
}

fn faults(ledger: &Ledger) -> String {
    const KINDS: [FaultKind; 5] = [
        FaultKind::Lost,
        FaultKind::Repeated,
        FaultKind::Reordered,
        FaultKind::Altered,
        FaultKind::Phantom,
    ];
    let counts = KINDS.into_iter().filter(|kind| ledger.count(*kind) > 0);
    let counts: Vec<String> = counts.map(|kind| format!("{} {kind}", ledger.count(kind))).collect();
    let first = ledger.faults.first().map_or_else(String::new, |fault| format!(" ({fault})"));
    format!("{}{first}", counts.join(", "))
}

impl Settings {
    /// What `options` ask for, with what was really loaded.
    pub(super) fn of(options: &Options, records: u64) -> Self {
        Self {
            rounds: options.rounds,
            records,
            key_bytes: options.key_bytes,
            value_bytes: options.value_bytes,
            partitions: options.partition_count(),
            duplicates_per_10k: options.duplicates,
            distance: options.distance,
            window_s: options.window.as_secs_f64(),
            rate: options.rate,
            rate_for_s: options.rate_for.as_secs_f64(),
            known_keys: options.known_keys,
            target_p99_ms: options.target_p99.map(|target| target.as_secs_f64() * 1e3),
            seed: options.seed,
        }
    }
}

#[cfg(test)]
#[path = "report_tests.rs"]
pub(super) mod tests;
