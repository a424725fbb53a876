//! The state directory: locked, private, of a known layout, with the secret in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::codec::{seal_file, unseal_file};
use super::error::Failure;
use super::{Error, Identity};
use crate::key::Secret;
use crate::store::{self, Disk, Durability, LAYOUT, Layout, Lock};
use crate::words::{SourcePartition, WallClock};

const LOCK: &str = "LOCK";
const SECRET: &str = "secret";
const DELIVERY: &str = "DELIVERY";
const PARTITIONS: &str = "partitions";
pub(super) const NAME: &str = "NAME";

/// An open state directory. The lock is held until this and every seen-set opened from it are gone.
#[derive(Clone, Debug)]
pub struct StateDir {
    dir: PathBuf,
    secret: Secret,
    pub(super) lock: Arc<Lock>,
    pub(super) durability: Arc<dyn Durability>,
}

impl StateDir {
    /// Opens the state directory at `dir`; makes it where there is none.
    ///
    /// From here on every file this process makes is private to its user (umask 077).
    ///
    /// # Errors
    /// [`Error::Newer`] and [`Error::Locked`] leave everything untouched. A directory that others may
    /// write is refused, and so is one that lost its version or secret.
    pub fn open(dir: &Path) -> Result<Self, Error> {
        Self::open_on(dir, Arc::new(Disk))
    }

    pub(super) fn open_on(dir: &Path, durability: Arc<dyn Durability>) -> Result<Self, Error> {
        let unwritable = |source| unwritable(dir, source);
        if dir.try_exists().is_ok_and(|there| there) {
            refuse_newer(dir, store::layout_of(dir).map_err(unwritable)?)?;
        }
        store::private_umask();
        make_dir(dir, &*durability).map_err(unwritable)?;
        // The directory itself may be a link the user made; nothing below it may.
        let real =
            fs::canonicalize(dir).map_err(store::Error::io("resolve", dir)).map_err(unwritable)?;
        refuse_shared(&real, true)?;
        let lock = Lock::take(&real.join(LOCK))
            .map_err(unwritable)?
            .map_err(|holder| Error::Locked { dir: dir.to_owned(), holder })?;
        let layout = store::layout_of(&real).map_err(unwritable)?;
        refuse_newer(dir, layout)?;
        let secret = prepare(&real, layout, &*durability)?;
        Ok(Self { dir: real, secret, lock: Arc::new(lock), durability })
    }

    /// Returns the secret that keys the fingerprints of this state.
    pub fn secret(&self) -> &Secret {
        &self.secret
    }

    /// Returns the directory's path, with symbolic links resolved.
    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// Returns where the state of `source` is, or would be.
    pub fn partition_dir(&self, source: &SourcePartition) -> PathBuf {
        self.dir.join(PARTITIONS).join(Identity::directory_name(source))
    }

    /// Returns the directory and identity of every partition that has a state; no identity where it
    /// cannot be read.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn list(&self) -> Result<Vec<(PathBuf, Option<Identity>)>, Error> {
        let dir = self.dir.join(PARTITIONS);
        let io = |source| Error::from(store::Error::io("list", &dir)(source));
        let mut found = Vec::new();
        for entry in fs::read_dir(&dir).map_err(io)? {
            let path = entry.map_err(io)?.path();
            let name = store::read_private(&path.join(NAME)).ok().flatten();
            found.push((path, name.as_deref().and_then(Identity::decode)));
        }
        found.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(found)
    }

    /// Returns what was last kept by [`StateDir::keep_delivery`]; `None` where nothing was, or it
    /// cannot be read.
    ///
    /// # Errors
    /// The file system's.
    pub fn delivery(&self) -> Result<Option<String>, Error> {
        let bytes = store::read_private(&self.dir.join(DELIVERY))?;
        let text = bytes.as_deref().and_then(unseal_file).map(<[u8]>::to_vec);
        Ok(text.and_then(|text| String::from_utf8(text).ok()))
    }

    /// Keeps how records are delivered, durably.
    ///
    /// # Errors
    /// The file system's.
    pub fn keep_delivery(&self, text: &str) -> Result<(), Error> {
        let sealed = seal_file(text.as_bytes().to_vec());
        Ok(store::write_atomically(&self.dir.join(DELIVERY), &sealed, &*self.durability)?)
    }

    /// Returns how many bytes may still be written below the directory.
    ///
    /// # Errors
    /// The file system does not tell.
    pub fn free_bytes(&self) -> Result<u64, Error> {
        Ok(store::free_bytes(&self.dir)?)
    }

    /// Returns why `dir` would be refused as not this user's alone or as of a newer build, if so,
    /// without opening it.
    ///
    /// # Errors
    /// Words about why it cannot be looked at.
    pub fn why_shared(dir: &Path) -> Result<Option<String>, String> {
        let words = |error: &dyn std::error::Error| match error.source() {
            Some(cause) => format!("{error}: {cause}"),
            None => error.to_string(),
        };
        let layout = store::layout_of(dir).map_err(|error| words(&error))?;
        if let Err(error) = refuse_newer(dir, layout) {
            return Ok(Some(error.to_string()));
        }
        let real = fs::canonicalize(dir).map_err(|error| words(&error))?;
        store::refuse_shared(&real, true).map_err(|error| words(&error))
    }

    /// Returns whether a process holds the state at `dir`, with its id where it left one.
    ///
    /// # Errors
    /// Words about why it cannot be looked at.
    pub fn holder(dir: &Path) -> Result<Option<Option<u32>>, String> {
        store::holder_of(&dir.join(LOCK)).map_err(|error| error.to_string())
    }

    /// Returns how many bytes may still be written where `dir` is.
    ///
    /// # Errors
    /// Words about why the file system does not tell.
    pub fn free_bytes_at(dir: &Path) -> Result<u64, String> {
        store::free_bytes(dir).map_err(|error| error.to_string())
    }

    /// Moves the state of a partition out of the way, whole, and returns where to. Nobody may
    /// have it open.
    ///
    /// # Errors
    /// The file system's.
    pub fn set_aside(&self, source: &SourcePartition) -> Result<PathBuf, Error> {
        self.set_aside_dir(&self.partition_dir(source))
    }

    /// Moves a damaged partition out of the way, whole, and returns where to.
    pub(super) fn set_aside_dir(&self, partition: &Path) -> Result<PathBuf, Error> {
        let now = std::time::UNIX_EPOCH
            + std::time::Duration::from_millis(WallClock::system().now().0.unsigned_abs());
        let now = humantime::format_rfc3339_seconds(now).to_string().replace(['-', ':'], "");
        for n in 0_u32.. {
            let target = self.dir.join(format!("quarantine-{now}-{n}"));
            let taken = target
                .try_exists()
                .map_err(store::Error::io("inspect", &target))
                .map_err(Error::from)?;
            if !taken {
                fs::rename(partition, &target).map_err(store::Error::io("set aside", partition))?;
                store::sync_dir(&self.dir, &*self.durability)?;
                store::sync_dir(&self.dir.join(PARTITIONS), &*self.durability)?;
                return Ok(target);
            }
        }
        Err(Error::corrupt(format!("every quarantine name in `{}` is taken", self.dir.display())))
    }
}

/// Makes a write that exceeds the process's file size limit fail as a full disk does, instead of
/// ending the process. Call it once, early in `main`.
///
/// # Errors
/// The signal handler cannot be set.
pub fn ignore_file_size_signal() -> std::io::Result<()> {
    store::ignore_file_size_signal()
}

fn unwritable(dir: &Path, source: store::Error) -> Error {
    if source.is_no_space() {
        return source.into();
    }
    Error::Unwritable { dir: dir.to_owned(), source: Failure(source) }
}

fn make_dir(dir: &Path, durability: &dyn Durability) -> Result<(), store::Error> {
    if let Some(parent) = dir.parent() {
        fs::create_dir_all(parent).map_err(store::Error::io("create directory", parent))?;
    }
    if dir.is_dir() {
        return Ok(());
    }
    store::create_private_dir(dir, durability)
}

fn refuse_newer(dir: &Path, layout: Layout) -> Result<(), Error> {
    match layout {
        Layout::Version(found) if found > LAYOUT => {
            Err(Error::Newer { dir: dir.to_owned(), found, known: LAYOUT })
        }
        _ => Ok(()),
    }
}

fn refuse_shared(path: &Path, readable: bool) -> Result<(), Error> {
    let why = store::refuse_shared(path, readable)
        .map_err(|source| Error::Unwritable { dir: path.to_owned(), source: Failure(source) })?;
    why.map_or(Ok(()), |why| Err(Error::Permissions { path: path.to_owned(), why }))
}

/// Brings the directory to the present layout and returns its secret.
fn prepare(dir: &Path, layout: Layout, durability: &dyn Durability) -> Result<Secret, Error> {
    let damaged = |file, how| Error::corrupt(format!("`{}` {how}", dir.join(file).display()));
    let from = match layout {
        Layout::Damaged => return Err(damaged("FORMAT", "is not readable")),
        Layout::Version(version) => version,
        Layout::Absent if has_partitions(dir)? => return Err(damaged("FORMAT", "is missing")),
        Layout::Absent => 0,
    };
    let secret = read_secret(dir)?;
    let secret = match secret {
        Some(secret) => secret,
        // A new one would make every stored fingerprint meaningless.
        None if has_partitions(dir)? => return Err(damaged(SECRET, "is missing")),
        None => write_secret(dir, durability)?,
    };
    store::initialise(dir, from, durability).map_err(|source| unwritable(dir, source))?;
    refuse_shared(&dir.join(PARTITIONS), true)?;
    Ok(secret)
}

fn has_partitions(dir: &Path) -> Result<bool, Error> {
    match fs::read_dir(dir.join(PARTITIONS)) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(store::Error::io("list", dir.join(PARTITIONS))(error).into()),
        Ok(mut entries) => Ok(entries.next().is_some()),
    }
}

fn read_secret(dir: &Path) -> Result<Option<Secret>, Error> {
    let path = dir.join(SECRET);
    let bytes = store::read_private(&path).map_err(|source| {
        Error::opening(format!("`{}` is not readable", path.display()), source)
    })?;
    let Some(bytes) = bytes else { return Ok(None) };
    refuse_shared(&path, false)?;
    let secret: Option<[u8; Secret::LEN]> =
        unseal_file(&bytes).and_then(|content| content.try_into().ok());
    let secret = secret.ok_or_else(|| {
        Error::corrupt(format!("the checksum of `{}` does not match", path.display()))
    })?;
    Ok(Some(Secret::from_bytes(secret)))
}

fn write_secret(dir: &Path, durability: &dyn Durability) -> Result<Secret, Error> {
    let secret = Secret::generate().map_err(|error| {
        let source = std::io::Error::other(error.to_string());
        Error::from(store::Error::io("draw random bytes for", dir.join(SECRET))(source))
    })?;
    let sealed = seal_file(secret.as_bytes().to_vec());
    store::write_atomically(&dir.join(SECRET), &sealed, durability)
        .map_err(|source| unwritable(dir, source))?;
    Ok(secret)
}
