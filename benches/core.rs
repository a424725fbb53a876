//! What one new record costs the core: fingerprint, verdict, delivery report, and its share of a
//! checkpoint, while ten million keys are remembered.
//!
//! What is remembered is a filter that answers as the store does for new keys: probed in memory,
//! without a read from disk. The store itself is measured by its own bench.

#![expect(clippy::expect_used, reason = "a bench without its input has nothing to measure")]

use std::collections::VecDeque;
use std::convert::Infallible;
use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use firstseen::config::DedupRule;
use firstseen::engine::{Core, Identity, Incoming, Remembered, Sequence, Setup, Verdict};
use firstseen::key::{Fingerprint, HashKind, Hasher, KeyRule, NoHeaders, RecordView, Secret};
use firstseen::window::Window;
use firstseen::words::{Counts, RecordOffset, ResumeOffset, Span, Timestamp};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const KEYS: usize = 10_000_000;
const SEED: u64 = 0x0066_6972_7374;
/// Records between two checkpoints: what one second brings at this rate.
const RECORDS: usize = 250_000;
/// Records on their way to the broker at a time.
const IN_FLIGHT: usize = 10_000;

/// Records handed over at a time, where they are.
const BATCH: usize = 64;

/// A blocked filter as the store's is: 14 bits a key, one cache line a key and one bit in each of
/// its eight words.
struct Filter(Vec<Line>);

#[repr(align(64))]
struct Line([u64; 8]);

const LINES: usize = KEYS * 14 / 512;

impl Filter {
    fn new(random: &mut StdRng) -> Self {
        let mut filter = Self((0..LINES).map(|_| Line([0; 8])).collect());
        for _ in 0..KEYS {
            let (high, low) = (random.next_u64(), random.next_u64());
            let line = filter.0.get_mut(Self::line(high)).expect("a line");
            for (word, bit) in line.0.iter_mut().zip(Self::bits(low)) {
                *word |= bit;
            }
        }
        filter
    }

    fn line(hash: u64) -> usize {
        usize::try_from((u128::from(hash) * LINES as u128) >> 64).unwrap_or(0)
    }

    fn bits(hash: u64) -> impl Iterator<Item = u64> {
        (0..8_u32).map(move |nth| 1 << (hash >> (nth * 6) & 63))
    }

    fn may_hold(&self, fingerprint: Fingerprint) -> bool {
        let low = u64::try_from(fingerprint.0 & u128::from(u64::MAX)).unwrap_or(0);
        let high = u64::try_from(fingerprint.0 >> 64).unwrap_or(0);
        self.0.get(Self::line(high)).is_none_or(|line| {
            let missing = |sum: u64, (word, bit): (&u64, u64)| sum | (!word & bit);
            line.0.iter().zip(Self::bits(low)).fold(0, missing) == 0
        })
    }
}

impl Remembered for Filter {
    type Error = Infallible;

    fn nearest(
        &self,
        fingerprint: Fingerprint,
        at: Timestamp,
        _: Span,
    ) -> Result<Option<Timestamp>, Infallible> {
        Ok(self.may_hold(fingerprint).then_some(at))
    }

    fn rule_out(&self, asked: &[(Fingerprint, Timestamp)], _: Span, absent: &mut Vec<bool>) {
        absent.extend(asked.iter().map(|(fingerprint, _)| !self.may_hold(*fingerprint)));
    }

    fn floor(&self) -> Timestamp {
        Timestamp::MIN
    }
}

fn setup() -> Setup {
    let window = Window::new(&DedupRule::with_window(Span::from_ms(86_400_000)));
    Setup {
        window,
        resume: ResumeOffset(0),
        output: None,
        accounted: None,
        high_mark: Timestamp::MIN,
        counts: Counts::default(),
        incarnation: 1,
        source_topic_id: None,
        output_topic_id: None,
    }
}

/// Everything that lives from one checkpoint to the next.
struct Bench {
    core: Core,
    hasher: Hasher,
    rule: KeyRule,
    random: StdRng,
    next: i64,
    written: i64,
}

impl Bench {
    /// Takes one checkpoint's records through, `batch` at a time, reports and the checkpoint
    /// included.
    fn pass(&mut self, filter: &Filter, batch: usize) {
        let mut flying = VecDeque::with_capacity(IN_FLIGHT);
        let mut records = Vec::with_capacity(batch);
        for nth in 0..RECORDS {
            records.push(self.record());
            if records.len() < batch && nth + 1 < RECORDS {
                continue;
            }
            if batch > 1 {
                self.core.look_ahead(&records, filter);
            }
            for record in records.drain(..) {
                let Ok(verdict) = self.core.record(record, filter);
                if let Verdict::Deliver(sequence) = verdict {
                    flying.push_back(sequence);
                }
            }
            if flying.len() >= IN_FLIGHT {
                self.report(&mut flying);
            }
        }
        self.report(&mut flying);
        let draft = self.core.begin_checkpoint(Timestamp(self.next), false).expect("none is open");
        black_box(&draft);
        self.core.checkpoint_durable(draft.entries);
    }

    /// A record nobody has seen, with its fingerprint.
    fn record(&mut self) -> Incoming {
        let (a, b) = (self.random.next_u64(), self.random.next_u64());
        let mut key = [0; 16];
        key.get_mut(..8).expect("sixteen").copy_from_slice(&a.to_be_bytes());
        key.get_mut(8..).expect("sixteen").copy_from_slice(&b.to_be_bytes());
        let view = RecordView { key: Some(&key), value: None, headers: &NoHeaders };
        let fingerprint = self.hasher.fingerprint(&self.rule, view).expect("a key");
        let at = Timestamp(self.next);
        let record = Incoming {
            offset: RecordOffset(self.next),
            identity: Identity::Key(fingerprint),
            timestamp: Some(at),
            arrival: at,
            bytes: 200,
        };
        self.next += 1;
        record
    }

    fn report(&mut self, flying: &mut VecDeque<Sequence>) {
        for sequence in flying.drain(..) {
            let hole = self.core.confirm(sequence, Some(RecordOffset(self.written)));
            black_box(hole.expect("it is in flight"));
            self.written += 1;
        }
    }
}

fn new_records(c: &mut Criterion) {
    let mut random = StdRng::seed_from_u64(SEED);
    let filter = Filter::new(&mut random);
    let mut bench = Bench {
        core: Core::new(setup()),
        hasher: Hasher::new(HashKind::Xxh3, Secret::from_bytes([0x5a; Secret::LEN])),
        rule: KeyRule::record_key(),
        random,
        next: 0,
        written: 0,
    };
    let mut group = c.benchmark_group("core");
    group.throughput(Throughput::Elements(RECORDS as u64));
    group.sample_size(20);
    group.bench_function("new-record-10M-known", |b| b.iter(|| bench.pass(&filter, 1)));
    group.bench_function("new-record-10M-known-batch-64", |b| {
        b.iter(|| bench.pass(&filter, BATCH));
    });
    group.finish();
}

criterion_group!(benches, new_records);
criterion_main!(benches);
