//! The seen-set on a real disk: the durability protocol, the lock, permissions, damaged files.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use tempfile::TempDir;

use super::{batch, checkpoint, fingerprint, nearest, options};
use crate::config::WindowClock;
use crate::seen::{Error, Found, Identity, Opened, Seen, StateDir};
use crate::store::Durability;
use crate::words::{Code, Coded, SourcePartition, Timestamp};

fn identity(dir: &StateDir) -> Identity {
    Identity {
        source: SourcePartition::new("orders", 0),
        rule: "record-key".to_owned(),
        hash: "xxh3-128".to_owned(),
        clock: WindowClock::Event,
        output_topic: "orders.dedup".to_owned(),
        secret_id: dir.secret().id(),
    }
}

fn open(dir: &StateDir) -> Opened {
    Seen::open(dir, &identity(dir), &options()).expect("the state opens")
}

fn segments(dir: &StateDir) -> Vec<PathBuf> {
    let partition = dir.partition_dir(&identity(dir).source);
    let mut paths: Vec<_> = fs::read_dir(partition)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .collect();
    paths.sort();
    paths
}

/// A disk whose power can be cut: what was not synced is lost, all of it.
///
/// Holds an image of what the platter has: each sync copies what is then in the page cache.
#[derive(Debug, Default)]
struct PowerCut {
    image: Mutex<BTreeMap<PathBuf, Vec<u8>>>,
    fails: AtomicBool,
}

impl PowerCut {
    fn keep(&self, path: &Path) {
        if let Ok(bytes) = fs::read(path) {
            self.image.lock().unwrap().insert(path.to_owned(), bytes);
        }
    }

    /// Puts the directory at `root` to what the platter has.
    fn cut(&self, root: &Path) {
        fs::remove_dir_all(root).unwrap();
        for (path, bytes) in self.image.lock().unwrap().iter() {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
        }
    }
}

impl Durability for PowerCut {
    fn data(&self, _file: &File, path: &Path) -> io::Result<()> {
        if self.fails.load(Ordering::SeqCst) {
            return Err(io::Error::from_raw_os_error(5));
        }
        self.keep(path);
        Ok(())
    }

    /// Names become durable; contents that were synced under another name move along.
    fn dir(&self, path: &Path) -> io::Result<()> {
        let mut image = self.image.lock().unwrap();
        image.retain(|file, _| !file.starts_with(path) || file.try_exists().unwrap());
        drop(image);
        for entry in fs::read_dir(path)? {
            let entry = entry?.path();
            let synced_whole = entry.is_file() && entry.file_name().is_none_or(|n| n != "db");
            if synced_whole {
                self.keep(&entry);
            }
        }
        Ok(())
    }
}

#[test]
fn every_acknowledged_checkpoint_survives_a_power_cut() {
    let home = TempDir::new().unwrap();
    let root = home.path().join("state");
    let disk = Arc::new(PowerCut::default());
    for cut in 0..4 {
        let dir = StateDir::open_on(&root, Arc::clone(&disk) as _).expect("the directory opens");
        let Opened { seen, found } = open(&dir);
        let base = cut * 10;
        match found {
            Found::Checkpoint(found) => assert_eq!(found, checkpoint(i64::from(base))),
            Found::Nothing => assert_eq!(cut, 0),
            Found::Damaged { why, .. } => panic!("after cut {cut}: {why}"),
        }
        for key in 0..u64::try_from(base).unwrap() {
            let at = i64::try_from(key).unwrap() * 3;
            assert_eq!(nearest(&seen, key, at, 0), Some(at), "key {key} after cut {cut}");
        }
        for number in base..base + 10 {
            let key = u64::try_from(number).unwrap();
            let resume = i64::from(number) + 1;
            seen.write(batch(resume, &[(key, i64::from(number) * 3)])).expect("it is written");
        }
        // The cut comes first: closing the store writes more, which must not be needed.
        let image = disk.image.lock().unwrap().clone();
        drop((seen, dir));
        *disk.image.lock().unwrap() = image;
        disk.cut(&root);
    }
}

#[test]
fn a_failed_sync_ends_the_handle_and_is_not_tried_again() {
    let home = TempDir::new().unwrap();
    let disk = Arc::new(PowerCut::default());
    let dir = StateDir::open_on(&home.path().join("state"), Arc::clone(&disk) as _).unwrap();
    let Opened { seen, .. } = open(&dir);
    seen.write(batch(1, &[(1, 1)])).expect("it is written");
    disk.fails.store(true, Ordering::SeqCst);
    let error = seen.write(batch(2, &[(2, 2)])).expect_err("the sync fails");
    assert_eq!(error.code(), Code::StateIo);
    disk.fails.store(false, Ordering::SeqCst);
    assert!(matches!(seen.write(batch(2, &[(2, 2)])), Err(Error::Poisoned)));
    let found = seen.nearest(fingerprint(1), Timestamp(1), options().segment);
    assert!(matches!(found, Err(Error::Poisoned)));
}

#[test]
fn a_half_written_snapshot_does_not_keep_the_store_shut() {
    let home = TempDir::new().unwrap();
    let dir = StateDir::open(home.path()).unwrap();
    let Opened { seen, .. } = open(&dir);
    seen.write(batch(1, &[(1, 1)])).expect("it is written");
    drop(seen);
    let torn = segments(&dir)[0].join("snap.00000000000FFFFF.generating");
    fs::write(&torn, b"torn").unwrap();
    let Opened { seen, found } = open(&dir);
    assert!(matches!(found, Found::Checkpoint(_)), "{found:?}");
    assert_eq!(nearest(&seen, 1, 1, 0), Some(1));
    assert!(!torn.try_exists().unwrap());
}

#[test]
fn a_store_that_does_not_open_is_set_aside_whole_and_an_empty_one_takes_its_place() {
    let home = TempDir::new().unwrap();
    let dir = StateDir::open(home.path()).unwrap();
    for round in 0..2 {
        let Opened { seen, .. } = open(&dir);
        seen.write(batch(1, &[(1, 1)])).expect("it is written");
        drop(seen);
        let db = segments(&dir)[0].join("db");
        let len = fs::metadata(&db).unwrap().len();
        let junk: Vec<u8> = (0..len).map(|byte| u8::try_from(byte * 7 % 251).unwrap()).collect();
        fs::write(&db, junk).unwrap();
        let Opened { seen, found } = open(&dir);
        let Found::Damaged { why, set_aside } = found else { panic!("{found:?}") };
        assert_eq!(why.code(), Code::StateCorrupt);
        assert!(set_aside.join("NAME").is_file());
        let name = set_aside.file_name().unwrap().to_string_lossy().into_owned();
        assert!(name.starts_with("quarantine-2"), "{name} in round {round}");
        assert_eq!(nearest(&seen, 1, 1, 0), None);
        assert_eq!(seen.stats().keys, 0);
    }
}

#[test]
fn the_lock_names_its_holder_and_dies_with_it() {
    let home = TempDir::new().unwrap();
    let dir = StateDir::open(home.path()).unwrap();
    let error = StateDir::open(home.path()).expect_err("it is held");
    assert_eq!(error.code(), Code::StateLocked);
    assert!(error.to_string().contains(&std::process::id().to_string()), "{error}");
    let Opened { seen, .. } = open(&dir);
    drop(dir);
    StateDir::open(home.path()).expect_err("the seen-set still holds it");
    drop(seen);
    // A left-over file with the pid of a process that is gone is no lock.
    fs::write(home.path().join("LOCK"), "1\n").unwrap();
    StateDir::open(home.path()).expect("nobody holds it");
}

#[test]
fn a_newer_layout_is_refused_by_number_and_left_untouched() {
    let home = TempDir::new().unwrap();
    drop(StateDir::open(home.path()).unwrap());
    let text = "firstseen-state 7";
    let sum = xxhash_rust::xxh3::xxh3_64(text.as_bytes());
    fs::write(home.path().join("FORMAT"), format!("{text} {sum:016x}\n")).unwrap();
    fs::remove_file(home.path().join("LOCK")).unwrap();
    let error = StateDir::open(home.path()).expect_err("it is newer");
    assert_eq!(error.code(), Code::StateNewer);
    assert!(error.to_string().contains("version 7") && error.to_string().contains("up to 1"));
    assert!(!home.path().join("LOCK").try_exists().unwrap());
}

#[test]
fn a_directory_that_lost_its_version_or_secret_is_refused_and_an_unfinished_new_one_is_not() {
    let home = TempDir::new().unwrap();
    let dir = StateDir::open(home.path()).unwrap();
    drop(open(&dir));
    drop(dir);
    for name in ["FORMAT", "secret"] {
        let kept = fs::read(home.path().join(name)).unwrap();
        fs::remove_file(home.path().join(name)).unwrap();
        let error = StateDir::open(home.path()).expect_err(name);
        assert_eq!(error.code(), Code::StateCorrupt);
        for damage in [&kept[..kept.len() - 1], &[b"x", &kept[1..]].concat()] {
            fs::write(home.path().join(name), damage).unwrap();
            fs::set_permissions(home.path().join(name), fs::Permissions::from_mode(0o600)).unwrap();
            let error = StateDir::open(home.path()).expect_err(name);
            assert_eq!(error.code(), Code::StateCorrupt, "{name}");
        }
        fs::write(home.path().join(name), kept).unwrap();
    }
    StateDir::open(home.path()).expect("all is back in place");
    let unfinished = TempDir::new().unwrap();
    drop(StateDir::open(unfinished.path()).unwrap());
    fs::remove_file(unfinished.path().join("FORMAT")).unwrap();
    StateDir::open(unfinished.path()).expect("nothing was lost");
}

#[test]
fn files_and_directories_are_private_and_others_are_refused() {
    let home = TempDir::new().unwrap();
    let root = home.path().join("state");
    let dir = StateDir::open(&root).unwrap();
    let Opened { seen, .. } = open(&dir);
    seen.write(batch(1, &[(1, 1)])).expect("it is written");
    drop((seen, dir));
    assert_private(&root);
    fs::set_permissions(&root, fs::Permissions::from_mode(0o770)).unwrap();
    let error = StateDir::open(&root).expect_err("the group may write");
    assert_eq!(error.code(), Code::StatePermissions);
    assert!(error.to_string().contains("0770"), "{error}");
    fs::set_permissions(&root, fs::Permissions::from_mode(0o700)).unwrap();
    fs::set_permissions(root.join("secret"), fs::Permissions::from_mode(0o644)).unwrap();
    let error = StateDir::open(&root).expect_err("others may read the secret");
    assert_eq!(error.code(), Code::StatePermissions);
}

fn assert_private(path: &Path) {
    let mode = fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode & 0o077, 0, "{} has mode {mode:o}", path.display());
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            assert_private(&entry.unwrap().path());
        }
    }
}

#[test]
fn symbolic_links_inside_the_state_are_not_followed() {
    let home = TempDir::new().unwrap();
    let elsewhere = TempDir::new().unwrap();
    let dir = StateDir::open(home.path()).unwrap();
    let path = dir.partition_dir(&identity(&dir).source);
    drop(open(&dir));
    fs::rename(&path, elsewhere.path().join("moved")).unwrap();
    symlink(elsewhere.path().join("moved"), &path).unwrap();
    let error = Seen::open(&dir, &identity(&dir), &options()).expect_err("it is a link");
    assert_eq!(error.code(), Code::StatePermissions);
    drop(dir);
    fs::rename(home.path().join("secret"), elsewhere.path().join("secret")).unwrap();
    symlink(elsewhere.path().join("secret"), home.path().join("secret")).unwrap();
    let error = StateDir::open(home.path()).expect_err("it is a link");
    assert_eq!(error.code(), Code::StateCorrupt);
}

#[test]
fn a_path_that_cannot_be_a_directory_is_named() {
    let home = TempDir::new().unwrap();
    fs::write(home.path().join("file"), b"").unwrap();
    for path in [home.path().join("file"), home.path().join("file/below")] {
        let error = StateDir::open(&path).expect_err("it is a file");
        assert_eq!(error.code(), Code::StateUnwritable);
        assert!(error.to_string().contains(path.to_str().unwrap()));
    }
}

#[test]
fn a_file_size_limit_is_an_error_and_not_the_end_of_the_process() {
    crate::seen::ignore_file_size_signal().expect("the handler is set");
}

#[test]
fn expired_segments_leave_the_disk_and_a_cut_removal_is_finished_on_opening() {
    let home = TempDir::new().unwrap();
    let dir = StateDir::open(home.path()).unwrap();
    let Opened { seen, .. } = open(&dir);
    seen.write(batch(1, &[(1, 5), (2, 25), (3, 45)])).expect("it is written");
    assert_eq!(segments(&dir).len(), 3);
    assert_eq!(seen.expire(Timestamp(20)).expect("it expires"), 1);
    assert_eq!(segments(&dir).len(), 2);
    drop(seen);
    let dead = dir.partition_dir(&identity(&dir).source).join("dead-0000000000000009");
    fs::create_dir(&dead).unwrap();
    fs::write(dead.join("conf"), b"half").unwrap();
    let Opened { seen, found } = open(&dir);
    assert!(matches!(found, Found::Checkpoint(_)));
    assert!(!dead.try_exists().unwrap());
    assert_eq!(nearest(&seen, 2, 25, 0), Some(25));
}

#[cfg(feature = "bugs")]
#[test]
fn a_dropped_fdatasync_turns_the_power_cut_test_red() {
    let test = "seen::tests::disk::every_acknowledged_checkpoint_survives_a_power_cut";
    let run = |bug: &str| {
        std::process::Command::new(std::env::current_exe().unwrap())
            .args([test, "--exact"])
            .env("FIRSTSEEN_BUG", bug)
            .output()
            .unwrap()
    };
    assert!(run("none").status.success());
    let caught = run("drop-fdatasync");
    assert!(!caught.status.success());
    assert!(String::from_utf8_lossy(&caught.stdout).contains("1 failed"));
}

#[test]
fn a_state_that_this_process_still_has_open_is_not_taken_for_damaged() {
    let root = tempfile::tempdir().unwrap();
    let dir = StateDir::open(&root.path().join("state")).unwrap();
    let first = open(&dir);
    first.seen.write(batch(10, &[(1, 5)])).unwrap();
    let error = Seen::open(&dir, &identity(&dir), &options()).expect_err("it is in use");
    assert!(!error.is_damage(), "{error:?}");
    drop(first);
    assert!(matches!(open(&dir).found, Found::Checkpoint(_)));
}
