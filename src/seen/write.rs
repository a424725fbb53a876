//! Writing checkpoints, and expiry.

use std::sync::Arc;

use super::block::{self, BLOCK_ENTRIES, Entry};
use super::codec::Place;
use super::filter::{Filter, RunFilter};
use super::place::{self, Cover};
use super::record::{CHECKPOINT_KEY, HEADER, HEADER_KEY, Key, Record, RunRecord, Stored};
use super::snapshot::{Live, Run, Segment, Snapshot};
use super::{Batch, Error, Seen, Written};
use crate::store::{Change, MAX_BATCH, SegmentId, Value};
use crate::words::{Checkpoint, Timestamp};

/// What only the writing side knows.
#[derive(Debug, Default)]
pub(super) struct Writer {
    /// The newest durable checkpoint; expiry writes it again.
    pub(super) checkpoint: Option<Checkpoint>,
    pub(super) generation: u64,
    pub(super) next_segment: u64,
}

impl Seen {
    /// Makes a checkpoint durable: all of its entries and its resume point, or nothing.
    ///
    /// # Durability
    /// On return the checkpoint survives a kill and a power cut.
    ///
    /// # Errors
    /// Nothing is known about what the disk holds; every later call fails. Open the state anew.
    pub fn write(&self, batch: Batch) -> Result<Written, Error> {
        self.change(|writer| {
            let Batch { entries, checkpoint } = batch;
            let entries = sorted(entries);
            let mut draft = (*self.snapshot()).clone();
            let count = u64::try_from(entries.len()).unwrap_or(u64::MAX);
            let touched = self.checkpoint(writer, &mut draft, &entries, checkpoint)?;
            for id in touched {
                self.merge_some(id)?;
            }
            Ok(Written { generation: writer.generation, entries: count })
        })
    }

    /// Forgets every segment that lies wholly before `before`, except the one with the newest
    /// checkpoint. Returns how many.
    ///
    /// # Errors
    /// As for [`Seen::write`].
    pub fn expire(&self, before: Timestamp) -> Result<usize, Error> {
        self.change(|writer| {
            let mut draft = (*self.snapshot()).clone();
            let head = draft.live.len().saturating_sub(1);
            let expired = draft.live.partition_point(|live| live.range.last < before.0).min(head);
            let Some(checkpoint) = writer.checkpoint.clone().filter(|_| expired > 0) else {
                return Ok(0);
            };
            let gone: Vec<Live> = draft.live.drain(..expired).collect();
            if let Some(last) = gone.last() {
                // Late entries may have opened a segment below what expired before.
                draft.floor = draft.floor.max(Timestamp(last.range.last.saturating_add(1)));
            }
            // First no checkpoint lists them any more; only then may they go.
            self.checkpoint(writer, &mut draft, &[], checkpoint)?;
            let ids: Vec<SegmentId> = gone.iter().map(|live| live.segment.id).collect();
            drop(gone);
            for id in &ids {
                self.shelf.remove(*id)?;
            }
            Ok(ids.len())
        })
    }

    /// Writes `entries` and the checkpoint record, publishes, and returns the touched segments.
    fn checkpoint(
        &self,
        writer: &mut Writer,
        draft: &mut Snapshot,
        entries: &[Entry],
        checkpoint: Checkpoint,
    ) -> Result<Vec<SegmentId>, Error> {
        let generation = writer.generation + 1;
        let old_head = draft.live.last().map(|live| Arc::clone(&live.segment));
        self.make_room(writer, draft, entries, &checkpoint)?;
        let shares = shares(draft, entries);
        let mut touched = Vec::new();
        let mut head = None;
        let last = draft.live.len().saturating_sub(1);
        for (index, (live, share)) in draft.live.iter_mut().zip(&shares).enumerate() {
            if !share.is_empty() {
                live.account(share, generation);
                touched.push(live.segment.id);
            }
            if index == last {
                head = Some((index, share));
            } else if !share.is_empty() {
                live.append(generation, share, Vec::new())?;
            }
        }
        let stored = Stored {
            generation,
            floor: draft.floor,
            next_segment: writer.next_segment,
            checkpoint: checkpoint.clone(),
            segments: draft.live.iter().map(Live::listed).collect(),
        };
        if let Some((index, share)) = head
            && let Some(live) = draft.live.get_mut(index)
        {
            live.append_head(generation, share, stored)?;
            if let Some(old) = old_head.filter(|old| old.id != live.segment.id) {
                old.retire_checkpoint(generation)?;
            }
        }
        self.shelf.set_witness(generation)?;
        writer.generation = generation;
        writer.checkpoint = Some(checkpoint);
        draft.bound_filters(self.filter_max_bytes);
        self.publish(draft.clone());
        Ok(touched)
    }

    /// Makes sure every entry has a segment, and that there is one at all.
    fn make_room(
        &self,
        writer: &mut Writer,
        draft: &mut Snapshot,
        entries: &[Entry],
        checkpoint: &Checkpoint,
    ) -> Result<(), Error> {
        let ranges = draft.ranges();
        let uncovered = |at: &i64| place::position(&ranges, *at).is_none();
        let mut times: Vec<i64> = entries.iter().map(|entry| entry.at).filter(uncovered).collect();
        times.sort_unstable();
        if draft.live.is_empty() && times.is_empty() {
            let known = checkpoint.high_mark > Timestamp::MIN;
            times.push(if known { checkpoint.high_mark.0 } else { checkpoint.written_at.0 });
        }
        for at in times {
            let ranges = draft.ranges();
            if place::position(&ranges, at).is_some() {
                continue;
            }
            match place::cover(&ranges, at, self.segment_len) {
                Cover::Widen(index, range) => {
                    if let Some(live) = draft.live.get_mut(index) {
                        live.range = range;
                    }
                }
                Cover::New(range) => {
                    let segment = self.create_segment(writer)?;
                    let filter = Some(Filter::with_capacity(self.expected_keys(draft)));
                    draft.live.push(Live {
                        segment,
                        range,
                        runs: Vec::new(),
                        filter,
                        entries: 0,
                        newest: 0,
                    });
                    draft.live.sort_by_key(|live| live.range.first);
                }
            }
        }
        Ok(())
    }

    /// A new segment will likely hold about as many keys as the fullest so far.
    fn expected_keys(&self, draft: &Snapshot) -> u64 {
        let fullest = draft.live.iter().map(|live| live.entries).max().unwrap_or(0);
        let planned = fullest.saturating_add(fullest / 8);
        let left = self.filter_max_bytes.saturating_sub(draft.filter_bytes());
        if Filter::bytes_for(planned) > left { 0 } else { planned }
    }

    fn create_segment(&self, writer: &mut Writer) -> Result<Arc<Segment>, Error> {
        let id = SegmentId(writer.next_segment);
        writer.next_segment += 1;
        let place = Place::new(&self.name, id);
        let blocks = self.shelf.create(id)?;
        let value = Some(place.seal(HEADER_KEY, HEADER.to_vec()));
        blocks.apply(vec![Change { key: HEADER_KEY.to_vec(), value }])?;
        Ok(Arc::new(Segment { id, place, blocks }))
    }
}

impl Live {
    /// Counts `share` in, so that filter and checkpoint record know of it.
    fn account(&mut self, share: &[Entry], generation: u64) {
        self.entries += u64::try_from(share.len()).unwrap_or(u64::MAX);
        self.newest = generation;
        if let Some(filter) = &mut self.filter {
            for entry in share {
                filter.insert(entry.fingerprint);
            }
        }
    }

    /// Writes the head's share and the checkpoint record, in the last batch together.
    fn append_head(
        &mut self,
        generation: u64,
        share: &[Entry],
        stored: Stored,
    ) -> Result<(), Error> {
        let record = Record::Checkpoint(Box::new(stored));
        let value = Some(self.segment.place.seal(CHECKPOINT_KEY, record.encode()));
        let record = vec![Change { key: CHECKPOINT_KEY.to_vec(), value }];
        if share.is_empty() {
            return Ok(self.segment.blocks.apply(record)?);
        }
        self.append(generation, share, record)
    }

    /// Writes a run of the sorted `entries`; `with` goes into the batch that makes it count.
    fn append(
        &mut self,
        generation: u64,
        entries: &[Entry],
        with: Vec<Change>,
    ) -> Result<(), Error> {
        let count = u64::try_from(entries.len()).unwrap_or(u64::MAX);
        let filter = self.run_filter(count);
        let mut new = NewRun::begin(&self.segment, self.next_run(), filter);
        for chunk in entries.chunks(BLOCK_ENTRIES) {
            new.add_block(chunk)?;
        }
        let run = new.finish(generation, Vec::new(), with)?;
        self.add_run(run);
        Ok(())
    }

    /// Returns a filter for a new run of `entries` entries, where this segment has any.
    pub(super) fn run_filter(&self, entries: u64) -> Option<RunFilter> {
        self.filter.as_ref().map(|_| RunFilter::with_capacity(entries))
    }
}

impl Segment {
    /// Says that the newest checkpoint is in another segment from now on.
    pub(super) fn retire_checkpoint(&self, generation: u64) -> Result<(), Error> {
        let record = Record::Moved { generation }.encode();
        let value = Some(self.place.seal(CHECKPOINT_KEY, record));
        Ok(self.blocks.apply(vec![Change { key: CHECKPOINT_KEY.to_vec(), value }])?)
    }

    /// Reads a block; None if it is not there.
    pub(super) fn read_block(&self, run: u64, number: u32) -> Result<Option<Value>, Error> {
        let key = Key::block(run, number);
        let Some(sealed) = self.blocks.get(&key)? else { return Ok(None) };
        let bytes = self
            .place
            .unseal(&key, &sealed)
            .ok_or_else(|| Error::corrupt("a block's checksum does not match"))?;
        Ok(Some(Value::from(bytes.to_vec())))
    }

    /// Removes keys in small batches.
    pub(super) fn remove(&self, keys: Vec<Vec<u8>>) -> Result<(), Error> {
        for chunk in keys.chunks(MAX_BATCH) {
            let removal = |key: &Vec<u8>| Change { key: key.clone(), value: None };
            self.blocks.apply(chunk.iter().map(removal).collect())?;
        }
        Ok(())
    }
}

/// A run that is being written. Its blocks count for nothing until [`NewRun::finish`].
pub(super) struct NewRun<'a> {
    segment: &'a Segment,
    id: u64,
    firsts: Vec<Entry>,
    entries: u64,
    waiting: Vec<Change>,
    filter: Option<RunFilter>,
}

impl<'a> NewRun<'a> {
    pub(super) fn begin(segment: &'a Segment, id: u64, filter: Option<RunFilter>) -> Self {
        Self { segment, id, firsts: Vec::new(), entries: 0, waiting: Vec::new(), filter }
    }

    /// Adds a block of sorted entries that lie behind all earlier ones.
    pub(super) fn add_block(&mut self, entries: &[Entry]) -> Result<(), Error> {
        let Some(first) = entries.first() else { return Ok(()) };
        if self.waiting.len() >= MAX_BATCH {
            self.segment.blocks.apply(std::mem::take(&mut self.waiting))?;
        }
        let number = u32::try_from(self.firsts.len()).unwrap_or(u32::MAX);
        let key = Key::block(self.id, number);
        let value = Some(self.segment.place.seal(&key, block::encode(entries)));
        self.waiting.push(Change { key, value });
        if let Some(filter) = &self.filter {
            entries.iter().for_each(|entry| filter.insert(entry.fingerprint));
        }
        self.firsts.push(*first);
        self.entries += u64::try_from(entries.len()).unwrap_or(u64::MAX);
        Ok(())
    }

    /// Writes the run record, with which the run counts, and `with` in the same batch.
    pub(super) fn finish(
        mut self,
        generation: u64,
        replaces: Vec<u64>,
        with: Vec<Change>,
    ) -> Result<Run, Error> {
        let blocks = u32::try_from(self.firsts.len()).unwrap_or(u32::MAX);
        let record = RunRecord { generation, entries: self.entries, blocks, replaces };
        let key = Key::run(self.id);
        let value = Some(self.segment.place.seal(&key, record.encode()));
        self.waiting.push(Change { key, value });
        self.waiting.extend(with);
        self.segment.blocks.apply(self.waiting)?;
        let Self { id, entries, filter, .. } = self;
        Ok(Run { id, generation, entries, firsts: self.firsts.into(), filter })
    }
}

fn sorted(entries: Vec<(crate::key::Fingerprint, Timestamp)>) -> Vec<Entry> {
    let mut entries: Vec<Entry> = entries
        .into_iter()
        .map(|(fingerprint, at)| Entry { fingerprint: fingerprint.0, at: at.0 })
        .collect();
    entries.sort_unstable();
    entries.dedup();
    entries
}

/// Deals sorted entries out to the segments, keeping their order.
fn shares(draft: &Snapshot, entries: &[Entry]) -> Vec<Vec<Entry>> {
    let ranges = draft.ranges();
    let mut shares = vec![Vec::new(); ranges.len()];
    for entry in entries {
        let share = place::position(&ranges, entry.at).and_then(|index| shares.get_mut(index));
        debug_assert!(share.is_some(), "room was made for every entry");
        if let Some(share) = share {
            share.push(*entry);
        }
    }
    shares
}
