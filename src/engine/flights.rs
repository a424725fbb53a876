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

/// One delivery: a cache line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    /// Of its key, or of its content where it has none.
    pub(super) fingerprint: Fingerprint,
    pub(super) offset: RecordOffset,
    pub(super) at: Timestamp,
    /// The latest effective time of the records before it.
    pub(super) high_mark: Timestamp,
    /// Where it lies on the output; [`NOWHERE`] until that is known.
    pub(super) output: i64,
    pub(super) bytes: u32,
    pub(super) kind: Kind,
    pub(super) has_key: bool,
    pub(super) done: bool,
}

const NOWHERE: i64 = -1;

impl Flight {
    /// A delivery that waits for its report.
    pub(super) fn new(
        offset: RecordOffset,
        identity: Identity,
        at: Timestamp,
        kind: Kind,
        high_mark: Timestamp,
    ) -> Self {
        let (fingerprint, has_key) = match identity {
            Identity::Key(key) => (key, true),
            Identity::Content(content) => (content, false),
        };
        let (output, bytes, done) = (NOWHERE, 0, false);
        Self { fingerprint, offset, at, high_mark, output, bytes, kind, has_key, done }
    }

    pub(super) fn identity(&self) -> Identity {
        match self.has_key {
            true => Identity::Key(self.fingerprint),
            false => Identity::Content(self.fingerprint),
        }
    }

    /// Returns where it lies on the output, once known.
    pub(super) fn output(&self) -> Option<RecordOffset> {
        (self.output != NOWHERE).then_some(RecordOffset(self.output))
    }

    pub(super) fn set_output(&mut self, output: Option<RecordOffset>) {
        self.output = output.map_or(NOWHERE, |output| output.0);
    }
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

    /// Takes the front delivery if it is done. [`Flights::take_trailing`] tells what followed it.
    pub(super) fn pop_done(&mut self) -> Option<Flight> {
        if crate::bugs::active("settle-out-of-order") {
            let done = self.queue.iter().skip(1).position(|flight| flight.done);
            if let Some(index) = done {
                self.queue.swap(0, index.saturating_add(1));
            }
        }
        if !self.queue.front()?.done {
            return None;
        }
        let flight = self.queue.pop_front()?;
        self.base = self.base.saturating_add(1);
        self.bytes = self.bytes.saturating_sub(u64::from(flight.bytes));
        Some(flight)
    }

    /// Takes the counts of the records between the delivery that was popped last and the one
    /// behind it, if there were any.
    pub(super) fn take_trailing(&mut self) -> Option<Counts> {
        if self.trailing.front()?.0 >= self.base {
            return None;
        }
        self.trailing.pop_front().map(|(_, counts)| counts)
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
        let key = |flight: Flight| flight.has_key.then_some((flight.fingerprint, flight.at));
        self.queue.drain(..).filter_map(key).collect()
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
