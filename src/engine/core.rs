//! The core itself: claims, deliveries, settling, and what a checkpoint holds.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::key::Fingerprint;
use crate::window::Window;
use crate::words::{
    Checkpoint, Counts, OutputPosition, RecordOffset, ResumeOffset, Timestamp, TopicId,
};

use super::flights::{Flight, Flights, Kind};
use super::output::{Hole, OutputTrack};
use super::recent::{Occurrence, Recent, State};
use super::{
    Broken, IN_FLIGHT_MAX_RECORDS, Identity, Incoming, Remembered, Repeat, Sequence, Verdict, Why,
    Written,
};

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

/// The core of one source partition.
#[derive(Debug)]
pub struct Core {
    setup: Setup,
    next_read: ResumeOffset,
    recent: Recent,
    flights: Flights,
    output: OutputTrack,
    /// Records that catch-up found and whose replay is not settled, by output offset.
    recovered: BTreeMap<RecordOffset, (Identity, Timestamp)>,
    /// Of those, the ones without a key, by content.
    contents: HashMap<Fingerprint, Vec<RecordOffset>>,
    /// First occurrences delivered since catch-up.
    fresh_since_catch_up: usize,
    /// Records the output refused for good: their next delivery is to the dead-letter topic.
    poisoned: HashSet<RecordOffset>,
    /// Settled first occurrences that no checkpoint holds yet.
    delta: Vec<(Fingerprint, Timestamp)>,
    settled: Counts,
    live: Counts,
    high_mark: Timestamp,
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
            fresh_since_catch_up: 0,
            poisoned: HashSet::new(),
            delta: Vec::new(),
            settled: setup.counts,
            live: setup.counts,
            high_mark: setup.high_mark,
            checkpoint_open: false,
            setup,
        }
    }

    // ---- catching up -------------------------------------------------------------------------

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
        let at = self.setup.window.time_of(written.timestamp, written.arrival).at;
        match written.identity {
            Identity::Content(content) => {
                self.contents.entry(content).or_default().push(written.offset);
            }
            Identity::Key(fingerprint) => {
                let window = self.setup.window;
                if let Some(known) = self.recent.find(fingerprint, |other| window.joins(at, other))
                {
                    let State::Recovered(first) = known.state else { return Ok(None) };
                    self.live.repeated += 1;
                    self.settled.repeated += 1;
                    return Ok(Some(Repeat { late: written.offset, ours: Some(first) }));
                }
                if seen.nearest(fingerprint, at, window.length())?.is_some() {
                    return Ok(None);
                }
                let state = State::Recovered(written.offset);
                self.recent.insert(fingerprint, Occurrence { at, state });
            }
        }
        self.recovered.insert(written.offset, (written.identity, at));
        Ok(None)
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
        self.high_mark = self.high_mark.max(time.at);
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

    fn judge<S: Remembered>(
        &mut self,
        record: Incoming,
        fingerprint: Fingerprint,
        at: Timestamp,
        seen: &S,
    ) -> Result<Verdict, S::Error> {
        let window = self.setup.window;
        if let Some(known) = self.recent.find(fingerprint, |other| window.joins(at, other)) {
            return Ok(match known.state {
                State::Recovered(output) => {
                    let at = known.at;
                    let sequence = self.land(record, at, output);
                    self.set_state(fingerprint, at, State::InFlight(sequence));
                    Verdict::Suppress(Why::Replay)
                }
                State::InFlight(sequence) => {
                    if window.refresh() {
                        known.at = known.at.max(at);
                        let at = known.at;
                        if let Ok(flight) = self.flights.get_mut(sequence) {
                            flight.at = at;
                        }
                    }
                    self.suppress(Why::InFlight)
                }
                State::Done(_) => self.suppress_seen(fingerprint, at),
            });
        }
        if seen.nearest(fingerprint, at, window.length())?.is_some() {
            return Ok(self.suppress_seen(fingerprint, at));
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

    fn suppress_seen(&mut self, fingerprint: Fingerprint, at: Timestamp) -> Verdict {
        if self.setup.window.refresh() {
            self.delta.push((fingerprint, at));
            self.recent.insert(fingerprint, Occurrence { at, state: State::Done(None) });
        }
        self.suppress(Why::Seen)
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
            bytes: record.bytes,
            done: crate::bugs::active("commit-before-ack"),
            output: None,
        })
    }

    /// Takes in a replay: done already, and settled in its turn.
    fn land(&mut self, record: Incoming, at: Timestamp, output: RecordOffset) -> Sequence {
        self.live.replayed += 1;
        self.flights.push(Flight {
            offset: record.offset,
            identity: record.identity,
            at,
            kind: Kind::Replay,
            bytes: 0,
            done: true,
            output: Some(output),
        })
    }

    /// Remembers what catch-up found and nobody replayed: a predecessor cannot have written so
    /// far ahead, so somebody else wrote it.
    fn give_up_on_replays(&mut self) {
        for (offset, (identity, at)) in std::mem::take(&mut self.recovered) {
            let Identity::Key(fingerprint) = identity else { continue };
            let found = self.recent.find(fingerprint, |other| other == at);
            if let Some(found) = found.filter(|found| found.state == State::Recovered(offset)) {
                found.state = State::Done(Some(offset));
                self.delta.push((fingerprint, at));
            } else {
                self.recovered.insert(offset, (identity, at));
            }
        }
        self.contents.clear();
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
                self.output.report(output)
            }
            Kind::DeadLetter => {
                self.live.dead_lettered += 1;
                None
            }
            Kind::Replay => return Err(Broken("a replay was reported as delivered")),
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
        for (fingerprint, at) in self.flights.abandon() {
            self.release(Identity::Key(fingerprint), at);
        }
        for (_, (identity, at)) in std::mem::take(&mut self.recovered) {
            self.release(identity, at);
        }
        self.contents.clear();
        self.next_read = resume;
        self.live = self.settled;
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
        self.settled.read += 1;
        self.poisoned.remove(&flight.offset);
        match flight.kind {
            Kind::DeadLetter => {
                self.settled.dead_lettered += 1;
                return;
            }
            Kind::Forward => self.settled.forwarded += 1,
            Kind::Replay => self.settled.replayed += 1,
        }
        if let Some(output) = flight.output {
            self.output.settle(output);
            self.recovered.remove(&output);
        }
        match flight.identity {
            Identity::Key(fingerprint) => {
                self.set_state(fingerprint, flight.at, State::Done(flight.output));
                self.delta.push((fingerprint, flight.at));
            }
            Identity::Content(_) if flight.kind == Kind::Forward => {
                self.settled.missing_key += 1;
                self.live.missing_key += 1;
            }
            Identity::Content(_) => {}
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

    // ---- somebody else's writes ----------------------------------------------------------------

    /// Takes a record found in `hole`, in output order. Returns the repeat, if we had forwarded
    /// its key, too.
    ///
    /// # Errors
    /// Those of the store.
    pub fn late<S: Remembered>(
        &mut self,
        written: Written,
        hole: &mut Hole,
        seen: &S,
    ) -> Result<Option<Repeat>, S::Error> {
        let Identity::Key(fingerprint) = written.identity else {
            self.count_late(hole);
            return Ok(None);
        };
        let window = self.setup.window;
        let at = window.time_of(written.timestamp, written.arrival).at;
        let known = self.recent.find(fingerprint, |other| window.joins(at, other));
        let ours = match known.map(|known| (known.state, known)) {
            Some((State::Done(None), known)) if hole.ours > 0 => {
                // Our own record, whose report carried no offset: now we know it.
                hole.ours -= 1;
                known.state = State::Done(Some(written.offset));
                return Ok(None);
            }
            Some((State::Done(ours), _)) => Some(ours),
            Some((State::Recovered(ours), _)) => Some(Some(ours)),
            Some((State::InFlight(_), _)) => Some(None),
            None => seen.nearest(fingerprint, at, window.length())?.map(|_| None),
        };
        self.count_late(hole);
        let Some(ours) = ours else {
            let state = State::Done(Some(written.offset));
            self.recent.insert(fingerprint, Occurrence { at, state });
            self.delta.push((fingerprint, at));
            return Ok(None);
        };
        self.live.repeated += 1;
        self.settled.repeated += 1;
        Ok(Some(Repeat { late: written.offset, ours }))
    }

    fn count_late(&mut self, hole: &mut Hole) {
        if hole.ours > 0 {
            hole.ours -= 1;
            return;
        }
        self.live.late_writes += 1;
        self.settled.late_writes += 1;
    }

    /// Takes the output's end while nothing of ours is in flight; returns what somebody else
    /// wrote since our last report, if anything.
    pub fn quiet_end(&mut self, end: OutputPosition) -> Option<Hole> {
        if self.flights.len() > 0 {
            return None;
        }
        self.output.quiet_hole(end)
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
        Some(Draft { entries: std::mem::take(&mut self.delta), checkpoint })
    }

    /// Returns the prefix as it is now, without beginning a checkpoint.
    pub fn snapshot(&self, now: Timestamp, clean: bool) -> Checkpoint {
        Checkpoint {
            resume: self.resume(),
            output: self.output_position(),
            high_mark: self.high_mark,
            counts: Counts { read: total(&self.settled), ..self.settled },
            clean,
            incarnation: self.setup.incarnation,
            written_at: now,
            source_topic_id: self.setup.source_topic_id,
            output_topic_id: self.setup.output_topic_id,
        }
    }

    /// Takes back the entries of a checkpoint that is durable: the store answers for them now.
    pub fn checkpoint_durable(&mut self, entries: &[(Fingerprint, Timestamp)]) {
        self.checkpoint_open = false;
        self.recent.durable(entries);
    }

    /// Returns the next source offset to read after a restart.
    pub fn resume(&self) -> ResumeOffset {
        match self.flights.front_offset() {
            Some(offset) => ResumeOffset(offset.0),
            None => self.next_read,
        }
    }

    /// Returns where catch-up must start reading the output after a restart.
    pub fn output_position(&self) -> Option<OutputPosition> {
        let settled = self.output.settled();
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

    /// Returns how many keys are in memory.
    pub fn recent_keys(&self) -> usize {
        self.recent.len()
    }

    /// Returns the latest effective time so far.
    pub fn high_mark(&self) -> Timestamp {
        self.high_mark
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
