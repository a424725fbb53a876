//! Moving states between machines, and writing a partition's state anew.
//!
//! An export is one file: magic and version, then frames, each with a checksum (see `frame`):
//! a header, the secret, for each partition its identity and checkpoint, its entries and an end that
//! counts them, and an end that counts the partitions. It does not depend on the layout of the state
//! directory, so builds with different layouts can exchange states. `docs/state.md` has the format.

mod error;
mod export;
mod frame;
mod head;
mod import;
mod rewrite;

pub use error::TransferError;
pub use export::{Exported, export};
pub use head::Header;
pub use import::{Imported, import, read_header};
pub use rewrite::Rewritten;

use super::block::Entry;
use super::codec::Reader;
use super::{Batch, EntryView, Error, Seen};
use crate::key::Fingerprint;
use crate::words::{Checkpoint, Timestamp};

/// How many entries are written to a state at a time. Tests use few.
const BATCH: usize = if cfg!(test) { 7 } else { 256 * 1024 };

/// How many entries a frame holds.
const FRAME_ENTRIES: usize = if cfg!(test) { 4 } else { 64 * 1024 };

/// Bytes an entry takes in a frame: fingerprint and time.
const ENTRY: usize = 24;

fn put_entry(out: &mut Vec<u8>, entry: EntryView) {
    out.extend_from_slice(&entry.fingerprint.0.to_be_bytes());
    out.extend_from_slice(&entry.at.0.to_be_bytes());
}

/// Reads the entries of a frame; `None` where its length is not right.
fn take_entries(payload: &[u8]) -> Option<impl Iterator<Item = Entry>> {
    let (entries, rest) = payload.as_chunks::<ENTRY>();
    rest.is_empty().then(|| {
        entries.iter().filter_map(|bytes| {
            let mut reader = Reader(bytes);
            Some(Entry { fingerprint: reader.u128()?, at: reader.i64()? })
        })
    })
}

/// Fills an empty seen-set, batch by batch.
struct Filling<'a> {
    seen: &'a Seen,
    checkpoint: Checkpoint,
    batch: Vec<(Fingerprint, Timestamp)>,
    written: u64,
}

impl<'a> Filling<'a> {
    fn begin(seen: &'a Seen, checkpoint: Checkpoint, floor: Timestamp) -> Result<Self, Error> {
        seen.forget_below(floor)?;
        Ok(Self { seen, checkpoint, batch: Vec::new(), written: 0 })
    }

    fn add(&mut self, fingerprint: Fingerprint, at: Timestamp) -> Result<(), Error> {
        self.batch.push((fingerprint, at));
        if self.batch.len() >= BATCH { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<(), Error> {
        let entries = std::mem::take(&mut self.batch);
        self.written += u64::try_from(entries.len()).unwrap_or(u64::MAX);
        let checkpoint = self.checkpoint.clone();
        self.seen.write(Batch { entries, checkpoint }).map(drop)
    }

    /// Writes what is left, and the checkpoint in any case. Returns how many entries there were.
    fn end(mut self) -> Result<u64, Error> {
        self.write()?;
        while self.seen.compact_step()? {}
        Ok(self.written)
    }
}
