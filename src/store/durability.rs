//! What makes bytes survive a power cut, behind a trait so that a test can count it or fail it.

use std::fmt;
use std::fs::File;
use std::io;
use std::path::Path;

/// The two calls that make bytes durable.
pub(crate) trait Durability: Send + Sync + fmt::Debug {
    /// Makes what was written to `file` (at `path`) durable: data, and what is needed to read it.
    fn data(&self, file: &File, path: &Path) -> io::Result<()>;

    /// Makes the names in directory `path` durable.
    fn dir(&self, path: &Path) -> io::Result<()>;
}

/// The real disk.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Disk;

impl Durability for Disk {
    fn data(&self, file: &File, _path: &Path) -> io::Result<()> {
        file.sync_data()
    }

    fn dir(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }
}
