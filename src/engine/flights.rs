//! Deliveries in source order, until all before them are done.
//!
//! Reports arrive in any order; work is settled from the front only. What happened to records
//! between two deliveries is counted behind the first of them, so that counts are as exact a
//! prefix as the resume offset is.

use std::collections::VecDeque;

use crate::key::Fingerprint;
use crate::words::{Counts, RecordOffset, Timestamp};

use super::{Broken, Identity, Sequence};

/// What a delivery is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A first occurrence on its way to the output.
    Forward,
    /// A record on its way to the dead-letter topic.
    DeadLetter,
    /// A record that was on the output already; nothing is sent.
    Replay,
    /// A duplicate that starts the window anew; nothing is sent.
    Refresh,
}

/// One delivery.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    pub(super) offset: RecordOffset,
    pub(super) identity: Identity,
    pub(super) at: Timestamp,
    pub(super) kind: Kind,
    /// The latest effective time of the records before it.
    pub(super) high_mark: Timestamp,
    pub(super) bytes: u32,
    pub(super) done: bool,
    /// Where it lies on the output, once known.
    pub(super) output: Option<RecordOffset>,
}

/// All deliveries that are not settled.
#[derive(Debug, Default)]
pub(super) struct Flights {
    queue: VecDeque<Flight>,
    /// The sequence of the front.
    base: u64,
    /// Counts of records that were not delivered, by the sequence of the delivery before them.
    trailing: VecDeque<(u64, Counts)>,
    bytes: u64,
}

impl Flights {
    pub(super) fn push(&mut self, flight: Flight) -> Sequence {
        let sequence = self.base.saturating_add(self.queue.len() as u64);
        self.bytes = self.bytes.saturating_add(u64::from(flight.bytes));
        self.queue.push_back(flight);
        Sequence(sequence)
    }

    pub(super) fn get_mut(&mut self, sequence: Sequence) -> Result<&mut Flight, Broken> {
        let index = sequence.0.checked_sub(self.base).and_then(|i| usize::try_from(i).ok());
        index
            .and_then(|index| self.queue.get_mut(index))
            .ok_or(Broken("a delivery report names a delivery that is not in flight"))
    }

    /// Counts a record that is finished without a delivery. Returns false where nothing is in
    /// flight, so that the caller settles it at once.
    pub(super) fn count_behind_last(&mut self, count: impl FnOnce(&mut Counts)) -> bool {
        let Some(last) = (self.queue.len() as u64).checked_sub(1) else { return false };
        let last = self.base.saturating_add(last);
        match self.trailing.back_mut() {
            Some((sequence, counts)) if *sequence == last => count(counts),
            _ => {
                let mut counts = Counts::default();
                count(&mut counts);
                self.trailing.push_back((last, counts));
            }
        }
        true
    }

    /// Takes the front delivery if it is done, with the counts of what followed it.
    pub(super) fn pop_done(&mut self) -> Option<(Flight, Option<Counts>)> {
        if crate::bugs::active("settle-out-of-order") {
            let done = self.queue.iter().skip(1).position(|flight| flight.done);
            if let Some(index) = done {
                self.queue.swap(0, index.saturating_add(1));
            }
        }
        let flight = *self.queue.front().filter(|flight| flight.done)?;
        self.queue.pop_front();
        let sequence = self.base;
        self.base = self.base.saturating_add(1);
        self.bytes = self.bytes.saturating_sub(u64::from(flight.bytes));
        let counts = match self.trailing.front() {
            Some((of, _)) if *of == sequence => self.trailing.pop_front().map(|(_, counts)| counts),
            _ => None,
        };
        Some((flight, counts))
    }

    /// Returns the source offset of the oldest delivery that is not settled.
    pub(super) fn front_offset(&self) -> Option<RecordOffset> {
        self.queue.front().map(|flight| flight.offset)
    }

    /// Returns the latest effective time of the records before the oldest unsettled delivery.
    pub(super) fn front_high_mark(&self) -> Option<Timestamp> {
        self.queue.front().map(|flight| flight.high_mark)
    }

    /// Forgets every delivery; returns the keys that were claimed for them.
    pub(super) fn abandon(&mut self) -> Vec<(Fingerprint, Timestamp)> {
        self.base = self.base.saturating_add(self.queue.len() as u64);
        self.trailing.clear();
        self.bytes = 0;
        self.queue
            .drain(..)
            .filter_map(|flight| match flight.identity {
                Identity::Key(fingerprint) => Some((fingerprint, flight.at)),
                Identity::Content(_) => None,
            })
            .collect()
    }

    /// Returns how many deliveries wait for a report.
    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Returns the bytes of all unsettled deliveries.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
}
