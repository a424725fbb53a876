//! Filters: tell in one memory access that a key is surely not there.
//!
//! There are two stages. Each segment has a [`Filter`], a chain of blocked Bloom filters; nearly every
//! new key ends there. A key that passes meets a [`RunFilter`] in front of each run, so that it costs
//! a read of the store only where both are wrong. The stages use different bits of the fingerprint.
//!
//! A key touches one 64-byte line of a filter and sets one bit in each of the line's eight words. The
//! polling thread reads while the store thread inserts: an entry is inserted before the run that holds
//! it is published, so relaxed order is enough.
//!
//! They live in memory only and are made anew from the blocks when the state is opened; storing them
//! would take the place of the insertions in `load`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bits a key of a segment's filter, at the planned fill: lets about 0.4 % of absent keys through.
const SEGMENT_BITS: u64 = 12;
/// Bits a key of a run's filter: lets about 3 % of those through.
const RUN_BITS: u64 = 8;
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
    fn new(capacity: u64, bits_per_key: u64) -> Self {
        let lines = capacity.saturating_mul(bits_per_key).div_ceil(LINE_BITS).max(1);
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
            // All eight words without a branch: the one branch left nearly always goes the same
            // way, so the processor is already fetching the next segment's line.
            let missing = |sum: u64, (word, bit): (&AtomicU64, u64)| {
                sum | (!word.load(Ordering::Relaxed) & bit)
            };
            line.0.iter().zip(bits(fingerprint)).fold(0, missing) == 0
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
        Self { links: vec![Arc::new(Link::new(keys.max(SMALLEST), SEGMENT_BITS))] }
    }

    /// Returns how many bytes the filters of a segment with `keys` keys take, those of its runs
    /// included.
    pub(super) fn bytes_for(keys: u64) -> u64 {
        keys.max(SMALLEST).saturating_mul(SEGMENT_BITS + RUN_BITS) / 8
    }

    /// Adds a key; the filter grows by doubling when it is full.
    pub(super) fn insert(&mut self, fingerprint: u128) {
        if self.links.last().is_none_or(|link| link.is_full()) {
            let total = self.links.iter().map(|link| link.capacity).sum();
            self.links.push(Arc::new(Link::new(total, SEGMENT_BITS)));
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

/// A filter over one run, whose size is known beforehand.
#[derive(Clone, Debug)]
pub(super) struct RunFilter(Arc<Link>);

impl RunFilter {
    pub(super) fn with_capacity(keys: u64) -> Self {
        Self(Arc::new(Link::new(keys, RUN_BITS)))
    }

    pub(super) fn insert(&self, fingerprint: u128) {
        self.0.insert(other_half(fingerprint));
    }

    /// Returns false only if the key was never inserted.
    pub(super) fn may_hold(&self, fingerprint: u128) -> bool {
        self.0.may_hold(other_half(fingerprint))
    }

    pub(super) fn bytes(&self) -> u64 {
        self.0.bytes()
    }
}

/// A key that a segment's filter let through by chance shares its line and bits with other keys of
/// the segment. In the runs it must meet others, or it would pass there as well.
fn other_half(fingerprint: u128) -> u128 {
    fingerprint.rotate_left(64)
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
            assert!(passed < 2_000, "{passed} of 100000 absent keys passed, planned {planned}");
        }
    }

    #[test]
    fn a_key_that_passes_the_first_stage_by_chance_rarely_passes_the_second() {
        let mut random = SmallRng::seed_from_u64(2);
        let mut filter = Filter::with_capacity(50_000);
        let run = RunFilter::with_capacity(50_000);
        for _ in 0..50_000 {
            let key = random.random();
            filter.insert(key);
            run.insert(key);
            assert!(run.may_hold(key));
        }
        let absent = std::iter::repeat_with(|| random.random());
        let passed: Vec<u128> =
            absent.take(1_000_000).filter(|key| filter.may_hold(*key)).collect();
        let both = passed.iter().filter(|key| run.may_hold(**key)).count();
        assert!(passed.len() > 500 && both * 10 < passed.len(), "{both} of {}", passed.len());
    }
}
