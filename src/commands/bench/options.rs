//! What a bench was asked for.

use std::path::PathBuf;
use std::time::Duration;

use super::Error;
use super::matrix::Mode;
use super::plan::{KEY_BYTES_MIN, Shape, VALUE_BYTES_MIN};
use crate::kafka::bench::Embedded;

/// What a bench was asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The config with the user's brokers; `None` is the embedded broker.
    pub config: Option<PathBuf>,
    /// Which paths, besides the plain passthrough.
    pub modes: Vec<Mode>,
    /// The intervals between checkpoints, one row each.
    pub intervals: Vec<Duration>,
    /// How many rounds.
    pub rounds: u32,
    /// How many records each throughput turn copies.
    pub records: u64,
    /// Load for so long instead.
    pub seconds: Option<Duration>,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// Bytes of a key.
    pub key_bytes: usize,
    /// Partitions of each topic.
    pub partitions: Option<i32>,
    /// Of 10,000 records, how many repeat an earlier key.
    pub duplicates: u64,
    /// A duplicate repeats one of this many latest keys.
    pub distance: u64,
    /// How long a key is remembered.
    pub window: Duration,
    /// Records a second for latencies; 0 leaves them out.
    pub rate: u64,
    /// How long they are timed.
    pub rate_for: Duration,
    /// How many keys `run` knows before its first record.
    pub known_keys: u64,
    /// The p99 that is wanted.
    pub target_p99: Option<Duration>,
    /// Chooses the records.
    pub seed: u64,
    /// What the names of the topics have after `firstseen-bench-`; `None` is a random one.
    pub name: Option<String>,
    /// The replication factor of the topics; `None` is the brokers' default.
    pub replication: Option<i32>,
    /// Keep topics and working directory.
    pub keep: bool,
    /// Print the report as JSON.
    pub json: bool,
    /// Write the report as a page to this file.
    pub report: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            config: None,
            modes: Mode::ALL.to_vec(),
            intervals: vec![Duration::from_secs(1)],
            rounds: 3,
            records: 0,
            seconds: None,
            value_bytes: 200,
            key_bytes: 16,
            partitions: None,
            duplicates: 500,
            distance: 10_000,
            window: Duration::from_secs(24 * 3_600),
            rate: 10_000,
            rate_for: Duration::from_secs(5),
            known_keys: 0,
            target_p99: None,
            seed: 1,
            name: None,
            replication: None,
            keep: false,
            json: false,
            report: None,
        }
    }
}

/// What a record takes in a batch beside its key and value, at most.
const OVERHEAD_BYTES: u64 = 40;
/// How much longer than records are timed the load of a latency turn may last: start and kill.
const MARGIN: Duration = Duration::from_secs(25);
/// What the embedded broker may hold in all.
const EMBEDDED_MAX_BYTES: u64 = 2 << 30;

impl Options {
    /// The default number of records, where none is asked for.
    const RECORDS: u64 = 1_000_000;
    const RECORDS_EMBEDDED: u64 = 100_000;

    /// Returns the options with what depends on others filled in.
    pub(super) fn resolved(&self) -> Self {
        let mut resolved = self.clone();
        if resolved.records == 0 {
            let embedded = self.config.is_none();
            resolved.records = if embedded { Self::RECORDS_EMBEDDED } else { Self::RECORDS };
        }
        resolved
    }

    /// Refuses what cannot be.
    ///
    /// # Errors
    /// [`Error::Options`], naming the flag.
    pub(super) fn check(&self) -> Result<(), Error> {
        let refuse = |text: String| Err(Error::Options(text));
        if self.key_bytes < KEY_BYTES_MIN {
            return refuse(format!("`--key-size`: expected at least {KEY_BYTES_MIN}"));
        }
        if self.value_bytes < VALUE_BYTES_MIN {
            return refuse(format!("`--size`: expected at least {VALUE_BYTES_MIN}"));
        }
        if self.config.is_none() {
            let needs = self.resolved().embedded_bytes();
            if self.seconds.is_some() {
                return refuse("`--seconds`: the embedded broker keeps too little for it; use `--records`, or `--config` with brokers of your own".to_owned());
            }
            if needs > EMBEDDED_MAX_BYTES {
                return refuse(format!(
                    "`--records` and `--rounds`: the embedded broker would have to hold {} MiB, and takes 2048 MiB",
                    needs >> 20
                ));
            }
        }
        Ok(())
    }

    /// Key and value together.
    pub(super) fn record_bytes(&self) -> u64 {
        u64::try_from(self.key_bytes + self.value_bytes).unwrap_or(u64::MAX)
    }

    pub(super) fn shape(&self) -> Shape {
        Shape {
            key_bytes: self.key_bytes,
            value_bytes: self.value_bytes,
            duplicates: self.duplicates,
            distance: self.distance,
            seed: self.seed,
        }
    }

    fn steady_records(&self) -> u64 {
        self.rate.saturating_mul((self.rate_for + MARGIN).as_secs())
    }

    fn stored_bytes(&self, records: u64) -> u64 {
        records.saturating_mul(self.record_bytes() + OVERHEAD_BYTES)
    }

    /// What the embedded broker, which forgets nothing, has to hold at the end.
    fn embedded_bytes(&self) -> u64 {
        let rows = 2 + u64::try_from(self.intervals.len()).unwrap_or(u64::MAX);
        let turns = rows.saturating_mul(u64::from(self.rounds));
        let typical = self.rate.saturating_mul((self.rate_for + MARGIN / 4).as_secs());
        let steady = self.stored_bytes(typical.saturating_mul(2));
        self.stored_bytes(self.records).saturating_add(steady).saturating_mul(turns)
    }

    /// Returns how many partitions each topic gets: enough that the embedded broker drops
    /// nothing, where it is that.
    pub(super) fn partition_count(&self) -> i32 {
        let wanted = self.partitions.unwrap_or(1);
        if self.config.is_some() {
            return wanted;
        }
        let bytes = self.stored_bytes(self.records.max(self.steady_records()));
        // Keys are hashed to partitions, so some get more than their share.
        let needed = bytes.saturating_mul(5) / 4 / Embedded::PARTITION_MAX_BYTES + 1;
        i32::try_from(needed).unwrap_or(i32::MAX).max(wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_fit_the_embedded_broker() {
        Options::default().check().expect("fits");
        let partitions = Options::default().resolved().partition_count();
        assert!((2..=64).contains(&partitions), "{partitions}");
    }

    #[test]
    fn more_than_the_embedded_broker_holds_is_refused_and_brokers_of_ones_own_take_it() {
        let options = Options { records: 5_000_000, ..Options::default() };
        let error = options.check().expect_err("too much");
        assert!(error.to_string().contains("--records"), "{error}");
        Options { config: Some("x".into()), ..options }.check().expect("no limit");
    }

    #[test]
    fn keys_and_values_too_short_to_be_told_apart_are_refused() {
        let short_key = Options { key_bytes: 7, ..Options::default() };
        assert!(short_key.check().expect_err("short").to_string().contains("--key-size"));
        let short_value = Options { value_bytes: 16, ..Options::default() };
        assert!(short_value.check().expect_err("short").to_string().contains("--size"));
    }

    #[test]
    fn brokers_of_ones_own_get_the_partitions_asked_for() {
        let options = Options { config: Some("x".into()), ..Options::default() };
        assert_eq!(options.resolved().partition_count(), 1);
        assert_eq!(Options { partitions: Some(4), ..options }.partition_count(), 4);
    }
}
