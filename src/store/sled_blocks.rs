//! One segment as one sled database, with what sled leaves out.
//!
//! sled's `flush` starts the write-back of its file and waits for it, and asks neither for the file's
//! metadata nor for the drive's cache, so each batch is followed by an fdatasync of our own. sled may
//! also panic on a file that was damaged: every call into it is guarded.

use std::fs::{self, File};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::error::BUSY;
use super::{Blocks, Change, Durability, Error, MAX_VALUE, Value, files};

/// sled's own page cache, in bytes. Blocks are cached above it, so it holds little more than the
/// leaves being written.
const SLED_CACHE: u64 = 1 << 20;

/// How long a database of this process may take to let go of its file after it was closed.
const CLOSING: Duration = Duration::from_secs(5);

/// A sled database.
#[derive(Debug)]
pub(super) struct SledBlocks {
    db: sled::Db,
    /// Our own handle of sled's file: errors of a write-back are told to each handle once.
    file: File,
    path: PathBuf,
    durability: Arc<dyn Durability>,
    failed: AtomicBool,
}

impl SledBlocks {
    /// Makes an empty database in directory `dir`, which must be there and empty.
    pub(super) fn create(dir: &Path, durability: Arc<dyn Durability>) -> Result<Self, Error> {
        let blocks = Self::start(dir, durability)?;
        let synced = |path: &Path| {
            let file = File::open(path)?;
            blocks.durability.data(&file, path)
        };
        for name in ["conf", "db"] {
            synced(&dir.join(name)).map_err(Error::io("sync", dir.join(name)))?;
        }
        files::sync_dir(dir, &*blocks.durability)?;
        Ok(blocks)
    }

    /// Opens the database in directory `dir`, which must hold one.
    pub(super) fn open(dir: &Path, durability: Arc<dyn Durability>) -> Result<Self, Error> {
        // sled would make a new, empty database where these are missing.
        for name in ["conf", "db"] {
            let path = dir.join(name);
            let found = fs::symlink_metadata(&path);
            if !found.is_ok_and(|meta| meta.is_file() && meta.len() > 0) {
                return Err(Error::Missing { path });
            }
        }
        remove_half_written_snapshots(dir)?;
        Self::start(dir, durability)
    }

    fn start(dir: &Path, durability: Arc<dyn Durability>) -> Result<Self, Error> {
        let db = guarded("open", || open_when_closed(dir))?;
        let path = dir.join("db");
        let file =
            files::open_options().write(true).open(&path).map_err(Error::io("open", &path))?;
        Ok(Self { db, file, path, durability, failed: AtomicBool::new(false) })
    }

    fn alive(&self) -> Result<(), Error> {
        if self.failed.load(Ordering::Acquire) { Err(Error::Poisoned) } else { Ok(()) }
    }

    fn poison<T>(&self, result: Result<T, Error>) -> Result<T, Error> {
        if result.is_err() {
            self.failed.store(true, Ordering::Release);
        }
        result
    }

    fn apply_durably(&self, changes: Vec<Change>) -> Result<(), Error> {
        let count = changes.len();
        let mut batch = sled::Batch::default();
        for Change { key, value } in changes {
            match value {
                Some(value) if value.len() > MAX_VALUE => {
                    return Err(Error::TooLong { len: value.len() });
                }
                Some(value) => batch.insert(key, value),
                None => batch.remove(key),
            }
        }
        guarded("write to", || {
            self.db.apply_batch(batch).map_err(Error::sled("write to", &self.path))?;
            self.db.flush().map(drop).map_err(Error::sled("flush", &self.path))
        })?;
        if !crate::bugs::active("drop-fdatasync") {
            self.durability.data(&self.file, &self.path).map_err(Error::io("sync", &self.path))?;
        }
        self.let_go_of_garbage(count)
    }

    /// Replaced pages are freed by look-ups, a few per call; a writer that never reads would keep
    /// them all in memory.
    fn let_go_of_garbage(&self, count: usize) -> Result<(), Error> {
        guarded("read from", || {
            for _ in 0..count.max(8) {
                self.db.contains_key([]).map_err(Error::sled("read from", &self.path))?;
            }
            Ok(())
        })
    }
}

impl Blocks for SledBlocks {
    fn apply(&self, changes: Vec<Change>) -> Result<(), Error> {
        self.alive()?;
        self.poison(self.apply_durably(changes))
    }

    fn get(&self, key: &[u8]) -> Result<Option<Value>, Error> {
        self.alive()?;
        self.poison(guarded("read from", || {
            let found = self.db.get(key).map_err(Error::sled("read from", &self.path))?;
            Ok(found.map(Value))
        }))
    }

    fn scan(&self, each: &mut dyn FnMut(&[u8], &Value) -> bool) -> Result<(), Error> {
        self.alive()?;
        self.poison(guarded("read from", || {
            for pair in self.db.iter() {
                let (key, value) = pair.map_err(Error::sled("read from", &self.path))?;
                if !each(&key, &Value(value)) {
                    break;
                }
            }
            Ok(())
        }))
    }

    fn bytes(&self) -> u64 {
        self.file.metadata().map_or(0, |meta| meta.len())
    }
}

/// A kill while sled writes its snapshot leaves a torn file that it later takes for the newest
/// one, and then refuses to open. The file is only a short cut: the log has everything.
fn remove_half_written_snapshots(dir: &Path) -> Result<(), Error> {
    for entry in fs::read_dir(dir).map_err(Error::io("list", dir))? {
        let entry = entry.map_err(Error::io("list", dir))?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with("snap.") && name.ends_with(".generating") {
            fs::remove_file(entry.path()).map_err(Error::io("remove", entry.path()))?;
        }
    }
    Ok(())
}

/// Opens the database; waits while an earlier one of this process is still closing.
///
/// No other process can hold it: the state's lock is ours.
fn open_when_closed(dir: &Path) -> Result<sled::Db, Error> {
    let started = Instant::now();
    loop {
        // No periodic flush: it would cost a thread per segment and swallow fsync errors.
        let opened = sled::Config::new()
            .path(dir)
            .cache_capacity(SLED_CACHE)
            .flush_every_ms(None)
            .use_compression(false)
            .open();
        match opened {
            Err(sled::Error::Io(error))
                if error.to_string().contains(BUSY) && started.elapsed() < CLOSING =>
            {
                std::thread::sleep(Duration::from_millis(5));
            }
            opened => return opened.map_err(Error::sled("open", dir)),
        }
    }
}

/// Runs `call` and turns a panic into an error.
pub(crate) fn guarded<T>(
    what: &'static str,
    call: impl FnOnce() -> Result<T, Error>,
) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| {
        let message = panic
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| panic.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "no message".to_owned());
        Err(Error::Panicked { what, message })
    })
}
