//! What the process shows of itself to whoever looks: metrics, health, status.
//!
//! The pipeline writes, the status server reads; neither waits for the other longer than a copy
//! takes. Nothing on the board comes from a record: no key, no value, no header. Counters never go
//! down while the process lives: a partition's totals stay with its topic after it is revoked.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::partition_board::{PartitionBoard, PartitionSnapshot, Tally};
use super::{ManualClock, SourcePartition, Timestamp};

/// What kind of thing failed. A fixed list, so that it can be a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Failure {
    /// A record was refused for good.
    DeliveryFinal,
    /// Whether a record was written is not known.
    DeliveryUnknown,
    /// A producer cannot go on.
    ProducerFatal,
    /// The store could not be read or written.
    Store,
    /// Offsets could not be committed.
    Commit,
    /// The source could not be read.
    Consume,
    /// The output could not be read to its end.
    CatchUp,
}

impl Failure {
    /// Every kind, in order.
    pub const ALL: [Self; 7] = [
        Self::DeliveryFinal,
        Self::DeliveryUnknown,
        Self::ProducerFatal,
        Self::Store,
        Self::Commit,
        Self::Consume,
        Self::CatchUp,
    ];

    /// Returns the kind as it stands in labels.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::DeliveryFinal => "delivery_final",
            Self::DeliveryUnknown => "delivery_unknown",
            Self::ProducerFatal => "producer_fatal",
            Self::Store => "store",
            Self::Commit => "commit",
            Self::Consume => "consume",
            Self::CatchUp => "catch_up",
        }
    }
}

/// Why a transaction was not committed, or not known to be. A fixed list, so that it can be a
/// label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Aborted {
    /// A record of it was not delivered.
    Delivery,
    /// The coordinator refused it.
    Refused,
    /// Another producer took the transactional id.
    Fenced,
    /// The group did not know us as the owner any more.
    Membership,
    /// There was no answer: it may be committed all the same.
    Unknown,
    /// The state could not go along.
    State,
    /// The partition was left in the middle of it.
    Left,
}

impl Aborted {
    /// Every reason, in order.
    pub const ALL: [Self; 7] = [
        Self::Delivery,
        Self::Refused,
        Self::Fenced,
        Self::Membership,
        Self::Unknown,
        Self::State,
        Self::Left,
    ];

    /// Returns the reason as it stands in labels.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Delivery => "delivery",
            Self::Refused => "refused",
            Self::Fenced => "fenced",
            Self::Membership => "membership",
            Self::Unknown => "unknown",
            Self::State => "state",
            Self::Left => "left",
        }
    }
}

/// Why a transactional producer was thrown away and made anew. A fixed list, so that it can be a
/// label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Anew {
    /// Its transaction was not committed, or not known to be.
    Aborted,
    /// Its commit took longer than half of what a request may take.
    Slow,
    /// Its commit, or the offsets in it, had to be sent more than once.
    Repeated,
}

impl Anew {
    /// Every reason, in order.
    pub const ALL: [Self; 3] = [Self::Aborted, Self::Slow, Self::Repeated];

    /// Returns the reason as it stands in labels.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Aborted => "aborted",
            Self::Slow => "slow",
            Self::Repeated => "repeated",
        }
    }
}

/// What came of transactions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Transactions {
    /// How long commits took, those that succeeded.
    pub commits: Histogram,
    /// How many were not committed, in the order of [`Aborted::ALL`].
    pub aborted: [u64; Aborted::ALL.len()],
    /// How often a producer was made anew, in the order of [`Anew::ALL`].
    pub anew: [u64; Anew::ALL.len()],
}

/// Which delivery the process does, and why that one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mode {
    /// The mode's name, such as `dedup`.
    pub name: &'static str,
    /// Why, in a few words.
    pub reason: String,
}

/// The process's board. Shared by [`Arc`].
#[derive(Debug)]
pub struct Board {
    watch: Watch,
    started_at: Timestamp,
    beat_ms: AtomicU64,
    stopping: AtomicBool,
    assigned: AtomicBool,
    mode: Mutex<Option<Mode>>,
    failures: [AtomicU64; Failure::ALL.len()],
    producer_restarts: AtomicU64,
    checkpoints: Mutex<Histogram>,
    transactions: Mutex<Transactions>,
    roster: Mutex<Roster>,
}

/// Partitions held now, and what those that were left did, by topic.
#[derive(Debug, Default)]
struct Roster {
    held: BTreeMap<SourcePartition, Arc<PartitionBoard>>,
    left: BTreeMap<Arc<str>, Tally>,
}

/// How often something took how long.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Histogram {
    /// How many took at most each of [`Histogram::BOUNDS_MS`] and more than the bound before;
    /// the last entry counts those over every bound.
    pub counts: [u64; Histogram::BOUNDS_MS.len() + 1],
    /// How long all of them took together.
    pub sum: Duration,
}

/// Everything on the board at one moment.
#[derive(Clone, Debug)]
pub struct BoardSnapshot {
    /// When the process started.
    pub started_at: Timestamp,
    /// How long it has been running.
    pub uptime: Duration,
    /// How long ago the poll loop last went round.
    pub beat_age: Duration,
    /// Whether it is draining to stop.
    pub stopping: bool,
    /// Whether the group's assignment was received, be it empty.
    pub assigned: bool,
    /// How records are delivered, once decided.
    pub mode: Option<Mode>,
    /// How often each kind of thing failed, in the order of [`Failure::ALL`].
    pub failures: [u64; Failure::ALL.len()],
    /// How often a producer was thrown away and made anew.
    pub producer_restarts: u64,
    /// How long checkpoints took.
    pub checkpoints: Histogram,
    /// What came of transactions.
    pub transactions: Transactions,
    /// The partitions held, in order.
    pub partitions: Vec<PartitionSnapshot>,
    /// What came of all records by source topic, those of left partitions included.
    pub totals: BTreeMap<Arc<str>, Tally>,
}

/// Time since the board was made; steps of the wall clock do not move it.
#[derive(Clone, Debug)]
pub(super) enum Watch {
    Machine(Instant),
    Manual(ManualClock, Timestamp),
}

impl Board {
    /// A board for a process that started at `started_at`.
    pub fn new(started_at: Timestamp) -> Self {
        Self::with_watch(Watch::Machine(Instant::now()), started_at)
    }

    /// A board whose ages are counted by a test's clock.
    pub fn manual(clock: ManualClock) -> Self {
        let now = clock.now();
        Self::with_watch(Watch::Manual(clock, now), now)
    }

    fn with_watch(watch: Watch, started_at: Timestamp) -> Self {
        Self {
            watch,
            started_at,
            beat_ms: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
            assigned: AtomicBool::new(false),
            mode: Mutex::default(),
            failures: Default::default(),
            producer_restarts: AtomicU64::new(0),
            checkpoints: Mutex::default(),
            transactions: Mutex::default(),
            roster: Mutex::default(),
        }
    }

    /// Says that the poll loop went round.
    pub fn beat(&self) {
        self.beat_ms.store(self.watch.elapsed_ms(), Relaxed);
    }

    /// Says that the process drains to stop.
    pub fn set_stopping(&self) {
        self.stopping.store(true, Relaxed);
    }

    /// Says how records are delivered, and why so.
    pub fn set_mode(&self, mode: Mode) {
        *lock(&self.mode) = Some(mode);
    }

    /// Counts a failure.
    pub fn count_failure(&self, failure: Failure) {
        if let Some(count) = self.failures.get(failure as usize) {
            count.fetch_add(1, Relaxed);
        }
    }

    /// Counts a producer that was thrown away and made anew.
    pub fn count_producer_restart(&self) {
        self.producer_restarts.fetch_add(1, Relaxed);
    }

    /// Says that an assignment came, and adds its partitions, if any. Returns their boards, in
    /// the same order; each starts in state `Opening`.
    pub fn assign(&self, partitions: &[SourcePartition]) -> Vec<Arc<PartitionBoard>> {
        let mut roster = lock(&self.roster);
        let boards = partitions.iter().map(|partition| {
            roster.leave(partition);
            let board = Arc::new(PartitionBoard::new(partition.clone(), self.watch.clone()));
            roster.held.insert(partition.clone(), Arc::clone(&board));
            board
        });
        let boards = boards.collect();
        self.assigned.store(true, Relaxed);
        boards
    }

    /// Says that a partition was left. Its totals stay; what is published on its board after
    /// this is not seen.
    pub fn revoke(&self, partition: &SourcePartition) {
        lock(&self.roster).leave(partition);
    }

    /// Says that membership was lost: until the next [`assign`](Self::assign) nothing is assigned.
    pub fn set_unassigned(&self) {
        self.assigned.store(false, Relaxed);
    }

    /// Says that a checkpoint of this partition became durable, how long that took, and whether
    /// that was too long.
    pub fn checkpointed(&self, partition: &PartitionBoard, took: Duration, slow: bool) {
        partition.checkpointed(took, slow);
        lock(&self.checkpoints).observe(took);
    }

    /// Says that a transaction was committed, and how long that took.
    pub fn transaction_committed(&self, took: Duration) {
        lock(&self.transactions).commits.observe(took);
    }

    /// Counts a transaction that was not committed, or not known to be.
    pub fn transaction_aborted(&self, why: Aborted) {
        if let Some(count) = lock(&self.transactions).aborted.get_mut(why as usize) {
            *count += 1;
        }
    }

    /// Counts a transactional producer that was thrown away and made anew.
    pub fn transactions_anew(&self, why: Anew) {
        if let Some(count) = lock(&self.transactions).anew.get_mut(why as usize) {
            *count += 1;
        }
    }

    /// Returns everything as it is now. Counts of one partition belong together.
    pub fn snapshot(&self) -> BoardSnapshot {
        let (partitions, totals) = lock(&self.roster).snapshot();
        let uptime_ms = self.watch.elapsed_ms();
        let beat_ms = self.beat_ms.load(Relaxed);
        BoardSnapshot {
            started_at: self.started_at,
            uptime: Duration::from_millis(uptime_ms),
            beat_age: Duration::from_millis(uptime_ms.saturating_sub(beat_ms)),
            stopping: self.stopping.load(Relaxed),
            assigned: self.assigned.load(Relaxed),
            mode: lock(&self.mode).clone(),
            failures: std::array::from_fn(|i| self.failures.get(i).map_or(0, |n| n.load(Relaxed))),
            producer_restarts: self.producer_restarts.load(Relaxed),
            checkpoints: lock(&self.checkpoints).clone(),
            transactions: lock(&self.transactions).clone(),
            partitions,
            totals,
        }
    }
}

impl Roster {
    fn leave(&mut self, partition: &SourcePartition) {
        if let Some(board) = self.held.remove(partition) {
            self.left.entry(Arc::clone(&partition.topic)).or_default().add(&board.left());
        }
    }

    fn snapshot(&self) -> (Vec<PartitionSnapshot>, BTreeMap<Arc<str>, Tally>) {
        let partitions: Vec<_> = self.held.values().map(|board| board.snapshot()).collect();
        let mut totals = self.left.clone();
        for partition in &partitions {
            let topic = Arc::clone(&partition.partition.topic);
            totals.entry(topic).or_default().add(&partition.tally);
        }
        (partitions, totals)
    }
}

impl Histogram {
    /// Upper bounds in milliseconds, included: from a fast disk to a disk that is in trouble.
    pub const BOUNDS_MS: [u64; 11] = [1, 2, 5, 10, 25, 50, 100, 250, 1_000, 5_000, 30_000];

    fn observe(&mut self, took: Duration) {
        let over = |bound: &&u64| took > Duration::from_millis(**bound);
        let bucket = Self::BOUNDS_MS.iter().take_while(over).count();
        if let Some(count) = self.counts.get_mut(bucket) {
            *count += 1;
        }
        self.sum += took;
    }
}

impl Watch {
    pub(super) fn elapsed_ms(&self) -> u64 {
        match self {
            Self::Machine(start) => u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX),
            Self::Manual(clock, start) => {
                u64::try_from(clock.now().0.saturating_sub(start.0)).unwrap_or(0)
            }
        }
    }
}

/// Every write under these locks is complete in itself, so a poisoned one is as good as any.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[path = "board_tests.rs"]
mod tests;
