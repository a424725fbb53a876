//! The driver: does with the core what the pipeline does, one small step at a time.

use std::collections::VecDeque;

use firstseen::bugs;
use firstseen::engine::{
    Core, Draft, Hole, Identity, Incoming, Repeat, Sequence, Setup, Verdict, Why, Written,
};
use firstseen::words::{Checkpoint, Counts, OutputPosition, RecordOffset, ResumeOffset, Timestamp};

use super::broker::{Broker, Committed, Outcome};
use super::cover::{Coverage, Kind};
use super::disk::Disk;
use super::rng::{self, Rng};
use super::source::{Draw, Fate, Record, content, fingerprint};

/// How many records may be unsettled.
const IN_FLIGHT_MAX: usize = 40;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Reads the output below the committed position into the store.
    Load {
        cursor: usize,
        until: usize,
    },
    /// Waits until nothing of a dead producer can arrive any more.
    Wait,
    /// Reads the output's tail.
    CatchUp {
        cursor: usize,
        end: usize,
    },
    Steady,
    /// Takes what reports there are, then goes back to the last settled record.
    Drain,
    /// Finishes, writes a last checkpoint, and goes.
    Leave,
    Gone,
}

/// Everything around a driver.
pub(crate) struct Around<'a> {
    pub(crate) broker: &'a mut Broker,
    pub(crate) disk: &'a mut Disk,
    pub(crate) rng: &'a mut Rng,
    pub(crate) draw: &'a Draw,
    pub(crate) cover: &'a mut Coverage,
    /// What the wall clock shows.
    pub(crate) wall: i64,
    /// What time it is; the source holds what was made by now.
    pub(crate) now: i64,
    pub(crate) calm: bool,
}

/// One running instance.
pub(crate) struct Sink {
    pub(crate) core: Core,
    pub(crate) phase: Phase,
    setup: Setup,
    next: usize,
    pub(crate) open: Option<Draft>,
    pub(crate) to_commit: Option<Committed>,
    holes: VecDeque<Hole>,
    /// Up to where the output was looked at for what somebody else wrote.
    looked: usize,
    /// The outcome of something is not known.
    failing: bool,
    patience: usize,
    arrival: i64,
    pub(crate) repeats: Vec<Repeat>,
    pub(crate) reordered: usize,
}

impl Sink {
    /// Takes the partition.
    pub(crate) fn start(around: &mut Around<'_>, incarnation: u128) -> Self {
        let mut setup = Setup {
            window: around.draw.window(),
            resume: ResumeOffset(0),
            output: None,
            accounted: None,
            high_mark: Timestamp::MIN,
            counts: Counts::default(),
            incarnation,
            source_topic_id: None,
            output_topic_id: None,
        };
        let mut phase = Phase::Wait;
        if let Some(checkpoint) = &around.disk.live.checkpoint {
            setup.resume = checkpoint.resume;
            setup.output = checkpoint.output;
            setup.accounted = checkpoint.accounted;
            setup.high_mark = checkpoint.high_mark;
            setup.counts = checkpoint.counts;
        } else {
            if let Some(committed) = around.broker.group {
                setup.resume = committed.resume;
                setup.output = committed.output;
                setup.accounted = committed.accounted;
            }
            around.disk.live.counted_from = setup.resume.0;
            if !bugs::active("corrupt-as-empty") {
                let until = setup.output.map_or(0, |position| rng::index(position.0));
                phase = Phase::Load { cursor: 0, until };
            }
        }
        let Setup { resume, output, high_mark, .. } = &setup;
        let state = if phase == Phase::Wait { "" } else { " without state" };
        tell!("{}: start{state} {resume:?} {output:?} {high_mark:?}", around.now);
        Self {
            core: Core::new(setup.clone()),
            phase,
            setup,
            next: 0,
            open: None,
            to_commit: None,
            holes: VecDeque::new(),
            looked: 0,
            failing: false,
            patience: 0,
            arrival: around.wall,
            repeats: Vec::new(),
            reordered: 0,
        }
    }

    /// Whether it has not read the output's end yet since it started.
    pub(crate) fn taking(&self) -> bool {
        !self.failing
            && self.core.next_read() == self.setup.resume
            && matches!(self.phase, Phase::Load { .. } | Phase::Wait)
    }

    /// Does one thing.
    pub(crate) fn step(&mut self, around: &mut Around<'_>) {
        // Our own clock never goes back.
        self.arrival = self.arrival.max(around.wall);
        match self.phase {
            Phase::Load { cursor, until } => self.load(around, cursor, until),
            Phase::Wait => self.wait(around),
            Phase::CatchUp { cursor, end } => self.catch_up(around, cursor, end),
            Phase::Steady => self.steady(around),
            Phase::Drain => self.drain(around),
            Phase::Leave => self.leave(around),
            Phase::Gone => {}
        }
        self.reordered += self.core.take_reordered().len();
    }

    fn load(&mut self, around: &mut Around<'_>, cursor: usize, until: usize) {
        let to = until.min(cursor + 1 + around.rng.below(12));
        for record in around.broker.output[cursor..to].iter().flatten() {
            let record = around.broker.source[*record];
            if let Identity::Key(fingerprint) = identity(&record) {
                let time = self.setup.window.time_of(record.timestamp(), Timestamp(self.arrival));
                around.disk.live.write(&[(fingerprint, time.at)]);
            }
        }
        self.phase = if to == until { Phase::Wait } else { Phase::Load { cursor: to, until } };
    }

    fn wait(&mut self, around: &mut Around<'_>) {
        // The end read too early misses what a dead producer writes until its time is up.
        let early = bugs::active("end-before-wait").then_some(around.broker.output.len());
        while around.broker.has_ghosts()
            && (!around.draw.unbounded || around.calm || around.rng.chance(500))
        {
            if around.broker.land_one(around.rng) {
                around.cover.hit(Kind::LateInside);
            }
        }
        self.begin_catch_up(around);
        if let (Phase::CatchUp { cursor, end }, Some(early)) = (self.phase, early) {
            self.phase = Phase::CatchUp { cursor, end: end.min(early.max(cursor)) };
        }
    }

    fn begin_catch_up(&mut self, around: &mut Around<'_>) {
        let resume = self.core.resume();
        self.next = around.broker.source.partition_point(|record| record.offset < resume.0);
        let mut cursor = self.core.output_position().map_or(0, |position| rng::index(position.0));
        let end = around.broker.output.len();
        if bugs::active("catch-up-off-by-one") {
            cursor = end.min(cursor + 1);
        }
        self.phase = Phase::CatchUp { cursor, end };
    }

    fn catch_up(&mut self, around: &mut Around<'_>, cursor: usize, end: usize) {
        let to = if bugs::active("skip-catch-up") {
            end
        } else {
            end.min(cursor + 1 + around.rng.below(6))
        };
        if !bugs::active("skip-catch-up") {
            for offset in cursor..to {
                let Some(written) = self.written(around, offset) else { continue };
                let Ok(repeat) = self.core.recover(written, &around.disk.live);
                let found = around.broker.output[offset];
                tell!("{}: recover {offset} = {found:?}: {repeat:?}", around.now);
                self.repeats.extend(repeat);
            }
        }
        self.phase = Phase::CatchUp { cursor: to, end };
        if to == end {
            self.core.caught_up(OutputPosition(rng::offset(end)));
            self.looked = end;
            self.phase = Phase::Steady;
        }
    }

    fn written(&self, around: &Around<'_>, offset: usize) -> Option<Written> {
        let record = around.broker.source[around.broker.output[offset]?];
        Some(Written {
            offset: RecordOffset(rng::offset(offset)),
            identity: identity(&record),
            timestamp: record.timestamp(),
            arrival: Timestamp(self.arrival),
        })
    }

    fn steady(&mut self, around: &mut Around<'_>) {
        match around.rng.below(20) {
            0..=4 => {
                let count = around.rng.below(6) + 1;
                self.look_ahead(around, count);
                for _ in 0..count {
                    self.poll(around);
                }
            }
            5..=8 => around.broker.producer.flush(around.rng),
            9..=14 => self.report(around),
            15 => self.read_hole(around),
            16 => self.begin_checkpoint(around, false),
            17 => self.persist(around),
            18 => self.commit(around),
            _ => self.look_at_the_end(around),
        }
    }

    fn incoming(&self, record: &Record) -> Incoming {
        Incoming {
            offset: RecordOffset(record.offset),
            identity: identity(record),
            timestamp: record.timestamp(),
            arrival: Timestamp(self.arrival),
            bytes: 10,
        }
    }

    /// Asks about a batch that is polled next, or some of it, or of which not all is judged.
    fn look_ahead(&mut self, around: &Around<'_>, count: usize) {
        let records = around.broker.source.iter().skip(self.next).take(count);
        let batch: Vec<_> = records.map(|record| self.incoming(record)).collect();
        self.core.look_ahead(&batch, &around.disk.live);
    }

    fn poll(&mut self, around: &mut Around<'_>) {
        let Some(record) = around.broker.source.get(self.next).copied() else { return };
        if record.made > around.now || self.core.in_flight() >= IN_FLIGHT_MAX {
            return;
        }
        if self.phase != Phase::Steady {
            return;
        }
        let incoming = self.incoming(&record);
        let producer = &mut around.broker.producer;
        match record.fate {
            Fate::LeftOut => self.core.leave_out(incoming.offset),
            Fate::Unkeyed => {
                if let Some(sequence) = self.core.dead_letter(incoming) {
                    producer.send_dead(sequence, self.next);
                }
            }
            Fate::Taken | Fate::Refused | Fate::RefusedAtOnce => {
                let Ok(verdict) = self.core.record(incoming, &around.disk.live);
                let (now, key, time) = (around.now, record.key, record.timestamp);
                tell!("{now}: read #{} key {key:?} time {time:?}: {verdict:?}", self.next);
                match verdict {
                    Verdict::Deliver(sequence) if record.fate == Fate::RefusedAtOnce => {
                        around.cover.hit(Kind::RefusedAtOnce);
                        self.core.divert(sequence).expect("it is in flight");
                        producer.send_dead(sequence, self.next);
                    }
                    Verdict::Deliver(sequence) => producer.buffer.push_back((sequence, self.next)),
                    Verdict::DeadLetter(sequence) => producer.send_dead(sequence, self.next),
                    Verdict::Suppress(Why::Replay) => around.cover.hit(Kind::Replay),
                    Verdict::Suppress(_) => {}
                }
            }
        }
        self.next += 1;
    }

    fn report(&mut self, around: &mut Around<'_>) {
        let Some((sequence, outcome)) = around.broker.producer.report(around.rng) else { return };
        self.take_report(around, sequence, outcome);
    }

    fn take_report(&mut self, around: &mut Around<'_>, sequence: Sequence, outcome: Outcome) {
        tell!("{}: report {sequence:?} {outcome:?}", around.now);
        let confirmed = match outcome {
            Outcome::Placed(offset) => Some(offset),
            Outcome::Failed if bugs::active("ignore-failed-delivery") => Some(None),
            Outcome::Failed => {
                self.failing = true;
                None
            }
            Outcome::Refused => {
                self.core.poison(sequence).expect("it is in flight");
                around.cover.hit(Kind::RewindRefused);
                None
            }
        };
        match confirmed {
            Some(offset) => {
                let hole = self.core.confirm(sequence, offset).expect("it is in flight");
                self.holes.extend(hole.filter(|_| !bugs::active("ignore-holes")));
            }
            None if self.phase == Phase::Leave => self.patience = 0,
            None => self.phase = Phase::Drain,
        }
    }

    fn read_hole(&mut self, around: &mut Around<'_>) {
        let Some(mut hole) = self.holes.pop_front() else { return };
        for offset in rng::index(hole.from.0)..rng::index(hole.to.0) {
            let Some(written) = self.written(around, offset) else { continue };
            around.cover.hit(Kind::HoleRead);
            let Ok(repeat) = self.core.late(written, &mut hole, &around.disk.live);
            let found = around.broker.output[offset];
            tell!("{}: late {offset} = {found:?}: {repeat:?}", around.now);
            self.repeats.extend(repeat);
        }
    }

    fn begin_checkpoint(&mut self, around: &mut Around<'_>, clean: bool) {
        // What somebody else wrote must be known before a position passes it.
        let known = self.holes.is_empty() || bugs::active("checkpoint-before-hole");
        if known && self.to_commit.is_none() && self.open.is_none() {
            self.open = self.core.begin_checkpoint(Timestamp(around.wall), clean);
        }
    }

    fn persist(&mut self, around: &mut Around<'_>) {
        if self.open.is_some() && !around.calm && around.rng.chance(around.draw.slow_disk) {
            return;
        }
        let Some(draft) = self.open.take() else { return };
        let keep_from = self.core.window().keep_from(draft.checkpoint.high_mark);
        let Checkpoint { resume, output, high_mark, .. } = &draft.checkpoint;
        let entries = &draft.entries;
        tell!("{}: durable {resume:?} {output:?} {high_mark:?} {entries:?}", around.now);
        if around.disk.persist(&draft, around.draw.expire.then_some(keep_from)) > 0 {
            around.cover.hit(Kind::Expired);
        }
        self.core.checkpoint_durable(draft.entries);
        let Draft { checkpoint, .. } = draft;
        let Checkpoint { resume, output, accounted, .. } = checkpoint;
        self.to_commit = Some(Committed { resume, output, accounted });
    }

    fn commit(&mut self, around: &mut Around<'_>) {
        if let Some(committed) = self.to_commit.take() {
            around.broker.group = Some(committed);
        }
    }

    fn look_at_the_end(&mut self, around: &mut Around<'_>) {
        if !around.broker.producer.idle() || !self.holes.is_empty() {
            return;
        }
        if self.core.in_flight() == 0 {
            self.looked = around.broker.output.len();
        }
        if let Some(hole) = self.core.quiet_end(around.broker.end())
            && !bugs::active("ignore-holes")
        {
            around.cover.hit(Kind::QuietHole);
            self.holes.push_back(hole);
        }
    }

    /// Takes every report there is. After an unknown outcome the producer is thrown away; after a
    /// refusal alone, everything on its way is waited for.
    fn drain(&mut self, around: &mut Around<'_>) {
        around.broker.producer.flush(around.rng);
        if self.failing || around.rng.chance(700) {
            self.report(around);
        }
        if around.rng.chance(500) {
            self.read_hole(around);
        }
        self.persist(around);
        if self.failing && around.rng.chance(300) {
            around.broker.replace_producer();
        }
        if !around.broker.producer.idle() || !self.holes.is_empty() {
            return;
        }
        if self.failing {
            around.broker.replace_producer();
        }
        self.core.rewind();
        let (resume, position) = (self.core.resume(), self.core.output_position());
        tell!("{}: rewind to {resume:?} {position:?}", around.now);
        if std::mem::take(&mut self.failing) {
            around.cover.hit(Kind::Rewind);
            self.phase = Phase::Wait;
        } else {
            self.begin_catch_up(around);
        }
    }

    /// Begins to leave: takes what reports come for a while, then goes.
    pub(crate) fn ask_to_leave(&mut self, patience: usize) {
        if self.phase == Phase::Steady {
            self.phase = Phase::Leave;
            self.patience = patience;
        }
    }

    fn leave(&mut self, around: &mut Around<'_>) {
        self.patience = self.patience.saturating_sub(1);
        if !around.broker.producer.idle() && self.patience > 0 {
            around.broker.producer.flush(around.rng);
            return self.report(around);
        }
        while !self.holes.is_empty() {
            self.read_hole(around);
        }
        self.look_at_the_end(around);
        while !self.holes.is_empty() {
            self.read_hole(around);
        }
        if self.open.is_some() {
            return self.persist(around);
        }
        self.commit(around);
        self.begin_checkpoint(around, true);
        while self.open.is_some() {
            self.persist(around);
        }
        self.commit(around);
        around.broker.replace_producer();
        self.phase = Phase::Gone;
    }

    /// Whether everything is read, forwarded, durable and committed.
    pub(crate) fn finished(&self, around: &Around<'_>) -> bool {
        self.phase == Phase::Steady
            && self.next == around.broker.source.len()
            && self.core.in_flight() == 0
            && self.core.unsaved() == 0
            && self.holes.is_empty()
            && self.looked == around.broker.output.len()
            && around.broker.group.is_some_and(|group| group.resume == self.core.resume())
    }
}

pub(crate) fn identity(record: &Record) -> Identity {
    match record.key {
        Some(key) => Identity::Key(fingerprint(key)),
        None => Identity::Content(content(record.content)),
    }
}
