//! What a fingerprint costs, by hash and by key rule.

#![expect(clippy::expect_used, reason = "a bench without its input has nothing to measure")]

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use firstseen::key::{HashKind, Hasher, KeyPart, KeyRule, NoHeaders, RecordView, Secret};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// How many records one measured pass goes over: more than branch predictors learn by heart.
const RECORDS: usize = 1_024;
const SEED: u64 = 0x0066_6972_7374;

struct Record {
    key: Vec<u8>,
    value: Vec<u8>,
}

struct Case {
    slug: &'static str,
    parts: &'static [&'static str],
}

const CASES: [Case; 4] = [
    Case { slug: "record-key-16", parts: &["record-key"] },
    Case { slug: "json-200", parts: &["json:/payment/id"] },
    Case { slug: "value-200", parts: &["value"] },
    Case { slug: "composite", parts: &["record-key", "json:/payment/id"] },
];

/// Random 16-byte keys, and 200-byte JSON values with the id in the middle.
fn records() -> Vec<Record> {
    let mut random = StdRng::seed_from_u64(SEED);
    let record = |_| {
        let (a, b): (u64, u64) = (random.next_u64(), random.next_u64());
        let mut value = format!(
            r#"{{"kind":"payment","version":3,"payment":{{"id":"{a:016x}","amount":"{:05}.10","currency":"EUR"}},"to":{{"name":"{b:016x}","country":"NL"}},"note":""#,
            b % 100_000,
        )
        .into_bytes();
        value.resize(198, b'n');
        value.extend_from_slice(b"\"}");
        Record { key: [a.to_be_bytes(), b.to_be_bytes()].concat(), value }
    };
    (0..RECORDS).map(record).collect()
}

fn fingerprint(c: &mut Criterion) {
    let records = records();
    for kind in HashKind::ALL {
        let mut group = c.benchmark_group(format!("fingerprint/{kind}"));
        group.throughput(Throughput::Elements(RECORDS as u64));
        for case in &CASES {
            let parts = case.parts.iter().map(|part| KeyPart::parse(part).expect("a valid part"));
            let rule = KeyRule::new(parts.collect()).expect("at least one part");
            let mut hasher = Hasher::new(kind, Secret::from_bytes([0x5a; Secret::LEN]));
            group.bench_function(BenchmarkId::from_parameter(case.slug), |b| {
                b.iter(|| {
                    for record in &records {
                        let (key, value) = (Some(&*record.key), Some(&*record.value));
                        let view = RecordView { key, value, headers: &NoHeaders };
                        black_box(hasher.fingerprint(&rule, black_box(view)).expect("a key"));
                    }
                });
            });
        }
        group.finish();
    }
}

criterion_group!(benches, fingerprint);
criterion_main!(benches);
