//! That a record comes out byte for byte as it went in.

use std::sync::atomic::AtomicBool;

use super::*;
use crate::words::OutputPosition;

/// A record in full: key, value, timestamp, headers.
type Whole = (Option<Vec<u8>>, Option<Vec<u8>>, Option<i64>, Vec<(Vec<u8>, Option<Vec<u8>>)>);

fn whole(record: &SourceRecord<'_>) -> Whole {
    (
        record.key().map(<[u8]>::to_vec),
        record.value().map(<[u8]>::to_vec),
        record.timestamp().map(|time| time.0),
        record.headers().map(|(n, v)| (n.to_vec(), v.map(<[u8]>::to_vec))).collect(),
    )
}

/// Sends everything in `in/0` to `out/0` and returns what `out/0` then holds.
fn forwarded(config: &Config, count: usize) -> Vec<Whole> {
    let mut source = alone(config, &SourcePartition::new("in", 0), 0);
    let mut sink = Sink::connect(config, None, None).unwrap();
    let out = sink.target("out").unwrap();
    for token in 0..count {
        until(&mut source, |polled| match polled {
            Polled::Record(record) => {
                let token = u64::try_from(token).unwrap();
                sink.send(&record, out, 0, token).unwrap();
                Some(())
            }
            _ => None,
        });
    }
    let mut reports = Vec::new();
    assert!(sink.flush(Instant::now() + SOON, &mut reports));
    for (place, report) in reports.iter().enumerate() {
        assert_eq!(report.token, u64::try_from(place).unwrap(), "reports come in order");
        assert!(matches!(report.outcome, Outcome::Confirmed { offset: Some(_) }), "{report:?}");
    }
    assert_eq!(reports.len(), count);
    read_all(config, "out")
}

pub(super) fn read_all(config: &Config, topic: &str) -> Vec<Whole> {
    let reader = OutputReader::connect(config, SOON).unwrap();
    let (low, high) = reader.bounds(topic, 0).unwrap();
    assert_eq!(low, OutputPosition(0));
    let mut found = Vec::new();
    let stop = AtomicBool::new(false);
    reader
        .read(topic, 0, low, high, &stop, SOON, &mut |record| {
            found.push(whole(record));
            true
        })
        .unwrap();
    found
}

#[test]
fn null_and_empty_stay_apart_in_key_and_value() {
    let cluster = mock(&[("in", 1), ("out", 1)]);
    let config = config(&cluster.bootstrap_servers(), "in");
    let raw = Raw::new(&cluster.bootstrap_servers(), "in");
    for key in [None, Some(&b""[..]), Some(b"k")] {
        for value in [None, Some(&b""[..]), Some(b"v\0\xff")] {
            raw.put(0, key, value, 1_000, None);
        }
    }
    raw.flush();
    let out = forwarded(&config, 9);
    assert_eq!(out, read_all(&config, "in"));
    assert_eq!(out[0], (None, None, Some(1_000), vec![]));
    assert_eq!(out[4], (Some(vec![]), Some(vec![]), Some(1_000), vec![]));
}

#[test]
fn headers_of_any_bytes_are_copied_in_order_and_found_by_name() {
    let cluster = mock(&[("in", 1), ("out", 1)]);
    let config = config(&cluster.bootstrap_servers(), "in");
    let raw = Raw::new(&cluster.bootstrap_servers(), "in");
    let all: [(&[u8], Option<&[u8]>); 5] = [
        (b"\xff\xfe", Some(b"not text")),
        (b"id", Some(b"1")),
        (b"id", None),
        (b"id", Some(b"")),
        (b"", Some(b"no name")),
    ];
    raw.put(0, Some(b"k"), Some(b"v"), 1_000, Some(&OwnHeaders::new(&all)));
    raw.flush();
    let expected: Vec<_> = all.iter().map(|(n, v)| (n.to_vec(), v.map(<[u8]>::to_vec))).collect();
    assert_eq!(
        forwarded(&config, 1),
        [(Some(b"k".to_vec()), Some(b"v".to_vec()), Some(1_000), expected)]
    );

    let mut source = alone(&config, &SourcePartition::new("in", 0), 0);
    let named = until(&mut source, |polled| match polled {
        Polled::Record(record) => {
            let mut named = Vec::new();
            crate::key::Headers::each_named(&record, b"id", &mut |value| {
                named.push(value.map(<[u8]>::to_vec));
            });
            assert_eq!(record.size_bytes(), 1 + 1 + 2 + 8 + 6 + 1 + 7);
            Some(named)
        }
        _ => None,
    });
    assert_eq!(named, [Some(b"1".to_vec()), None, Some(vec![])]);
}

#[test]
fn timestamps_are_kept_and_minus_one_means_none() {
    let cluster = mock(&[("in", 1), ("out", 1)]);
    let config = config(&cluster.bootstrap_servers(), "in");
    let raw = Raw::new(&cluster.bootstrap_servers(), "in");
    let times = [-1, 1, 1_700_000_000_123, 4_102_444_800_000, -5_000];
    for time in times {
        raw.put(0, Some(b"k"), Some(b"v"), time, None);
        raw.flush();
    }
    let out: Vec<_> = forwarded(&config, times.len()).into_iter().map(|r| r.2).collect();
    let expected: Vec<_> = times.iter().map(|t| (*t != -1).then_some(*t)).collect();
    assert_eq!(out, expected);
}
