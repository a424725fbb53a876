//! What one new record costs the core: fingerprint, verdict, delivery report, and its share of a
//! checkpoint, while ten million keys are remembered.
//!
//! What is remembered is a filter that answers as the store does for new keys: probed in memory,
//! without a read from disk. The store itself is measured by its own bench.

#![expect(clippy::expect_used, reason = "a bench without its input has nothing to measure")]

use std::convert::Infallible;
use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use firstseen::config::{DedupRule, DropRule, OnMissingKey, WindowClock};
use firstseen::engine::{Core, Identity, Incoming, Remembered, Setup, Verdict};
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

/// A blocked filter: one cache line a key, six bits of it set, about 13 bits a key.
struct Filter(Vec<[u64; 8]>);

const BLOCKS: usize = 1 << 18;

impl Filter {
    fn new(random: &mut StdRng) -> Self {
        let mut filter = Self(vec![[0; 8]; BLOCKS]);
        for _ in 0..KEYS {
            let hash = random.next_u64();
            let other = random.next_u64();
            if let Some(block) = filter.0.get_mut(Self::block(hash)) {
                for (word, bit) in Self::bits(other) {
                    if let Some(word) = block.get_mut(word) {
                        *word |= bit;
                    }
                }
            }
        }
        filter
    }

    fn block(hash: u64) -> usize {
        usize::try_from(hash >> 46).unwrap_or(0)
    }

    fn bits(hash: u64) -> impl Iterator<Item = (usize, u64)> {
        (0..6_u32).map(move |nth| {
            let nine = hash >> (nth * 9) & 511;
            (usize::try_from(nine >> 6).unwrap_or(0), 1 << (nine & 63))
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
        let low = u64::try_from(fingerprint.0 & u128::from(u64::MAX)).unwrap_or(0);
        let high = u64::try_from(fingerprint.0 >> 64).unwrap_or(0);
        let block = self.0.get(Self::block(high));
        let set = |block: &[u64; 8]| {
            Self::bits(low).all(|(word, bit)| block.get(word).is_some_and(|word| word & bit != 0))
        };
        Ok(block.is_some_and(set).then_some(at))
    }

    fn floor(&self) -> Timestamp {
        Timestamp::MIN
    }
}

fn setup() -> Setup {
    let window = Window::new(&DedupRule {
        key: KeyRule::record_key(),
        hash: HashKind::Xxh3,
        window: Span::from_ms(86_400_000),
        clock: WindowClock::Event,
        max_future: Span::from_ms(3_600_000),
        refresh: false,
        on_missing_key: OnMissingKey::Forward,
        drop: DropRule::default(),
    });
    Setup {
        window,
        resume: ResumeOffset(0),
        output: None,
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
    /// Takes one checkpoint's records through, reports and the checkpoint included.
    fn pass(&mut self, filter: &Filter) {
        let mut flying = std::collections::VecDeque::with_capacity(IN_FLIGHT);
        for _ in 0..RECORDS {
            let (a, b) = (self.random.next_u64(), self.random.next_u64());
            let mut key = [0; 16];
            key.get_mut(..8).expect("sixteen").copy_from_slice(&a.to_be_bytes());
            key.get_mut(8..).expect("sixteen").copy_from_slice(&b.to_be_bytes());
            let view = RecordView { key: Some(&key), value: None, headers: &NoHeaders };
            let fingerprint = self.hasher.fingerprint(&self.rule, view).expect("a key");
            let record = Incoming {
                offset: RecordOffset(self.next),
                identity: Identity::Key(fingerprint),
                timestamp: Some(Timestamp(self.next)),
                arrival: Timestamp(self.next),
                bytes: 200,
            };
            self.next += 1;
            let Ok(verdict) = self.core.record(record, filter);
            if let Verdict::Deliver(sequence) = verdict {
                flying.push_back(sequence);
            }
            if flying.len() == IN_FLIGHT {
                self.report(&mut flying);
            }
        }
        self.report(&mut flying);
        let draft = self.core.begin_checkpoint(Timestamp(self.next), false).expect("none is open");
        black_box(&draft);
        self.core.checkpoint_durable(draft.entries);
    }

    fn report(&mut self, flying: &mut std::collections::VecDeque<firstseen::engine::Sequence>) {
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
    group.bench_function("new-record-10M-known", |b| b.iter(|| bench.pass(&filter)));
    group.finish();
}

criterion_group!(benches, new_records);
criterion_main!(benches);
