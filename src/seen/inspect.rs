//! Looking into a seen-set: its segments, its runs, its entries. For people and commands; the flow
//! of records never comes here.

use std::path::Path;
use std::sync::Arc;

use super::block::Block;
use super::dir::NAME;
use super::snapshot::{Live, Snapshot};
use super::{Error, Identity, Opened, Options, Seen, StateDir, Stats};
use crate::key::Fingerprint;
use crate::store;
use crate::words::{Checkpoint, Timestamp};

/// How often a scan is begun again because runs were merged under it.
const ATTEMPTS: usize = 5;

/// A seen-set at one moment.
#[derive(Clone, Debug)]
pub struct Report {
    /// The newest durable checkpoint; none before the first.
    pub checkpoint: Option<Checkpoint>,
    /// Its number in the life of the state.
    pub generation: u64,
    /// Below this time nothing is remembered; [`Timestamp::MIN`] if nothing was ever forgotten.
    pub floor: Timestamp,
    /// The figures of all segments together.
    pub stats: Stats,
    /// The segments, in order of time.
    pub segments: Vec<SegmentReport>,
}

/// One time segment.
#[derive(Clone, Debug)]
pub struct SegmentReport {
    /// Its name on disk.
    pub name: String,
    /// The first time that belongs to it.
    pub first: Timestamp,
    /// The last time that belongs to it.
    pub last: Timestamp,
    /// Entries.
    pub entries: u64,
    /// Bytes on disk.
    pub bytes_on_disk: u64,
    /// Bytes of memory its filters take.
    pub filter_bytes: u64,
    /// Whether its filter found room in memory.
    pub has_filter: bool,
    /// Its runs, the largest first.
    pub runs: Vec<RunReport>,
}

/// One sorted run of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunReport {
    /// Its number in the segment.
    pub id: u64,
    /// The newest checkpoint that is in it.
    pub generation: u64,
    /// Entries.
    pub entries: u64,
    /// Blocks.
    pub blocks: usize,
}

/// One occurrence, and where it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryView {
    /// The hash of the key.
    pub fingerprint: Fingerprint,
    /// When it occurred.
    pub at: Timestamp,
    /// The position of its segment in [`Report::segments`].
    pub segment: usize,
    /// The run it is in.
    pub run: u64,
}

impl StateDir {
    /// Returns the identity of every partition that has a state here, in order of topic and
    /// partition.
    ///
    /// # Errors
    /// The directory cannot be read, or a partition's NAME is missing or damaged.
    pub fn identities(&self) -> Result<Vec<Identity>, Error> {
        let mut identities = Vec::new();
        for (path, identity) in self.list()? {
            let damaged = || Error::corrupt(format!("`{}` is damaged", path.join(NAME).display()));
            identities.push(identity.ok_or_else(damaged)?);
        }
        identities.sort_by(|a, b| a.source.cmp(&b.source));
        Ok(identities)
    }

    /// Removes the partition in directory `path`, as [`StateDir::list`] names it, whole or not at all.
    ///
    /// # Errors
    /// The file system's.
    pub fn remove_listed(&self, path: &Path) -> Result<(), Error> {
        self.remove_dir(path)
    }
}

impl Seen {
    /// Opens the seen-set of `identity`, which must be there. Damage is an error here, and the
    /// state stays where it is.
    ///
    /// # Errors
    /// As for [`Seen::open`], and [`Error::Corrupt`].
    pub fn open_existing(
        dir: &StateDir,
        identity: &Identity,
        options: &Options,
    ) -> Result<Opened, Error> {
        let path = dir.partition_dir(&identity.source);
        let name = path.join(NAME);
        let there = name.try_exists().map_err(store::Error::io("inspect", &name))?;
        if !there {
            return Err(Error::corrupt("NAME is missing"));
        }
        Self::open_found(dir, &path, identity, options)
    }

    /// Returns what is there.
    pub fn report(&self) -> Report {
        let (checkpoint, generation) = {
            let writer = self.writing();
            (writer.checkpoint.clone(), writer.generation)
        };
        let snapshot = self.snapshot();
        Report {
            checkpoint,
            generation,
            floor: snapshot.floor,
            stats: snapshot.stats(),
            segments: snapshot.live.iter().map(segment_report).collect(),
        }
    }

    /// Says that nothing from before `floor` is known, as after reading back a part of the output.
    /// Durable with the next checkpoint.
    ///
    /// # Errors
    /// [`Error::Poisoned`] after an earlier failure.
    pub fn forget_below(&self, floor: Timestamp) -> Result<(), Error> {
        self.change(|_| {
            let mut draft: Snapshot = (*self.snapshot()).clone();
            draft.floor = draft.floor.max(floor);
            self.publish(draft);
            Ok(())
        })
    }

    /// Calls `each` with every entry, segment by segment in order of time, until it returns false.
    ///
    /// # Errors
    /// The store failed or is damaged, or its runs are merged faster than they can be read.
    pub fn each_entry(&self, each: &mut dyn FnMut(EntryView) -> bool) -> Result<(), Error> {
        let snapshot = self.snapshot();
        for (index, live) in snapshot.live.iter().enumerate() {
            match self.scan(live, index, each)? {
                Scanned::All => {}
                Scanned::Enough => return Ok(()),
                Scanned::Gone => return Err(Error::corrupt("a block is missing")),
            }
        }
        Ok(())
    }

    /// Returns the oldest and the newest time among the entries; none where there are none.
    ///
    /// Reads the first and the last segment that hold any.
    ///
    /// # Errors
    /// The store failed or is damaged.
    pub fn time_bounds(&self) -> Result<Option<(Timestamp, Timestamp)>, Error> {
        for _ in 0..ATTEMPTS {
            if let Some(bounds) = self.try_time_bounds()? {
                return Ok(bounds);
            }
        }
        Err(Error::corrupt("runs are merged faster than they can be read"))
    }

    #[expect(clippy::option_option, reason = "outer: was it read; inner: is there any entry")]
    fn try_time_bounds(&self) -> Result<Option<Option<(Timestamp, Timestamp)>>, Error> {
        let snapshot = self.snapshot();
        let filled = || snapshot.live.iter().filter(|live| live.entries > 0);
        let (Some(first), Some(last)) = (filled().next(), filled().next_back()) else {
            return Ok(Some(None));
        };
        let mut bounds: Option<(Timestamp, Timestamp)> = None;
        let mut widen = |entry: EntryView| {
            let (oldest, newest) = bounds.unwrap_or((entry.at, entry.at));
            bounds = Some((oldest.min(entry.at), newest.max(entry.at)));
            true
        };
        let mut ends = vec![first];
        if first.segment.id != last.segment.id {
            ends.push(last);
        }
        for live in ends {
            if matches!(self.scan(live, 0, &mut widen)?, Scanned::Gone) {
                return Ok(None);
            }
        }
        Ok(Some(bounds))
    }

    /// Merges some runs of one segment, beyond what the size of runs alone asks for. Returns
    /// whether there was anything to merge: call it until there is not.
    ///
    /// Checkpoints wait meanwhile, for as long as one merge takes.
    ///
    /// # Errors
    /// As for [`Seen::write`].
    pub fn compact_step(&self) -> Result<bool, Error> {
        self.change(|_| {
            let ids: Vec<_> = self.snapshot().live.iter().map(|live| live.segment.id).collect();
            for id in ids {
                if self.merge_all(id)? {
                    return Ok(true);
                }
            }
            Ok(false)
        })
    }

    fn scan(
        &self,
        live: &Live,
        segment: usize,
        each: &mut dyn FnMut(EntryView) -> bool,
    ) -> Result<Scanned, Error> {
        self.alive()?;
        for run in &live.runs {
            for number in (0_u32..).take(run.firsts.len()) {
                let Some(bytes) = live.segment.read_block(run.id, number)? else {
                    return Ok(Scanned::Gone);
                };
                let block =
                    Block::decode(&bytes).ok_or_else(|| Error::corrupt("a block is malformed"))?;
                for entry in block.iter() {
                    let fingerprint = Fingerprint(entry.fingerprint);
                    let at = Timestamp(entry.at);
                    if !each(EntryView { fingerprint, at, segment, run: run.id }) {
                        return Ok(Scanned::Enough);
                    }
                }
            }
        }
        Ok(Scanned::All)
    }
}

enum Scanned {
    All,
    /// The caller wants no more.
    Enough,
    /// A run was merged into another since the snapshot was taken.
    Gone,
}

fn segment_report(live: &Live) -> SegmentReport {
    let run = |run: &Arc<super::snapshot::Run>| RunReport {
        id: run.id,
        generation: run.generation,
        entries: run.entries,
        blocks: run.firsts.len(),
    };
    SegmentReport {
        name: live.segment.id.to_string(),
        first: Timestamp(live.range.first),
        last: Timestamp(live.range.last),
        entries: live.entries,
        bytes_on_disk: live.segment.blocks.bytes(),
        filter_bytes: live.filter_bytes(),
        has_filter: live.filter.is_some(),
        runs: live.runs.iter().map(run).collect(),
    }
}
