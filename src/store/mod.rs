//! Ordered, crash-consistent blocks on a disk: everything that knows sled, files and fsync.
//!
//! What it owns: segment directories (one sled database each), the durability protocol around
//! them, private files, the lock, the layout version. What it does not own: what the blocks mean;
//! that is `seen/`.
//!
//! Two narrow traits are the whole border, so that a test can stand in for the disk and fail or
//! crash at any operation:
//!
//! * `Shelf`: the segments of one source partition, and the generation witness beside them.
//! * `Blocks`: one segment: keys in order, changed in atomic batches that are durable on return.
//!
//! Limits that keep sled safe, both checked by tests:
//!
//! * No value is longer than `MAX_VALUE`. sled writes a leaf (up to 17 values) as one item, and an
//!   item above 128 KiB goes to a file of its own that sled never syncs.
//! * No batch changes more than `MAX_BATCH` blocks. A batch holds a lock that every sled database
//!   of the process shares, so its length is what a look-up may have to wait.

mod disk;
mod durability;
mod error;
mod files;
mod lock;
#[cfg(test)]
pub(crate) mod memory;
mod migrate;
mod sled_blocks;

use std::fmt;
use std::ops::Deref;

pub(crate) use disk::DiskShelf;
pub(crate) use durability::{Disk, Durability};
pub(crate) use error::Error;
pub(crate) use files::{
    create_private_dir, exchange, free_bytes, ignore_file_size_signal, open_options, private_umask,
    read_private, refuse_shared, remove_tree, sync_dir, write_atomically,
};
pub(crate) use lock::{Lock, holder_of};
pub(crate) use migrate::{LAYOUT, Layout, initialise, layout_of};
pub(crate) use sled_blocks::guarded;

/// The longest value a batch may hold, in bytes: 17 of them stay below sled's 128 KiB item limit.
pub(crate) const MAX_VALUE: usize = 7_000;

/// The most changes one batch should hold; more are split by the caller.
///
/// Tests use small ones, so that a crash can fall between the batches of one checkpoint.
pub(crate) const MAX_BATCH: usize = if cfg!(test) { 3 } else { 64 };

/// The name of a segment: a number that is never used twice in one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SegmentId(pub(crate) u64);

impl fmt::Display for SegmentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seg-{:016x}", self.0)
    }
}

/// One key to set (`Some`) or remove (`None`).
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) key: Vec<u8>,
    pub(crate) value: Option<Vec<u8>>,
}

/// A stored value; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Value(sled::IVec);

impl Deref for Value {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl From<Vec<u8>> for Value {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes.into())
    }
}

/// The segments of one source partition.
pub(crate) trait Shelf: Send + Sync + fmt::Debug {
    /// Returns the segments that are there, in no order.
    fn list(&self) -> Result<Vec<SegmentId>, Error>;

    /// Makes an empty segment. Its existence is durable on return.
    fn create(&self, id: SegmentId) -> Result<Box<dyn Blocks>, Error>;

    /// Opens a segment that is there.
    fn open(&self, id: SegmentId) -> Result<Box<dyn Blocks>, Error>;

    /// Removes a segment, all of it or none of it; its blocks must be closed.
    fn remove(&self, id: SegmentId) -> Result<(), Error>;

    /// Returns the highest generation that is known to have been durable.
    fn witness(&self) -> Result<u64, Error>;

    /// Notes that `generation` is durable. The note itself may be lost in a power cut.
    fn set_witness(&self, generation: u64) -> Result<(), Error>;
}

/// The blocks of one segment.
pub(crate) trait Blocks: Send + Sync + fmt::Debug {
    /// Applies all changes or none.
    ///
    /// # Durability
    /// On return they survive a power cut. After an error every later call fails: what is on the
    /// disk is then unknown, and an fsync must not be tried twice.
    fn apply(&self, changes: Vec<Change>) -> Result<(), Error>;

    /// Returns the value of `key`.
    fn get(&self, key: &[u8]) -> Result<Option<Value>, Error>;

    /// Calls `each` with every pair in key order until it returns false.
    fn scan(&self, each: &mut dyn FnMut(&[u8], &Value) -> bool) -> Result<(), Error>;

    /// Returns how many bytes it takes on the disk.
    fn bytes(&self) -> u64;
}
