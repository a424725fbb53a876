//! The state on disk: killed at random moments, damaged in every way, and of an earlier layout.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use firstseen::config::WindowClock;
use firstseen::key::Fingerprint;
use firstseen::seen::{Batch, Found, Identity, Opened, Options, Seen, StateDir};
use firstseen::words::{
    Checkpoint, Coded, Counts, OutputPosition, ResumeOffset, SourcePartition, Span, Timestamp,
};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use tempfile::TempDir;

const CHILD_DIR: &str = "FIRSTSEEN_TEST_STATE";
/// Entries and milliseconds of one checkpoint, and what the child remembers.
const ENTRIES: i64 = 40;
const STEP_MS: i64 = 10;
const SEGMENT_MS: i64 = 300;
const KEPT: i64 = 100;

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

fn options() -> Options {
    Options {
        open_limit: Duration::from_secs(5),
        ..Options::new(Span::from_ms(SEGMENT_MS), 4 << 20)
    }
}

fn open(dir: &StateDir) -> Opened {
    Seen::open(dir, &identity(dir), &options()).expect("the state opens")
}

fn checkpoint(number: i64) -> Checkpoint {
    Checkpoint {
        resume: ResumeOffset(number),
        output: Some(OutputPosition(number * 2)),
        accounted: None,
        high_mark: Timestamp(number * STEP_MS),
        counts: Counts { read: number.unsigned_abs(), ..Counts::default() },
        clean: false,
        incarnation: 1,
        written_at: Timestamp(0),
        source_topic_id: None,
        output_topic_id: None,
    }
}

fn fingerprint(key: i64) -> Fingerprint {
    Fingerprint(
        u128::from(key.unsigned_abs() + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835),
    )
}

/// The entries of checkpoint `number`, some of them late by up to two segments.
fn entries(number: i64) -> Vec<(i64, i64)> {
    let late = |key: i64| (key % 7) * (SEGMENT_MS / 3);
    let first = number * ENTRIES;
    (first..first + ENTRIES).map(|key| (key, number * STEP_MS - late(key))).collect()
}

fn batch(number: i64) -> Batch {
    let entry = |(key, at): (i64, i64)| (fingerprint(key), Timestamp(at));
    Batch {
        entries: entries(number).into_iter().map(entry).collect(),
        checkpoint: checkpoint(number),
    }
}

fn holds(seen: &Seen, key: i64, at: i64) -> bool {
    let found = seen.nearest(fingerprint(key), Timestamp(at), Span::ZERO);
    found.expect("the look-up works") == Some(Timestamp(at))
}

/// Checks that `seen` holds all of checkpoint `number` and the ones before, and nothing of the next.
fn assert_is_at(seen: &Seen, number: i64) {
    let floor = seen.floor().0;
    for number in (number - KEPT / 2).max(1)..=number {
        for (key, at) in entries(number).into_iter().filter(|(_, at)| *at >= floor) {
            assert!(holds(seen, key, at), "key {key} of checkpoint {number} at {at}");
        }
    }
    for (key, at) in entries(number + 1) {
        assert!(!holds(seen, key, at), "key {key} at {at} belongs to no checkpoint");
    }
}

/// The child of the kill test: goes on from what it finds, for ever, and says what is durable.
#[test]
#[ignore = "a part of `every_printed_checkpoint_survives_kill_9`"]
fn child_writes_checkpoints_until_it_is_killed() {
    let Ok(path) = std::env::var(CHILD_DIR) else { return };
    println!("\nopening 0");
    let dir = StateDir::open(Path::new(&path)).expect("the directory opens");
    let Opened { seen, found } = open(&dir);
    let last = match found {
        Found::Checkpoint(checkpoint) => checkpoint.resume.0,
        Found::Nothing => 0,
        Found::Damaged { why, .. } => panic!("damaged: {why}"),
    };
    assert_is_at(&seen, last);
    println!("found {last}");
    for number in last + 1.. {
        seen.write(batch(number)).expect("it is written");
        println!("durable {number}");
        seen.expire(Timestamp((number - KEPT) * STEP_MS)).expect("it expires");
    }
}

#[test]
fn every_printed_checkpoint_survives_kill_9() {
    let home = TempDir::new().unwrap();
    let mut random = SmallRng::seed_from_u64(9);
    let mut durable = 0;
    for kill in 0..20 {
        // Every third dies while it opens.
        let lines = if kill % 3 == 2 { 1 } else { random.random_range(3..80) };
        let pause = Duration::from_micros(random.random_range(0..15_000));
        durable = run_and_kill(home.path(), lines, pause, durable);
    }
    assert!(durable > 100, "only {durable} checkpoints were written");
    let dir = StateDir::open(home.path()).unwrap();
    let Opened { seen, found } = open(&dir);
    let Found::Checkpoint(found) = found else { panic!("{found:?}") };
    assert!(found.resume.0 >= durable);
    assert_is_at(&seen, found.resume.0);
    assert!(seen.floor() > Timestamp::MIN, "segments expired on the way");
}

/// Runs a child until it has said `lines` lines and `pause` has passed, kills it, and returns the
/// last checkpoint it said was durable.
fn run_and_kill(home: &Path, lines: usize, pause: Duration, mut durable: i64) -> i64 {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["store::child_writes_checkpoints_until_it_is_killed"])
        .args(["--exact", "--ignored", "--nocapture"])
        .env(CHILD_DIR, home)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut listen = |line: String| {
        let Some((word, number)) = line.split_once(' ') else { return false };
        let Ok(number) = number.parse::<i64>() else { return false };
        match word {
            "found" => assert!(number >= durable, "found {number} after {durable} was durable"),
            "durable" => durable = number,
            "opening" => {}
            _ => return false,
        }
        true
    };
    let mut heard = 0;
    while heard < lines {
        let line = said.next().expect("the child lives until it is killed").unwrap();
        heard += usize::from(listen(line));
    }
    // A random moment is what is wanted here, not a condition.
    std::thread::sleep(pause);
    child.kill().unwrap();
    child.wait().unwrap();
    for line in said {
        listen(line.unwrap());
    }
    durable
}

#[test]
fn no_value_and_no_leaf_ever_leaves_the_synced_file() {
    // sled keeps what is too large for its log in files of their own, which it never syncs.
    let home = TempDir::new().unwrap();
    let dir = StateDir::open(home.path()).unwrap();
    let Opened { seen, .. } = open(&dir);
    for number in 0..30_i64 {
        let keys = number * 10_000..(number + 1) * 10_000;
        let entries = keys.map(|key| (fingerprint(key), Timestamp(5))).collect();
        seen.write(Batch { entries, checkpoint: checkpoint(number) }).expect("it is written");
    }
    assert!(seen.stats().runs < 12, "{:?}", seen.stats());
    let partition = dir.partition_dir(&identity(&dir).source);
    for entry in fs::read_dir(partition).unwrap() {
        let blobs = entry.unwrap().path().join("blobs");
        if blobs.is_dir() {
            assert_eq!(fs::read_dir(&blobs).unwrap().count(), 0, "{}", blobs.display());
        }
    }
}

#[test]
fn small_checkpoints_do_not_pile_up_in_runs_or_bytes() {
    // A day of one checkpoint a second with FIRSTSEEN_CHECKPOINTS=86400.
    let count = std::env::var("FIRSTSEEN_CHECKPOINTS").ok().and_then(|n| n.parse().ok());
    let count: i64 = count.unwrap_or(1_500);
    let home = TempDir::new().unwrap();
    let dir = StateDir::open(home.path()).unwrap();
    let day = Options::new(Span::from_ms(10_800_000), 64 << 20);
    let Opened { seen, .. } = Seen::open(&dir, &identity(&dir), &day).unwrap();
    let started = std::time::Instant::now();
    let mut slowest = Duration::ZERO;
    for number in 0..count {
        let keys = number * 10..(number + 1) * 10;
        let entries = keys.map(|key| (fingerprint(key), Timestamp(number * 1_000))).collect();
        let before = std::time::Instant::now();
        seen.write(Batch { entries, checkpoint: checkpoint(number) }).expect("it is written");
        slowest = slowest.max(before.elapsed());
    }
    let stats = seen.stats();
    println!("{count} checkpoints in {:?}, slowest {slowest:?}: {stats:?}", started.elapsed());
    assert!(stats.runs <= 30 * stats.segments, "{stats:?}");
    let per_key = stats.bytes_on_disk / stats.keys;
    assert!(per_key < 1_000, "{per_key} bytes a key, after {count} checkpoints");
}

/// All files of a directory by relative path.
fn files(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                let name = path.strip_prefix(root).unwrap().to_owned();
                found.insert(name, fs::read(path).unwrap());
            }
        }
    }
    found
}

fn put(root: &Path, files: &BTreeMap<PathBuf, Vec<u8>>) {
    fs::create_dir_all(root).unwrap();
    fs::set_permissions(root, fs::Permissions::from_mode(0o700)).unwrap();
    for (name, bytes) in files {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    }
}

const LAST: i64 = 40;

/// A small state of several segments, as it was halfway and at its end.
fn small_state() -> [BTreeMap<PathBuf, Vec<u8>>; 2] {
    let home = TempDir::new().unwrap();
    let write = |numbers: std::ops::RangeInclusive<i64>| {
        let dir = StateDir::open(home.path()).unwrap();
        let Opened { seen, .. } = open(&dir);
        for number in numbers {
            seen.write(batch(number)).expect("it is written");
        }
    };
    write(1..=LAST / 2);
    let halfway = files(home.path());
    write(LAST / 2 + 1..=LAST);
    [halfway, files(home.path())]
}

/// Damages one file of `state`, or two; returns what was done.
fn damage(
    random: &mut SmallRng,
    state: &mut BTreeMap<PathBuf, Vec<u8>>,
    older: &BTreeMap<PathBuf, Vec<u8>>,
) -> String {
    let names: Vec<PathBuf> =
        state.keys().filter(|name| !name.ends_with("LOCK")).cloned().collect();
    let name = names[random.random_range(0..names.len())].clone();
    let bytes = state.get_mut(&name).unwrap();
    let text = name.display().to_string();
    // Most of a store's file may be unused: aim at what is in use.
    let used: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] != 0).collect();
    let at = if used.is_empty() { 0 } else { used[random.random_range(0..used.len())] };
    match random.random_range(0..8) {
        0..=2 if !bytes.is_empty() => {
            bytes[at] ^= 1 << random.random_range(0..8);
            format!("flipped a bit of byte {at} of {text}")
        }
        3 => {
            bytes.truncate(at);
            format!("cut {text} to {at} bytes")
        }
        4 => {
            let end = (at + 512).min(bytes.len());
            bytes[at..end].fill(0);
            format!("zeroed {text} from {at} to {end}")
        }
        5 => {
            state.remove(&name);
            format!("removed {text}")
        }
        6 => {
            let other = names[random.random_range(0..names.len())].clone();
            let (one, two) = (state[&name].clone(), state[&other].clone());
            state.insert(name, two);
            state.insert(other.clone(), one);
            format!("swapped {text} and {}", other.display())
        }
        _ => {
            let old = older.get(&name).cloned().unwrap_or_default();
            state.insert(name, old);
            format!("put {text} back to an older content")
        }
    }
}

/// Opens a damaged state. Right is: a named error, a state set aside, or all of it as it was.
fn verdict(root: &Path, done: &str) -> &'static str {
    let dir = match StateDir::open(root) {
        Ok(dir) => dir,
        Err(error) => {
            assert!(!error.to_string().is_empty() && !error.fix().is_empty());
            return "refused";
        }
    };
    match Seen::open(&dir, &identity(&dir), &options()) {
        Err(error) => {
            assert!(!error.fix().is_empty());
            "refused"
        }
        Ok(Opened { seen, found: Found::Damaged { set_aside, .. } }) => {
            assert!(set_aside.is_dir(), "{done}");
            assert_eq!(seen.stats().keys, 0, "{done}");
            "set aside"
        }
        Ok(Opened { found: Found::Nothing, .. }) => panic!("taken for empty: {done}"),
        Ok(Opened { seen, found: Found::Checkpoint(found) }) => {
            assert_eq!(found, checkpoint(LAST), "{done}");
            for number in 1..=LAST {
                for (key, at) in entries(number) {
                    assert!(holds(&seen, key, at), "key {key} is forgotten: {done}");
                }
            }
            for (key, at) in entries(LAST + 1) {
                assert!(!holds(&seen, key, at), "key {key} is made up: {done}");
            }
            "unharmed"
        }
    }
}

#[test]
fn no_damage_to_any_file_ever_gives_a_wrong_verdict() {
    let [halfway, whole] = small_state();
    let home = TempDir::new().unwrap();
    put(home.path(), &whole);
    assert_eq!(verdict(home.path(), "nothing"), "unharmed");
    let mut random = SmallRng::seed_from_u64(300);
    let mut verdicts = BTreeMap::<_, u32>::new();
    for _ in 0..mutants() {
        let home = TempDir::new().unwrap();
        let mut state = whole.clone();
        let done = damage(&mut random, &mut state, &halfway);
        put(home.path(), &state);
        *verdicts.entry(verdict(home.path(), &done)).or_default() += 1;
    }
    println!("{verdicts:?}");
    assert_eq!(verdicts.len(), 3, "each right answer was given: {verdicts:?}");
}

/// More of them with `FIRSTSEEN_MUTANTS`.
fn mutants() -> u32 {
    std::env::var("FIRSTSEEN_MUTANTS").ok().and_then(|n| n.parse().ok()).unwrap_or(320)
}

fn sample() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/state_v1")
}

/// Makes the stored sample of the present layout; see `migrations/README.md`.
#[test]
#[ignore = "writes into the source tree"]
fn writes_the_sample_of_this_layout() {
    let home = TempDir::new().unwrap();
    let dir = StateDir::open(home.path()).unwrap();
    let Opened { seen, .. } = open(&dir);
    for number in 28..=33 {
        seen.write(batch(number)).expect("it is written");
    }
    seen.expire(Timestamp(0)).expect("it expires");
    drop((seen, dir));
    put(&sample(), &files(home.path()));
}

#[test]
fn a_state_of_layout_1_opens_with_every_answer_it_had() {
    let home = TempDir::new().unwrap();
    let stored = files(&sample());
    assert!(!stored.is_empty(), "the sample is there");
    put(home.path(), &stored);
    let dir = StateDir::open(home.path()).expect("the directory opens");
    let Opened { seen, found } = open(&dir);
    let Found::Checkpoint(found) = found else { panic!("{found:?}") };
    assert_eq!((found, seen.floor()), (checkpoint(33), Timestamp(0)));
    for number in 28..=33 {
        for (key, at) in entries(number).into_iter().filter(|(_, at)| *at >= 0) {
            assert!(holds(&seen, key, at), "key {key} of checkpoint {number}");
        }
    }
    seen.write(batch(34)).expect("it goes on");
}

#[cfg(feature = "bugs")]
#[test]
fn damage_taken_for_an_empty_state_turns_the_damage_test_red() {
    let caught = Command::new(std::env::current_exe().unwrap())
        .args(["store::no_damage_to_any_file_ever_gives_a_wrong_verdict", "--exact"])
        .env("FIRSTSEEN_BUG", "corrupt-as-empty")
        .output()
        .unwrap();
    assert!(!caught.status.success());
    assert!(String::from_utf8_lossy(&caught.stdout).contains("taken for empty"));
}
