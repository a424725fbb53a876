//! Opening the seen-set of one source partition, and what to do with a damaged one.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use super::cache::Caches;
use super::dir::NAME;
use super::load::{Loaded, load};
use super::{Error, Identity, Options, Seen, StateDir};
use crate::store::{self, DiskShelf, Lock, Shelf};
use crate::words::Checkpoint;

/// More time to open for each gigabyte on disk: the store reads its log at 4 to 7 s a gigabyte.
const OPEN_PER_GIGABYTE: Duration = Duration::from_secs(20);

/// An open seen-set, and what was in it.
#[derive(Debug)]
pub struct Opened {
    /// The seen-set.
    pub seen: Seen,
    /// What was found.
    pub found: Found,
}

/// What was found where the state should be.
#[derive(Debug)]
pub enum Found {
    /// The newest checkpoint, and all that belongs to it.
    Checkpoint(Checkpoint),
    /// Nothing: this partition has never had a durable checkpoint here.
    Nothing,
    /// A state that cannot be trusted. It was set aside whole, and the seen-set is empty; whether to
    /// rebuild it, stop or go on is for the caller to decide.
    Damaged {
        /// What is wrong with it.
        why: Error,
        /// Where it is now.
        set_aside: PathBuf,
    },
}

impl Seen {
    /// Opens the seen-set of `identity` in `dir`.
    ///
    /// # Errors
    /// The state belongs to something else or was made by another rule; or the surroundings failed (no
    /// space, no permission, too many open files). Damage is no error: see [`Found::Damaged`].
    pub fn open(dir: &StateDir, identity: &Identity, options: &Options) -> Result<Opened, Error> {
        let path = dir.partition_dir(&identity.source);
        let why = match Self::open_found(dir, &path, identity, options) {
            Err(error) if error.is_damage() => error,
            opened => return opened,
        };
        let set_aside = dir.set_aside_dir(&path)?;
        let Opened { seen, .. } = Self::open_found(dir, &path, identity, options)?;
        if crate::bugs::active("corrupt-as-empty") {
            return Ok(Opened { seen, found: Found::Nothing });
        }
        Ok(Opened { seen, found: Found::Damaged { why, set_aside } })
    }

    pub(super) fn open_found(
        dir: &StateDir,
        path: &Path,
        identity: &Identity,
        options: &Options,
    ) -> Result<Opened, Error> {
        prepare(dir, path, identity)?;
        let shelf = DiskShelf::new(path.to_owned(), Arc::clone(&dir.durability))?;
        let name = Identity::directory_name(&identity.source);
        let limit = open_limit(path, options.open_limit);
        let (options, lock) = (options.clone(), Arc::clone(&dir.lock));
        within(limit, move || Self::open_on(Box::new(shelf), name, &options, Some(lock)))
    }

    /// Opens what is on `shelf`.
    pub(super) fn open_on(
        shelf: Box<dyn Shelf>,
        name: String,
        options: &Options,
        lock: Option<Arc<Lock>>,
    ) -> Result<Opened, Error> {
        let filter_max_bytes = options.memory_bytes / 4 * 3;
        let Loaded { snapshot, writer } =
            load(&*shelf, &name, filter_max_bytes, &options.progress)?;
        let found = writer.checkpoint.clone().map_or(Found::Nothing, Found::Checkpoint);
        let seen = Self {
            snapshot: RwLock::new(Arc::new(snapshot)),
            writer: Mutex::new(writer),
            shelf,
            name,
            segment_len: options.segment,
            filter_max_bytes,
            caches: Caches::new(options.memory_bytes / 4),
            failed: AtomicBool::new(false),
            _lock: lock,
        };
        Ok(Opened { seen, found })
    }
}

/// Makes the partition's directory, or checks that the one there is this partition's.
///
/// NAME is written last, so where it is, all of the rest was made.
fn prepare(dir: &StateDir, path: &Path, identity: &Identity) -> Result<(), Error> {
    let durability = &*dir.durability;
    let name = path.join(NAME);
    let damaged = |source| Error::opening("NAME is not readable", source);
    if let Some(bytes) = store::read_private(&name).map_err(damaged)? {
        let stored = Identity::decode(&bytes).ok_or_else(|| Error::corrupt("NAME is damaged"))?;
        if let Some(why) = store::refuse_shared(path, true)? {
            return Err(Error::Permissions { path: path.to_owned(), why });
        }
        return identity.accept(&stored);
    }
    store::create_private_dir(path, durability)?;
    if DiskShelf::has_segments(path)? {
        return Err(Error::corrupt("NAME is missing"));
    }
    DiskShelf::initialise(path, durability)?;
    Ok(store::write_atomically(&name, &identity.encode(), durability)?)
}

pub(super) fn open_limit(path: &Path, base: Duration) -> Duration {
    let gigabytes = u32::try_from(bytes_below(path, 3) >> 30).unwrap_or(u32::MAX);
    base.saturating_add(OPEN_PER_GIGABYTE.saturating_mul(gigabytes))
}

/// An estimate for a time limit: what cannot be read counts nothing.
fn bytes_below(path: &Path, depth: u32) -> u64 {
    let Ok(entries) = std::fs::read_dir(path) else { return 0 };
    let bytes = entries.flatten().filter_map(|entry| {
        let meta = entry.metadata().ok()?;
        let deeper = meta.is_dir() && depth > 0;
        Some(if deeper { bytes_below(&entry.path(), depth - 1) } else { meta.len() })
    });
    bytes.sum()
}

/// Runs `open` on a thread of its own: a damaged store may panic, or never come back.
///
/// One that never comes back keeps its thread; the directory it works on will have been set aside.
pub(super) fn within<T: Send + 'static>(
    limit: Duration,
    open: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let (done, wait) = crossbeam_channel::bounded(1);
    let run = move || {
        // The outer result is the panic's; nobody listens any more once time is up.
        drop(done.send(store::guarded("open", || Ok(open()))));
    };
    std::thread::Builder::new()
        .name("state-open".to_owned())
        .spawn(run)
        .map_err(store::Error::io("start a thread to open", PathBuf::new()))?;
    match wait.recv_timeout(limit) {
        Ok(Ok(opened)) => opened,
        Ok(Err(panicked)) => Err(Error::opening("the store does not open", panicked)),
        Err(_) => {
            let source = store::Error::TimedOut { limit };
            Err(Error::opening("the store does not open", source))
        }
    }
}
