//! States that are moved, written anew, verified and removed, on a real disk.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::{batch, checkpoint, fingerprint, nearest, options};
use crate::config::WindowClock;
use crate::key::Fingerprint;
use crate::seen::{self, Found, Identity, Opened, Seen, StateDir, TransferError};
use crate::words::{Code, Coded, SourcePartition, Span, Timestamp};

const EVER: Span = Span::from_ms(i64::MAX);

fn identity(dir: &StateDir, partition: i32) -> Identity {
    Identity {
        source: SourcePartition::new("orders", partition),
        rule: "[\"record-key\"]".to_owned(),
        hash: "xxh3-128".to_owned(),
        clock: WindowClock::Event,
        output_topic: "orders.dedup".to_owned(),
        secret_id: dir.secret().id(),
    }
}

/// A state of two partitions, of several segments and runs each; the second one has a floor.
fn state(home: &Path) -> StateDir {
    let dir = StateDir::open(home).unwrap();
    for partition in 0..2 {
        let Opened { seen, .. } = Seen::open(&dir, &identity(&dir, partition), &options()).unwrap();
        for number in 1..6_i64 {
            let entries: Vec<_> = (0..9)
                .map(|n| (u64::try_from(number * 10 + n).unwrap(), number * 15 + n))
                .collect();
            seen.write(batch(number, &entries)).unwrap();
        }
        if partition == 1 {
            seen.expire(Timestamp(45)).unwrap();
            assert_eq!(seen.floor(), Timestamp(40));
        }
    }
    dir
}

fn open(dir: &StateDir, partition: i32) -> Seen {
    let opened = Seen::open_existing(dir, &identity(dir, partition), &options()).unwrap();
    assert!(matches!(opened.found, Found::Checkpoint(_)), "{:?}", opened.found);
    opened.seen
}

/// All that a state says of itself, whatever runs and segments it is in.
fn content(seen: &Seen) -> (Vec<(u128, i64)>, Timestamp, Option<crate::words::Checkpoint>) {
    let mut entries = Vec::new();
    seen.each_entry(&mut |entry| {
        entries.push((entry.fingerprint.0, entry.at.0));
        true
    })
    .unwrap();
    entries.sort_unstable();
    let report = seen.report();
    (entries, report.floor, report.checkpoint)
}

fn export(dir: &StateDir, file: &Path) -> Result<seen::Exported, TransferError> {
    seen::export(dir, &dir.identities().unwrap(), &options(), file, &mut |_, _| {})
}

fn import(home: &Path, file: &Path) -> Result<seen::Imported, TransferError> {
    let (all, good) = (|_: &Identity| true, |_: &Identity| Ok(()));
    seen::import(home, file, &all, &good, &|_| options(), &mut |_, _| {})
}

#[test]
fn an_exported_state_is_imported_with_everything_that_it_knew() {
    let home = TempDir::new().unwrap();
    let file = home.path().join("export");
    let there = state(&home.path().join("there"));
    let exported = export(&there, &file).unwrap();
    let bytes = fs::metadata(&file).unwrap();
    assert_eq!((exported.partitions, exported.bytes), (2, bytes.len()));
    assert_eq!(bytes.permissions().mode() & 0o777, 0o600, "it holds the secret");
    let header = seen::read_header(&file).unwrap();
    assert_eq!((header.partitions, header.entries), (2, exported.entries));

    let here = home.path().join("here");
    let imported = import(&here, &file).unwrap();
    assert_eq!(imported.entries, exported.entries);
    let here = StateDir::open_existing(&here).unwrap();
    assert_eq!(here.secret().id(), there.secret().id());
    for partition in 0..2 {
        assert_eq!(content(&open(&here, partition)), content(&open(&there, partition)));
    }
    // What a first start would find.
    let Opened { found, .. } = Seen::open(&here, &identity(&here, 1), &options()).unwrap();
    let Found::Checkpoint(found) = found else { panic!("{found:?}") };
    assert_eq!(found, checkpoint(5));
}

#[test]
fn an_import_never_overwrites_and_changes_nothing_where_it_is_refused() {
    let home = TempDir::new().unwrap();
    let (file, other) = (home.path().join("export"), home.path().join("other"));
    assert_eq!(export(&state(&home.path().join("there")), &file).unwrap().partitions, 2);
    let here = home.path().join("here");
    import(&here, &file).unwrap();
    let before = listing(&here);
    let error = import(&here, &file).unwrap_err();
    assert_eq!(error.code(), Code::StateExists);
    assert!(error.to_string().contains("orders/0"), "{error}");
    assert_eq!(listing(&here), before);

    // Another state, with a secret of its own and other partitions.
    let dir = StateDir::open(&other).unwrap();
    drop(Seen::open(&dir, &identity(&dir, 7), &options()).unwrap());
    drop(dir);
    let error = import(&other, &file).unwrap_err();
    assert_eq!(error.code(), Code::StateRuleChanged);
    assert!(error.to_string().contains("the secret's id"), "{error}");

    let foreign = |identity: &Identity| -> Result<(), TransferError> {
        let output_topic = "elsewhere".to_owned();
        Ok(Identity { output_topic, ..identity.clone() }.accept(identity)?)
    };
    let fresh = home.path().join("fresh");
    let all = |_: &Identity| true;
    let error = seen::import(&fresh, &file, &all, &foreign, &|_| options(), &mut |_, _| {});
    assert_eq!(error.unwrap_err().code(), Code::StateForeign);
    assert!(!fresh.try_exists().unwrap(), "nothing is made before all is known to be good");
}

#[test]
fn a_chosen_partition_can_be_imported_beside_others() {
    let home = TempDir::new().unwrap();
    let file = home.path().join("export");
    let there = state(&home.path().join("there"));
    export(&there, &file).unwrap();
    let here = home.path().join("here");
    for partition in 0..2 {
        let one = |identity: &Identity| identity.source.partition == partition;
        let good = |_: &Identity| Ok(());
        seen::import(&here, &file, &one, &good, &|_| options(), &mut |_, _| {}).unwrap();
    }
    let here = StateDir::open_existing(&here).unwrap();
    assert_eq!(here.identities().unwrap().len(), 2);
    assert_eq!(content(&open(&here, 1)), content(&open(&there, 1)));
}

#[test]
fn a_damaged_export_is_refused_by_name_and_nothing_is_made() {
    let home = TempDir::new().unwrap();
    let file = home.path().join("export");
    assert_eq!(export(&state(&home.path().join("there")), &file).unwrap().partitions, 2);
    let whole = fs::read(&file).unwrap();
    let (bad, here) = (home.path().join("bad"), home.path().join("here"));
    let refused = |bytes: &[u8], what: &str| {
        fs::write(&bad, bytes).unwrap();
        let error = import(&here, &bad).unwrap_err();
        let code = error.code();
        assert!(matches!(code, Code::StateExportDamaged | Code::StateNewer), "{what}: {error}");
        assert!(error.to_string().contains(&bad.display().to_string()), "{what}: {error}");
        assert!(!here.try_exists().unwrap(), "{what}");
    };
    for at in 0..whole.len() {
        let mut flipped = whole.clone();
        flipped[at] ^= 1 << (at % 8);
        refused(&flipped, &format!("byte {at}"));
    }
    for len in (0..whole.len()).step_by(13) {
        refused(&whole[..len], &format!("cut at {len}"));
    }
    let newer = [&whole[..16], &2_u32.to_be_bytes(), &whole[20..]].concat();
    fs::write(&bad, newer).unwrap();
    assert_eq!(import(&here, &bad).unwrap_err().code(), Code::StateNewer);
}

#[test]
fn an_export_does_not_overwrite_a_file_and_leaves_none_half_done() {
    let home = TempDir::new().unwrap();
    let file = home.path().join("export");
    let dir = state(&home.path().join("there"));
    fs::write(&file, "mine").unwrap();
    let error = export(&dir, &file).unwrap_err();
    assert_eq!(error.code(), Code::CommandFailed);
    assert_eq!(fs::read(&file).unwrap(), b"mine");
    let error = export(&dir, &home.path().join("no/such/place")).unwrap_err();
    assert!(error.to_string().contains("no/such/place"), "{error}");
    let left: Vec<_> = fs::read_dir(home.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

#[test]
fn a_state_written_anew_without_a_key_has_everything_else() {
    let home = TempDir::new().unwrap();
    let dir = state(home.path());
    let (before, key) = (content(&open(&dir, 0)), fingerprint(23));
    assert!(before.0.iter().any(|entry| entry.0 == key.0));
    let keep = &mut |entry: seen::EntryView| entry.fingerprint != key;
    let rewritten = dir.rewrite(&identity(&dir, 0), &options(), keep, &mut |_, _| {}).unwrap();
    let rewritten = rewritten.expect("there is a state");
    assert_eq!(rewritten.after.keys, rewritten.before.keys - 1);
    let seen = open(&dir, 0);
    let mut after = content(&seen);
    assert_eq!(nearest(&seen, 23, 0, i64::MAX), None);
    assert_eq!(seen.nearest(Fingerprint(key.0), Timestamp(0), EVER).unwrap(), None);
    after.0.extend(before.0.iter().filter(|entry| entry.0 == key.0));
    after.0.sort_unstable();
    assert_eq!(after, before);
    drop(seen);
    let left = listing(home.path());
    assert!(left.iter().all(|path| !path.display().to_string().contains("work-")), "{left:?}");
}

#[test]
fn a_rewrite_that_was_cut_short_leaves_the_old_state_and_the_next_one_cleans_up() {
    let home = TempDir::new().unwrap();
    let dir = state(home.path());
    let before = content(&open(&dir, 0));
    // As a crash leaves it.
    let half = home.path().join("work-rewrite");
    fs::create_dir(&half).unwrap();
    fs::write(half.join("NAME"), "half").unwrap();
    assert_eq!(content(&open(&dir, 0)), before);
    dir.rewrite(&identity(&dir, 0), &options(), &mut |_| true, &mut |_, _| {}).unwrap();
    assert_eq!(content(&open(&dir, 0)), before);
    assert_eq!(content(&open(&dir, 1)).1, Timestamp(40), "the other one is untouched");
    fs::create_dir(&half).unwrap();
    drop(dir);
    let dir = StateDir::open(home.path()).unwrap();
    assert!(!half.try_exists().unwrap(), "a start cleans up, too");
    assert_eq!(content(&open(&dir, 0)), before);
}

#[test]
fn compaction_leaves_one_run_a_segment_and_no_other_answer() {
    let home = TempDir::new().unwrap();
    let dir = state(home.path());
    let seen = open(&dir, 0);
    let before = content(&seen);
    assert!(seen.stats().runs > seen.stats().segments);
    while seen.compact_step().unwrap() {}
    assert_eq!(seen.stats().runs, seen.stats().segments);
    assert_eq!(content(&seen), before);
    drop(seen);
    assert_eq!(content(&open(&dir, 0)), before);
}

#[test]
fn verify_names_what_is_damaged_and_finds_nothing_in_a_sound_state() {
    let home = TempDir::new().unwrap();
    let dir = state(home.path());
    let verify = |path: &Path| dir.verify(path, &options()).unwrap();
    for (path, _) in dir.list().unwrap() {
        let verified = verify(&path);
        assert_eq!(verified.flaws, [], "{}", path.display());
        assert!(verified.values > 5 && verified.segments > 1 && verified.entries > 5);
    }
    let path = dir.partition_dir(&identity(&dir, 0).source);
    let (segment, at) = place_of(&path, fingerprint(23));
    let name = segment.file_name().unwrap().to_string_lossy().into_owned();
    let db = segment.join("db");
    let mut bytes = fs::read(&db).unwrap();
    bytes[at] ^= 1;
    fs::write(&db, &bytes).unwrap();
    let flaws = verify(&path).flaws;
    assert!(!flaws.is_empty(), "a flipped bit in a fingerprint");

    fs::remove_file(&db).unwrap();
    let flaws = verify(&path).flaws;
    assert!(flaws[0].place == name, "{flaws:?}");

    fs::remove_dir_all(&segment).unwrap();
    let flaws = verify(&path).flaws;
    assert_eq!(flaws.len(), 1, "{flaws:?}");
    assert!(flaws[0].what.contains("is missing"), "{flaws:?}");

    let other = dir.partition_dir(&identity(&dir, 1).source);
    fs::write(other.join("GENERATION"), [0; 16]).unwrap();
    assert_eq!(verify(&other).flaws[0].place, "GENERATION");
    fs::write(other.join("NAME"), "{}\n0\n").unwrap();
    let verified = verify(&other);
    assert_eq!((verified.flaws[0].place.as_str(), verified.identity), ("NAME", None));
}

#[test]
fn opening_what_is_there_makes_nothing_and_sets_nothing_aside() {
    let home = TempDir::new().unwrap();
    let nowhere = home.path().join("nowhere");
    let error = StateDir::open_existing(&nowhere).unwrap_err();
    assert_eq!(error.code(), Code::StateMissing);
    assert!(!nowhere.try_exists().unwrap());
    fs::create_dir(&nowhere).unwrap();
    StateDir::open_existing(&nowhere).expect_err("an empty directory is no state");
    assert_eq!(listing(&nowhere).len(), 0);

    let dir = state(&home.path().join("there"));
    let path = dir.partition_dir(&identity(&dir, 0).source);
    fs::write(segments(&path)[0].join("db"), "junk").unwrap();
    let error = Seen::open_existing(&dir, &identity(&dir, 0), &options()).unwrap_err();
    assert_eq!(error.code(), Code::StateCorrupt);
    assert!(path.try_exists().unwrap());
    let error = Seen::open_existing(&dir, &identity(&dir, 9), &options()).unwrap_err();
    assert_eq!(error.code(), Code::StateCorrupt, "{error}");
    assert!(!dir.partition_dir(&identity(&dir, 9).source).try_exists().unwrap());
}

#[test]
fn a_removed_state_is_gone_whole() {
    let home = TempDir::new().unwrap();
    let dir = state(home.path());
    let path = dir.partition_dir(&identity(&dir, 0).source);
    dir.remove_listed(&path).unwrap();
    dir.remove_listed(&path).expect("absent is fine");
    let sources: Vec<_> = dir.identities().unwrap().into_iter().map(|id| id.source).collect();
    assert_eq!(sources, [SourcePartition::new("orders", 1)]);
    let Opened { found, .. } = Seen::open(&dir, &identity(&dir, 0), &options()).unwrap();
    assert!(matches!(found, Found::Nothing), "{found:?}");
}

/// Returns the segment whose file holds `fingerprint`, and where in it.
fn place_of(partition: &Path, fingerprint: Fingerprint) -> (PathBuf, usize) {
    let wanted = fingerprint.0.to_be_bytes();
    let found = segments(partition).into_iter().find_map(|segment| {
        let bytes = fs::read(segment.join("db")).unwrap();
        let at = bytes.windows(wanted.len()).rposition(|bytes| bytes == wanted)?;
        Some((segment, at))
    });
    found.expect("it is stored")
}

fn segments(partition: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> = fs::read_dir(partition)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .collect();
    paths.sort();
    paths
}

/// Every file below `root`.
fn listing(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![root.to_owned()];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}
