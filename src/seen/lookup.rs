//! Looking a fingerprint up.
//!
//! The order of the questions: filters of the segments that overlap the window (nearly every new key
//! ends here), answers found before, then the runs of each segment that may hold it, one block each.

use std::sync::Arc;

use super::block::{Block, Entry};
use super::cache::{Answer, BlockName};
use super::snapshot::{Live, Run, Snapshot};
use super::{Error, Seen};
use crate::key::Fingerprint;
use crate::store::Value;
use crate::words::{Span, Timestamp};

/// What became of reading a block.
enum Read {
    Block(Value),
    /// Its run was merged into another since the snapshot was taken.
    Gone,
}

impl Seen {
    /// Looks for an occurrence of `fingerprint` at most `window` before or after `at`.
    ///
    /// Returns the time of one such occurrence: the nearest one in the run that has one. Other runs may
    /// hold a nearer one; for the verdict any will do.
    ///
    /// # Errors
    /// The store failed or is damaged. Not retriable.
    pub fn nearest(
        &self,
        fingerprint: Fingerprint,
        at: Timestamp,
        window: Span,
    ) -> Result<Option<Timestamp>, Error> {
        self.alive()?;
        let current = self.current();
        if current.candidates(fingerprint.0, at, window).next().is_none() {
            return Ok(None);
        }
        // From here on the disk may be read: do not hold up whoever publishes.
        let mut snapshot = Arc::clone(&current);
        drop(current);
        loop {
            if let Some(found) = self.search(&snapshot, fingerprint.0, at, window)? {
                return Ok(found);
            }
            let newer = self.snapshot();
            if Arc::ptr_eq(&newer, &snapshot) {
                return Err(Error::corrupt("a block is missing"));
            }
            snapshot = newer;
        }
    }

    /// Returns None if a block was gone and a newer snapshot is needed.
    #[expect(clippy::option_option, reason = "outer: was it answered; inner: the answer")]
    fn search(
        &self,
        snapshot: &Snapshot,
        fingerprint: u128,
        at: Timestamp,
        window: Span,
    ) -> Result<Option<Option<Timestamp>>, Error> {
        let near = |time: i64| Timestamp(time).distance(at) <= window;
        if let Some(answer) = self.caches.answers.get(&fingerprint) {
            let lives = snapshot.live.iter().any(|live| live.segment.id == answer.segment);
            if lives && near(answer.at) {
                return Ok(Some(Some(Timestamp(answer.at))));
            }
        }
        for live in snapshot.candidates(fingerprint, at, window) {
            for run in live.runs.iter().filter(|run| run.may_hold(fingerprint)) {
                let wanted = Entry { fingerprint, at: at.0 };
                let Some((before, behind)) = self.around(live, run, wanted)? else {
                    return Ok(None);
                };
                let found = [before, behind]
                    .into_iter()
                    .flatten()
                    .filter(|entry| entry.fingerprint == fingerprint && near(entry.at))
                    .min_by_key(|entry| Timestamp(entry.at).distance(at));
                if let Some(entry) = found {
                    let answer = Answer { segment: live.segment.id, at: entry.at };
                    self.caches.answers.insert(fingerprint, answer);
                    return Ok(Some(Some(Timestamp(entry.at))));
                }
            }
        }
        Ok(Some(None))
    }

    /// Returns the entries of `run` next to `wanted`, or None if the run is gone.
    #[expect(clippy::type_complexity, reason = "two neighbours, each of which may be absent")]
    fn around(
        &self,
        live: &Live,
        run: &Run,
        wanted: Entry,
    ) -> Result<Option<(Option<Entry>, Option<Entry>)>, Error> {
        let behind = run.firsts.partition_point(|first| *first <= wanted);
        let first_behind = run.firsts.get(behind).copied();
        let Some(index) = behind.checked_sub(1) else {
            return Ok(Some((None, first_behind)));
        };
        let number = u32::try_from(index).unwrap_or(u32::MAX);
        let bytes = match self.block(live, run.id, number)? {
            Read::Block(bytes) => bytes,
            Read::Gone => return Ok(None),
        };
        let block = Block::decode(&bytes).ok_or_else(|| Error::corrupt("a block is malformed"))?;
        let (before, behind) = block.around(wanted);
        Ok(Some((before, behind.or(first_behind))))
    }

    fn block(&self, live: &Live, run: u64, number: u32) -> Result<Read, Error> {
        let segment = &live.segment;
        let name = BlockName { segment: segment.id, run, number };
        if let Some(bytes) = self.caches.blocks.get(&name) {
            return Ok(Read::Block(bytes));
        }
        let Some(bytes) = segment.read_block(run, number)? else { return Ok(Read::Gone) };
        self.caches.blocks.insert(name, bytes.clone());
        Ok(Read::Block(bytes))
    }
}
