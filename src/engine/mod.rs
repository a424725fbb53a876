//! The core of one source partition: events in, decisions out. Pure and synchronous.
//!
//! It knows no clock, no Kafka, no sled and no async runtime; times are arguments, and what is
//! remembered on disk is asked for through [`Remembered`]. One core a source partition, nothing
//! shared between them.
//!
//! | event | state of the key | decision |
//! | --- | --- | --- |
//! | record | unknown | claim it; deliver |
//! | record | in flight | suppress: it shares the first one's fate |
//! | record | seen | suppress |
//! | record | found by catch-up, not met yet | suppress: the replay of the one already written |
//! | confirmed | in flight | seen; settled once all before it are |
//! | refused by the output for good | in flight | dead-letter, or stop below it |
//! | outcome unknown | in flight | rewind: new producer, catch up, read again from the resume offset |
//!
//! # Invariants
//! - A key is *seen* only after its own delivery report. A claim is not a mark.
//! - A checkpoint is an exact prefix: all records below its resume offset are settled and are in
//!   it or in an earlier one; no record at or above it is.
//! - Its output position is at or below the output offset of every record from a source offset at
//!   or above its resume offset, so reading the output from there finds all of them.
//! - Copies in flight are suppressed only behind a flight that holds the resume offset below
//!   them: if that flight fails, they are read again.
//!
//! Read [`Core`] first.

mod core;
mod flights;
#[cfg(test)]
mod found;
#[cfg(test)]
mod model;
mod output;
mod recent;

pub use self::core::{Core, Draft, Setup};
pub use output::Hole;

use std::fmt;

use crate::key::Fingerprint;
use crate::words::{OutputPosition, RecordOffset, Span, Timestamp};

/// How many records of one partition may be unsettled. Also bounds how far a dead predecessor can
/// have written ahead of a gap, so catch-up gives up waiting for replays beyond it.
pub const IN_FLIGHT_MAX_RECORDS: usize = 100_000;

/// What is remembered durably, as far as the core needs to know.
pub trait Remembered {
    /// What can go wrong when it is read.
    type Error;

    /// Returns the time of an occurrence of `fingerprint` within `window` of `at`, in either
    /// direction, if one is remembered.
    ///
    /// # Errors
    /// Whatever the store met; the record must then be neither forwarded nor suppressed.
    fn nearest(
        &self,
        fingerprint: Fingerprint,
        at: Timestamp,
        window: Span,
    ) -> Result<Option<Timestamp>, Self::Error>;

    /// Adds to `absent`, for each one asked about, whether there is surely no occurrence within
    /// `window` of it. Reads nothing from disk, and may say false of anything.
    fn rule_out(&self, asked: &[(Fingerprint, Timestamp)], window: Span, absent: &mut Vec<bool>) {
        let _ = window;
        absent.extend(asked.iter().map(|_| false));
    }

    /// Returns the time below which occurrences have been forgotten.
    fn floor(&self) -> Timestamp;
}

/// What a record is recognised by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identity {
    /// By its dedup key.
    Key(Fingerprint),
    /// It has none and is always forwarded; its content tells a replay from a new record.
    Content(Fingerprint),
}

/// A record as the core sees it.
#[derive(Clone, Copy, Debug)]
pub struct Incoming {
    /// Its offset in the source partition.
    pub offset: RecordOffset,
    /// What it is recognised by.
    pub identity: Identity,
    /// Its own timestamp, where it has one.
    pub timestamp: Option<Timestamp>,
    /// The wall clock now.
    pub arrival: Timestamp,
    /// Its size, as counted against the bound on what is in flight.
    pub bytes: u32,
}

/// A record found on the output.
#[derive(Clone, Copy, Debug)]
pub struct Written {
    /// Its offset in the output partition.
    pub offset: RecordOffset,
    /// What it is recognised by.
    pub identity: Identity,
    /// Its own timestamp, where it has one.
    pub timestamp: Option<Timestamp>,
    /// The wall clock now.
    pub arrival: Timestamp,
}

/// Names one delivery of one core. Consecutive; never used twice by the same core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sequence(pub u64);

/// What to do with a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Deliver it to the output under this sequence.
    Deliver(Sequence),
    /// Deliver it to the dead-letter topic under this sequence: the output refused it before.
    DeadLetter(Sequence),
    /// Do nothing with it.
    Suppress(Why),
}

/// Why a record is not delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Its key was forwarded within the window.
    Seen,
    /// Its key is in flight; it shares that delivery's fate.
    InFlight,
    /// It is itself on the output already, written before a restart.
    Replay,
    /// It lies below what was read already.
    Stale,
}

/// A record on the output whose key we had forwarded, too: a duplicate somebody else wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repeat {
    /// Where the other copy is on the output.
    pub late: RecordOffset,
    /// Where ours is, if it is still in memory.
    pub ours: Option<RecordOffset>,
}

/// A first occurrence that lies on the output before one that precedes it in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reordered {
    /// Where it is in the source.
    pub source: RecordOffset,
    /// Where it is on the output.
    pub output: RecordOffset,
    /// The position behind a record that precedes it in the source.
    pub behind: OutputPosition,
}

/// An invariant of the core does not hold: a defect, never the world's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken(pub &'static str);

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Broken {}
