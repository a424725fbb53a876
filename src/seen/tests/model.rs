//! The seen-set against a list with a clock, crashing at every operation of every history.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::super::{Found, Opened, Seen};
use super::{batch, checkpoint, nearest, open};
use crate::store::memory::{Fault, MemoryShelf};
use crate::words::{Checkpoint, Timestamp};

const WINDOW: i64 = 30;
const SEGMENT: i64 = 20;
const KEYS: u64 = 8;

#[derive(Clone, Debug)]
enum Step {
    Write(Vec<(u64, i64)>),
    Expire(i64),
    Reopen,
}

/// What must be there: the whole truth, kept the simplest way.
#[derive(Clone, Debug, PartialEq)]
struct Model {
    checkpoint: Option<Checkpoint>,
    entries: Vec<(u64, i64)>,
    /// The first time of each segment.
    segments: BTreeSet<i64>,
    floor: Timestamp,
}

impl Model {
    fn new() -> Self {
        let (entries, segments) = (Vec::new(), BTreeSet::new());
        Self { checkpoint: None, entries, segments, floor: Timestamp::MIN }
    }

    fn after_write(&self, number: usize, entries: &[(u64, i64)]) -> Self {
        let mut batch = entries.to_vec();
        batch.sort_unstable();
        batch.dedup();
        let mut model = self.clone();
        let checkpoint = checkpoint(i64::try_from(number).unwrap() + 1);
        model.segments.extend(batch.iter().map(|(_, at)| slot(*at)));
        if model.segments.is_empty() {
            model.segments.insert(slot(checkpoint.high_mark.0));
        }
        model.entries.extend(batch);
        model.checkpoint = Some(checkpoint);
        model
    }

    fn after_expiry(&self, before: i64) -> Self {
        let mut model = self.clone();
        let Some(head) = model.segments.last().copied() else { return model };
        let expired = |first: i64| first != head && first + SEGMENT <= before;
        for first in &self.segments {
            if expired(*first) {
                model.floor = model.floor.max(Timestamp(first + SEGMENT));
            }
        }
        model.segments.retain(|first| !expired(*first));
        model.entries.retain(|(_, at)| !expired(slot(*at)));
        model
    }

    fn looks_like(&self, checkpoint: Option<&Checkpoint>, seen: &Seen) -> bool {
        self.checkpoint.as_ref() == checkpoint
            && self.floor == seen.floor()
            && self.segments.len() == seen.stats().segments
    }

    fn assert_equals(&self, seen: &Seen) {
        assert_eq!(seen.floor(), self.floor);
        assert_eq!(seen.stats().keys, u64::try_from(self.entries.len()).unwrap());
        for key in 0..KEYS {
            for at in (-40..=200).step_by(5) {
                let near = |time: i64| (time - at).abs() <= WINDOW;
                let times: Vec<i64> =
                    self.entries.iter().filter(|entry| entry.0 == key).map(|e| e.1).collect();
                let found = nearest(seen, key, at, WINDOW);
                assert_eq!(found.is_some(), times.iter().any(|t| near(*t)), "{key} at {at}");
                assert!(found.is_none_or(|time| near(time) && times.contains(&time)));
            }
        }
    }
}

fn slot(at: i64) -> i64 {
    at.div_euclid(SEGMENT) * SEGMENT
}

fn found_checkpoint(found: Found) -> Option<Checkpoint> {
    match found {
        Found::Checkpoint(checkpoint) => Some(checkpoint),
        Found::Nothing => None,
        Found::Damaged { why, .. } => panic!("damaged: {why}"),
    }
}

/// Plays `steps`; returns what may be there afterwards, and whether all of it went well.
fn play(shelf: &MemoryShelf, steps: &[Step], from: usize, mut model: Model) -> (Vec<Model>, usize) {
    let Opened { mut seen, .. } = match super::try_open(shelf) {
        Ok(opened) => opened,
        Err(_) => return (vec![model], from),
    };
    for (number, step) in steps.iter().enumerate().skip(from) {
        match step {
            Step::Write(entries) => {
                let resume = i64::try_from(number).unwrap() + 1;
                let after = model.after_write(number, entries);
                if seen.write(batch(resume, entries)).is_err() {
                    return (vec![model, after], number);
                }
                model = after;
            }
            Step::Expire(before) => {
                let after = model.after_expiry(*before);
                if seen.expire(Timestamp(*before)).is_err() {
                    return (vec![model, after], number);
                }
                model = after;
            }
            Step::Reopen => {
                drop(seen);
                seen = match super::try_open(shelf) {
                    Ok(opened) => opened.seen,
                    Err(_) => return (vec![model], number),
                };
            }
        }
        if !shelf.is_dead() && matches!(step, Step::Reopen) {
            model.assert_equals(&seen);
        }
    }
    model.assert_equals(&seen);
    (vec![model], steps.len().max(from))
}

/// Crashes at operation `at` of `steps`, reopens, checks, plays the rest, and checks again.
fn crash_and_go_on(steps: &[Step], at: u64, fault: Fault, witness_lost: bool) {
    let shelf = MemoryShelf::default();
    shelf.fail_at(at, fault);
    let (allowed, number) = play(&shelf, steps, 0, Model::new());
    assert!(shelf.is_dead(), "operation {at} was reached");
    shelf.reboot(witness_lost);
    let Opened { seen, found } = open(&shelf);
    let checkpoint = found_checkpoint(found);
    let survivor = allowed
        .iter()
        .find(|model| model.looks_like(checkpoint.as_ref(), &seen))
        .unwrap_or_else(|| panic!("{checkpoint:?} is none of {allowed:?}"))
        .clone();
    survivor.assert_equals(&seen);
    drop(seen);
    // Leaving the interrupted step out must not bring back what it had written.
    let next = if at.is_multiple_of(3) { number } else { number + 1 };
    let (models, end) = play(&shelf, steps, next, survivor);
    assert_eq!(end, steps.len().max(next));
    let Opened { seen, found } = open(&shelf);
    assert_eq!(found_checkpoint(found), models[0].checkpoint);
    models[0].assert_equals(&seen);
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let entry = || (0..KEYS, 0_i64..160);
    let step = prop_oneof![
        6 => prop::collection::vec(entry(), 0..14).prop_map(Step::Write),
        2 => (0_i64..160).prop_map(Step::Expire),
        1 => Just(Step::Reopen),
    ];
    prop::collection::vec(step, 1..9)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_crash_at_any_operation_leaves_exactly_a_checkpoint_and_the_rest_goes_on(
        steps in steps(),
    ) {
        let shelf = MemoryShelf::default();
        play(&shelf, &steps, 0, Model::new());
        for at in 0..shelf.operations() {
            for fault in [Fault::CrashBefore, Fault::CrashAfter] {
                crash_and_go_on(&steps, at, fault, at % 2 == 0);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn many_checkpoints_with_merges_and_expiry_equal_the_model(
        steps in prop::collection::vec(
            prop_oneof![
                9 => prop::collection::vec((0..KEYS, 60_i64..100), 1..8).prop_map(Step::Write),
                1 => (0_i64..100).prop_map(Step::Expire),
                1 => Just(Step::Reopen),
            ],
            30..60,
        ),
    ) {
        let (_, end) = play(&MemoryShelf::default(), &steps, 0, Model::new());
        prop_assert_eq!(end, steps.len());
    }
}

#[test]
fn a_distance_of_exactly_the_window_is_near_and_one_more_is_not() {
    let shelf = MemoryShelf::default();
    let Opened { seen, .. } = open(&shelf);
    // Segments are 20 ms long, so these windows reach over several of them.
    seen.write(batch(1, &[(1, 100)])).expect("it is written");
    for at in [50, 150] {
        assert_eq!(nearest(&seen, 1, at, 50), Some(100));
        assert_eq!(nearest(&seen, 1, at, 49), None);
    }
    assert_eq!(nearest(&seen, 2, 100, 50), None);
}

#[test]
fn absurd_times_are_remembered_like_others() {
    let shelf = MemoryShelf::default();
    let Opened { seen, .. } = open(&shelf);
    let times = [i64::MIN, i64::MIN + 1, -1, 0, i64::MAX - 1, i64::MAX];
    let entries: Vec<(u64, i64)> = (0..).zip(times).collect();
    seen.write(batch(1, &entries)).expect("it is written");
    drop(seen);
    let Opened { seen, .. } = open(&shelf);
    for (key, at) in entries {
        assert_eq!(nearest(&seen, key, at, 0), Some(at));
    }
}

#[test]
fn times_spread_over_years_make_a_bounded_number_of_segments() {
    let shelf = MemoryShelf::default();
    let Opened { seen, .. } = open(&shelf);
    let entries: Vec<(u64, i64)> = (0..500).zip((0..).step_by(1_000_000)).collect();
    seen.write(batch(1, &entries)).expect("it is written");
    assert!(seen.stats().segments <= super::super::place::MAX_SEGMENTS);
    let found = entries.iter().filter(|(key, at)| nearest(&seen, *key, *at, 0) == Some(*at));
    assert_eq!(found.count(), 500);
}
