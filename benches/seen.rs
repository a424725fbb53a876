//! The seen-set with ten million live keys in eight segments, on a disk with real fdatasync.
//!
//! Fixed seed. `FIRSTSEEN_BENCH_KEYS` sets another number of keys. The state is made below the target
//! directory; before the timed parts it prints what making and opening it took, and how long a
//! look-up waits while checkpoints are being written.

#![expect(clippy::expect_used, clippy::print_stdout, reason = "a bench may fail and print")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use criterion::{BatchSize, Criterion, Throughput};
use firstseen::config::WindowClock;
use firstseen::key::Fingerprint;
use firstseen::seen::{Batch, Identity, Options, Seen, StateDir};
use firstseen::words::{Checkpoint, Counts, ResumeOffset, SourcePartition, Span, Timestamp};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

const SEGMENT: Span = Span::from_ms(10_800_000);
const SEGMENTS: i64 = 8;
const WINDOW: Span = Span::from_ms(86_400_000);
const CHECKPOINT: usize = 100_000;
const MEMORY: u64 = 256 << 20;
/// A seed that no checkpoint has, or its keys would not be absent.
const ABSENT: u64 = 1 << 40;

/// The keys of one checkpoint are those its own seed makes, so they can be made again.
fn keys(seed: u64) -> impl Iterator<Item = Fingerprint> {
    let mut random = SmallRng::seed_from_u64(seed);
    (0..CHECKPOINT).map(move |_| Fingerprint(random.random()))
}

fn batch(seed: u64, of: u64) -> Batch {
    let span = SEGMENT.as_ms() * SEGMENTS;
    let at = span / i64::try_from(of).unwrap_or(1) * i64::try_from(seed).unwrap_or(0);
    let at = Timestamp(at.min(span - 1));
    Batch { entries: keys(seed).map(|key| (key, at)).collect(), checkpoint: checkpoint(seed) }
}

fn checkpoint(number: u64) -> Checkpoint {
    Checkpoint {
        resume: ResumeOffset(i64::try_from(number).unwrap_or(0)),
        output: None,
        accounted: None,
        high_mark: Timestamp(0),
        counts: Counts::default(),
        clean: false,
        incarnation: 1,
        written_at: Timestamp(0),
        source_topic_id: None,
        output_topic_id: None,
    }
}

fn open(home: &Path) -> Seen {
    let dir = StateDir::open(home).expect("the state directory opens");
    let identity = Identity {
        source: SourcePartition::new("orders", 0),
        rule: "record-key".to_owned(),
        hash: "xxh3-128".to_owned(),
        clock: WindowClock::Event,
        output_topic: "orders.dedup".to_owned(),
        secret_id: dir.secret().id(),
    };
    let options = Options::new(SEGMENT, MEMORY);
    Seen::open(&dir, &identity, &options).expect("the state opens").seen
}

fn fill(home: &Path, checkpoints: u64) {
    let seen = open(home);
    let started = Instant::now();
    let mut times = Vec::new();
    for seed in 0..checkpoints {
        let batch = batch(seed, checkpoints);
        let before = Instant::now();
        seen.write(batch).expect("it is written");
        times.push(before.elapsed());
    }
    let stats = seen.stats();
    println!("filled in {:?}; {stats:?}", started.elapsed());
    println!("bytes on disk a key: {}", stats.bytes_on_disk / stats.keys.max(1));
    show("checkpoint of 100,000, merges included", &mut times);
}

fn show(what: &str, times: &mut [Duration]) {
    times.sort_unstable();
    let at = |share: usize| times.get((times.len() * share / 1_000).min(times.len() - 1));
    println!("{what}: p50 {:?}, p99 {:?}, max {:?}", at(500), at(990), times.last());
}

/// Measures each look-up of old keys while another thread writes checkpoints without a pause.
fn lookups_beside_writes(seen: &Arc<Seen>, checkpoints: u64) {
    let stop = Arc::new(AtomicBool::new(false));
    let writer = {
        let (seen, stop) = (Arc::clone(seen), Arc::clone(&stop));
        std::thread::spawn(move || {
            for seed in checkpoints..checkpoints + 10 {
                seen.write(batch(seed, checkpoints)).expect("it is written");
            }
            stop.store(true, Ordering::Release);
        })
    };
    let mut random = SmallRng::seed_from_u64(ABSENT + 1);
    let (mut old, mut new) = (Vec::new(), Vec::new());
    while !stop.load(Ordering::Acquire) {
        for key in keys(random.random_range(0..checkpoints)).step_by(1_000) {
            old.push(timed(seen, key));
            new.push(timed(seen, Fingerprint(random.random())));
        }
    }
    writer.join().expect("the writer ends");
    show("look-up of an old key beside checkpoints", &mut old);
    show("look-up of a new key beside checkpoints", &mut new);
}

fn timed(seen: &Seen, key: Fingerprint) -> Duration {
    let before = Instant::now();
    let found = seen.nearest(key, Timestamp(SEGMENT.as_ms() * SEGMENTS - 1), WINDOW);
    std::hint::black_box(found.expect("the look-up works"));
    before.elapsed()
}

fn main() {
    let count = std::env::var("FIRSTSEEN_BENCH_KEYS").ok().and_then(|text| text.parse().ok());
    let checkpoints = count.unwrap_or(10_000_000_u64).div_ceil(100_000);
    let home = tempfile::TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    fill(home.path(), checkpoints);
    let before = Instant::now();
    let seen = Arc::new(open(home.path()));
    println!("opened in {:?}", before.elapsed());

    let mut criterion = Criterion::default().configure_from_args();
    let mut group = criterion.benchmark_group("seen");
    let at = Timestamp(SEGMENT.as_ms() * SEGMENTS - 1);
    group.throughput(Throughput::Elements(1));
    let mut random = SmallRng::seed_from_u64(ABSENT);
    group.bench_function("nearest/absent", |bench| {
        bench.iter_batched(
            || Fingerprint(random.random()),
            |key| seen.nearest(key, at, WINDOW),
            BatchSize::SmallInput,
        );
    });
    let mut random = SmallRng::seed_from_u64(ABSENT + 2);
    let mut sample: Vec<_> = (0..checkpoints).flat_map(|seed| keys(seed).step_by(17)).collect();
    group.bench_function("nearest/present", |bench| {
        bench.iter_batched(
            || sample.swap_remove(random.random_range(0..sample.len())),
            |key| seen.nearest(key, at, WINDOW),
            BatchSize::SmallInput,
        );
    });
    lookups_beside_writes(&seen, checkpoints);
    group.sample_size(10).throughput(Throughput::Elements(100_000));
    let mut seed = checkpoints + 10;
    group.bench_function("write/100000", |bench| {
        bench.iter_batched(
            || {
                seed += 1;
                batch(seed, checkpoints)
            },
            |batch| seen.write(batch),
            BatchSize::PerIteration,
        );
    });
    group.finish();
    println!("{:?}", seen.stats());
    criterion.final_summary();
}
