//! Merging runs of similar size, so that a segment has few of them however many checkpoints it got.
//!
//! A merge changes no answer: the new run holds exactly the entries of those it replaces. It becomes
//! real with one batch; the old runs are removed after look-ups were pointed at the new one, and a
//! crash in between leaves them to be removed when the state is opened.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use super::block::{BLOCK_ENTRIES, Block, Entry};
use super::record::Key;
use super::snapshot::{Run, Segment};
use super::write::NewRun;
use super::{Error, Seen};
use crate::store::{SegmentId, Value};

/// How many runs of a size make a merge.
const FAN_IN: usize = 4;
/// The most entries a merge writes; runs near it stay as they are.
const MERGE_MAX_ENTRIES: u64 = 512 * 1024;

impl Seen {
    /// Merges some runs of segment `id`, if enough of them are of similar size. Called by the writer.
    pub(super) fn merge_some(&self, id: SegmentId) -> Result<(), Error> {
        let snapshot = self.snapshot();
        let Some(live) = snapshot.live.iter().find(|live| live.segment.id == id) else {
            return Ok(());
        };
        let Some(old) = choose(&live.runs) else { return Ok(()) };
        self.merge_these(id, old)
    }

    /// Merges as many runs of segment `id` as one merge may hold, the smallest first, whatever
    /// their sizes. Returns whether there was anything to merge. Called by the writer.
    pub(super) fn merge_all(&self, id: SegmentId) -> Result<bool, Error> {
        let snapshot = self.snapshot();
        let Some(live) = snapshot.live.iter().find(|live| live.segment.id == id) else {
            return Ok(false);
        };
        let mut sum = 0;
        let fits = |run: &&Arc<Run>| {
            sum += run.entries;
            sum <= MERGE_MAX_ENTRIES
        };
        let old: Vec<_> = live.runs.iter().rev().take_while(fits).cloned().collect();
        if old.len() < 2 {
            return Ok(false);
        }
        self.merge_these(id, old)?;
        Ok(true)
    }

    fn merge_these(&self, id: SegmentId, old: Vec<Arc<Run>>) -> Result<(), Error> {
        let mut draft = (*self.snapshot()).clone();
        let Some(live) = draft.live.iter_mut().find(|live| live.segment.id == id) else {
            return Ok(());
        };
        let filter = live.run_filter(old.iter().map(|run| run.entries).sum());
        let new = NewRun::begin(&live.segment, live.next_run(), filter);
        let merged = merge(&live.segment, new, &old)?;
        live.runs.retain(|run| old.iter().all(|old| old.id != run.id));
        live.add_run(merged);
        let segment = Arc::clone(&live.segment);
        self.publish(draft);
        remove(&segment, &old)
    }
}

/// Returns the runs to merge: the smallest size of which there are enough.
fn choose(runs: &[Arc<Run>]) -> Option<Vec<Arc<Run>>> {
    let tier = |run: &Run| run.entries.max(1).ilog2() / FAN_IN.ilog2();
    // Largest first, so equal tiers are neighbours; the smallest are at the end.
    for group in runs.chunk_by(|a, b| tier(a) == tier(b)).rev() {
        if group.len() < FAN_IN {
            continue;
        }
        let mut sum = 0;
        let fits = |run: &&Arc<Run>| {
            sum += run.entries;
            sum <= MERGE_MAX_ENTRIES
        };
        let chosen: Vec<_> = group.iter().rev().take_while(fits).cloned().collect();
        if chosen.len() > 1 {
            return Some(chosen);
        }
    }
    None
}

fn merge(segment: &Segment, mut new: NewRun<'_>, old: &[Arc<Run>]) -> Result<Run, Error> {
    let mut inputs = old.iter().map(|run| Input::open(segment, run)).collect::<Vec<_>>();
    let mut heap = BinaryHeap::new();
    for (index, input) in inputs.iter_mut().enumerate() {
        if let Some(entry) = input.next()? {
            heap.push(Reverse((entry, index)));
        }
    }
    let mut block = Vec::with_capacity(BLOCK_ENTRIES);
    while let Some(Reverse((entry, index))) = heap.pop() {
        block.push(entry);
        if block.len() == BLOCK_ENTRIES {
            new.add_block(&block)?;
            block.clear();
        }
        let next = inputs.get_mut(index).map_or(Ok(None), Input::next)?;
        if let Some(entry) = next {
            heap.push(Reverse((entry, index)));
        }
    }
    new.add_block(&block)?;
    let generation = old.iter().map(|run| run.generation).max().unwrap_or(0);
    new.finish(generation, old.iter().map(|run| run.id).collect(), Vec::new())
}

/// Blocks first: without them the run record is still known to be replaced.
fn remove(segment: &Segment, old: &[Arc<Run>]) -> Result<(), Error> {
    let blocks = old.iter().flat_map(|run| {
        let count = u32::try_from(run.firsts.len()).unwrap_or(u32::MAX);
        (0..count).map(|number| Key::block(run.id, number))
    });
    let records = old.iter().map(|run| Key::run(run.id));
    segment.remove(blocks.chain(records).collect())
}

/// Reads a run from front to back, one block at a time.
struct Input<'a> {
    segment: &'a Segment,
    run: u64,
    blocks: u32,
    next_block: u32,
    block: Option<Value>,
    next_entry: usize,
}

impl<'a> Input<'a> {
    fn open(segment: &'a Segment, run: &Run) -> Self {
        let blocks = u32::try_from(run.firsts.len()).unwrap_or(u32::MAX);
        Self { segment, run: run.id, blocks, next_block: 0, block: None, next_entry: 0 }
    }

    fn next(&mut self) -> Result<Option<Entry>, Error> {
        loop {
            if let Some(bytes) = &self.block {
                let block =
                    Block::decode(bytes).ok_or_else(|| Error::corrupt("a block is malformed"))?;
                if let Some(entry) = block.get(self.next_entry) {
                    self.next_entry += 1;
                    return Ok(Some(entry));
                }
            }
            if self.next_block == self.blocks {
                return Ok(None);
            }
            let read = self.segment.read_block(self.run, self.next_block)?;
            self.block = Some(read.ok_or_else(|| Error::corrupt("a block is missing"))?);
            self.next_block += 1;
            self.next_entry = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(id: u64, entries: u64) -> Arc<Run> {
        Arc::new(Run { id, generation: id, entries, firsts: Arc::default(), filter: None })
    }

    #[test]
    fn only_runs_of_similar_size_are_chosen_and_the_smallest_first() {
        let ids = |runs: Option<Vec<Arc<Run>>>| {
            runs.map(|runs| runs.iter().map(|run| run.id).collect::<Vec<_>>())
        };
        assert_eq!(ids(choose(&[run(1, 100), run(2, 90), run(3, 80)])), None);
        let four = [run(9, 5_000), run(1, 100), run(2, 90), run(3, 80), run(4, 70)];
        assert_eq!(ids(choose(&four)), Some(vec![4, 3, 2, 1]));
        let large = [run(1, 500_000), run(2, 400_000), run(3, 400_000), run(4, 300_000)];
        assert_eq!(ids(choose(&large)), None, "two of them exceed the limit");
    }
}
