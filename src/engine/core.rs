//! The core itself: what it starts from, what it holds, and what it tells of itself.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::key::Fingerprint;
use crate::window::Window;
use crate::words::{
    Checkpoint, Counts, OutputPosition, RecordOffset, ResumeOffset, Timestamp, TopicId,
};

use super::flights::Flights;
use super::output::OutputTrack;
use super::recent::Recent;
use super::{Identity, Reordered};

mod ahead;
mod catch_up;
mod checkpoint;
mod foreign;
mod judge;
mod look;
mod settle;

/// What a core starts from.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The rule by which times are judged.
    pub window: Window,
    /// The next source offset to read.
    pub resume: ResumeOffset,
    /// Where catch-up reads the output from; `None` where the output was never read or written.
    pub output: Option<OutputPosition>,
    /// Up to where everything on the output is known to be ours or was looked at. What lies behind
    /// and holds a settled key is somebody else's copy.
    pub accounted: Option<OutputPosition>,
    /// The latest effective time so far.
    pub high_mark: Timestamp,
    /// What came of the records below `resume`.
    pub counts: Counts,
    /// Which run of the process this is.
    pub incarnation: u128,
    /// The source topic's id, if known.
    pub source_topic_id: Option<TopicId>,
    /// The output topic's id, if known.
    pub output_topic_id: Option<TopicId>,
}

/// What a checkpoint makes durable: first occurrences, and the prefix they complete.
#[derive(Clone, Debug, PartialEq)]
pub struct Draft {
    /// First occurrences settled since the last checkpoint, in source order.
    pub entries: Vec<(Fingerprint, Timestamp)>,
    /// The prefix.
    pub checkpoint: Checkpoint,
}

/// A record on the output whose replay is not settled.
#[derive(Clone, Copy, Debug)]
struct Unmet {
    identity: Identity,
    /// The time it is judged by.
    at: Timestamp,
    /// The one it carries.
    timestamp: Option<Timestamp>,
}

/// The core of one source partition.
#[derive(Debug)]
pub struct Core {
    setup: Setup,
    next_read: ResumeOffset,
    recent: Recent,
    flights: Flights,
    output: OutputTrack,
    /// Records that catch-up found and whose replay is not settled, by output offset.
    recovered: BTreeMap<RecordOffset, Unmet>,
    /// Of those, the ones without a key, by content.
    contents: HashMap<Fingerprint, Vec<RecordOffset>>,
    /// Copies that somebody else wrote of keys still in flight: should that delivery fail, they are
    /// what catch-up must find.
    shadows: HashMap<Fingerprint, RecordOffset>,
    /// First occurrences delivered since catch-up.
    fresh_since_catch_up: usize,
    /// Records the output refused for good: their next delivery is to the dead-letter topic.
    poisoned: HashSet<RecordOffset>,
    /// Settled first occurrences that no checkpoint holds yet.
    delta: Vec<(Fingerprint, Timestamp)>,
    /// The empty buffer of the checkpoint before.
    spare: Vec<(Fingerprint, Timestamp)>,
    settled: Counts,
    live: Counts,
    /// The latest effective time of the records read.
    high_mark: Timestamp,
    /// How many records in a row had no usable time of their own.
    doubtful: u32,
    checkpoint_open: bool,
    /// What is known of records that are about to be read.
    ahead: ahead::Ahead,
    /// First occurrences that lie on the output before one that precedes them, not told yet.
    reordered: Vec<Reordered>,
}

impl Core {
    /// Makes a core that resumes at `setup`. Feed it what catch-up finds before any record.
    pub fn new(setup: Setup) -> Self {
        Self {
            next_read: setup.resume,
            recent: Recent::default(),
            flights: Flights::default(),
            output: OutputTrack::new(setup.output, setup.accounted),
            recovered: BTreeMap::new(),
            contents: HashMap::new(),
            shadows: HashMap::new(),
            fresh_since_catch_up: 0,
            poisoned: HashSet::new(),
            delta: Vec::new(),
            spare: Vec::new(),
            settled: setup.counts,
            live: setup.counts,
            high_mark: setup.high_mark,
            doubtful: 0,
            checkpoint_open: false,
            ahead: ahead::Ahead::default(),
            reordered: Vec::new(),
            setup,
        }
    }

    /// Returns the counts of everything so far, deliveries in flight included in `read` alone.
    pub fn live(&self) -> Counts {
        self.live
    }

    /// Returns how many deliveries are not settled.
    pub fn in_flight(&self) -> usize {
        self.flights.len()
    }

    /// Returns the bytes of the deliveries that are not settled.
    pub fn in_flight_bytes(&self) -> u64 {
        self.flights.bytes()
    }

    /// Returns how many first occurrences wait for the next checkpoint.
    pub fn unsaved(&self) -> usize {
        self.delta.len()
    }

    /// Returns the latest effective time of the records below the resume offset. What lies above
    /// may be read again, and must then find what it found before.
    pub fn high_mark(&self) -> Timestamp {
        if crate::bugs::active("expire-by-read-ahead") {
            return self.high_mark;
        }
        self.flights.front_high_mark().unwrap_or(self.high_mark)
    }

    /// Returns the next source offset to read now.
    pub fn next_read(&self) -> ResumeOffset {
        self.next_read
    }

    /// Returns the rule by which times are judged.
    pub fn window(&self) -> &Window {
        &self.setup.window
    }
}

/// Every record ends in exactly one of these.
fn total(counts: &Counts) -> u64 {
    counts.forwarded + counts.suppressed + counts.replayed + counts.left_out + counts.dead_lettered
}
