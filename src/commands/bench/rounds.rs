//! The rounds: everything set up, every turn played, everything removed.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::child::{self, Base, Job};
use super::figures::Figures;
use super::matrix::{self, Case, Mode};
use super::place::Place;
use super::progress::Progress;
use super::report::{Collected, Report, Settings, Surroundings};
use super::setup::{Setup, Source};
use super::throughput::Turn;
use super::{Error, Options, steady, throughput};
use crate::commands::demo::surroundings::{Interrupt, WorkDir, random_name};
use crate::ledger::Ledger;
use crate::words::Timestamp;

/// Plays a bench. Returns what was measured, and how it ended; where nothing could be begun, only
/// why.
pub(super) fn play(
    asked: &Options,
    config_text: Option<&str>,
) -> Result<(Report, Result<(), Error>), crate::error::Error> {
    let options = asked.resolved();
    let began = Instant::now();
    let began_at = time_text(super::place::now());
    let name = match &options.name {
        Some(name) => name.clone(),
        None => random_name().map_err(Error::from)?.chars().take(8).collect(),
    };
    let prefix = format!("firstseen-bench-{name}");
    let (base, place, brokers) = place(&options, config_text, &prefix)?;
    let embedded = config_text.is_none();
    let mut setup = Setup {
        options: &options,
        base,
        place,
        work: WorkDir::make("bench", options.keep).map_err(Error::from)?,
        interrupted: Interrupt::watch().map_err(Error::from)?,
        progress: Progress::new(options.json),
        partitions: options.partition_count(),
        source: Source::default(),
        turns: 0,
    };
    let mut played = Played::new(&options)?;
    let ended = play_all(&mut setup, &mut played);
    setup.progress.end();
    let topics = setup.place.sweep();
    let surroundings = Surroundings {
        brokers,
        embedded,
        processors: std::thread::available_parallelism().map_or(0, usize::from),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        began: began_at,
        took_s: began.elapsed().as_secs_f64(),
    };
    if options.keep {
        played.notes.push(format!("kept: `{}`", setup.work.path().display()));
    }
    let settings = Settings::of(&options, setup.source.records);
    let partial = ended.as_ref().err().map(|error| crate::error::render(error));
    let Played { rows, notes } = played;
    Ok((Report::new(surroundings, settings, &rows, notes, topics, partial), ended))
}

/// Returns what all children's configs start from, and where it all happens.
fn place(
    options: &Options,
    config_text: Option<&str>,
    prefix: &str,
) -> Result<(Base, Place, String), crate::error::Error> {
    let Some(text) = config_text else {
        let place = Place::embedded(prefix.to_owned())?;
        let base = Base::embedded(&place.embedded_address().unwrap_or_default());
        return Ok((base, place, "the embedded broker".to_owned()));
    };
    let base = Base::users(text);
    let config = template(Mode::Passthrough)?.config(&base)?;
    let place = Place::users(&config, prefix.to_owned(), options.replication, options.keep)?;
    Ok((base, place, config.kafka.bootstrap_servers))
}

/// A job that is never started: its config only tells how to reach the brokers.
fn template(mode: Mode) -> Result<Job, Error> {
    let case = Case { mode, interval: None };
    let dir = std::env::temp_dir();
    let group = "firstseen-bench".to_owned();
    let mut job = Job::new(case, group, "firstseen-bench-in", "firstseen-bench-out", dir)?;
    job.window = Duration::from_secs(3_600);
    Ok(job)
}

/// What was measured so far.
struct Played {
    rows: Vec<Collected>,
    notes: Vec<String>,
}

impl Played {
    fn new(options: &Options) -> Result<Self, Error> {
        let cases = matrix::cases(&options.modes, &options.intervals);
        let rows = cases.into_iter().map(collected).collect::<Result<_, _>>()?;
        Ok(Self { rows, notes: Vec::new() })
    }

    /// Leaves the transactional rows out where they cannot be measured, and says so.
    fn leave_out_transactions(&mut self, why: &str) {
        let before = self.rows.len();
        self.rows.retain(|row| row.case.mode != Mode::Transactional);
        if self.rows.len() < before {
            self.notes.push(format!("transactional: {why}."));
        }
    }
}

fn collected(case: Case) -> Result<Collected, Error> {
    Ok(Collected {
        case,
        rounds: BTreeMap::new(),
        ledger: Ledger::default(),
        latencies: steady::empty_histogram()?,
        rate: None,
        notes: Vec::new(),
    })
}

fn play_all(setup: &mut Setup<'_>, played: &mut Played) -> Result<(), Error> {
    let job = template(Mode::Transactional)?;
    if setup.place.embedded_address().is_some() {
        played.leave_out_transactions("not measured, since the embedded broker has none");
    } else if !child::knows_transactions(&job, &setup.base) {
        played.leave_out_transactions("not in this build");
    }
    let job = template(Mode::Passthrough)?;
    let config = job.config(&setup.base).map_err(|faults| Error::Options(faults_text(&faults)))?;
    setup.progress.tell(&format!(
        "loading, then {} rounds of {}",
        setup.options.rounds,
        names(&played.rows)
    ));
    setup.load(&config).map_err(cut_short("loading the source".to_owned()))?;
    for round in 0..setup.options.rounds {
        for at in matrix::order(played.rows.len(), round) {
            let Some(row) = played.rows.get_mut(at) else { continue };
            let turn = format!("round {} of {}, {}", round + 1, setup.options.rounds, row.case);
            play_turn(setup, row, round).map_err(cut_short(turn.clone()))?;
            let figures = row.rounds.get(&round).filter(|_| row.ledger.is_clean());
            setup.progress.tell(&format!("{turn}: {}", said(figures)));
        }
    }
    Ok(())
}

fn play_turn(setup: &mut Setup<'_>, row: &mut Collected, round: u32) -> Result<(), Error> {
    let Turn { mut figures, ledger, notes } = throughput::measure(setup, row.case, round)?;
    row.ledger.merge(&ledger);
    row.notes.extend(notes);
    row.rounds.insert(round, figures);
    if setup.options.rate > 0 {
        let steady = steady::measure(setup, row.case, round)?;
        let timed = steady.turn.figures;
        figures.latency_p50_ms = timed.latency_p50_ms;
        figures.latency_p99_ms = timed.latency_p99_ms;
        figures.latency_p999_ms = timed.latency_p999_ms;
        figures.latency_max_ms = timed.latency_max_ms;
        figures.recovery_ms = timed.recovery_ms;
        row.ledger.merge(&steady.turn.ledger);
        row.notes.extend(steady.turn.notes);
        row.latencies
            .add(&steady.latencies)
            .map_err(|error| Error::Options(format!("histograms do not add up: {error}")))?;
        row.rate = Some(row.rate.unwrap_or(f64::INFINITY).min(steady.rate));
        row.rounds.insert(round, figures);
    }
    Ok(())
}

fn cut_short(turn: String) -> impl FnOnce(Error) -> Error {
    move |source| match source {
        // These say themselves what could not be.
        named @ (Error::TopicThere { .. } | Error::TopicRefused { .. }) => named,
        other => Error::CutShort { turn, source: Box::new(other) },
    }
}

fn names(rows: &[Collected]) -> String {
    let names: Vec<String> = rows.iter().map(|row| row.case.to_string()).collect();
    names.join(", ")
}

fn said(figures: Option<&Figures>) -> String {
    let Some(figures) = figures else { return "failed the ledger".to_owned() };
    let part = |value: Option<f64>, unit: &str| {
        value.map(|value| format!("{} {unit}", super::verdict::number(value)))
    };
    let parts = [
        part(figures.records_per_s, "records/s"),
        part(figures.latency_p99_ms, "ms p99"),
        part(figures.recovery_ms, "ms after a kill"),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() { "done".to_owned() } else { parts.join(", ") }
}

fn faults_text(faults: &crate::config::Faults) -> String {
    faults.iter().next().map_or_else(String::new, ToString::to_string)
}

fn time_text(at: Timestamp) -> String {
    let since = Duration::from_millis(u64::try_from(at.0).unwrap_or(0));
    humantime::format_rfc3339_seconds(std::time::UNIX_EPOCH + since).to_string()
}
