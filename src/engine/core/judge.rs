//! Records judged: a claim and a delivery for what is new, nothing for the rest.

use super::{Core, Counts, Fingerprint, RecordOffset, Timestamp};
use crate::engine::flights::{Flight, Kind};
use crate::engine::recent::{Occurrence, State};
use crate::engine::{
    IN_FLIGHT_MAX_RECORDS, Identity, Incoming, Remembered, Sequence, Verdict, Why,
};
use crate::window::EffectiveTime;

/// After how many records in a row without a usable time of their own the clock stands in for
/// event time, so that what they leave behind expires.
const DOUBTFUL_MAX: u32 = 1_000;

impl Core {
    /// Judges the next record of the source partition.
    ///
    /// After [`Verdict::Deliver`] and [`Verdict::DeadLetter`] the caller must send the record and
    /// bring its report, under that sequence.
    ///
    /// # Errors
    /// Those of the store; the record is then not counted as read and may be offered again.
    pub fn record<S: Remembered>(
        &mut self,
        record: Incoming,
        seen: &S,
    ) -> Result<Verdict, S::Error> {
        if self.next_read.covers(record.offset) {
            return Ok(Verdict::Suppress(Why::Stale));
        }
        let time = self.setup.window.time_of(record.timestamp, record.arrival);
        let verdict = match record.identity {
            _ if self.poisoned.contains(&record.offset) => {
                Verdict::DeadLetter(self.launch(record, time.at, Kind::DeadLetter))
            }
            Identity::Content(content) => self.judge_keyless(record, content, time.at),
            Identity::Key(fingerprint) => self.judge(record, fingerprint, time.at, seen)?,
        };
        self.next_read = record.offset.next();
        self.advance_high_mark(time, record.arrival);
        self.live.read += 1;
        if time.clamped {
            self.count(|counts| counts.future += 1);
        }
        if time.no_timestamp {
            self.count(|counts| counts.no_timestamp += 1);
        }
        self.recent.forget_some();
        self.settle_front();
        Ok(verdict)
    }

    /// Follows event time. What lies ahead of the clock, and what carries no time of its own, must
    /// not make the rest look old, unless the topic holds nothing else.
    fn advance_high_mark(&mut self, time: EffectiveTime, arrival: Timestamp) {
        let doubtful = time.clamped || time.no_timestamp;
        self.doubtful = if doubtful { self.doubtful.saturating_add(1) } else { 0 };
        if !doubtful || self.doubtful > DOUBTFUL_MAX {
            self.high_mark = self.high_mark.max(time.at.min(arrival));
        }
    }

    fn judge<S: Remembered>(
        &mut self,
        record: Incoming,
        fingerprint: Fingerprint,
        at: Timestamp,
        seen: &S,
    ) -> Result<Verdict, S::Error> {
        let window = self.setup.window;
        if let Some((output, at)) = self.own_replay(fingerprint, record.timestamp) {
            return Ok(self.meet(record, fingerprint, at, output));
        }
        if let Some(known) = self.recent.find(fingerprint, |other| window.joins(at, other)) {
            let why = match known.state() {
                State::InFlight(_) => Why::InFlight,
                // A copy that waits for its own replay: this record is another one.
                State::Done(_) | State::Recovered(_) => Why::Seen,
            };
            return Ok(self.suppress_known(record, fingerprint, at, why));
        }
        if !self.ahead.rules_out(fingerprint, at)
            && seen.nearest(fingerprint, at, window.length())?.is_some()
        {
            return Ok(self.suppress_known(record, fingerprint, at, Why::Seen));
        }
        let sequence = self.launch(record, at, Kind::Forward);
        let state = if crate::bugs::active("mark-before-ack") {
            self.delta.push((fingerprint, at));
            State::Done(None)
        } else {
            State::InFlight(sequence)
        };
        self.recent.insert(fingerprint, Occurrence::new(at, state));
        if window.too_old(at, seen.floor()) {
            self.count(|counts| counts.too_old += 1);
        }
        Ok(Verdict::Deliver(sequence))
    }

    fn judge_keyless(&mut self, record: Incoming, content: Fingerprint, at: Timestamp) -> Verdict {
        if let Some(offsets) = self.contents.get_mut(&content) {
            let output = offsets.remove(0);
            if offsets.is_empty() {
                self.contents.remove(&content);
            }
            self.land(record, at, output);
            return Verdict::Suppress(Why::Replay);
        }
        Verdict::Deliver(self.launch(record, at, Kind::Forward))
    }

    /// Suppresses a duplicate. Where that starts the window anew, its time becomes an occurrence
    /// of its own, in its turn: until what lies before it is settled, nothing of it is durable.
    fn suppress_known(
        &mut self,
        record: Incoming,
        fingerprint: Fingerprint,
        at: Timestamp,
        why: Why,
    ) -> Verdict {
        if !self.setup.window.refresh()
            || self.recent.find(fingerprint, |other| other == at).is_some()
        {
            return self.suppress(why);
        }
        self.live.suppressed += 1;
        let (offset, identity, mark) = (record.offset, record.identity, self.high_mark);
        let flight = Flight::new(offset, identity, at, Kind::Refresh, mark);
        let sequence = self.flights.push(Flight { done: true, ..flight });
        let state = State::InFlight(sequence);
        self.recent.insert(fingerprint, Occurrence::new(at, state));
        Verdict::Suppress(why)
    }

    fn suppress(&mut self, why: Why) -> Verdict {
        self.count(|counts| counts.suppressed += 1);
        Verdict::Suppress(why)
    }

    /// Passes over a record that the rules leave out on purpose.
    pub fn leave_out(&mut self, offset: RecordOffset) {
        if self.next_read.covers(offset) {
            return;
        }
        self.next_read = offset.next();
        self.live.read += 1;
        self.count(|counts| counts.left_out += 1);
    }

    /// Sends a record without a dedup key to the dead-letter topic, as the rules ask.
    ///
    /// Returns `None` for a record that was read already.
    pub fn dead_letter(&mut self, record: Incoming) -> Option<Sequence> {
        if self.next_read.covers(record.offset) {
            return None;
        }
        let time = self.setup.window.time_of(record.timestamp, record.arrival);
        self.next_read = record.offset.next();
        self.live.read += 1;
        Some(self.launch(record, time.at, Kind::DeadLetter))
    }

    fn launch(&mut self, record: Incoming, at: Timestamp, kind: Kind) -> Sequence {
        if kind == Kind::Forward {
            self.fresh_since_catch_up += 1;
            if self.fresh_since_catch_up == IN_FLIGHT_MAX_RECORDS {
                self.give_up_on_replays();
            }
        }
        let flight = Flight::new(record.offset, record.identity, at, kind, self.high_mark);
        let done = crate::bugs::active("commit-before-ack");
        self.flights.push(Flight { bytes: record.bytes, done, ..flight })
    }

    /// Counts something about the record just judged, live and for the prefix it belongs to.
    fn count(&mut self, count: impl Fn(&mut Counts)) {
        count(&mut self.live);
        if !self.flights.count_behind_last(&count) {
            count(&mut self.settled);
        }
    }
}
