//! What look-ups see: an unchanging picture of segments and runs, replaced as a whole.

use std::sync::Arc;

use super::Stats;
use super::block::Entry;
use super::codec::Place;
use super::filter::{Filter, RunFilter};
use super::record::{Listed, Range};
use crate::store::{Blocks, SegmentId};
use crate::words::{Span, Timestamp};

/// An open segment.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) id: SegmentId,
    pub(super) place: Place,
    pub(super) blocks: Box<dyn Blocks>,
}

/// A sorted run of blocks in a segment; never changes.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) id: u64,
    pub(super) generation: u64,
    pub(super) entries: u64,
    /// The first entry of each block.
    pub(super) firsts: Arc<[Entry]>,
    /// Like that of its segment, none where memory did not suffice.
    pub(super) filter: Option<RunFilter>,
}

impl Run {
    /// Returns false only if `fingerprint` is not in it.
    pub(super) fn may_hold(&self, fingerprint: u128) -> bool {
        self.filter.as_ref().is_none_or(|filter| filter.may_hold(fingerprint))
    }

    fn without_filter(&self) -> Self {
        let Self { id, generation, entries, .. } = *self;
        Self { id, generation, entries, firsts: Arc::clone(&self.firsts), filter: None }
    }
}

/// A segment as it stood at some checkpoint.
#[derive(Clone, Debug)]
pub(super) struct Live {
    pub(super) segment: Arc<Segment>,
    pub(super) range: Range,
    /// The largest first: it is the likeliest to hold a key.
    pub(super) runs: Vec<Arc<Run>>,
    /// None where memory did not suffice: every look-up then reads the store.
    pub(super) filter: Option<Filter>,
    pub(super) entries: u64,
    pub(super) newest: u64,
}

/// All segments, in order of time.
#[derive(Clone, Debug)]
pub(super) struct Snapshot {
    pub(super) live: Vec<Live>,
    pub(super) floor: Timestamp,
}

impl Live {
    pub(super) fn listed(&self) -> Listed {
        let Self { segment, range, entries, newest, .. } = self;
        Listed { id: segment.id, range: *range, newest: *newest, entries: *entries }
    }

    /// Returns the number the next run of this segment gets.
    pub(super) fn next_run(&self) -> u64 {
        self.runs.iter().map(|run| run.id).max().unwrap_or(0) + 1
    }

    pub(super) fn add_run(&mut self, run: Run) {
        self.runs.push(Arc::new(run));
        self.runs.sort_by_key(|run| std::cmp::Reverse(run.entries));
    }

    pub(super) fn filter_bytes(&self) -> u64 {
        let runs = self.runs.iter().filter_map(|run| run.filter.as_ref());
        let runs: u64 = runs.map(RunFilter::bytes).sum();
        self.filter.as_ref().map_or(0, Filter::bytes).saturating_add(runs)
    }

    fn may_hold(&self, fingerprint: u128, at: Timestamp, window: Span) -> bool {
        self.overlaps(at, window)
            && self.filter.as_ref().is_none_or(|filter| filter.may_hold(fingerprint))
    }

    pub(super) fn overlaps(&self, at: Timestamp, window: Span) -> bool {
        self.range.first <= at.after(window).0 && self.range.last >= at.before(window).0
    }
}

impl Snapshot {
    pub(super) fn empty() -> Self {
        Self { live: Vec::new(), floor: Timestamp::MIN }
    }

    pub(super) fn ranges(&self) -> Vec<Range> {
        self.live.iter().map(|live| live.range).collect()
    }

    /// Returns the segments that may hold `fingerprint` within `window` of `at`, newest first.
    pub(super) fn candidates(
        &self,
        fingerprint: u128,
        at: Timestamp,
        window: Span,
    ) -> impl Iterator<Item = &Live> {
        self.live.iter().rev().filter(move |live| live.may_hold(fingerprint, at, window))
    }

    /// Drops filters, the oldest segment's first, until the rest takes at most `max_bytes`.
    pub(super) fn bound_filters(&mut self, max_bytes: u64) {
        let mut bytes: u64 = self.filter_bytes();
        for live in &mut self.live {
            if bytes <= max_bytes {
                return;
            }
            bytes = bytes.saturating_sub(live.filter_bytes());
            live.filter = None;
            for run in &mut live.runs {
                *run = Arc::new(run.without_filter());
            }
        }
    }

    pub(super) fn filter_bytes(&self) -> u64 {
        self.live.iter().map(Live::filter_bytes).sum()
    }

    pub(super) fn stats(&self) -> Stats {
        Stats {
            keys: self.live.iter().map(|live| live.entries).sum(),
            bytes_on_disk: self.live.iter().map(|live| live.segment.blocks.bytes()).sum(),
            segments: self.live.len(),
            runs: self.live.iter().map(|live| live.runs.len()).sum(),
            filter_bytes: self.filter_bytes(),
            segments_without_filter: self.live.iter().filter(|live| live.filter.is_none()).count(),
        }
    }
}
