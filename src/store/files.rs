//! Private files and directories, written so that a crash leaves the old or the new one.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rustix::fs::{Mode, OFlags};

use super::{Durability, Error};

/// No file of ours comes near this; a longer one is damage, and is not read into memory.
const LONGEST_FILE: u64 = 1 << 20;

/// Lets this process make files that only its user can read. sled sets no mode of its own.
pub(crate) fn private_umask() {
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
}

/// Makes a write past the file size limit fail as an error instead of ending the process.
pub(crate) fn ignore_file_size_signal() -> io::Result<()> {
    // A handler that does nothing that matters: the write then returns EFBIG.
    let noticed = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGXFSZ, noticed).map(drop)
}

/// Makes directory `path` with mode 0700, and its name durable. One that is there is kept.
pub(crate) fn create_private_dir(path: &Path, durability: &dyn Durability) -> Result<(), Error> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => made.map_err(Error::io("create directory", path))?,
    }
    sync_dir(path, durability)?;
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => sync_dir(Path::new("."), durability),
        Some(parent) => sync_dir(parent, durability),
        None => Ok(()),
    }
}

/// Makes the names in `path` durable.
pub(crate) fn sync_dir(path: &Path, durability: &dyn Durability) -> Result<(), Error> {
    durability.dir(path).map_err(Error::io("sync directory", path))
}

/// Returns why `path` is not a directory or file of ours alone, if it is not.
///
/// `readable` lets others read (never write).
pub(crate) fn refuse_shared(path: &Path, readable: bool) -> Result<Option<String>, Error> {
    let meta = fs::symlink_metadata(path).map_err(Error::io("inspect", path))?;
    let forbidden = if readable { 0o022 } else { 0o077 };
    let me = rustix::process::geteuid().as_raw();
    if meta.file_type().is_symlink() {
        return Ok(Some("it is a symbolic link".to_owned()));
    }
    if meta.uid() != me {
        return Ok(Some(format!("it belongs to user {}, not to {me}", meta.uid())));
    }
    if meta.mode() & forbidden != 0 {
        return Ok(Some(format!("its mode is {:04o}", meta.mode() & 0o7777)));
    }
    Ok(None)
}

/// Reads a whole small file; `None` where it does not exist. Never follows a symbolic link.
pub(crate) fn read_private(path: &Path) -> Result<Option<Vec<u8>>, Error> {
    let file = match open_options().read(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
            return Err(Error::Missing { path: path.to_owned() });
        }
        opened => opened.map_err(Error::io("open", path))?,
    };
    if !file.metadata().map_err(Error::io("inspect", path))?.is_file() {
        return Err(Error::Missing { path: path.to_owned() });
    }
    let mut bytes = Vec::new();
    file.take(LONGEST_FILE).read_to_end(&mut bytes).map_err(Error::io("read", path))?;
    Ok(Some(bytes))
}

/// Puts `bytes` in place of file `path` (mode 0600): after a crash it holds the old or the new ones.
pub(crate) fn write_atomically(
    path: &Path,
    bytes: &[u8],
    durability: &dyn Durability,
) -> Result<(), Error> {
    let temporary = path.with_extension("tmp");
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        removed => removed.map_err(Error::io("remove", &temporary))?,
    }
    let mut file = open_options()
        .write(true)
        .create_new(true)
        .open(&temporary)
        .map_err(Error::io("create", &temporary))?;
    file.write_all(bytes).map_err(Error::io("write", &temporary))?;
    durability.data(&file, &temporary).map_err(Error::io("sync", &temporary))?;
    fs::rename(&temporary, path).map_err(Error::io("rename into place", path))?;
    path.parent().map_or(Ok(()), |parent| sync_dir(parent, durability))
}

/// Opens files as ours: mode 0600 if made, never through a symbolic link.
pub(crate) fn open_options() -> OpenOptions {
    let mut options = File::options();
    options.mode(0o600).custom_flags(no_follow());
    options
}

#[expect(clippy::cast_possible_wrap, reason = "the flag is one low bit")]
fn no_follow() -> i32 {
    OFlags::NOFOLLOW.bits() as i32
}

/// Removes a directory and all in it, without following symbolic links. Absent is fine.
pub(crate) fn remove_tree(path: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.map_err(Error::io("remove", path)),
    }
}

/// Lets two directories change places: at every moment each name leads to one of them, whole.
#[cfg(target_os = "linux")]
pub(crate) fn exchange(one: &Path, other: &Path) -> Result<(), Error> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE)
        .map_err(io::Error::from)
        .map_err(Error::io("put in place", one))
}

/// Puts `one` in the place of `other`, and that in the place of `one`. A crash in between leaves
/// the old directory under a third name, and then the state counts as missing.
#[cfg(not(target_os = "linux"))]
pub(crate) fn exchange(one: &Path, other: &Path) -> Result<(), Error> {
    let between = one.with_extension("old");
    fs::rename(other, &between).map_err(Error::io("rename", other))?;
    fs::rename(one, other).map_err(Error::io("put in place", one))?;
    fs::rename(&between, one).map_err(Error::io("rename", between))
}

/// Returns how many bytes this user may still write on the file system that holds `path`.
pub(crate) fn free_bytes(path: &Path) -> Result<u64, Error> {
    let stat = rustix::fs::statvfs(path)
        .map_err(io::Error::from)
        .map_err(Error::io("ask for the free space of", path))?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}
