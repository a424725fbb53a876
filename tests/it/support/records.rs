//! Records made from a seed, with duplicates that were planned.

use std::collections::VecDeque;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::reader::now_ms;

/// How many of a partition's records are remembered to be repeated: some seconds' worth, so that
/// copies lie on both sides of checkpoints and restarts.
const REMEMBERED: usize = 20_000;

/// A header: its name and its value, which may be null.
pub(crate) type MadeHeader = (String, Option<Vec<u8>>);

/// A record to be written.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    pub(crate) partition: i32,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) headers: Vec<MadeHeader>,
    pub(crate) timestamp: i64,
}

impl Made {
    /// A record of partition 0 with a small key and value.
    pub(crate) fn small() -> Self {
        let (key, value) = (Some(b"small".to_vec()), Some(b"value".to_vec()));
        Self { partition: 0, key, value, headers: Vec::new(), timestamp: now_ms() }
    }

    /// A record of partition 0 with the key `large` and a value that no codec makes small.
    pub(crate) fn incompressible(bytes: u32) -> Self {
        let value = (0..bytes).map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
        Self {
            partition: 0,
            key: Some(b"large".to_vec()),
            value: Some(value),
            headers: Vec::new(),
            timestamp: now_ms(),
        }
    }
}

/// What kind of records are made.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Over how many partitions they are spread.
    pub(crate) partitions: i32,
    /// One record in so many repeats an earlier one; 0 for none.
    pub(crate) duplicate_one_in: u32,
    /// The length of usual values.
    pub(crate) value_bytes: usize,
    /// Whether null and empty keys and values occur, one in a hundred each.
    pub(crate) odd: bool,
    /// Event time of the first record; later ones follow at about `step_ms`.
    pub(crate) start_ms: i64,
    /// Time between two records.
    pub(crate) step_ms: i64,
}

impl Plan {
    /// A tenth are duplicates, 200-byte values, odd records, times from now on.
    pub(crate) fn over(partitions: i32) -> Self {
        Self {
            partitions,
            duplicate_one_in: 10,
            value_bytes: 200,
            odd: true,
            start_ms: now_ms(),
            step_ms: 1,
        }
    }
}

/// Makes the records of a plan, the same ones for the same seed.
pub(crate) struct Maker {
    plan: Plan,
    random: StdRng,
    made: i64,
    past: Vec<VecDeque<Made>>,
}

impl Maker {
    pub(crate) fn new(plan: Plan, seed: u64) -> Self {
        let past = (0..plan.partitions).map(|_| VecDeque::new()).collect();
        Self { plan, random: StdRng::seed_from_u64(seed), made: 0, past }
    }

    /// Makes the next record.
    pub(crate) fn next(&mut self) -> Made {
        let partition = self.random.random_range(0..self.plan.partitions);
        let lane = usize::try_from(partition).expect("partitions are not negative");
        let repeats = self.one_in(self.plan.duplicate_one_in) && !self.past[lane].is_empty();
        let record = if repeats { self.repeat(lane) } else { self.fresh(partition) };
        self.made += 1;
        let past = &mut self.past[lane];
        past.push_back(record.clone());
        if past.len() > REMEMBERED {
            past.pop_front();
        }
        record
    }

    /// Repeats a record of the same partition: the last one, a near one, or any. Half of the
    /// copies are exact; the others are another record with the same key.
    fn repeat(&mut self, lane: usize) -> Made {
        let newest = self.past[lane].len() - 1;
        let back = match self.random.random_range(0..3) {
            0 => 0,
            1 => self.random.random_range(0..=newest.min(100)),
            _ => self.random.random_range(0..=newest),
        };
        let first = self.past[lane][newest - back].clone();
        if self.random.random_bool(0.5) {
            return first;
        }
        let key = first.key.clone();
        Made { key, ..self.fresh(first.partition) }
    }

    fn fresh(&mut self, partition: i32) -> Made {
        let jitter = self.random.random_range(0..=2_000);
        Made {
            partition,
            key: self.key(),
            value: self.value(),
            headers: self.headers(),
            timestamp: self.plan.start_ms + self.made * self.plan.step_ms - jitter,
        }
    }

    fn key(&mut self) -> Option<Vec<u8>> {
        if self.plan.odd && self.one_in(100) {
            return self.random.random_bool(0.5).then(Vec::new);
        }
        Some(format!("key-{:012}", self.made).into_bytes())
    }

    fn value(&mut self) -> Option<Vec<u8>> {
        if self.plan.odd && self.one_in(100) {
            return self.random.random_bool(0.5).then(Vec::new);
        }
        let mut value = vec![0; self.plan.value_bytes];
        self.random.fill(&mut value[..]);
        Some(value)
    }

    /// Up to three headers; names repeat and values may be null, empty or any bytes.
    fn headers(&mut self) -> Vec<MadeHeader> {
        let count = self.random.random_range(0..4_usize).saturating_sub(1);
        (0..count)
            .map(|_| {
                let name = ["trace", "source", ""][self.random.random_range(0..3)].to_owned();
                let length = self.random.random_range(0..8);
                let bytes = (0..length).map(|_| self.random.random()).collect();
                (name, self.random.random_bool(0.8).then_some(bytes))
            })
            .collect()
    }

    fn one_in(&mut self, n: u32) -> bool {
        n > 0 && self.random.random_range(0..n) == 0
    }
}
