//! Filters: tell in one memory access that a key is surely not in a segment.
//!
//! A filter is a chain of blocked Bloom filters. A key touches one 64-byte line of each link and sets
//! one bit in each of the line's eight words. The polling thread reads while the store thread inserts:
//! an entry is inserted before the run that holds it is published, so relaxed order is enough.
//!
//! They live in memory only and are made anew from the blocks when the state is opened; storing them
//! would take the place of [`Filter::with_capacity`] and the insertions in `load`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bits a key, at the planned fill. 14 let about one absent key in 500 through.
const BITS_PER_KEY: u64 = 14;
const LINE_BITS: u64 = 512;
/// The smallest link, in keys.
const SMALLEST: u64 = 4_096;

/// One cache line of a filter.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Line([AtomicU64; 8]);

/// One blocked Bloom filter of fixed size.
#[derive(Debug)]
struct Link {
    lines: Vec<Line>,
    capacity: u64,
    used: AtomicU64,
}

impl Link {
    fn new(capacity: u64) -> Self {
        let capacity = capacity.max(SMALLEST);
        let lines = capacity.saturating_mul(BITS_PER_KEY).div_ceil(LINE_BITS).max(1);
        let lines = (0..lines).map(|_| Line::default()).collect();
        Self { lines, capacity, used: AtomicU64::new(0) }
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "the upper half of a product, below a usize"
    )]
    fn line(&self, fingerprint: u128) -> Option<&Line> {
        let upper = fingerprint >> 64;
        self.lines.get(((upper * self.lines.len() as u128) >> 64) as usize)
    }

    fn insert(&self, fingerprint: u128) {
        if let Some(line) = self.line(fingerprint) {
            for (word, bit) in line.0.iter().zip(bits(fingerprint)) {
                word.fetch_or(bit, Ordering::Relaxed);
            }
        }
        self.used.fetch_add(1, Ordering::Relaxed);
    }

    fn may_hold(&self, fingerprint: u128) -> bool {
        self.line(fingerprint).is_none_or(|line| {
            line.0
                .iter()
                .zip(bits(fingerprint))
                .all(|(word, bit)| word.load(Ordering::Relaxed) & bit != 0)
        })
    }

    fn is_full(&self) -> bool {
        self.used.load(Ordering::Relaxed) >= self.capacity
    }

    fn bytes(&self) -> u64 {
        bytes_of(self.lines.len())
    }
}

fn bytes_of(lines: usize) -> u64 {
    u64::try_from(lines).unwrap_or(u64::MAX).saturating_mul(LINE_BITS / 8)
}

/// One bit for each word of a line, from the lower half of the fingerprint.
#[expect(clippy::cast_possible_truncation, reason = "the lower half is what is wanted")]
fn bits(fingerprint: u128) -> [u64; 8] {
    let lower = fingerprint as u64;
    [0, 6, 12, 18, 24, 30, 36, 42].map(|shift: u32| 1 << ((lower >> shift) & 63))
}

/// A filter over one segment that grows by links.
#[derive(Clone, Debug)]
pub(super) struct Filter {
    links: Vec<Arc<Link>>,
}

impl Filter {
    /// A filter planned for `keys` keys.
    pub(super) fn with_capacity(keys: u64) -> Self {
        Self { links: vec![Arc::new(Link::new(keys))] }
    }

    /// Returns how many bytes a filter planned for `keys` keys takes.
    pub(super) fn bytes_for(keys: u64) -> u64 {
        keys.max(SMALLEST).saturating_mul(BITS_PER_KEY) / 8
    }

    /// Adds a key; the filter grows by doubling when it is full.
    pub(super) fn insert(&mut self, fingerprint: u128) {
        if self.links.last().is_none_or(|link| link.is_full()) {
            let total = self.links.iter().map(|link| link.capacity).sum();
            self.links.push(Arc::new(Link::new(total)));
        }
        if let Some(link) = self.links.last() {
            link.insert(fingerprint);
        }
    }

    /// Returns false only if the key was never inserted.
    pub(super) fn may_hold(&self, fingerprint: u128) -> bool {
        self.links.iter().any(|link| link.may_hold(fingerprint))
    }

    pub(super) fn bytes(&self) -> u64 {
        self.links.iter().map(|link| link.bytes()).sum()
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};

    use super::*;

    #[test]
    fn no_inserted_key_is_ever_denied_and_few_others_pass() {
        let mut random = SmallRng::seed_from_u64(1);
        for planned in [0, 100_000] {
            let mut filter = Filter::with_capacity(planned);
            let keys: Vec<u128> = (0..100_000).map(|_| random.random()).collect();
            for key in &keys {
                filter.insert(*key);
            }
            assert!(keys.iter().all(|key| filter.may_hold(*key)));
            let passed = (0..100_000).filter(|_| filter.may_hold(random.random())).count();
            assert!(passed < 1_000, "{passed} of 100000 absent keys passed, planned {planned}");
        }
    }
}
