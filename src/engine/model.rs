//! The core against a naive model of windows and claims.
//!
//! A world of one source log, one output log and one store; proptest chooses records and events.
//! The model knows no claims, settling or positions: it keeps the whole log, and the output must
//! be what somebody with all the time in the world would have forwarded.

use std::collections::BTreeMap;
use std::convert::Infallible;

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

use super::*;
use crate::config::DedupRule;
use crate::window::Window;
use crate::words::{Counts, OutputPosition, ResumeOffset};

const WINDOW: i64 = 100;
const MAX_FUTURE: i64 = 50;

#[derive(Debug, Default)]
struct Store(BTreeMap<Fingerprint, Vec<Timestamp>>);

impl Remembered for Store {
    type Error = Infallible;

    fn nearest(
        &self,
        fingerprint: Fingerprint,
        at: Timestamp,
        window: Span,
    ) -> Result<Option<Timestamp>, Infallible> {
        let times = self.0.get(&fingerprint).map_or(&[][..], Vec::as_slice);
        Ok(times.iter().copied().find(|time| time.distance(at) <= window))
    }

    fn floor(&self) -> Timestamp {
        Timestamp::MIN
    }
}

/// What the rules and the output make of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Taken,
    Refused,
    RefusedAtOnce,
    LeftOut,
}

/// What happens next.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// The source gains a record and the core reads it: key (if any), time, fate.
    Record {
        key: Option<u8>,
        time: i64,
        fate: Fate,
    },
    /// The report of one delivery arrives, whichever this number picks.
    Confirm {
        pick: usize,
        placed: bool,
    },
    Rewind,
    Begin,
    Durable,
    /// The process dies and a successor takes over.
    Crash,
}

#[derive(Clone, Copy, Debug)]
struct Record {
    key: Option<u8>,
    time: i64,
    fate: Fate,
}

fn window(refresh: bool) -> Window {
    Window::new(&DedupRule {
        max_future: Span::from_ms(MAX_FUTURE),
        refresh,
        ..DedupRule::with_window(Span::from_ms(WINDOW))
    })
}

fn signed(count: usize) -> i64 {
    i64::try_from(count).expect("a small log")
}

/// The wall clock: a record's time may lie ahead of it.
const NOW: i64 = 1_000;

struct World {
    core: Core,
    refresh: bool,
    store: Store,
    durable: (Counts, ResumeOffset, Option<OutputPosition>),
    open: Option<Draft>,
    source: Vec<Record>,
    output: Vec<usize>,
    dead: Vec<usize>,
    /// Deliveries without a report: sequence, record, to the dead letters?
    flying: Vec<(Sequence, usize, bool)>,
}

impl World {
    fn new(refresh: bool) -> Self {
        let durable = (Counts::default(), ResumeOffset(0), None);
        Self {
            core: Self::core(refresh, durable),
            refresh,
            store: Store::default(),
            durable,
            open: None,
            source: Vec::new(),
            output: Vec::new(),
            dead: Vec::new(),
            flying: Vec::new(),
        }
    }

    fn core(refresh: bool, durable: (Counts, ResumeOffset, Option<OutputPosition>)) -> Core {
        let (counts, resume, output) = durable;
        Core::new(Setup {
            window: window(refresh),
            resume,
            output,
            accounted: None,
            high_mark: Timestamp::MIN,
            counts,
            incarnation: 1,
            source_topic_id: None,
            output_topic_id: None,
        })
    }

    fn identity(&self, index: usize) -> Identity {
        match self.source[index].key {
            Some(key) => Identity::Key(Fingerprint(u128::from(key))),
            None => Identity::Content(Fingerprint(1_000 + index as u128)),
        }
    }

    fn step(&mut self, event: Event) -> TestCaseResult {
        match event {
            Event::Record { key, time, fate } => {
                self.source.push(Record { key, time, fate });
                self.read();
            }
            Event::Confirm { pick, placed } => self.confirm(pick, placed)?,
            Event::Rewind => self.rewind(),
            Event::Begin => {
                if let Some(draft) = self.core.begin_checkpoint(Timestamp(NOW), false) {
                    self.check(&draft)?;
                    self.open = Some(draft);
                }
            }
            Event::Durable => self.persist(),
            Event::Crash => self.crash(),
        }
        Ok(())
    }

    /// Reads what there is to read.
    fn read(&mut self) {
        while let Ok(index) = usize::try_from(self.core.next_read().0)
            && index < self.source.len()
        {
            self.read_one(index);
        }
    }

    fn read_one(&mut self, index: usize) {
        let Record { time, fate, .. } = self.source[index];
        let offset = RecordOffset(signed(index));
        if fate == Fate::LeftOut {
            return self.core.leave_out(offset);
        }
        let record = Incoming {
            offset,
            identity: self.identity(index),
            timestamp: (time >= 0).then_some(Timestamp(time)),
            arrival: Timestamp(NOW),
            bytes: 1,
        };
        let Ok(verdict) = self.core.record(record, &self.store);
        match verdict {
            Verdict::Deliver(sequence) if fate == Fate::RefusedAtOnce => {
                self.core.divert(sequence).expect("in flight");
                self.flying.push((sequence, index, true));
            }
            Verdict::Deliver(sequence) => self.send(sequence, index),
            Verdict::DeadLetter(sequence) => self.flying.push((sequence, index, true)),
            Verdict::Suppress(_) => {}
        }
    }

    /// What is sent is written at once: only reports wait.
    fn send(&mut self, sequence: Sequence, index: usize) {
        if self.source[index].fate != Fate::Refused {
            self.output.push(index);
        }
        self.flying.push((sequence, index, false));
    }

    fn confirm(&mut self, pick: usize, placed: bool) -> TestCaseResult {
        if self.flying.is_empty() {
            return Ok(());
        }
        let (sequence, index, dead) = self.flying.remove(pick % self.flying.len());
        prop_assert_eq!(self.core.offset_of(sequence), Ok(RecordOffset(signed(index))));
        if dead {
            self.dead.push(index);
            prop_assert_eq!(self.core.confirm(sequence, None), Ok(None));
        } else if self.source[index].fate == Fate::Refused {
            prop_assert_eq!(self.core.poison(sequence), Ok(RecordOffset(signed(index))));
            self.rewind();
        } else {
            let written = self.output.iter().rposition(|other| *other == index);
            let offset = written.filter(|_| placed).map(|at| RecordOffset(signed(at)));
            // Reports come in any order here, so holes appear where nothing is missing.
            prop_assert!(self.core.confirm(sequence, offset).is_ok());
        }
        Ok(())
    }

    fn rewind(&mut self) {
        self.core.rewind();
        self.flying.clear();
        self.catch_up();
    }

    fn catch_up(&mut self) {
        let from = self.core.output_position().map_or(0, |position| position.0);
        for at in usize::try_from(from).expect("a position")..self.output.len() {
            let index = self.output[at];
            let time = self.source[index].time;
            let written = Written {
                offset: RecordOffset(signed(at)),
                identity: self.identity(index),
                timestamp: (time >= 0).then_some(Timestamp(time)),
                arrival: Timestamp(NOW),
            };
            // Reports out of order and without offsets can make our own record look like
            // somebody else's copy: told once too often, and nothing else.
            let Ok(_) = self.core.recover(written, &self.store);
        }
        self.core.caught_up(OutputPosition(signed(self.output.len())));
        self.read();
    }

    fn persist(&mut self) {
        let Some(draft) = self.open.take() else { return };
        for (fingerprint, at) in &draft.entries {
            self.store.0.entry(*fingerprint).or_default().push(*at);
        }
        let checkpoint = &draft.checkpoint;
        self.durable = (checkpoint.counts, checkpoint.resume, checkpoint.output);
        self.core.checkpoint_durable(draft.entries);
    }

    fn crash(&mut self) {
        self.open = None;
        self.flying.clear();
        self.core = Self::core(self.refresh, self.durable);
        self.catch_up();
    }

    fn check(&self, draft: &Draft) -> TestCaseResult {
        let checkpoint = &draft.checkpoint;
        let Counts { read, forwarded, suppressed, replayed, left_out, dead_lettered, .. } =
            checkpoint.counts;
        prop_assert_eq!(read, forwarded + suppressed + replayed + left_out + dead_lettered);
        prop_assert_eq!(read, checkpoint.resume.0.unsigned_abs(), "one count a record below it");
        for (_, index, _) in &self.flying {
            prop_assert!(!checkpoint.resume.covers(RecordOffset(signed(*index))), "unconfirmed");
        }
        let from = checkpoint.output.map_or(0, |position| position.0);
        for (at, index) in self.output.iter().enumerate() {
            let above = !checkpoint.resume.covers(RecordOffset(signed(*index)));
            let key = self.source[*index].key.map(|key| Fingerprint(u128::from(key)));
            let known = |key| {
                let entries = &draft.entries;
                self.store.0.contains_key(&key) || entries.iter().any(|(other, _)| *other == key)
            };
            prop_assert!(
                !above || key.is_some_and(known) || from <= signed(at),
                "position {from} passes {at}"
            );
        }
        let live = self.core.live();
        prop_assert!(live.read >= read);
        Ok(())
    }

    /// Reports everything, then compares with what had to come out.
    fn finish(mut self) -> TestCaseResult {
        self.persist();
        while !self.flying.is_empty() {
            self.confirm(0, true)?;
        }
        prop_assert_eq!(self.core.in_flight(), 0);
        prop_assert_eq!(self.core.resume(), ResumeOffset(signed(self.source.len())));
        let draft = self.core.begin_checkpoint(Timestamp(NOW), true).expect("none is open");
        self.check(&draft)?;
        prop_assert_eq!(
            Counts { read: 0, ..self.core.live() },
            Counts { read: 0, ..draft.checkpoint.counts }
        );
        prop_assert_eq!(self.core.live().read, draft.checkpoint.counts.read);
        if self
            .source
            .iter()
            .any(|record| matches!(record.fate, Fate::Refused | Fate::RefusedAtOnce))
        {
            return self.nothing_is_lost_or_repeated();
        }
        prop_assert_eq!(&self.output, &self.first_occurrences());
        Ok(())
    }

    /// The records that somebody who remembers everything would forward, in order.
    fn first_occurrences(&self) -> Vec<usize> {
        let mut known: BTreeMap<u8, Vec<i64>> = BTreeMap::new();
        let mut forwarded = Vec::new();
        for (index, record) in self.source.iter().enumerate() {
            if record.fate == Fate::LeftOut {
                continue;
            }
            let Some(key) = record.key else {
                if record.fate == Fate::Taken {
                    forwarded.push(index);
                }
                continue;
            };
            let at = Self::judged(record);
            let times = known.entry(key).or_default();
            let duplicate = times.iter().any(|time| time.abs_diff(at) <= WINDOW.unsigned_abs());
            if duplicate {
                if self.refresh {
                    times.push(at);
                }
            } else if record.fate == Fate::Taken {
                times.push(at);
                forwarded.push(index);
            }
        }
        forwarded
    }

    fn judged(record: &Record) -> i64 {
        if record.time < 0 { NOW } else { record.time.min(NOW + MAX_FUTURE) }
    }

    /// What holds even where the output refuses records, so that their copies come later.
    fn nothing_is_lost_or_repeated(&self) -> TestCaseResult {
        for (index, record) in self.source.iter().enumerate() {
            let same = |other: &&usize| {
                let other = &self.source[**other];
                let near = Self::judged(other).abs_diff(Self::judged(record)) <= 100;
                other.key == record.key && (near || self.refresh)
            };
            let copies = self.output.iter().filter(|other| **other == index).count();
            prop_assert!(copies <= 1, "#{index} is there {copies} times");
            let covered = match record {
                Record { fate: Fate::LeftOut, .. } => true,
                _ if self.dead.contains(&index) => true,
                Record { key: None, .. } => copies == 1,
                _ => self.output.iter().any(|other| same(&other)),
            };
            prop_assert!(covered, "#{index} is lost");
            if record.key.is_some() && copies == 1 {
                let near = |other: &&usize| {
                    let other = &self.source[**other];
                    other.key == record.key
                        && Self::judged(other).abs_diff(Self::judged(record)) <= 100
                };
                prop_assert_eq!(self.output.iter().filter(near).count(), 1, "#{} repeats", index);
            }
        }
        Ok(())
    }
}

fn fates(refusing: bool) -> impl Strategy<Value = Fate> {
    let refused = u32::from(refusing);
    prop_oneof![
        40 => Just(Fate::Taken),
        1 => Just(Fate::LeftOut),
        refused => Just(Fate::RefusedAtOnce),
        refused => Just(Fate::Refused),
    ]
}

fn events(refusing: bool) -> impl Strategy<Value = Vec<Event>> {
    let times = prop_oneof![
        10 => 0..400i64,
        2 => Just(0),
        2 => Just(WINDOW),
        2 => Just(WINDOW + 1),
        1 => Just(-1),
        1 => Just(i64::MAX),
    ];
    let keys = prop_oneof![9 => (0..8u8).prop_map(Some), 1 => Just(None)];
    let record = (keys, times, fates(refusing)).prop_map(|(key, time, fate)| Event::Record {
        key,
        time,
        fate,
    });
    let event = prop_oneof![
        40 => record,
        40 => (any::<usize>(), prop::bool::weighted(0.9)).prop_map(|(pick, placed)| Event::Confirm { pick, placed }),
        2 => Just(Event::Rewind),
        6 => Just(Event::Begin),
        6 => Just(Event::Durable),
        3 => Just(Event::Crash),
    ];
    prop::collection::vec(event, 1..200)
}

fn run(refresh: bool, events: Vec<Event>) -> TestCaseResult {
    let mut world = World::new(refresh);
    for event in events {
        world.step(event)?;
    }
    world.finish()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..Default::default() })]

    #[test]
    fn each_first_occurrence_is_delivered_once_in_source_order(events in events(false)) {
        run(false, events)?;
    }

    #[test]
    fn a_window_that_duplicates_renew_is_the_models_too(events in events(false)) {
        run(true, events)?;
    }

    #[test]
    fn refused_records_and_their_copies_are_neither_lost_nor_repeated(
        refresh in any::<bool>(), events in events(true)
    ) {
        run(refresh, events)?;
    }
}
