//! Which records are made: fixed by the seed, of one size, with duplicates at a rate and a
//! distance.

use crate::commands::demo::plan::Random;

/// What the records look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// At least [`KEY_BYTES_MIN`].
    pub(super) key_bytes: usize,
    /// At least [`VALUE_BYTES_MIN`].
    pub(super) value_bytes: usize,
    /// Of 10,000 records, how many repeat an earlier key.
    pub(super) duplicates: u64,
    /// A duplicate repeats one of this many latest keys.
    pub(super) distance: u64,
    pub(super) seed: u64,
}

/// A key starts with its number, scrambled; shorter ones would not be distinct.
pub(super) const KEY_BYTES_MIN: usize = 8;
/// Room for a [`Stamp`].
pub(super) const VALUE_BYTES_MIN: usize = 17;

/// What a record is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To be forwarded, and no more.
    Load,
    /// To find out whether the path is up.
    Probe,
    /// To be timed.
    Timed,
}

/// What is written at the start of each value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    /// When it was due to be sent, in nanoseconds since the turn began.
    pub(super) due_ns: u64,
    /// The number of the record, so that no two values are the same.
    pub(super) number: u64,
    pub(super) purpose: Purpose,
}

impl Stamp {
    fn put(self, value: &mut [u8]) {
        let purpose = match self.purpose {
            Purpose::Load => 0,
            Purpose::Probe => 1,
            Purpose::Timed => 2,
        };
        let bytes = self.due_ns.to_be_bytes().into_iter().chain(self.number.to_be_bytes());
        for (place, byte) in value.iter_mut().zip(bytes.chain([purpose])) {
            *place = byte;
        }
    }

    pub(super) fn read(value: &[u8]) -> Option<Self> {
        let (due, rest) = value.split_first_chunk::<8>()?;
        let (number, rest) = rest.split_first_chunk::<8>()?;
        let purpose = match rest.first()? {
            0 => Purpose::Load,
            1 => Purpose::Probe,
            2 => Purpose::Timed,
            _ => return None,
        };
        Some(Self {
            due_ns: u64::from_be_bytes(*due),
            number: u64::from_be_bytes(*number),
            purpose,
        })
    }
}

/// Makes the records one after the other, in buffers of its own.
#[derive(Debug)]
pub(super) struct Plan {
    shape: Shape,
    random: Random,
    keys: u64,
    records: u64,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Plan {
    pub(super) fn new(shape: Shape) -> Self {
        let mut random = Random::new(shape.seed);
        let filler = (0..shape.value_bytes).map(|_| u8::try_from(random.below(256)).unwrap_or(0));
        let value = filler.collect();
        let key = vec![0; shape.key_bytes];
        Self { shape, random, keys: 0, records: 0, key, value }
    }

    /// Makes the next record; returns key, value, and whether its key is new.
    pub(super) fn next(&mut self, due_ns: u64, purpose: Purpose) -> (&[u8], &[u8], bool) {
        let repeats = self.keys > 0 && self.random.below(10_000) < self.shape.duplicates;
        let number = if repeats {
            let reach = self.shape.distance.min(self.keys);
            self.keys - 1 - self.random.below(reach)
        } else {
            self.keys += 1;
            self.keys - 1
        };
        self.put_key(number);
        Stamp { due_ns, number: self.records, purpose }.put(&mut self.value);
        self.records += 1;
        (&self.key, &self.value, !repeats)
    }

    /// Spreads the number over the key. The first 8 bytes alone differ for any two numbers.
    fn put_key(&mut self, number: u64) {
        let mut spread = Random::new(number ^ self.shape.seed.rotate_left(32));
        for part in self.key.chunks_mut(8) {
            for (place, byte) in part.iter_mut().zip(spread.next().to_be_bytes()) {
                *place = byte;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    const SHAPE: Shape =
        Shape { key_bytes: 16, value_bytes: 200, duplicates: 500, distance: 100, seed: 1 };

    fn keys(shape: Shape, count: usize) -> Vec<(Vec<u8>, bool)> {
        let mut plan = Plan::new(shape);
        (0..count)
            .map(|_| {
                let (key, value, fresh) = plan.next(0, Purpose::Load);
                assert_eq!((key.len(), value.len()), (shape.key_bytes, shape.value_bytes));
                (key.to_vec(), fresh)
            })
            .collect()
    }

    #[test]
    fn the_same_seed_makes_the_same_records_and_another_does_not() {
        assert_eq!(keys(SHAPE, 1_000), keys(SHAPE, 1_000));
        assert_ne!(keys(SHAPE, 1_000), keys(Shape { seed: 2, ..SHAPE }, 1_000));
    }

    #[test]
    fn duplicates_come_at_their_rate_and_what_is_called_fresh_is() {
        let made = keys(SHAPE, 20_000);
        let mut seen = HashSet::new();
        for (key, fresh) in &made {
            assert_eq!(seen.insert(key.clone()), *fresh);
        }
        let duplicates = made.len() - seen.len();
        assert!((900..=1_100).contains(&duplicates), "{duplicates} of 20,000");
    }

    #[test]
    fn a_duplicate_reaches_no_further_back_than_its_distance() {
        let shape = Shape { duplicates: 5_000, distance: 3, ..SHAPE };
        let mut latest: Vec<Vec<u8>> = Vec::new();
        for (key, fresh) in keys(shape, 5_000) {
            if fresh {
                latest.push(key);
            } else {
                assert!(latest.iter().rev().take(3).any(|known| *known == key));
            }
        }
    }

    #[test]
    fn keys_of_the_least_size_are_still_distinct() {
        let shape = Shape { key_bytes: KEY_BYTES_MIN, duplicates: 0, ..SHAPE };
        let distinct: HashSet<_> = keys(shape, 50_000).into_iter().collect();
        assert_eq!(distinct.len(), 50_000);
    }

    #[test]
    fn a_stamp_reads_back_and_no_two_values_are_the_same() {
        let mut plan = Plan::new(Shape { value_bytes: VALUE_BYTES_MIN, ..SHAPE });
        let first = plan.next(7, Purpose::Probe).1.to_vec();
        let second = plan.next(9, Purpose::Timed).1.to_vec();
        let stamp = |due_ns, number, purpose| Some(Stamp { due_ns, number, purpose });
        assert_eq!(Stamp::read(&first), stamp(7, 0, Purpose::Probe));
        assert_eq!(Stamp::read(&second), stamp(9, 1, Purpose::Timed));
        assert_eq!(Stamp::read(&first[..16]), None);
    }
}
