//! The core itself: claims, deliveries, settling, and what a checkpoint holds.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::key::Fingerprint;
use crate::window::{EffectiveTime, Window};
use crate::words::{
    Checkpoint, Counts, OutputPosition, RecordOffset, ResumeOffset, Span, Timestamp, TopicId,
};

use super::flights::{Flight, Flights, Kind};
use super::output::{Hole, OutputTrack};
use super::recent::{Occurrence, Recent, State};
use super::{
    Broken, IN_FLIGHT_MAX_RECORDS, Identity, Incoming, Remembered, Repeat, Sequence, Verdict, Why,
    Written,
};

mod catch_up;
mod foreign;

/// After how many records in a row without a usable time of their own the clock stands in for
/// event time, so that what they leave behind expires.
const DOUBTFUL_MAX: u32 = 1_000;

/// What a core starts from.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The rule by which times are judged.
    pub window: Window,
    /// The next source offset to read.
    pub resume: ResumeOffset,
    /// Where catch-up reads the output from; `None` where the output was never read or written.
    pub output: Option<OutputPosition>,
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
}

impl Core {
    /// Makes a core that resumes at `setup`. Feed it what catch-up finds before any record.
    pub fn new(setup: Setup) -> Self {
        Self {
            next_read: setup.resume,
            recent: Recent::default(),
            flights: Flights::default(),
            output: OutputTrack::new(setup.output),
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
            setup,
        }
    }

    // ---- records -----------------------------------------------------------------------------

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
            return Ok(match known.state {
                State::Recovered(output) => {
                    let at = known.at;
                    self.meet(record, fingerprint, at, output)
                }
                State::InFlight(_) => self.suppress_known(record, fingerprint, at, Why::InFlight),
                State::Done(_) => self.suppress_known(record, fingerprint, at, Why::Seen),
            });
        }
        if seen.nearest(fingerprint, at, window.length())?.is_some() {
            return Ok(self.suppress_known(record, fingerprint, at, Why::Seen));
        }
        let sequence = self.launch(record, at, Kind::Forward);
        let state = if crate::bugs::active("mark-before-ack") {
            self.delta.push((fingerprint, at));
            State::Done(None)
        } else {
            State::InFlight(sequence)
        };
        self.recent.insert(fingerprint, Occurrence { at, state });
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
        let sequence = self.flights.push(Flight {
            offset: record.offset,
            identity: record.identity,
            at,
            kind: Kind::Refresh,
            high_mark: self.high_mark,
            bytes: 0,
            done: true,
            output: None,
        });
        let state = State::InFlight(sequence);
        self.recent.insert(fingerprint, Occurrence { at, state });
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
        self.flights.push(Flight {
            offset: record.offset,
            identity: record.identity,
            at,
            kind,
            high_mark: self.high_mark,
            bytes: record.bytes,
            done: crate::bugs::active("commit-before-ack"),
            output: None,
        })
    }

    // ---- reports -----------------------------------------------------------------------------

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
                flight.output = output;
                self.live.forwarded += 1;
                self.output.report(output, flight.identity)
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
        let (identity, at) = (flight.identity, flight.at);
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
        self.next_read = resume;
        self.live = Counts { read: total(&self.settled), ..self.settled };
        resume
    }

    fn release(&mut self, identity: Identity, at: Timestamp) {
        if let Identity::Key(fingerprint) = identity {
            self.recent.remove(fingerprint, at, |state| !matches!(state, State::Done(_)));
        }
    }

    fn settle_front(&mut self) {
        while let Some((flight, trailing)) = self.flights.pop_done() {
            self.settle(flight);
            if let Some(trailing) = trailing {
                add(&mut self.settled, &trailing);
            }
        }
    }

    fn settle(&mut self, flight: Flight) {
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
        if let Some(output) = flight.output {
            self.output.settle(output);
            self.recovered.remove(&output);
        }
        match flight.identity {
            Identity::Key(fingerprint) => {
                self.set_state(fingerprint, flight.at, State::Done(flight.output));
                self.delta.push((fingerprint, flight.at));
                if !self.shadows.is_empty()
                    && let Some(shadow) = self.shadows.remove(&fingerprint)
                {
                    self.recovered.remove(&shadow);
                }
            }
            Identity::Content(content) => self.settle_keyless(content, &flight),
        }
    }

    fn settle_keyless(&mut self, content: Fingerprint, flight: &Flight) {
        if flight.kind == Kind::Forward {
            self.settled.missing_key += 1;
            self.live.missing_key += 1;
        }
        let unmet = self.recovered.keys().next();
        if flight.output.is_none_or(|output| unmet.is_some_and(|unmet| *unmet < output)) {
            // Catch-up may read it again. Taken for one that waits for its replay, it would
            // swallow the next record with the same bytes.
            let state = State::Done(flight.output);
            self.recent.insert(content, Occurrence { at: flight.at, state });
            self.delta.push((content, flight.at));
        }
    }

    fn set_state(&mut self, fingerprint: Fingerprint, at: Timestamp, state: State) {
        if let Some(occurrence) = self.recent.find(fingerprint, |other| other == at) {
            occurrence.state = state;
        }
    }

    /// Counts something about the record just judged, live and for the prefix it belongs to.
    fn count(&mut self, count: impl Fn(&mut Counts)) {
        count(&mut self.live);
        if !self.flights.count_behind_last(&count) {
            count(&mut self.settled);
        }
    }

    // ---- checkpoints ---------------------------------------------------------------------------

    /// Starts a checkpoint of everything settled so far; `None` while another one is open.
    ///
    /// `clean` says that this instance leaves with nothing in flight.
    pub fn begin_checkpoint(&mut self, now: Timestamp, clean: bool) -> Option<Draft> {
        if self.checkpoint_open {
            return None;
        }
        self.checkpoint_open = true;
        let checkpoint = self.snapshot(now, clean && self.flights.len() == 0);
        let spare = std::mem::take(&mut self.spare);
        Some(Draft { entries: std::mem::replace(&mut self.delta, spare), checkpoint })
    }

    /// Returns the prefix as it is now, without beginning a checkpoint.
    pub fn snapshot(&self, now: Timestamp, clean: bool) -> Checkpoint {
        Checkpoint {
            resume: self.resume(),
            output: self.output_position(),
            high_mark: self.high_mark(),
            counts: Counts { read: total(&self.settled), ..self.settled },
            clean,
            incarnation: self.setup.incarnation,
            written_at: now,
            source_topic_id: self.setup.source_topic_id,
            output_topic_id: self.setup.output_topic_id,
        }
    }

    /// Takes back the entries of a checkpoint that is durable: the store answers for them now.
    ///
    /// Their buffer is used again: fresh pages for each checkpoint cost a tenth of the path.
    pub fn checkpoint_durable(&mut self, mut entries: Vec<(Fingerprint, Timestamp)>) {
        self.checkpoint_open = false;
        self.recent.durable(&entries);
        entries.clear();
        self.spare = entries;
    }

    /// Returns the next source offset to read after a restart.
    pub fn resume(&self) -> ResumeOffset {
        if crate::bugs::active("resume-past-flights") {
            return self.next_read;
        }
        match self.flights.front_offset() {
            Some(offset) => ResumeOffset(offset.0),
            None => self.next_read,
        }
    }

    /// Returns where catch-up must start reading the output after a restart.
    pub fn output_position(&self) -> Option<OutputPosition> {
        let settled = self.output.settled();
        if crate::bugs::active("position-after-unmet") {
            return settled;
        }
        let unmet = self.recovered.keys().next().map(|offset| OutputPosition(offset.0));
        match (settled, unmet) {
            (Some(settled), Some(unmet)) => Some(settled.min(unmet)),
            (settled, unmet) => settled.or(unmet),
        }
    }

    // ---- looking in ----------------------------------------------------------------------------

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

fn add(sum: &mut Counts, more: &Counts) {
    sum.suppressed += more.suppressed;
    sum.left_out += more.left_out;
    sum.future += more.future;
    sum.too_old += more.too_old;
    sum.no_timestamp += more.no_timestamp;
}
