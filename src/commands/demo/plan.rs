//! Which records are made: fixed by the seed, with duplicates of every age.

/// How many records a partition gets at most: 15,000 of at most 200 bytes, with their share of batch
/// headers, stay below the 5 MiB that the mock broker keeps.
const RECORDS_PER_PARTITION: u64 = 15_000;
const PARTITIONS_MIN: i32 = 4;

/// Of 100 records, how many repeat an earlier payment.
const DUPLICATES_PERCENT: u64 = 25;
/// Half the duplicates repeat one of this many latest payments, so that copies meet in flight.
const RECENT: u64 = 40;

/// Returns how many partitions a topic needs so that nothing of `records` is dropped.
pub(super) fn partitions(records: u64) -> i32 {
    let needed = records.div_ceil(RECORDS_PER_PARTITION);
    i32::try_from(needed).unwrap_or(i32::MAX).max(PARTITIONS_MIN)
}

/// A small generator of random numbers (SplitMix64): the same on every machine.
#[derive(Clone, Debug)]
pub(in crate::commands) struct Random(u64);

impl Random {
    pub(in crate::commands) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns any number.
    pub(in crate::commands) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `bound`; 0 where the bound is 0.
    pub(in crate::commands) fn below(&mut self, bound: u64) -> u64 {
        self.next().checked_rem(bound).unwrap_or(0)
    }
}

/// One record to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Planned {
    pub(super) partition: i32,
    pub(super) key: String,
    /// Differs between the copies of a key, so that the audit can tell the first from a later one.
    pub(super) value: String,
}

/// Makes the records one after the other.
#[derive(Debug)]
pub(super) struct Plan {
    random: Random,
    records: u64,
    made: u64,
    payments: u64,
    partitions: i32,
}

impl Plan {
    pub(super) fn new(seed: u64, records: u64) -> Self {
        Self {
            random: Random::new(seed),
            records,
            made: 0,
            payments: 0,
            partitions: partitions(records),
        }
    }

    fn choose_payment(&mut self) -> u64 {
        let repeats = self.payments > 0 && self.random.below(100) < DUPLICATES_PERCENT;
        if !repeats {
            self.payments += 1;
            return self.payments - 1;
        }
        if self.random.below(2) == 0 {
            self.payments - 1 - self.random.below(RECENT.min(self.payments))
        } else {
            self.random.below(self.payments)
        }
    }
}

impl Iterator for Plan {
    type Item = Planned;

    fn next(&mut self) -> Option<Planned> {
        if self.made == self.records {
            return None;
        }
        let payment = self.choose_payment();
        let cents = self.random.below(1_000_000);
        let value = format!(
            r#"{{"payment":"pay-{payment:08}","cents":{cents},"attempt_at":{}}}"#,
            self.made
        );
        self.made += 1;
        let partition = payment % u64::from(self.partitions.unsigned_abs());
        Some(Planned {
            partition: i32::try_from(partition).unwrap_or(0),
            key: format!("pay-{payment:08}"),
            value,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn the_same_seed_makes_the_same_records_and_another_seed_does_not() {
        let plan = |seed| Plan::new(seed, 1_000).collect::<Vec<_>>();
        assert_eq!(plan(7), plan(7));
        assert_ne!(plan(7), plan(8));
    }

    #[test]
    fn a_quarter_of_the_records_are_duplicates_and_each_copy_has_its_own_value() {
        let records: Vec<_> = Plan::new(1, 20_000).collect();
        let keys: HashSet<_> = records.iter().map(|record| &record.key).collect();
        let values: HashSet<_> = records.iter().map(|record| &record.value).collect();
        let duplicates = records.len() - keys.len();
        assert!((4_500..=5_500).contains(&duplicates), "{duplicates} duplicates");
        assert_eq!(values.len(), records.len());
    }

    #[test]
    fn copies_of_a_key_share_a_partition() {
        let mut homes = std::collections::HashMap::new();
        for record in Plan::new(3, 5_000) {
            assert_eq!(*homes.entry(record.key).or_insert(record.partition), record.partition);
        }
    }

    #[test]
    fn no_partition_outgrows_what_the_mock_broker_keeps() {
        for records in [1_000, 60_000, 500_000] {
            let mut bytes = vec![0; usize::try_from(partitions(records)).expect("positive")];
            for record in Plan::new(1, records) {
                let overhead = 30;
                bytes[usize::try_from(record.partition).expect("positive")] +=
                    record.key.len() + record.value.len() + overhead;
            }
            let most = bytes.iter().max().copied().unwrap_or(0);
            assert!(most < 4 << 20, "{records} records put {most} bytes into one partition");
        }
    }
}
