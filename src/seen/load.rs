//! Reading a partition's state: find the newest checkpoint, prove that all of it is there, throw out
//! what no checkpoint covers, and fill the filters.
//!
//! Every block is read once and its checksum checked, about 10 million entries a second; stored
//! filters would spare that.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::block::{Block, Entry};
use super::codec::Place;
use super::filter::{Filter, RunFilter};
use super::record::{CHECKPOINT_KEY, HEADER, Key, Listed, Record, RunRecord, Stored};
use super::snapshot::{Live, Run, Segment, Snapshot};
use super::write::Writer;
use super::{Error, Progress};
use crate::store::{SegmentId, Shelf, Value};

/// A state as it was found.
pub(super) struct Loaded {
    pub(super) snapshot: Snapshot,
    pub(super) writer: Writer,
}

/// Reads the state on `shelf`, of the partition whose directory is called `name`.
pub(super) fn load(
    shelf: &dyn Shelf,
    name: &str,
    filter_max_bytes: u64,
    progress: &Progress,
) -> Result<Loaded, Error> {
    let witness =
        shelf.witness().map_err(|source| Error::opening("GENERATION is not readable", source))?;
    let mut opened = open_all(shelf, name)?;
    let Some(stored) = newest(&opened, witness)? else {
        // Segments that were being made when the first checkpoint was cut short.
        for (id, segment) in opened {
            drop(segment);
            shelf.remove(id)?;
        }
        return Ok(Loaded { snapshot: Snapshot::empty(), writer: first_writer() });
    };
    progress.expect(stored.segments.iter().map(|listed| listed.entries).sum());
    let mut live = Vec::new();
    let mut filters_left = filter_max_bytes;
    // Newest first: where memory does not suffice, the oldest do without a filter.
    for listed in stored.segments.iter().rev() {
        let segment = opened
            .remove(&listed.id)
            .ok_or_else(|| Error::corrupt(format!("{} is missing", listed.id)))??;
        let filter_bytes = Filter::bytes_for(listed.entries);
        let filter = (filter_bytes <= filters_left).then(|| {
            filters_left -= filter_bytes;
            Filter::with_capacity(listed.entries.saturating_add(listed.entries / 16))
        });
        live.push(load_segment(segment.segment, listed, stored.generation, filter, progress)?);
    }
    live.reverse();
    for (id, segment) in opened {
        // No checkpoint lists it: it was expiring, or its first checkpoint never came to be.
        drop(segment);
        shelf.remove(id)?;
    }
    retire_older(&live, &stored)?;
    if !live.windows(2).all(|pair| matches!(pair, [a, b] if a.range.last < b.range.first)) {
        return Err(Error::corrupt("segments overlap"));
    }
    let Stored { generation, floor, next_segment, checkpoint, .. } = *stored;
    let writer = Writer { checkpoint: Some(checkpoint), generation, next_segment };
    Ok(Loaded { snapshot: Snapshot { live, floor }, writer })
}

fn first_writer() -> Writer {
    Writer { checkpoint: None, generation: 0, next_segment: 1 }
}

/// An open segment and its checkpoint record, if it has one.
struct Candidate {
    segment: Segment,
    record: Option<Record>,
}

type Candidates = BTreeMap<SegmentId, Result<Candidate, Error>>;

fn open_all(shelf: &dyn Shelf, name: &str) -> Result<Candidates, Error> {
    let ids =
        shelf.list().map_err(|source| Error::opening("the partition is not readable", source))?;
    let mut opened = BTreeMap::new();
    for id in ids {
        let candidate = open_one(shelf, name, id);
        match &candidate {
            // The state is not at fault, so do not judge it.
            Err(error) if !error.is_damage() => {
                candidate?;
            }
            _ => {
                opened.insert(id, candidate);
            }
        }
    }
    Ok(opened)
}

fn open_one(shelf: &dyn Shelf, name: &str, id: SegmentId) -> Result<Candidate, Error> {
    let damaged = |source| Error::opening(format!("{id} does not open"), source);
    let place = Place::new(name, id);
    let blocks = shelf.open(id).map_err(damaged)?;
    let sealed = blocks.get(CHECKPOINT_KEY).map_err(damaged)?;
    let record = match sealed {
        None => None,
        Some(sealed) => Some(
            place
                .unseal(CHECKPOINT_KEY, &sealed)
                .and_then(Record::decode)
                .ok_or_else(|| Error::corrupt(format!("the checkpoint in {id} is damaged")))?,
        ),
    };
    Ok(Candidate { segment: Segment { id, place, blocks }, record })
}

/// Returns the newest checkpoint, unless a newer one is known to have been there.
fn newest(opened: &Candidates, witness: u64) -> Result<Option<Box<Stored>>, Error> {
    let records = || opened.values().flatten().filter_map(|candidate| candidate.record.as_ref());
    let stored = records()
        .filter_map(|record| match record {
            Record::Checkpoint(stored) => Some(stored),
            Record::Moved { .. } => None,
        })
        .max_by_key(|stored| stored.generation);
    let found = stored.map_or(0, |stored| stored.generation);
    let known = records().map(Record::generation).max().unwrap_or(0).max(witness);
    if found < known {
        // A segment that does not open is the likely reason, and the better thing to name.
        return Err(Error::corrupt(damage_text(opened, found, known)));
    }
    Ok(stored.cloned())
}

fn damage_text(opened: &Candidates, found: u64, known: u64) -> String {
    let older = if found == 0 {
        format!("checkpoint {known} was durable and none is left")
    } else {
        format!("checkpoint {known} was durable and the newest left is {found}")
    };
    let causes = opened.values().filter_map(|candidate| candidate.as_ref().err());
    causes.fold(older, |text, cause| format!("{text}; {cause}"))
}

/// A crash may have left an older checkpoint record where the head was before.
fn retire_older(live: &[Live], stored: &Stored) -> Result<(), Error> {
    let head = live.len().saturating_sub(1);
    for live in live.iter().take(head) {
        let segment = &live.segment;
        let sealed = segment.blocks.get(CHECKPOINT_KEY)?;
        let record = sealed.and_then(|sealed| {
            segment.place.unseal(CHECKPOINT_KEY, &sealed).and_then(Record::decode)
        });
        if matches!(record, Some(Record::Checkpoint(_))) {
            segment.retire_checkpoint(stored.generation)?;
        }
    }
    Ok(())
}

/// Reads one listed segment whole, and removes what no checkpoint covers.
fn load_segment(
    segment: Segment,
    listed: &Listed,
    generation: u64,
    filter: Option<Filter>,
    progress: &Progress,
) -> Result<Live, Error> {
    let id = segment.id;
    let mut scan = Scan::new(&segment, generation, filter, progress);
    let mut failed = None;
    let mut step = |key: &[u8], value: &Value| match scan.pair(key, value) {
        Ok(()) => true,
        Err(what) => {
            failed = Some(Error::corrupt(format!("{what} in {id}")));
            false
        }
    };
    segment
        .blocks
        .scan(&mut step)
        .map_err(|source| Error::opening(format!("{id} is not readable"), source))?;
    if let Some(error) = failed {
        return Err(error);
    }
    let (runs, leftovers, filter) =
        scan.finish().map_err(|what| Error::corrupt(format!("{what} in {id}")))?;
    let entries = runs.iter().map(|run| run.entries).sum::<u64>();
    let newest = runs.iter().map(|run| run.generation).max().unwrap_or(0);
    if (entries, newest) != (listed.entries, listed.newest) {
        return Err(Error::corrupt(format!(
            "{id} holds {entries} entries up to checkpoint {newest}, the newest checkpoint knows \
             of {} up to {}",
            listed.entries, listed.newest
        )));
    }
    // Gone before anything new is written, or a later checkpoint would seem to cover them.
    segment.remove(leftovers)?;
    let mut runs: Vec<_> = runs.into_iter().map(Arc::new).collect();
    runs.sort_by_key(|run| std::cmp::Reverse(run.entries));
    Ok(Live { segment: Arc::new(segment), range: listed.range, runs, filter, entries, newest })
}

/// What the pairs of a segment add up to. Keys come in order: run records before blocks.
struct Scan<'a> {
    place: Place,
    generation: u64,
    filter: Option<Filter>,
    progress: &'a Progress,
    header: bool,
    records: BTreeMap<u64, RunRecord>,
    /// The runs that count, once all records are known.
    building: Option<BTreeMap<u64, Building>>,
    leftovers: Vec<Vec<u8>>,
}

#[derive(Default)]
struct Building {
    firsts: Vec<Entry>,
    last: Option<Entry>,
    entries: u64,
    filter: Option<RunFilter>,
}

impl<'a> Scan<'a> {
    fn new(
        segment: &Segment,
        generation: u64,
        filter: Option<Filter>,
        progress: &'a Progress,
    ) -> Self {
        Self {
            place: segment.place,
            generation,
            filter,
            progress,
            header: false,
            records: BTreeMap::new(),
            building: None,
            leftovers: Vec::new(),
        }
    }

    fn pair(&mut self, key: &[u8], sealed: &Value) -> Result<(), &'static str> {
        let value = self.place.unseal(key, sealed).ok_or("a checksum does not match")?;
        match Key::parse(key).ok_or("a key is unknown")? {
            Key::Checkpoint => {}
            Key::Header => self.header = value == HEADER,
            Key::Run(id) => {
                let record = RunRecord::decode(value).ok_or("a run record is malformed")?;
                self.records.insert(id, record);
            }
            Key::Block(run, number) => {
                let block = Block::decode(value).ok_or("a block is malformed")?;
                if self.counting().contains_key(&run) {
                    self.block(run, number, block)?;
                } else {
                    self.leftovers.push(key.to_vec());
                }
            }
        }
        Ok(())
    }

    /// Chooses the runs that count, the first time it is called.
    fn counting(&mut self) -> &mut BTreeMap<u64, Building> {
        let (records, generation) = (&self.records, self.generation);
        let (leftovers, filtered) = (&mut self.leftovers, self.filter.is_some());
        self.building.get_or_insert_with(|| {
            let covered = || records.iter().filter(|(_, record)| record.generation <= generation);
            let replaced: BTreeSet<u64> =
                covered().flat_map(|(_, record)| record.replaces.iter().copied()).collect();
            let counts: BTreeMap<u64, Building> = covered()
                .filter(|(id, _)| !replaced.contains(id))
                .map(|(id, record)| {
                    let filter = filtered.then(|| RunFilter::with_capacity(record.entries));
                    (*id, Building { filter, ..Building::default() })
                })
                .collect();
            let others = records.keys().filter(|id| !counts.contains_key(id));
            leftovers.extend(others.map(|id| Key::run(*id)));
            counts
        })
    }

    fn block(&mut self, run: u64, number: u32, block: Block<'_>) -> Result<(), &'static str> {
        let len = u64::try_from(block.len()).unwrap_or(u64::MAX);
        let building = self.counting().entry(run).or_default();
        if usize::try_from(number) != Ok(building.firsts.len()) {
            return Err("a block is missing");
        }
        let first = block.first().ok_or("a block is empty")?;
        if building.last.is_some_and(|last| last > first) || !block.iter().is_sorted() {
            return Err("entries are out of order");
        }
        building.firsts.push(first);
        building.last = block.last();
        building.entries += len;
        if let Some(filter) = &building.filter {
            block.iter().for_each(|entry| filter.insert(entry.fingerprint));
        }
        if let Some(filter) = &mut self.filter {
            block.iter().for_each(|entry| filter.insert(entry.fingerprint));
        }
        self.progress.advance(len);
        Ok(())
    }

    #[expect(clippy::type_complexity, reason = "three results, each used once")]
    fn finish(mut self) -> Result<(Vec<Run>, Vec<Vec<u8>>, Option<Filter>), &'static str> {
        if !self.header {
            return Err("the header is missing");
        }
        let building = std::mem::take(self.counting());
        let mut runs = Vec::new();
        for (id, Building { firsts, entries, filter, .. }) in building {
            let record = self.records.get(&id).ok_or("a run record is missing")?;
            let whole =
                usize::try_from(record.blocks) == Ok(firsts.len()) && record.entries == entries;
            if !whole {
                return Err("a run is not whole");
            }
            let generation = record.generation;
            runs.push(Run { id, generation, entries, firsts: firsts.into(), filter });
        }
        Ok((runs, self.leftovers, self.filter))
    }
}
