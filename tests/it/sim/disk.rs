//! The local disk: batches are atomic, and a crash keeps only what was synced.

use std::collections::BTreeMap;
use std::convert::Infallible;

use firstseen::engine::{Draft, Remembered};
use firstseen::key::Fingerprint;
use firstseen::words::{Checkpoint, Span, Timestamp};

/// What a store holds.
#[derive(Clone, Debug)]
pub(crate) struct Image {
    pub(crate) entries: BTreeMap<Fingerprint, Vec<Timestamp>>,
    pub(crate) floor: Timestamp,
    pub(crate) checkpoint: Option<Checkpoint>,
    /// The first source offset that its counts cover.
    pub(crate) counted_from: i64,
}

impl Default for Image {
    fn default() -> Self {
        Self { entries: BTreeMap::new(), floor: Timestamp::MIN, checkpoint: None, counted_from: 0 }
    }
}

impl Image {
    pub(crate) fn write(&mut self, entries: &[(Fingerprint, Timestamp)]) {
        for (fingerprint, at) in entries {
            self.entries.entry(*fingerprint).or_default().push(*at);
        }
    }

    /// Forgets what lies below `before`; returns how much that was.
    fn expire(&mut self, before: Timestamp) -> usize {
        let count = |entries: &BTreeMap<_, Vec<_>>| entries.values().map(Vec::len).sum::<usize>();
        let held = count(&self.entries);
        self.floor = self.floor.max(before);
        self.entries.retain(|_, times| {
            times.retain(|at| *at >= before);
            !times.is_empty()
        });
        held - count(&self.entries)
    }
}

impl Remembered for Image {
    type Error = Infallible;

    fn nearest(
        &self,
        fingerprint: Fingerprint,
        at: Timestamp,
        window: Span,
    ) -> Result<Option<Timestamp>, Infallible> {
        let times = self.entries.get(&fingerprint);
        Ok(times.and_then(|times| times.iter().copied().find(|t| t.distance(at) <= window)))
    }

    fn rule_out(&self, asked: &[(Fingerprint, Timestamp)], _: Span, absent: &mut Vec<bool>) {
        absent.extend(asked.iter().map(|(fingerprint, _)| !self.entries.contains_key(fingerprint)));
    }

    fn floor(&self) -> Timestamp {
        self.floor
    }
}

/// A disk with one store on it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disk {
    /// What reads see.
    pub(crate) live: Image,
    /// What a crash leaves.
    synced: Image,
    /// Older states, for restoring one that is out of date.
    backups: Vec<Image>,
    writes: u64,
}

impl Disk {
    /// Makes a checkpoint durable, then expires. Returns how many occurrences that forgot.
    pub(crate) fn persist(&mut self, draft: &Draft, expire: Option<Timestamp>) -> usize {
        self.writes += 1;
        self.live.write(&draft.entries);
        self.live.checkpoint = Some(draft.checkpoint.clone());
        let forgotten = expire.map_or(0, |before| self.live.expire(before));
        self.synced = self.live.clone();
        if firstseen::bugs::active("drop-fsync") {
            // Some of it reached the disk, in no particular order: the last entries did not.
            for (fingerprint, _) in &draft.entries {
                self.synced.entries.remove(fingerprint);
            }
        }
        if self.backups.len() < 40 {
            self.backups.push(self.live.clone());
        }
        forgotten
    }

    /// What a power cut leaves.
    pub(crate) fn crash(&mut self) {
        self.live = self.synced.clone();
    }

    pub(crate) fn lose(&mut self) {
        self.live = Image::default();
        self.synced = Image::default();
    }

    pub(crate) fn writes(&self) -> u64 {
        self.writes
    }

    pub(crate) fn backups(&self) -> usize {
        self.backups.len()
    }

    pub(crate) fn restore(&mut self, backup: usize) {
        self.live = self.backups[backup].clone();
        self.synced = self.live.clone();
    }
}
