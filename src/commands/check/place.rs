//! What this machine tells: the state directory and the status port. Nothing is made or changed.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::seen::StateDir;

/// Where the state is, or would be made.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// As configured.
    pub(super) dir: PathBuf,
    /// The directory itself, or the nearest one above it that is there.
    pub(super) base: PathBuf,
    /// What is wrong with the owner or the rights, if anything; an error where it cannot be seen.
    pub(super) shared: Result<Option<String>, String>,
    /// Why nothing can be written there, if so.
    pub(super) unwritable: Option<String>,
    /// The kind of file system; `None` where it is not known.
    pub(super) file_system: Option<FileSystem>,
    /// How many bytes may still be written.
    pub(super) free: Result<u64, String>,
    /// How many bytes the state takes now.
    pub(super) used: Result<u64, String>,
    /// Whether a process holds it, with its id where it left one.
    pub(super) held: Result<Option<Option<u32>>, String>,
}

/// A kind of file system, as far as it matters for a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileSystem {
    /// On a disk of this machine, as far as can be told.
    Local(&'static str),
    /// In memory: gone with the machine's next start.
    Memory(&'static str),
    /// A container's own layer: gone with the container.
    Layer(&'static str),
    /// On another machine.
    Network(&'static str),
}

impl Place {
    /// Looks at `dir`.
    pub(super) fn look(dir: &Path) -> Self {
        let there = dir.is_dir();
        let base = existing(dir);
        Self {
            dir: dir.to_owned(),
            shared: if there { StateDir::why_shared(dir) } else { Ok(None) },
            unwritable: unwritable(&base),
            file_system: file_system(&base),
            free: StateDir::free_bytes_at(&base),
            used: if there { used(dir).map_err(|error| error.to_string()) } else { Ok(0) },
            held: if there { StateDir::holder(dir) } else { Ok(None) },
            base,
        }
    }
}

/// Returns the nearest directory at or above `dir` that is there.
fn existing(dir: &Path) -> PathBuf {
    let above = dir.ancestors().find(|dir| dir.is_dir());
    match above {
        Some(found) if !found.as_os_str().is_empty() => found.to_owned(),
        _ => PathBuf::from("."),
    }
}

fn unwritable(base: &Path) -> Option<String> {
    use rustix::fs::Access;
    let wanted = Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK;
    rustix::fs::access(base, wanted).err().map(|error| io::Error::from(error).to_string())
}

/// Returns how many bytes of the disk lie below `dir`. Files that vanish meanwhile count nothing.
fn used(dir: &Path) -> io::Result<u64> {
    let mut bytes = 0_u64;
    let mut left = vec![dir.to_owned()];
    while let Some(dir) = left.pop() {
        let entries = match fs::read_dir(&dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let Ok(meta) = entry.metadata() else { continue };
            if meta.is_dir() {
                left.push(entry.path());
            } else {
                bytes = bytes.saturating_add(meta.blocks().saturating_mul(512));
            }
        }
    }
    Ok(bytes)
}

#[cfg(target_os = "linux")]
fn file_system(base: &Path) -> Option<FileSystem> {
    let kind = rustix::fs::statfs(base).ok()?.f_type;
    // The kernel's numbers are 32 bits wide, whatever the type that carries them.
    Some(known(u32::try_from(i128::from(kind) & 0xffff_ffff).ok()?))
}

#[cfg(not(target_os = "linux"))]
fn file_system(_: &Path) -> Option<FileSystem> {
    None
}

/// Sorts the numbers of statfs(2).
#[cfg(target_os = "linux")]
fn known(kind: u32) -> FileSystem {
    match kind {
        0x0102_1994 => FileSystem::Memory("tmpfs"),
        0x8584_58f6 => FileSystem::Memory("ramfs"),
        0x794c_7630 => FileSystem::Layer("overlayfs"),
        0x0000_6969 => FileSystem::Network("NFS"),
        0x0000_517b | 0xff53_4d42 | 0xfe53_4d42 => FileSystem::Network("SMB"),
        0x0102_1997 => FileSystem::Network("9p"),
        0x00c3_6400 => FileSystem::Network("Ceph"),
        0x0bd0_0bd0 => FileSystem::Network("Lustre"),
        0x5346_414f | 0x6b41_4653 => FileSystem::Network("AFS"),
        0x4750_4653 => FileSystem::Network("GPFS"),
        // What lies behind it cannot be told.
        0x6573_5546 => FileSystem::Network("FUSE"),
        0x0000_ef53 => FileSystem::Local("ext4"),
        0x5846_5342 => FileSystem::Local("XFS"),
        0x9123_683e => FileSystem::Local("Btrfs"),
        0x2fc1_2fc1 => FileSystem::Local("ZFS"),
        0xf2f5_2010 => FileSystem::Local("F2FS"),
        _ => FileSystem::Local("another kind"),
    }
}

/// Returns why nothing can listen at `address`, if so. The port is free again on return.
pub(super) fn port_taken(address: SocketAddr) -> Option<String> {
    TcpListener::bind(address).err().map(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looking_at_a_place_that_is_not_there_makes_nothing() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("a/b/state");
        let place = Place::look(&dir);
        assert_eq!((place.base.as_path(), place.unwritable), (home.path(), None));
        assert_eq!((place.held, place.used), (Ok(None), Ok(0)));
        assert!(place.free.unwrap() > 0);
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_state_is_measured_and_its_holder_is_seen_and_not_disturbed() {
        let home = tempfile::tempdir().unwrap();
        let state = StateDir::open(home.path()).unwrap();
        let place = Place::look(home.path());
        assert_eq!(place.held, Ok(Some(Some(std::process::id()))));
        assert_eq!(place.shared, Ok(None));
        assert!(place.used.unwrap() > 0);
        drop(state);
        assert_eq!(Place::look(home.path()).held, Ok(None));
        StateDir::open(home.path()).unwrap();
    }

    #[test]
    fn a_directory_that_others_may_write_is_told() {
        use std::os::unix::fs::PermissionsExt;
        let home = tempfile::tempdir().unwrap();
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(Place::look(home.path()).shared, Ok(Some("its mode is 0777".to_owned())));
    }

    #[test]
    fn a_port_that_is_taken_is_told_and_a_free_one_stays_free() {
        let held = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = held.local_addr().unwrap();
        assert!(port_taken(address).is_some());
        drop(held);
        assert_eq!(port_taken(address), None);
        TcpListener::bind(address).unwrap();
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_kernels_numbers_are_known() {
        assert_eq!(known(0x6969), FileSystem::Network("NFS"));
        assert_eq!(known(0xff53_4d42), FileSystem::Network("SMB"));
        assert!(file_system(Path::new("/")).is_some());
    }
}
