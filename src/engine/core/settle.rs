//! Reports taken in, and work settled in source order.

use super::{Core, Counts, Fingerprint, RecordOffset, ResumeOffset, Timestamp, total};
use crate::engine::flights::{Flight, Kind};
use crate::engine::output::Hole;
use crate::engine::recent::{Occurrence, State};
use crate::engine::{Broken, Identity, Reordered, Sequence};

impl Core {
    /// Takes a delivery report: the record is on the output, at `output` if the report says so.
    ///
    /// Returns the hole before it, if somebody else wrote there.
    ///
    /// # Errors
    /// [`Broken`] where the sequence names nothing in flight.
    pub fn confirm(
        &mut self,
        sequence: Sequence,
        output: Option<RecordOffset>,
    ) -> Result<Option<Hole>, Broken> {
        let flight = match self.flights.get_mut(sequence) {
            Err(_) if crate::bugs::active("commit-before-ack") => return Ok(None),
            flight => flight?,
        };
        flight.done = true;
        let hole = match flight.kind {
            Kind::Forward => {
                flight.set_output(output);
                self.live.forwarded += 1;
                self.output.report(output, flight.identity())
            }
            Kind::DeadLetter => {
                self.live.dead_lettered += 1;
                None
            }
            Kind::Replay | Kind::Refresh => {
                return Err(Broken("a record that was not sent was reported as delivered"));
            }
        };
        self.settle_front();
        Ok(hole)
    }

    /// Turns a delivery that the client refused at once into one to the dead-letter topic.
    ///
    /// # Errors
    /// [`Broken`] where the sequence names nothing in flight.
    pub fn divert(&mut self, sequence: Sequence) -> Result<(), Broken> {
        let flight = self.flights.get_mut(sequence)?;
        flight.kind = Kind::DeadLetter;
        let (identity, at) = (flight.identity(), flight.at);
        self.release(identity, at);
        Ok(())
    }

    /// Notes that the output refused this delivery for good. Returns the record's source offset.
    ///
    /// After the rewind that must follow, the record goes to the dead-letter topic, and copies
    /// suppressed behind it are judged anew.
    ///
    /// # Errors
    /// [`Broken`] where the sequence names nothing in flight.
    pub fn poison(&mut self, sequence: Sequence) -> Result<RecordOffset, Broken> {
        let offset = self.flights.get_mut(sequence)?.offset;
        self.poisoned.insert(offset);
        Ok(offset)
    }

    /// Returns the records that the output refused for good and that are not settled otherwise.
    pub fn poisoned(&self) -> Vec<RecordOffset> {
        self.poisoned.iter().copied().collect()
    }

    /// Takes over what another core of this partition knew to be refused for good.
    pub fn expect_refused(&mut self, offsets: impl IntoIterator<Item = RecordOffset>) {
        self.poisoned.extend(offsets);
    }

    /// Notes that everything confirmed so far was committed in a transaction.
    pub fn transaction_ended(&mut self) {
        self.output.transaction_ended();
    }

    /// Returns the source offset of a delivery.
    ///
    /// # Errors
    /// [`Broken`] where the sequence names nothing in flight.
    pub fn offset_of(&mut self, sequence: Sequence) -> Result<RecordOffset, Broken> {
        Ok(self.flights.get_mut(sequence)?.offset)
    }

    /// Returns whether a delivery goes to the dead-letter topic.
    ///
    /// # Errors
    /// [`Broken`] where the sequence names nothing in flight.
    pub fn is_dead_letter(&mut self, sequence: Sequence) -> Result<bool, Broken> {
        Ok(self.flights.get_mut(sequence)?.kind == Kind::DeadLetter)
    }

    /// Goes back to the last settled record: whatever is not settled is forgotten, so that it is
    /// caught up from the output and read again. Returns the offset to read from.
    pub fn rewind(&mut self) -> ResumeOffset {
        let resume = self.resume();
        self.high_mark = self.high_mark();
        for (fingerprint, at) in self.flights.abandon() {
            self.release(Identity::Key(fingerprint), at);
        }
        if let Some(position) = self.output_position()
            && !crate::bugs::active("rewind-keeps-position")
        {
            // What waits for its replay must be found again.
            self.output.go_back(position);
        }
        for (_, unmet) in std::mem::take(&mut self.recovered) {
            self.release(unmet.identity, unmet.at);
        }
        self.contents.clear();
        self.shadows.clear();
        self.ahead.clear();
        self.next_read = resume;
        self.live = Counts { read: total(&self.settled), ..self.settled };
        resume
    }

    fn release(&mut self, identity: Identity, at: Timestamp) {
        if let Identity::Key(fingerprint) = identity {
            self.recent.remove(fingerprint, at, |state| !matches!(state, State::Done(_)));
        }
    }

    pub(super) fn settle_front(&mut self) {
        while let Some(flight) = self.flights.pop_done() {
            self.settle(&flight);
            if let Some(trailing) = self.flights.take_trailing() {
                add(&mut self.settled, &trailing);
            }
        }
    }

    fn settle(&mut self, flight: &Flight) {
        if !self.poisoned.is_empty() {
            self.poisoned.remove(&flight.offset);
        }
        match flight.kind {
            Kind::DeadLetter => {
                self.settled.dead_lettered += 1;
                return;
            }
            Kind::Forward => self.settled.forwarded += 1,
            Kind::Replay => self.settled.replayed += 1,
            Kind::Refresh => self.settled.suppressed += 1,
        }
        let output = flight.output();
        if let Some(output) = output {
            if let Some(behind) = self.output.place(output) {
                self.reordered.push(Reordered { source: flight.offset, output, behind });
            }
            if !self.recovered.is_empty() {
                self.recovered.remove(&output);
            }
        }
        match flight.identity() {
            Identity::Key(fingerprint) => {
                self.set_state(fingerprint, flight.at, State::Done(output));
                self.delta.push((fingerprint, flight.at));
                if !self.shadows.is_empty()
                    && let Some(shadow) = self.shadows.remove(&fingerprint)
                {
                    self.recovered.remove(&shadow);
                }
            }
            Identity::Content(content) => self.settle_keyless(content, flight),
        }
    }

    fn settle_keyless(&mut self, content: Fingerprint, flight: &Flight) {
        if flight.kind == Kind::Forward {
            self.settled.missing_key += 1;
            self.live.missing_key += 1;
        }
        let unmet = self.recovered.keys().next();
        if flight.output().is_none_or(|output| unmet.is_some_and(|unmet| *unmet < output)) {
            // Catch-up may read it again. Taken for one that waits for its replay, it would
            // swallow the next record with the same bytes.
            let state = State::Done(flight.output());
            self.recent.insert(content, Occurrence::new(flight.at, state));
            self.delta.push((content, flight.at));
        }
    }

    fn set_state(&mut self, fingerprint: Fingerprint, at: Timestamp, state: State) {
        if let Some(occurrence) = self.recent.find(fingerprint, |other| other == at) {
            occurrence.set(state);
        }
    }

    /// Returns the first occurrences found out of order since the last call.
    ///
    /// A delivery that failed for a time while later ones were accepted is sent again behind them:
    /// without transactions nothing can take those back.
    pub fn take_reordered(&mut self) -> Vec<Reordered> {
        std::mem::take(&mut self.reordered)
    }
}

fn add(sum: &mut Counts, more: &Counts) {
    sum.suppressed += more.suppressed;
    sum.left_out += more.left_out;
    sum.future += more.future;
    sum.too_old += more.too_old;
    sum.no_timestamp += more.no_timestamp;
}
