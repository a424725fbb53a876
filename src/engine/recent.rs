//! The recent memory: keys in flight, and keys seen since the last durable checkpoint.
//!
//! What is durable is forgotten here a little with each record, so that no record waits for the
//! clearing of a whole checkpoint.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

use crate::key::Fingerprint;
use crate::words::{RecordOffset, Timestamp};

use super::Sequence;

/// How an occurrence stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Sent, not confirmed.
    InFlight(Sequence),
    /// On the output; where, if the report said so.
    Done(Option<RecordOffset>),
    /// Found on the output by catch-up; its replay has not been met.
    Recovered(RecordOffset),
}

/// One occurrence of a key: 16 bytes, so that with its key it fills half a cache line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Occurrence {
    pub(super) at: Timestamp,
    state: Packed,
}

impl Occurrence {
    pub(super) fn new(at: Timestamp, state: State) -> Self {
        Self { at, state: Packed::from(state) }
    }

    pub(super) fn state(&self) -> State {
        self.state.into()
    }

    pub(super) fn set(&mut self, state: State) {
        self.state = state.into();
    }
}

/// A [`State`] in 8 bytes: two bits for which one, the others for its number.
#[derive(Clone, Copy, Debug)]
struct Packed(u64);

const WHICH: u64 = 0b11;
const IN_FLIGHT: u64 = 0;
const DONE: u64 = 1;
const DONE_AT: u64 = 2;
const RECOVERED: u64 = 3;

impl From<State> for Packed {
    /// Neither offsets nor sequences come near 62 bits.
    fn from(state: State) -> Self {
        Self(match state {
            State::InFlight(sequence) => sequence.0 << 2 | IN_FLIGHT,
            State::Done(None) => DONE,
            State::Done(Some(output)) => output.0.cast_unsigned() << 2 | DONE_AT,
            State::Recovered(output) => output.0.cast_unsigned() << 2 | RECOVERED,
        })
    }
}

impl From<Packed> for State {
    fn from(packed: Packed) -> Self {
        let number = packed.0 >> 2;
        match packed.0 & WHICH {
            IN_FLIGHT => Self::InFlight(Sequence(number)),
            DONE => Self::Done(None),
            DONE_AT => Self::Done(Some(RecordOffset(number.cast_signed()))),
            _ => Self::Recovered(RecordOffset(number.cast_signed())),
        }
    }
}

/// A fingerprint is a keyed hash already; hashing it again would only cost time.
#[derive(Debug, Default)]
pub(super) struct TakeLowBits(u64);

impl Hasher for TakeLowBits {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _: &[u8]) {
        debug_assert!(false, "only fingerprints are hashed here");
    }
    #[expect(clippy::cast_possible_truncation, reason = "the low half is the hash")]
    fn write_u128(&mut self, value: u128) {
        self.0 = value as u64;
    }
}

type Map<V> = HashMap<Fingerprint, V, BuildHasherDefault<TakeLowBits>>;

/// Keys in flight and keys not yet durable.
#[derive(Debug, Default)]
pub(super) struct Recent {
    first: Map<Occurrence>,
    /// Further occurrences of a key, more than a window apart: rare, so kept aside.
    more: Map<Vec<Occurrence>>,
    /// Durable occurrences that may be forgotten.
    settled: VecDeque<(Fingerprint, Timestamp)>,
}

/// How many durable occurrences each record clears: more than it can add.
const FORGET_PER_RECORD: usize = 2;

impl Recent {
    /// Returns the occurrence of `fingerprint` that `joins` accepts, if there is one.
    pub(super) fn find(
        &mut self,
        fingerprint: Fingerprint,
        joins: impl Fn(Timestamp) -> bool,
    ) -> Option<&mut Occurrence> {
        self.find_by(fingerprint, |occurrence| joins(occurrence.at))
    }

    /// Returns the occurrence of `fingerprint` that `which` accepts, if there is one.
    pub(super) fn find_by(
        &mut self,
        fingerprint: Fingerprint,
        which: impl Fn(&Occurrence) -> bool,
    ) -> Option<&mut Occurrence> {
        let first = self.first.get_mut(&fingerprint)?;
        if which(first) {
            return Some(first);
        }
        self.more.get_mut(&fingerprint)?.iter_mut().find(|occurrence| which(occurrence))
    }

    pub(super) fn insert(&mut self, fingerprint: Fingerprint, occurrence: Occurrence) {
        match self.first.entry(fingerprint) {
            Entry::Vacant(vacant) => {
                vacant.insert(occurrence);
            }
            Entry::Occupied(_) => self.more.entry(fingerprint).or_default().push(occurrence),
        }
    }

    /// Removes the occurrence of `fingerprint` at `at` if `which` accepts its state.
    pub(super) fn remove(
        &mut self,
        fingerprint: Fingerprint,
        at: Timestamp,
        which: impl Fn(&State) -> bool,
    ) {
        let matches = |occurrence: &Occurrence| occurrence.at == at && which(&occurrence.state());
        let Entry::Occupied(mut first) = self.first.entry(fingerprint) else { return };
        let rest = if self.more.is_empty() { None } else { self.more.get_mut(&fingerprint) };
        if matches(first.get()) {
            match rest.and_then(Vec::pop) {
                Some(other) => *first.get_mut() = other,
                None => {
                    first.remove();
                }
            }
        } else if let Some(rest) = rest {
            rest.retain(|occurrence| !matches(occurrence));
        }
        if self.more.get(&fingerprint).is_some_and(Vec::is_empty) {
            self.more.remove(&fingerprint);
        }
    }

    /// Touches where these keys would lie, all before any of them is needed, so that the memory's
    /// answers overlap. Returns how many are there.
    pub(super) fn touch(&self, keys: &[(Fingerprint, Timestamp)]) -> usize {
        keys.iter().filter(|(fingerprint, _)| self.first.contains_key(fingerprint)).count()
    }

    /// Notes that these occurrences are durable, so the store answers for them from now on.
    pub(super) fn durable(&mut self, entries: &[(Fingerprint, Timestamp)]) {
        self.settled.extend(entries);
    }

    /// Clears a few durable occurrences.
    pub(super) fn forget_some(&mut self) {
        for _ in 0..FORGET_PER_RECORD {
            let Some((fingerprint, at)) = self.settled.pop_front() else { return };
            self.remove(fingerprint, at, |state| matches!(state, State::Done(_)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: Fingerprint = Fingerprint(7);

    fn done(at: i64) -> Occurrence {
        Occurrence::new(Timestamp(at), State::Done(None))
    }

    #[test]
    fn a_state_packs_into_eight_bytes_and_back() {
        let far = RecordOffset(1 << 60);
        for state in [
            State::InFlight(Sequence(0)),
            State::InFlight(Sequence(1 << 60)),
            State::Done(None),
            State::Done(Some(RecordOffset(0))),
            State::Done(Some(far)),
            State::Recovered(RecordOffset(0)),
            State::Recovered(far),
        ] {
            assert_eq!(State::from(Packed::from(state)), state);
        }
        assert_eq!(size_of::<(Fingerprint, Occurrence)>(), 32);
    }

    #[test]
    fn occurrences_of_one_key_more_than_a_window_apart_are_all_kept() {
        let mut recent = Recent::default();
        for at in [0, 100, 200] {
            recent.insert(KEY, done(at));
        }
        for at in [0, 100, 200] {
            assert!(recent.find(KEY, |t| t == Timestamp(at)).is_some());
            recent.remove(KEY, Timestamp(at), |_| true);
            assert!(recent.find(KEY, |t| t == Timestamp(at)).is_none());
        }
        assert_eq!(recent.first.len(), 0);
        assert!(recent.more.is_empty());
    }

    #[test]
    fn only_durable_occurrences_are_forgotten() {
        let mut recent = Recent::default();
        recent.insert(KEY, done(0));
        recent.insert(Fingerprint(8), Occurrence::new(Timestamp(0), State::InFlight(Sequence(1))));
        recent.durable(&[(KEY, Timestamp(0)), (Fingerprint(8), Timestamp(0))]);
        recent.forget_some();
        assert!(recent.find(KEY, |_| true).is_none());
        assert!(recent.find(Fingerprint(8), |_| true).is_some());
    }
}
