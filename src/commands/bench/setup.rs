//! What all turns of one bench share.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::child::{Base, Job};
use super::matrix::Case;
use super::place::{Place, end, now, stalled};
use super::plan::{Plan, Purpose, Shape};
use super::progress::Progress;
use super::{Error, Options, prefill};
use crate::commands::demo::surroundings::{Interrupt, WorkDir};
use crate::config::Config;
use crate::kafka::bench::{Follower, Loader};

const LOADING: Duration = Duration::from_secs(120);

/// What all turns of one bench share.
pub(super) struct Setup<'a> {
    pub(super) options: &'a Options,
    pub(super) base: Base,
    pub(super) place: Place,
    pub(super) work: WorkDir,
    pub(super) interrupted: Interrupt,
    pub(super) progress: Progress,
    pub(super) partitions: i32,
    pub(super) source: Source,
    pub(super) turns: u32,
}

/// The topic that every throughput turn reads.
#[derive(Clone, Debug, Default)]
pub(super) struct Source {
    pub(super) topic: String,
    pub(super) records: u64,
    /// Of the records: those with a key of their own.
    pub(super) keys: u64,
}

impl Setup<'_> {
    /// Fails once the user asked to stop.
    pub(super) fn go_on(&self) -> Result<(), Error> {
        Ok(self.interrupted.must_not_be_set()?)
    }

    /// Returns the shape of the records.
    pub(super) fn shape(&self) -> Shape {
        self.options.shape()
    }

    /// Prepares a child: a directory of its own, and for `run` a state with the known keys.
    pub(super) fn job(&mut self, case: Case, from: &str, to: &str) -> Result<(Job, Config), Error> {
        self.turns += 1;
        let dir = self.work.path().join(format!("turn-{}", self.turns));
        make_dir(&dir)?;
        let group = self.place.group(&format!("group-{}", self.turns));
        let mut job = Job::new(case, group, from, to, dir)?;
        job.window = self.options.window;
        let config = job.config(&self.base).map_err(|faults| Error::Options(first(&faults)))?;
        if case.mode.is_run() && self.options.known_keys > 0 {
            self.progress.doing("making a state with the known keys");
            prefill::fill(&config, &job, self.partitions, self.options)?;
        }
        Ok((job, config))
    }

    /// Removes a child's directory. One that cannot be removed goes with the whole.
    pub(super) fn clear(&self, job: &Job) {
        if !self.options.keep
            && let Err(error) = std::fs::remove_dir_all(&job.dir)
        {
            tracing::debug!(%error, "directory of a turn not removed");
        }
    }

    /// Makes the source of the throughput turns and writes all of it.
    pub(super) fn load(&mut self, config: &Config) -> Result<(), Error> {
        let topic = self.place.make("source", self.partitions)?;
        let mut loader = Loader::connect(config, &topic, Duration::from_millis(5))?;
        let mut plan = Plan::new(self.shape());
        let until = self.options.seconds.map(|seconds| Instant::now() + seconds);
        let (mut records, mut keys) = (0, 0);
        while self.more(records, until) {
            let at = now();
            for _ in 0..1_000_u32.min(self.left(records)) {
                let (key, value, fresh) = plan.next(0, Purpose::Load);
                loader.send(key, value, at)?;
                records += 1;
                keys += u64::from(fresh);
            }
            self.go_on()?;
            self.progress.counted("loading", records, self.options.records);
        }
        loader.finish(LOADING)?;
        let follower = Follower::open(config, &topic, self.partitions)?;
        let there = end(&follower)?;
        if u64::try_from(there) != Ok(records) {
            return Err(stalled(LOADING, there, i64::try_from(records).unwrap_or(i64::MAX)));
        }
        self.source = Source { topic, records, keys };
        Ok(())
    }

    fn more(&self, records: u64, until: Option<Instant>) -> bool {
        match until {
            Some(until) => Instant::now() < until,
            None => records < self.options.records,
        }
    }

    /// With a limit in seconds there is none in records.
    fn left(&self, records: u64) -> u32 {
        if self.options.seconds.is_some() {
            return u32::MAX;
        }
        u32::try_from(self.options.records.saturating_sub(records)).unwrap_or(u32::MAX)
    }
}

fn first(faults: &crate::config::Faults) -> String {
    faults.iter().next().map_or_else(String::new, ToString::to_string)
}

fn make_dir(dir: &PathBuf) -> Result<(), Error> {
    std::fs::create_dir(dir).map_err(|source| Error::File {
        attempt: "make",
        path: dir.clone(),
        source,
    })
}
