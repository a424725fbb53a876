//! The seen-set of one source partition: which fingerprints were forwarded, and when.
//!
//! What it owns: checkpoints (entries and the resume point, made durable together), look-ups, expiry,
//! filters and caches, and the refusal to ever be silently older than it was. What it does not own:
//! whether a record is a duplicate (the engine decides), and keys in flight (only finished ones come here).
//!
//! * Entries lie in *segments* by time; a segment is one directory, so expiry is removing it.
//! * Each checkpoint adds one sorted *run* to every segment it touches; runs of similar size are
//!   merged, so their number stays logarithmic.
//! * The *head* is the newest segment. Its part of a checkpoint and the checkpoint record go into one
//!   atomic batch, after the parts of all other segments: either the whole checkpoint counts or none.
//! * The record lists every segment with its newest generation and its number of entries, and the
//!   file GENERATION holds the newest generation known to be durable. A segment or a checkpoint that
//!   is missing, older, or someone else's is therefore damage, never a quiet step back.
//!
//! Read [`Seen`] first; `docs/state.md` has the whole picture.

mod block;
mod cache;
mod codec;
mod dir;
mod error;
mod filter;
mod identity;
mod inspect;
mod load;
mod lookup;
mod merge;
mod open;
mod place;
mod record;
mod snapshot;
mod transfer;
mod verify;
mod write;

#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

pub use dir::{StateDir, ignore_file_size_signal};
pub use error::{Error, Failure};
pub use identity::Identity;
pub use inspect::{EntryView, Report, RunReport, SegmentReport};
pub use open::{Found, Opened};
pub use transfer::{
    Exported, Header, Imported, Rewritten, TransferError, export, import, read_header,
};
pub use verify::{Flaw, Verified};

use crate::engine::Remembered;
use crate::key::Fingerprint;
use crate::store::{Lock, Shelf};
use crate::words::{Checkpoint, Span, Timestamp};
use cache::Caches;
use snapshot::Snapshot;
use write::Writer;

/// The seen-set of one source partition.
///
/// Shared between the thread that looks up ([`Seen::nearest`]) and the one that stores
/// ([`Seen::write`], [`Seen::expire`]). A look-up never waits for a write to become durable.
///
/// After a failed write every later call fails with [`Error::Poisoned`]: what the disk then holds is
/// unknown. Open it anew.
#[derive(Debug)]
pub struct Seen {
    /// Dropped before `shelf` and `lock`: it holds the open segments.
    snapshot: RwLock<Arc<Snapshot>>,
    writer: Mutex<Writer>,
    shelf: Box<dyn Shelf>,
    /// The name of the partition's directory; part of every checksum.
    name: String,
    segment_len: Span,
    filter_max_bytes: u64,
    caches: Caches,
    failed: AtomicBool,
    /// Keeps the state directory ours; none in tests without one.
    _lock: Option<Arc<Lock>>,
}

/// How a seen-set is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// How much time one segment covers. May change between runs; an eighth of the window is a
    /// good choice, since a whole segment is what expires.
    pub segment: Span,
    /// How many bytes filters and caches may take, together.
    pub memory_bytes: u64,
    /// How long opening may take before the state is set aside; a state of many gigabytes gets more.
    pub open_limit: Duration,
    /// How far opening has come, for whoever waits.
    pub progress: Progress,
}

impl Options {
    /// Options for segments of length `segment` within `memory_bytes` bytes of memory.
    pub fn new(segment: Span, memory_bytes: u64) -> Self {
        let open_limit = Duration::from_secs(60);
        Self { segment, memory_bytes, open_limit, progress: Progress::default() }
    }
}

/// How many entries were read while opening, and how many there are; readable from another thread.
#[derive(Clone, Debug, Default)]
pub struct Progress(Arc<ProgressCounts>);

#[derive(Debug, Default)]
struct ProgressCounts {
    done: AtomicU64,
    total: AtomicU64,
}

impl Progress {
    /// Returns the entries read so far.
    pub fn done(&self) -> u64 {
        self.0.done.load(Ordering::Relaxed)
    }

    /// Returns all entries to be read; 0 until it is known.
    pub fn total(&self) -> u64 {
        self.0.total.load(Ordering::Relaxed)
    }

    fn advance(&self, entries: u64) {
        self.0.done.fetch_add(entries, Ordering::Relaxed);
    }

    fn expect(&self, entries: u64) {
        self.0.total.store(entries, Ordering::Relaxed);
    }
}

/// What is made durable together.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Fingerprints finished since the last checkpoint, with their times; in any order.
    pub entries: Vec<(Fingerprint, Timestamp)>,
    /// The resume point they belong to.
    pub checkpoint: Checkpoint,
}

/// What a write did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// The number of this checkpoint in the life of the state.
    pub generation: u64,
    /// How many entries it added.
    pub entries: u64,
}

/// Figures for metrics and people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Entries stored; a key remembered at several times counts several times.
    pub keys: u64,
    /// Bytes on disk.
    pub bytes_on_disk: u64,
    /// Segments.
    pub segments: usize,
    /// Runs in all segments.
    pub runs: usize,
    /// Bytes of memory the filters take.
    pub filter_bytes: u64,
    /// Segments whose filter found no room in memory: look-ups there read the store.
    pub segments_without_filter: usize,
}

impl Remembered for Seen {
    type Error = Error;

    fn nearest(
        &self,
        fingerprint: Fingerprint,
        at: Timestamp,
        window: Span,
    ) -> Result<Option<Timestamp>, Error> {
        Self::nearest(self, fingerprint, at, window)
    }

    fn floor(&self) -> Timestamp {
        Self::floor(self)
    }
}

impl Seen {
    /// Returns the time below which nothing is remembered because it expired; [`Timestamp::MIN`] if
    /// nothing ever did.
    pub fn floor(&self) -> Timestamp {
        self.current().floor
    }

    /// Returns figures for metrics and people.
    pub fn stats(&self) -> Stats {
        self.snapshot().stats()
    }

    fn current(&self) -> RwLockReadGuard<'_, Arc<Snapshot>> {
        // Only ever replaced as a whole, so a panic elsewhere cannot have left it half done.
        self.snapshot.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.current())
    }

    fn publish(&self, snapshot: Snapshot) {
        let snapshot = Arc::new(snapshot);
        let mut current = self.snapshot.write().unwrap_or_else(PoisonError::into_inner);
        let old = std::mem::replace(&mut *current, snapshot);
        drop(current);
        drop(old);
    }

    fn alive(&self) -> Result<(), Error> {
        if self.failed.load(Ordering::Acquire) { Err(Error::Poisoned) } else { Ok(()) }
    }

    /// Returns what the writing side knows. A writer that panicked poisoned the set for changes; what
    /// it knew before still stands.
    fn writing(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a change of the store; any failure of it is final.
    fn change<T>(
        &self,
        change: impl FnOnce(&mut MutexGuard<'_, Writer>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let Ok(mut writer) = self.writer.lock() else {
            return Err(Error::Poisoned);
        };
        self.alive()?;
        let result = change(&mut writer);
        if result.is_err() {
            self.failed.store(true, Ordering::Release);
        }
        result
    }
}
