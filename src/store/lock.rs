//! One process at a time: a lock the kernel drops when its holder dies.

use std::fs::{File, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

use super::{Error, files};

/// The held lock; dropping it lets go.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock at `path`.
    ///
    /// Returns the holder's process id as far as it can be read where another process has it.
    pub(crate) fn take(path: &Path) -> Result<Result<Self, Option<u32>>, Error> {
        let mut file = files::open_options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(Error::io("open", path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(Err(holder(&mut file))),
            Err(TryLockError::Error(error)) => return Err(Error::io("lock", path)(error)),
        }
        // The pid is a courtesy to whoever is refused; it is never trusted.
        let note = |file: &mut File| {
            file.set_len(0)?;
            file.seek(SeekFrom::Start(0))?;
            writeln!(file, "{}", std::process::id())
        };
        note(&mut file).map_err(Error::io("write", path))?;
        Ok(Ok(Self { _file: file }))
    }
}

/// Returns whether a process holds the lock at `path`, and its id as far as it can be read. The
/// lock is not taken for longer than the look, and not made where it is not there.
pub(crate) fn holder_of(path: &Path) -> Result<Option<Option<u32>>, Error> {
    let mut file = match files::open_options().read(true).open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(Error::io("open", path))?,
    };
    match file.try_lock_shared() {
        Ok(()) => Ok(None),
        Err(TryLockError::WouldBlock) => Ok(Some(holder(&mut file))),
        Err(TryLockError::Error(error)) => Err(Error::io("lock", path)(error)),
    }
}

fn holder(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}
