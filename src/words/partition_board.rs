//! What one source partition shows of itself.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::board::Watch;
use super::{Counts, SourcePartition};

/// Stands for "not known" in a counter of milliseconds.
const NEVER: u64 = u64::MAX;

/// Where a partition is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PartitionState {
    /// Its state is being opened.
    Opening,
    /// A predecessor may still be writing.
    Waiting,
    /// The output is being read to its end.
    CatchingUp,
    /// Records are being forwarded.
    Running,
    /// It does not go on by itself.
    Stuck,
    /// It is being drained and left.
    Closing,
}

impl PartitionState {
    /// Every state, in order.
    pub const ALL: [Self; 6] =
        [Self::Opening, Self::Waiting, Self::CatchingUp, Self::Running, Self::Stuck, Self::Closing];

    /// Returns the state in words.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Opening => "opening",
            Self::Waiting => "waiting",
            Self::CatchingUp => "catching-up",
            Self::Running => "running",
            Self::Stuck => "stuck",
            Self::Closing => "closing",
        }
    }
}

/// What one source partition shows of itself while this instance holds it.
///
/// Written by the thread that owns the partition, read by whoever asks. Counts change together,
/// under a lock that is held for a copy; publish them once a batch, not once a record.
#[derive(Debug)]
pub struct PartitionBoard {
    partition: SourcePartition,
    watch: Watch,
    progress: Mutex<Progress>,
    state: AtomicU8,
    in_flight_bytes: AtomicU64,
    lag: AtomicI64,
    checkpoint_at_ms: AtomicU64,
    checkpoint_took_ms: AtomicU64,
    catch_up_read: AtomicU64,
    catch_up_total: AtomicU64,
    store_keys: AtomicU64,
    store_bytes: AtomicU64,
    store_segments: AtomicU64,
    lease_ends_ms: AtomicU64,
    transaction_begun_ms: AtomicU64,
}

/// What must be read together.
#[derive(Debug, Default)]
struct Progress {
    /// What this process did before the core was last set up.
    carried: Tally,
    /// Where the core's counts started when it was set up, and where they are.
    base: Counts,
    now: Counts,
    /// Why it is stuck, or more about what it is doing.
    note: String,
}

/// Counters that only go up, of one partition or the sum of several.
///
/// `read = forwarded + suppressed + replayed + left_out + dead_lettered + given_back + in flight`
/// holds whenever it is read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// What came of the records this process read.
    pub counts: Counts,
    /// Records given up in flight when their partition was left or set up anew. Not lost: they
    /// lie above the resume offset and are read again.
    pub given_back: u64,
    /// Checkpoints that took longer than they should.
    pub slow_checkpoints: u64,
    /// Records without a dedup key, by reason.
    pub missing: BTreeMap<&'static str, u64>,
}

/// One partition at one moment.
#[derive(Clone, Debug)]
pub struct PartitionSnapshot {
    /// Which partition.
    pub partition: SourcePartition,
    /// Where it is in its life.
    pub state: PartitionState,
    /// Why it is stuck, or more about what it is doing; may be empty.
    pub note: String,
    /// What came of its records since this process got it.
    pub tally: Tally,
    /// Records read whose outcome is not known yet.
    pub in_flight_records: u64,
    /// Bytes of those that are on their way.
    pub in_flight_bytes: u64,
    /// Records in the source that were not read yet; `None` where not known.
    pub lag: Option<u64>,
    /// How long ago the last checkpoint became durable, or else the partition was taken.
    pub checkpoint_age: Duration,
    /// How long the last checkpoint took.
    pub checkpoint_took: Option<Duration>,
    /// Output records read by catch-up.
    pub catch_up_read: u64,
    /// Output records catch-up has to read, as far as known.
    pub catch_up_total: u64,
    /// Keys in the store.
    pub store_keys: u64,
    /// Bytes the store takes on disk.
    pub store_bytes: u64,
    /// Segments in the store.
    pub store_segments: u64,
    /// How long this instance may still send; `None` where there is no lease.
    pub lease_remaining: Option<Duration>,
    /// How long its transaction has been open; `None` where none is.
    pub transaction_age: Option<Duration>,
}

impl PartitionBoard {
    pub(super) fn new(partition: SourcePartition, watch: Watch) -> Self {
        Self {
            partition,
            progress: Mutex::default(),
            state: AtomicU8::new(0),
            in_flight_bytes: AtomicU64::new(0),
            lag: AtomicI64::new(-1),
            checkpoint_at_ms: AtomicU64::new(watch.elapsed_ms()),
            checkpoint_took_ms: AtomicU64::new(NEVER),
            catch_up_read: AtomicU64::new(0),
            catch_up_total: AtomicU64::new(0),
            store_keys: AtomicU64::new(0),
            store_bytes: AtomicU64::new(0),
            store_segments: AtomicU64::new(0),
            lease_ends_ms: AtomicU64::new(NEVER),
            transaction_begun_ms: AtomicU64::new(NEVER),
            watch,
        }
    }

    /// Returns which partition this is about.
    pub fn partition(&self) -> &SourcePartition {
        &self.partition
    }

    /// Says where the partition is in its life, and forgets any note.
    pub fn set_state(&self, state: PartitionState) {
        self.describe(state, String::new());
    }

    /// Says that the partition does not go on, and why. Must not hold a key or a value.
    pub fn set_stuck(&self, why: impl Into<String>) {
        self.describe(PartitionState::Stuck, why.into());
    }

    fn describe(&self, state: PartitionState, note: String) {
        let mut progress = self.progress();
        progress.note = note;
        self.state.store(state as u8, Relaxed);
    }

    /// Says that a core was set up whose counts start at `counts` (those of the checkpoint).
    ///
    /// Call it whenever a core is made, also for a partition that had one: what was in flight
    /// there is counted as given back.
    pub fn begin(&self, counts: Counts) {
        let mut progress = self.progress();
        progress.carried = progress.left();
        (progress.base, progress.now) = (counts, counts);
        self.in_flight_bytes.store(0, Relaxed);
    }

    /// Publishes the core's counts, with those in flight in `read` alone.
    pub fn publish(&self, counts: Counts, in_flight_bytes: u64) {
        self.progress().now = counts;
        self.in_flight_bytes.store(in_flight_bytes, Relaxed);
    }

    /// Counts `records` more without a dedup key for this reason, such as `absent`.
    pub fn count_missing(&self, reason: &'static str, records: u64) {
        *self.progress().carried.missing.entry(reason).or_default() += records;
    }

    /// Says how many records wait in the source; `None` where not known.
    pub fn set_lag(&self, lag: Option<u64>) {
        let lag = lag.map_or(-1, |lag| i64::try_from(lag).unwrap_or(i64::MAX));
        self.lag.store(lag, Relaxed);
    }

    /// Says how far catch-up is, in output records.
    pub fn set_catch_up(&self, read: u64, total: u64) {
        self.catch_up_read.store(read, Relaxed);
        self.catch_up_total.store(total, Relaxed);
    }

    /// Says how large the store is.
    pub fn set_store(&self, keys: u64, bytes: u64, segments: u64) {
        self.store_keys.store(keys, Relaxed);
        self.store_bytes.store(bytes, Relaxed);
        self.store_segments.store(segments, Relaxed);
    }

    /// Says how long this instance may still send from now on; `None` where there is no lease.
    pub fn set_lease(&self, remaining: Option<Duration>) {
        let ends = remaining.map_or(NEVER, |left| {
            self.watch.elapsed_ms().saturating_add(millis(left)).min(NEVER - 1)
        });
        self.lease_ends_ms.store(ends, Relaxed);
    }

    /// Says that a transaction was begun.
    pub fn transaction_begun(&self) {
        self.transaction_begun_ms.store(self.watch.elapsed_ms(), Relaxed);
    }

    /// Says that the transaction has ended, one way or the other.
    pub fn transaction_ended(&self) {
        self.transaction_begun_ms.store(NEVER, Relaxed);
    }

    pub(super) fn checkpointed(&self, took: Duration, slow: bool) {
        self.checkpoint_at_ms.store(self.watch.elapsed_ms(), Relaxed);
        self.checkpoint_took_ms.store(millis(took), Relaxed);
        if slow {
            self.progress().carried.slow_checkpoints += 1;
        }
    }

    /// Returns what is left of the partition's counters once this instance has left it.
    pub(super) fn left(&self) -> Tally {
        self.progress().left()
    }

    /// Returns everything as it is now.
    pub fn snapshot(&self) -> PartitionSnapshot {
        let progress = self.progress();
        let now_ms = self.watch.elapsed_ms();
        let state = usize::from(self.state.load(Relaxed));
        PartitionSnapshot {
            partition: self.partition.clone(),
            state: PartitionState::ALL.get(state).copied().unwrap_or(PartitionState::Stuck),
            note: progress.note.clone(),
            tally: progress.tally(),
            in_flight_records: progress.in_flight(),
            in_flight_bytes: self.in_flight_bytes.load(Relaxed),
            lag: u64::try_from(self.lag.load(Relaxed)).ok(),
            checkpoint_age: span(now_ms.saturating_sub(self.checkpoint_at_ms.load(Relaxed))),
            checkpoint_took: known(self.checkpoint_took_ms.load(Relaxed)),
            catch_up_read: self.catch_up_read.load(Relaxed),
            catch_up_total: self.catch_up_total.load(Relaxed),
            store_keys: self.store_keys.load(Relaxed),
            store_bytes: self.store_bytes.load(Relaxed),
            store_segments: self.store_segments.load(Relaxed),
            lease_remaining: known(self.lease_ends_ms.load(Relaxed))
                .map(|ends| ends.saturating_sub(span(now_ms))),
            transaction_age: known(self.transaction_begun_ms.load(Relaxed))
                .map(|begun| span(now_ms).saturating_sub(begun)),
        }
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        // Every write is a plain copy, so a panic elsewhere leaves nothing half done.
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Progress {
    fn in_flight(&self) -> u64 {
        let delta = self.delta();
        delta.read.saturating_sub(outcomes(&delta))
    }

    fn delta(&self) -> Counts {
        combine(&self.now, &self.base, u64::saturating_sub)
    }

    fn tally(&self) -> Tally {
        let counts = combine(&self.carried.counts, &self.delta(), u64::saturating_add);
        Tally { counts, ..self.carried.clone() }
    }

    fn left(&self) -> Tally {
        let mut tally = self.tally();
        tally.given_back = tally.given_back.saturating_add(self.in_flight());
        tally
    }
}

impl Tally {
    pub(super) fn add(&mut self, more: &Self) {
        self.counts = combine(&self.counts, &more.counts, u64::saturating_add);
        self.given_back = self.given_back.saturating_add(more.given_back);
        self.slow_checkpoints = self.slow_checkpoints.saturating_add(more.slow_checkpoints);
        for (reason, records) in &more.missing {
            *self.missing.entry(reason).or_default() += records;
        }
    }
}

/// Every record ends in exactly one of these.
fn outcomes(counts: &Counts) -> u64 {
    [counts.forwarded, counts.suppressed, counts.replayed, counts.left_out, counts.dead_lettered]
        .into_iter()
        .fold(0, u64::saturating_add)
}

fn combine(one: &Counts, other: &Counts, with: impl Fn(u64, u64) -> u64) -> Counts {
    Counts {
        read: with(one.read, other.read),
        forwarded: with(one.forwarded, other.forwarded),
        suppressed: with(one.suppressed, other.suppressed),
        replayed: with(one.replayed, other.replayed),
        left_out: with(one.left_out, other.left_out),
        dead_lettered: with(one.dead_lettered, other.dead_lettered),
        missing_key: with(one.missing_key, other.missing_key),
        future: with(one.future, other.future),
        too_old: with(one.too_old, other.too_old),
        no_timestamp: with(one.no_timestamp, other.no_timestamp),
        late_writes: with(one.late_writes, other.late_writes),
        repeated: with(one.repeated, other.repeated),
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(NEVER - 1)
}

fn span(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn known(ms: u64) -> Option<Duration> {
    (ms != NEVER).then(|| span(ms))
}
