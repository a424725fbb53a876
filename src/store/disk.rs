//! The segments of one source partition as directories.
//!
//! A segment that is being removed is renamed first, so that a crash never leaves a directory that
//! looks like a segment and is not a whole one. One that was being made when the process died has
//! no header; who opens the partition removes it.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::sled_blocks::SledBlocks;
use super::{Blocks, Durability, Error, SegmentId, Shelf, files};

const WITNESS: &str = "GENERATION";
const WITNESS_SEED: u64 = 0x67656e_65726174;
const SEGMENT_PREFIX: &str = "seg-";
const DEAD_PREFIX: &str = "dead-";

/// A partition's directory.
#[derive(Debug)]
pub(crate) struct DiskShelf {
    dir: PathBuf,
    durability: Arc<dyn Durability>,
}

impl DiskShelf {
    /// Writes the witness of an empty partition into directory `dir`.
    pub(crate) fn initialise(dir: &Path, durability: &dyn Durability) -> Result<(), Error> {
        files::write_atomically(&dir.join(WITNESS), &witness_bytes(0), durability)
    }

    /// Takes directory `dir` as it is, and finishes removals that a crash cut short.
    pub(crate) fn new(dir: PathBuf, durability: Arc<dyn Durability>) -> Result<Self, Error> {
        for (name, path) in entries(&dir)? {
            if name.starts_with(DEAD_PREFIX) {
                files::remove_tree(&path)?;
            }
        }
        Ok(Self { dir, durability })
    }

    /// Returns whether directory `dir` holds anything that looks like a segment.
    pub(crate) fn has_segments(dir: &Path) -> Result<bool, Error> {
        Ok(entries(dir)?.iter().any(|(name, _)| name.starts_with(SEGMENT_PREFIX)))
    }

    fn path(&self, id: SegmentId) -> PathBuf {
        self.dir.join(id.to_string())
    }
}

impl Shelf for DiskShelf {
    fn list(&self) -> Result<Vec<SegmentId>, Error> {
        let found = entries(&self.dir)?;
        Ok(found.iter().filter_map(|(name, _)| segment_id(name)).collect())
    }

    fn create(&self, id: SegmentId) -> Result<Box<dyn Blocks>, Error> {
        let path = self.path(id);
        files::create_private_dir(&path, &*self.durability)?;
        Ok(Box::new(SledBlocks::create(&path, Arc::clone(&self.durability))?))
    }

    fn open(&self, id: SegmentId) -> Result<Box<dyn Blocks>, Error> {
        let path = self.path(id);
        let meta = fs::symlink_metadata(&path).map_err(Error::io("inspect", &path))?;
        if !meta.is_dir() {
            return Err(Error::Missing { path });
        }
        Ok(Box::new(SledBlocks::open(&path, Arc::clone(&self.durability))?))
    }

    fn remove(&self, id: SegmentId) -> Result<(), Error> {
        let path = self.path(id);
        let dead = self.dir.join(format!("{DEAD_PREFIX}{:016x}", id.0));
        fs::rename(&path, &dead).map_err(Error::io("rename", &path))?;
        files::sync_dir(&self.dir, &*self.durability)?;
        files::remove_tree(&dead)
    }

    fn witness(&self) -> Result<u64, Error> {
        let path = self.dir.join(WITNESS);
        let bytes =
            files::read_private(&path)?.ok_or_else(|| Error::Missing { path: path.clone() })?;
        let number: Option<[u8; 8]> = bytes.first_chunk().copied();
        number
            .map(u64::from_be_bytes)
            .filter(|number| witness_bytes(*number) == bytes.as_slice())
            .ok_or(Error::Checksum { path })
    }

    fn set_witness(&self, generation: u64) -> Result<(), Error> {
        // Not synced on purpose: it may lag behind the state after a power cut, never lead it.
        let path = self.dir.join(WITNESS);
        let write = || {
            let file: File = files::open_options().write(true).open(&path)?;
            file.write_all_at(&witness_bytes(generation), 0)
        };
        write().map_err(Error::io("write", &path))
    }
}

fn witness_bytes(generation: u64) -> [u8; 16] {
    let number = generation.to_be_bytes();
    let mut bytes = [0; 16];
    let (front, back) = bytes.split_at_mut(8);
    front.copy_from_slice(&number);
    back.copy_from_slice(&xxh3_64_with_seed(&number, WITNESS_SEED).to_be_bytes());
    bytes
}

fn segment_id(name: &str) -> Option<SegmentId> {
    let digits = name.strip_prefix(SEGMENT_PREFIX).filter(|digits| digits.len() == 16)?;
    u64::from_str_radix(digits, 16).ok().map(SegmentId)
}

fn entries(dir: &Path) -> Result<Vec<(String, PathBuf)>, Error> {
    let list = || -> io::Result<Vec<_>> {
        fs::read_dir(dir)?
            .map(|entry| {
                let entry = entry?;
                Ok((entry.file_name().to_string_lossy().into_owned(), entry.path()))
            })
            .collect()
    };
    list().map_err(Error::io("list", dir))
}
