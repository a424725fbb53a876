//! Reading the output back: straight into the store, expiring as it goes, telling how far it is.
//!
//! The thread that reads hands chunks to one that writes and syncs, so that the broker is what the
//! time goes to.

use std::time::{Duration, Instant};

use crossbeam_channel::bounded;

use crate::engine::{Broken, Core, Identity, Setup};
use crate::kafka::{OutputReader, SourceRecord, TimeLookup};
use crate::key::Fingerprint;
use crate::seen::{self, Batch, Seen};
use crate::window::Window;
use crate::words::{Checkpoint, OutputPosition, ResumeOffset, Timestamp, instant_text};

use super::Error;
use super::plan::{Load, Plan};
use super::take::{IDLE_LIMIT, TakeJob, Taken};

/// How many records read back are written to the store at a time.
const CHUNK: usize = 200_000;

/// How often the log tells how far reading has come.
const TELL_EVERY: Duration = Duration::from_secs(3);

/// How many records are read between two looks at the clock.
const LOOK_EVERY: u64 = 2_048;

/// Where loading starts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Start {
    position: OutputPosition,
    /// What lies before this time is not read; `None` where everything is.
    floor: Option<Timestamp>,
    /// What the log held before its first record is gone, so what that record's time tells.
    trimmed: bool,
}

impl TakeJob {
    /// Returns where loading starts, if anything is to be loaded.
    pub(super) fn load_from(
        &self,
        output: &OutputReader,
        plan: &Plan,
    ) -> Result<Option<Start>, Error> {
        let number = self.partition.partition;
        let failed = |source| self.failed(source);
        let (low, _) = output.bounds(&self.output_topic, number).map_err(failed)?;
        let all = Start { position: low, floor: None, trimmed: low.0 > 0 };
        match plan.load {
            Load::Nothing => Ok(None),
            Load::From(position) => {
                let position = position.max(low);
                Ok(Some(Start { position, floor: None, trimmed: false }))
            }
            Load::Everything => Ok(Some(all)),
            Load::Window => {
                let since = self.window.keep_from(self.reference(plan.resume)?);
                let found = output.offset_for_time(&self.output_topic, number, since);
                let start = match found.map_err(failed)? {
                    TimeLookup::At(position) if position > low || low.0 == 0 => {
                        Start { position: position.max(low), floor: Some(since), trimmed: false }
                    }
                    TimeLookup::At(_) => Start { floor: Some(since), ..all },
                    // Nothing that young, or a broker that cannot tell: read it all.
                    TimeLookup::AfterEnd => all,
                };
                if start.trimmed {
                    let partition = &self.partition;
                    tracing::warn!(%partition, first = low.0, "the output may not reach back one \
                        whole window: keys from before its start are not known");
                }
                Ok(Some(start))
            }
        }
    }

    /// Returns the time of the record at the resume offset, or now where there is none.
    fn reference(&self, resume: ResumeOffset) -> Result<Timestamp, Error> {
        let now = self.context.clock.now();
        let at = OutputPosition(resume.0);
        let number = self.partition.partition;
        let first = self
            .source()?
            .timestamp_at(&self.partition.topic, number, at, &self.cancel, IDLE_LIMIT)
            .map_err(|source| self.failed(source))?;
        Ok(match first {
            Some((_, timestamp)) => self.window.time_of(timestamp, now).at.min(now),
            None => now,
        })
    }

    /// Reads output records straight into the store. Returns the latest time among them.
    pub(super) fn load(
        &mut self,
        output: &OutputReader,
        setup: &Setup,
        seen: &Seen,
        plan: &Plan,
        start: Start,
        to: OutputPosition,
    ) -> Result<Timestamp, Error> {
        let now = self.context.clock.now();
        // Until loading is complete, a restart must load again: no output position yet.
        let interim = Checkpoint { output: None, ..Core::new(setup.clone()).snapshot(now, false) };
        let mut loading = Loading::new(self.window, now, start, plan.load == Load::Window);
        let mut keys = self.keys.clone();
        let (read, written) = std::thread::scope(|scope| {
            let (chunks, inbox) = bounded::<Chunk>(1);
            let write = move || inbox.iter().try_for_each(|chunk| chunk.store(seen, &interim));
            let writer = scope.spawn(write);
            let read = self.read(output, start.position, to, &mut |record| {
                let identity = keys.identify(record);
                match loading.take(identity, record.timestamp()) {
                    // Where nobody takes it any more, writing has failed.
                    Some(chunk) => chunks.send(chunk).is_ok(),
                    None => true,
                }
            });
            if read.is_ok() {
                drop(chunks.send(loading.rest()));
            }
            drop(chunks);
            (read, writer.join())
        });
        let written = written.map_err(|_panic| Broken("writing what was read back panicked"))?;
        written.map_err(|source| self.state_failed(source))?;
        read?;
        Ok(loading.high_mark)
    }

    /// Reads a range of the output, and tells how far it is.
    pub(super) fn read(
        &self,
        output: &OutputReader,
        from: OutputPosition,
        to: OutputPosition,
        each: &mut dyn FnMut(&SourceRecord<'_>) -> bool,
    ) -> Result<(), Error> {
        let begun = Instant::now();
        let total = u64::try_from(to.0.saturating_sub(from.0)).unwrap_or(0);
        self.board.set_catch_up(0, total);
        let (mut count, mut said) = (0_u64, begun);
        let number = self.partition.partition;
        let mut progress = |record: &SourceRecord<'_>| {
            count += 1;
            if count.is_multiple_of(LOOK_EVERY) {
                // By position: offsets have holes, and the estimate must reach its end.
                let at = u64::try_from(record.offset().0.saturating_sub(from.0)).unwrap_or(0);
                self.board.set_catch_up(at, total);
                if said.elapsed() >= TELL_EVERY {
                    said = Instant::now();
                    self.tell_progress(at, total, count, begun.elapsed());
                }
            }
            each(record)
        };
        output
            .read(&self.output_topic, number, from, to, &self.cancel, IDLE_LIMIT, &mut progress)
            .map_err(|source| self.failed(source))?;
        self.board.set_catch_up(total, total);
        if count > 0 {
            let took = begun.elapsed();
            let per_second = per_second(count, took);
            tracing::info!(
                partition = %self.partition, records = count, ?took, per_second, "read the output"
            );
        }
        Ok(())
    }

    fn tell_progress(&self, at: u64, total: u64, count: u64, took: Duration) {
        let left = crate::words::time_left(at, total, took).unwrap_or_default();
        let left = humantime::format_duration(Duration::from_secs(left.as_secs())).to_string();
        let (partition, per_second) = (&self.partition, per_second(count, took));
        tracing::info!(%partition, read = at, of = total, per_second, left, "catching up");
    }

    /// Says from when on the window is whole again, where it is not: it was made longer, or the
    /// output did not reach back far enough.
    pub(super) fn say_what_is_forgotten(&self, taken: &Taken) {
        let (floor, high_mark) = (taken.seen.floor(), taken.core.high_mark());
        let Some(whole_from) = self.window.whole_from(floor, high_mark) else { return };
        tracing::warn!(
            partition = %self.partition,
            window = %self.window.length(),
            known_from = instant_text(floor),
            whole_from = instant_text(whole_from),
            "not all of the window is known: what lies before `known_from` is forgotten, so a copy \
             of a key from before may be forwarded; the window is whole again for records from \
             `whole_from`"
        );
    }
}

fn per_second(count: u64, took: Duration) -> u64 {
    let millis = u64::try_from(took.as_millis()).unwrap_or(u64::MAX).max(1);
    count.saturating_mul(1_000) / millis
}

/// What is written at a time.
#[derive(Debug)]
struct Chunk {
    entries: Vec<(Fingerprint, Timestamp)>,
    /// What may be forgotten afterwards.
    expire_before: Option<Timestamp>,
    floor: Option<Timestamp>,
}

impl Chunk {
    fn store(self, seen: &Seen, interim: &Checkpoint) -> Result<(), seen::Error> {
        if let Some(floor) = self.floor {
            seen.forget_below(floor)?;
        }
        if !self.entries.is_empty() {
            seen.write(Batch { entries: self.entries, checkpoint: interim.clone() })?;
        }
        match self.expire_before {
            Some(before) => seen.expire(before).map(drop),
            None => Ok(()),
        }
    }
}

/// What the records read back add up to.
#[derive(Debug)]
struct Loading {
    window: Window,
    now: Timestamp,
    floor: Option<Timestamp>,
    /// The next record with a time tells what the log held before it.
    trimmed: bool,
    expires: bool,
    high_mark: Timestamp,
    entries: Vec<(Fingerprint, Timestamp)>,
}

impl Loading {
    fn new(window: Window, now: Timestamp, start: Start, expires: bool) -> Self {
        let Start { floor, trimmed, .. } = start;
        let trimmed = trimmed && !window.by_arrival();
        let high_mark = Timestamp::MIN;
        Self { window, now, floor, trimmed, expires, high_mark, entries: Vec::new() }
    }

    /// Takes a record in. Returns a chunk where enough have come together.
    fn take(&mut self, identity: Identity, timestamp: Option<Timestamp>) -> Option<Chunk> {
        let time = self.window.time_of(timestamp, self.now);
        if std::mem::take(&mut self.trimmed) && !time.no_timestamp {
            self.floor = Some(self.floor.map_or(time.at, |floor| floor.max(time.at)));
        }
        let Identity::Key(fingerprint) = identity else { return None };
        // As the core does: what lies ahead of the clock must not make the rest look old.
        if !time.clamped && !time.no_timestamp {
            self.high_mark = self.high_mark.max(time.at.min(self.now));
        }
        self.entries.push((fingerprint, time.at));
        (self.entries.len() >= CHUNK).then(|| self.rest())
    }

    fn rest(&mut self) -> Chunk {
        let known = self.expires && self.high_mark > Timestamp::MIN;
        Chunk {
            entries: std::mem::take(&mut self.entries),
            expire_before: known.then(|| self.window.keep_from(self.high_mark)),
            floor: self.floor,
        }
    }
}

#[cfg(test)]
#[path = "loading_tests.rs"]
mod tests;
