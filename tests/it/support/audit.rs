//! The ledger over whole topics.

use std::collections::BTreeMap;
use std::time::Duration;

use firstseen::ledger::{Check, Ledger, Rules};
use firstseen::words::Span;

use super::reader::{read, read_all};

/// Checks each partition of `output` against the same one of `input`, by record key, and returns
/// the sum.
pub(crate) fn ledger(
    address: &str,
    input: &str,
    output: &str,
    partitions: i32,
    window: Duration,
) -> Ledger {
    let mut total = Ledger::default();
    for partition in 0..partitions {
        let mut check = Check::new(partition, Rules::by_record_key(Span::from(window)));
        read(address, input, partition, |record| check.input(&record));
        read(address, output, partition, |record| check.output(&record));
        total.merge(&check.finish());
    }
    eprintln!("{input} -> {output}: {total}");
    total
}

/// Fails unless nothing is lost, repeated, reordered, altered or made up.
pub(crate) fn assert_clean(ledger: &Ledger) {
    assert!(ledger.is_clean(), "{ledger}");
}

/// What was known at one moment: how far the group had committed in a source partition, and then
/// how long the output partition was.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Promise {
    pub(crate) partition: i32,
    pub(crate) committed: i64,
    pub(crate) output_end: i64,
}

/// Fails if a group ever committed beyond a first occurrence that was not yet on the output. The
/// window must cover the whole test.
pub(crate) fn assert_kept(address: &str, input: &str, output: &str, promises: &[Promise]) {
    let mut by_partition: BTreeMap<i32, Vec<Promise>> = BTreeMap::new();
    for promise in promises {
        by_partition.entry(promise.partition).or_default().push(*promise);
    }
    for (partition, promises) in by_partition {
        let needed = needed_ends(address, input, output, partition);
        for promise in promises {
            let below = needed.range(..promise.committed).next_back().map_or(0, |(_, end)| *end);
            assert!(below <= promise.output_end, "{promise:?}, but the output needed {below}");
        }
    }
}

/// Returns, by source offset of each first occurrence, how long the output must be to hold it and
/// all before it. Records without a key are left out: they have no identity.
fn needed_ends(address: &str, input: &str, output: &str, partition: i32) -> BTreeMap<i64, i64> {
    let mut ends = BTreeMap::new();
    for record in read_all(address, output, partition) {
        ends.entry(record.key).or_insert(record.offset.0 + 1);
    }
    let mut needed = BTreeMap::new();
    let mut longest = 0;
    for record in read_all(address, input, partition) {
        if record.key.is_some()
            && let Some(end) = ends.remove(&record.key)
        {
            longest = longest.max(end);
            needed.insert(record.offset.0, longest);
        }
    }
    needed
}
