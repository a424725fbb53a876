//! Catching up: what lies on the output already, and meeting its replays.

use super::{Core, Fingerprint, OutputPosition, RecordOffset, Timestamp, Unmet};
use crate::engine::flights::{Flight, Kind};
use crate::engine::recent::{Occurrence, State};
use crate::engine::{Identity, Incoming, Remembered, Repeat, Sequence, Verdict, Why, Written};
use crate::window::EffectiveTime;
use crate::words::Span;

/// What memory says about a record that catch-up found on the output.
enum Met {
    /// It is known.
    Itself,
    /// Its key lies on the output twice; here first, if that is known.
    Copy(Option<RecordOffset>),
    /// It may be another record than those known.
    Other,
    /// Nothing.
    Never,
}

/// What the store says about a record that catch-up found.
pub(super) enum Stored {
    Nothing,
    /// An occurrence at its very time.
    Itself,
    /// Another one within the window.
    Near,
}

impl Core {
    /// Takes a record that catch-up found on the output, in output order.
    ///
    /// Returns the repeat where the output holds its key twice within the window: a predecessor
    /// and its successor both wrote it.
    ///
    /// # Errors
    /// Those of the store.
    pub fn recover<S: Remembered>(
        &mut self,
        written: Written,
        seen: &S,
    ) -> Result<Option<Repeat>, S::Error> {
        let time = self.setup.window.time_of(written.timestamp, written.arrival);
        let Written { offset, identity, timestamp, .. } = written;
        let unmet = Unmet { identity, at: time.at, timestamp };
        match identity {
            Identity::Content(content) => {
                if self.keyless_settled(content, offset)
                    || seen.nearest(content, time.at, Span::from_ms(i64::MAX))?.is_some()
                {
                    return Ok(None);
                }
                self.contents.entry(content).or_default().push(offset);
            }
            Identity::Key(fingerprint) => {
                let foreign = self.output.is_foreign(offset, identity);
                match self.met_before(fingerprint, &written, time, foreign) {
                    Met::Itself => return Ok(None),
                    Met::Copy(first) => {
                        self.keep(fingerprint, time.at, offset);
                        return Ok(Some(self.repeated(offset, first)));
                    }
                    Met::Other => {}
                    Met::Never => match self.stored(fingerprint, time.at, seen)? {
                        Stored::Nothing => {}
                        // Settled, and read once more because the position lags; unless it lies
                        // behind all that this core knows to be its own.
                        Stored::Itself if !foreign => return Ok(None),
                        Stored::Itself => return Ok(Some(self.repeated(offset, None))),
                        Stored::Near if foreign => {
                            self.keep(fingerprint, time.at, offset);
                            return Ok(Some(self.repeated(offset, None)));
                        }
                        // What the store holds was judged by another time when this one was
                        // written: it is a first occurrence of its own.
                        Stored::Near => {}
                    },
                }
                let state = State::Recovered(offset);
                self.recent.insert(fingerprint, Occurrence::new(time.at, state));
            }
        }
        self.recovered.insert(offset, unmet);
        Ok(None)
    }

    /// Returns what the store knows of an occurrence at `at`.
    pub(super) fn stored<S: Remembered>(
        &self,
        fingerprint: Fingerprint,
        at: Timestamp,
        seen: &S,
    ) -> Result<Stored, S::Error> {
        let Some(known) = seen.nearest(fingerprint, at, self.setup.window.length())? else {
            return Ok(Stored::Nothing);
        };
        let itself = known == at || seen.nearest(fingerprint, at, Span::ZERO)?.is_some();
        Ok(if itself { Stored::Itself } else { Stored::Near })
    }

    /// Remembers a record of the output by its own time: what is within the window of it, but not
    /// of the copy before it, must not be forwarded.
    pub(super) fn keep(&mut self, fingerprint: Fingerprint, at: Timestamp, offset: RecordOffset) {
        if self.recent.find(fingerprint, |other| other == at).is_none() {
            let state = State::Done(Some(offset));
            self.recent.insert(fingerprint, Occurrence::new(at, state));
            self.delta.push((fingerprint, at));
        }
    }

    /// Returns whether the record without a key at `offset` may be one that is settled.
    fn keyless_settled(&mut self, content: Fingerprint, offset: RecordOffset) -> bool {
        let settled = |known: &Occurrence| matches!(known.state(), State::Done(at) if at.is_none_or(|at| at == offset));
        self.recent.find_by(content, settled).is_some()
    }

    /// Returns what memory says about a record that catch-up found.
    fn met_before(
        &mut self,
        fingerprint: Fingerprint,
        written: &Written,
        time: EffectiveTime,
        foreign: bool,
    ) -> Met {
        if let Some((first, _)) = self.own_replay(fingerprint, written.timestamp) {
            return Met::Copy(Some(first));
        }
        let window = self.setup.window;
        let mut found = self.recent.find(fingerprint, |other| other == time.at).copied();
        let itself = found.is_some();
        if !itself {
            let near = |other| window.joins(time.at, other);
            found = self.recent.find(fingerprint, near).copied();
        }
        let state = found.map(|found| found.state());
        // A record judged by when it is read may have been outside the window when it was written.
        let by_reading = time.clamped || time.no_timestamp || window.by_arrival();
        match state {
            Some(State::Done(Some(ours))) if ours == written.offset => Met::Itself,
            Some(State::Done(ours)) if foreign => Met::Copy(ours),
            None if foreign => Met::Never,
            _ if by_reading => Met::Other,
            None => Met::Never,
            Some(State::InFlight(_) | State::Done(None)) if itself => Met::Itself,
            // That may be a duplicate which renewed the window and was never written.
            Some(State::InFlight(_) | State::Done(None)) => Met::Other,
            Some(State::Done(Some(first)) | State::Recovered(first)) => Met::Copy(Some(first)),
        }
    }

    pub(super) fn repeated(&mut self, late: RecordOffset, ours: Option<RecordOffset>) -> Repeat {
        self.live.repeated += 1;
        self.settled.repeated += 1;
        Repeat { late, ours }
    }

    /// Ends catching up: the output has been read up to `end`.
    pub fn caught_up(&mut self, end: OutputPosition) {
        self.output.caught_up(end);
        self.fresh_since_catch_up = 0;
        if self.recovered.is_empty()
            && let Some(last) = end.0.checked_sub(1).filter(|last| *last >= 0)
        {
            // Nothing there waits for a replay, so nothing there needs to be read again.
            self.output.settle(RecordOffset(last));
        }
    }

    /// Returns where the record itself lies on the output, told by the timestamp it carries: what
    /// it is judged by can differ from what it was judged by when it was written.
    pub(super) fn own_replay(
        &mut self,
        fingerprint: Fingerprint,
        timestamp: Option<Timestamp>,
    ) -> Option<(RecordOffset, Timestamp)> {
        if self.recovered.is_empty() {
            return None;
        }
        let recovered = &self.recovered;
        let own = self.recent.find_by(fingerprint, |occurrence| match occurrence.state() {
            State::Recovered(output) => {
                recovered.get(&output).is_some_and(|unmet| unmet.timestamp == timestamp)
            }
            _ => false,
        })?;
        let State::Recovered(output) = own.state() else { return None };
        Some((output, own.at))
    }

    pub(super) fn meet(
        &mut self,
        record: Incoming,
        fingerprint: Fingerprint,
        at: Timestamp,
        output: RecordOffset,
    ) -> Verdict {
        let sequence = self.land(record, at, output);
        if let Some(known) = self.recent.find_by(fingerprint, |known| {
            known.at == at && known.state() == State::Recovered(output)
        }) {
            known.set(State::InFlight(sequence));
        }
        Verdict::Suppress(Why::Replay)
    }

    /// Takes in a replay: done already, and settled in its turn.
    pub(super) fn land(
        &mut self,
        record: Incoming,
        at: Timestamp,
        output: RecordOffset,
    ) -> Sequence {
        self.live.replayed += 1;
        let (offset, identity, mark) = (record.offset, record.identity, self.high_mark);
        let mut flight = Flight::new(offset, identity, at, Kind::Replay, mark);
        flight.set_output(Some(output));
        self.flights.push(Flight { done: true, ..flight })
    }

    /// Remembers what catch-up found and nobody replayed: a predecessor cannot have written so
    /// far ahead, so somebody else wrote it.
    pub(super) fn give_up_on_replays(&mut self) {
        for (offset, unmet) in std::mem::take(&mut self.recovered) {
            let Identity::Key(fingerprint) = unmet.identity else { continue };
            let found = self.recent.find_by(fingerprint, |known| {
                known.at == unmet.at && known.state() == State::Recovered(offset)
            });
            if let Some(found) = found {
                found.set(State::Done(Some(offset)));
                self.delta.push((fingerprint, unmet.at));
            } else {
                // Landed, or the shadow of a delivery in flight: it ends when that settles.
                self.recovered.insert(offset, unmet);
            }
        }
        self.contents.clear();
    }
}
