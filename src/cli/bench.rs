//! The flags of `bench`, as typed.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::commands::{BenchMode, BenchOptions, BenchPassOptions};

#[derive(Args, Debug)]
pub(super) struct BenchArgs {
    /// Measure on the brokers of this config file; without it an embedded broker is started,
    /// whose figures compare only roughly.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// What to measure; the plain passthrough is always measured, too.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "MODE,...")]
    modes: Vec<Mode>,
    /// The times between checkpoints to measure, such as `100ms,1s`.
    #[arg(long, value_delimiter = ',', value_name = "TIME,...", default_value = "1s",
          value_parser = length)]
    intervals: Vec<Duration>,
    /// How many times each is measured, by turns.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// How many records each turn copies, such as `500k` or `4M`. Default: 1M, or 100k on the
    /// embedded broker.
    #[arg(long, value_name = "N", value_parser = count, conflicts_with = "seconds")]
    records: Option<u64>,
    /// Load for so long instead, and copy what that made.
    #[arg(long, value_name = "TIME", value_parser = length)]
    seconds: Option<Duration>,
    /// Bytes of a value.
    #[arg(long, value_name = "BYTES", default_value_t = 200, value_parser = size)]
    size: usize,
    /// Bytes of a key.
    #[arg(long, value_name = "BYTES", default_value_t = 16, value_parser = size)]
    key_size: usize,
    /// Partitions of each topic. Default: 1; as many as needed on the embedded broker.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..=1_000))]
    partitions: Option<i32>,
    /// How many records in 100 repeat an earlier key, such as `0.5`.
    #[arg(long, value_name = "PERCENT", default_value = "5", value_parser = percent)]
    duplicates: u64,
    /// A duplicate repeats one of this many latest keys.
    #[arg(long, value_name = "N", default_value = "10k", value_parser = count)]
    distance: u64,
    /// How long a key is remembered.
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = length)]
    window: Duration,
    /// Records a second at which latencies are taken; 0 takes none, and kills nothing.
    #[arg(long, value_name = "N", default_value = "10k", value_parser = count)]
    rate: u64,
    /// How long latencies are taken in each turn.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = length)]
    rate_for: Duration,
    /// How many keys are known before the first record, such as `10M`.
    #[arg(long, value_name = "N", default_value = "0", value_parser = count)]
    known_keys: u64,
    /// Say which interval keeps the p99 end to end within this time.
    #[arg(long, value_name = "TIME", value_parser = length)]
    target_p99: Option<Duration>,
    /// Chooses the records.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Name the topics `firstseen-bench-NAME-...`. Default: a random name.
    #[arg(long, value_name = "NAME", value_parser = name)]
    name: Option<String>,
    /// The replication factor of the topics. Default: the brokers' own.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..=100))]
    replication: Option<i32>,
    /// Keep the topics and the working directory.
    #[arg(long)]
    keep: bool,
    /// Print the report as one JSON object.
    #[arg(long)]
    json: bool,
    /// Write the report, with pictures, as one page to this file.
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(super) struct BenchPassthroughArgs {
    /// The config file that `bench` wrote.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// The fast one.
    #[arg(long)]
    fast: bool,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
enum Mode {
    /// Poll and send, nothing else.
    Passthrough,
    /// The same, as fast as it can be written.
    FastPassthrough,
    /// `run` without transactions.
    Dedup,
    /// `run` with transactions.
    Transactional,
}

impl From<BenchArgs> for BenchOptions {
    fn from(args: BenchArgs) -> Self {
        let modes = if args.modes.is_empty() {
            BenchMode::ALL.to_vec()
        } else {
            args.modes.into_iter().map(BenchMode::from).collect()
        };
        Self {
            config: args.config,
            modes,
            intervals: args.intervals,
            rounds: args.rounds,
            records: args.records.unwrap_or(0),
            seconds: args.seconds,
            value_bytes: args.size,
            key_bytes: args.key_size,
            partitions: args.partitions,
            duplicates: args.duplicates,
            distance: args.distance.max(1),
            window: args.window,
            rate: args.rate,
            rate_for: args.rate_for,
            known_keys: args.known_keys,
            target_p99: args.target_p99,
            seed: args.seed,
            name: args.name,
            replication: args.replication,
            keep: args.keep,
            json: args.json,
            report: args.report,
        }
    }
}

impl From<BenchPassthroughArgs> for BenchPassOptions {
    fn from(args: BenchPassthroughArgs) -> Self {
        Self { config: args.config, fast: args.fast }
    }
}

impl From<Mode> for BenchMode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Passthrough => Self::Passthrough,
            Mode::FastPassthrough => Self::FastPassthrough,
            Mode::Dedup => Self::Dedup,
            Mode::Transactional => Self::Transactional,
        }
    }
}

/// Reads a length of time such as `250ms`.
fn length(text: &str) -> Result<Duration, String> {
    let length = humantime::parse_duration(text)
        .map_err(|error| format!("expected a length of time such as `250ms`: {error}"))?;
    if length.is_zero() { Err("expected more than nothing".to_owned()) } else { Ok(length) }
}

/// Reads a number such as `500k` or `10M`.
fn count(text: &str) -> Result<u64, String> {
    let wrong = || format!("expected a number such as `500k` or `10M`, got `{text}`");
    let (digits, factor) = match text.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 1_000),
        None => match text.strip_suffix('M') {
            Some(digits) => (digits, 1_000_000),
            None => (text, 1),
        },
    };
    let number: u64 = digits.replace('_', "").parse().map_err(|_not_a_number| wrong())?;
    number.checked_mul(factor).ok_or_else(wrong)
}

/// Reads a percentage; returns hundredths of it.
fn percent(text: &str) -> Result<u64, String> {
    let wrong = || format!("expected a percentage from 0 to 100 such as `0.5`, got `{text}`");
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    if part.is_empty() || part.len() > 2 || !part.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong());
    }
    let whole: u64 = whole.parse().map_err(|_not_a_number| wrong())?;
    let part: u64 = format!("{part:0<2}").parse().map_err(|_not_a_number| wrong())?;
    let hundredths = whole.checked_mul(100).map(|whole| whole + part);
    hundredths.filter(|hundredths| *hundredths <= 10_000).ok_or_else(wrong)
}

fn size(text: &str) -> Result<usize, String> {
    const MAX: usize = 900_000;
    let size = text.parse().ok().filter(|size| *size <= MAX);
    size.ok_or_else(|| format!("expected a number of bytes up to {MAX}, got `{text}`"))
}

fn name(text: &str) -> Result<String, String> {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if text.is_empty() || text.len() > 64 || !text.chars().all(legal) {
        return Err("expected up to 64 letters, digits, `-`, `_` or `.`".to_owned());
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::super::parse;
    use super::*;
    use crate::commands::Invocation;

    fn bench(words: &str) -> Result<BenchOptions, String> {
        let words = format!("firstseen bench {words}");
        match parse(words.split_whitespace().map(OsString::from)) {
            Ok(Invocation::Bench(options)) => Ok(*options),
            Ok(other) => panic!("{other:?}"),
            Err(early) => Err(format!("{early:?}")),
        }
    }

    #[test]
    fn without_flags_the_defaults_are_those_of_the_library() {
        assert_eq!(bench("").expect("parses"), BenchOptions::default());
    }

    #[test]
    fn every_flag_reaches_the_options() {
        let options = bench(
            "--config a.toml --modes dedup,transactional --intervals 100ms,1s --rounds 5 \
             --records 4M --size 300 --key-size 24 --partitions 4 --duplicates 12.5 \
             --distance 50k --window 72h --rate 20k --rate-for 8s --known-keys 10M \
             --target-p99 250ms --seed 9 --name mine --replication 3 --keep --json --report r.html",
        )
        .expect("parses");
        let wanted = BenchOptions {
            config: Some("a.toml".into()),
            modes: vec![BenchMode::Dedup, BenchMode::Transactional],
            intervals: vec![Duration::from_millis(100), Duration::from_secs(1)],
            rounds: 5,
            records: 4_000_000,
            seconds: None,
            value_bytes: 300,
            key_bytes: 24,
            partitions: Some(4),
            duplicates: 1_250,
            distance: 50_000,
            window: Duration::from_secs(72 * 3_600),
            rate: 20_000,
            rate_for: Duration::from_secs(8),
            known_keys: 10_000_000,
            target_p99: Some(Duration::from_millis(250)),
            seed: 9,
            name: Some("mine".to_owned()),
            replication: Some(3),
            keep: true,
            json: true,
            report: Some("r.html".into()),
        };
        assert_eq!(options, wanted);
        let seconds = bench("--config a.toml --seconds 10s").expect("parses").seconds;
        assert_eq!(seconds, Some(Duration::from_secs(10)));
    }

    #[test]
    fn a_count_and_a_time_exclude_each_other() {
        bench("--records 1k --seconds 1s").expect_err("both");
    }

    #[test]
    fn what_is_no_number_time_or_name_is_refused() {
        for words in [
            "--records 4G",
            "--records -1",
            "--rounds 0",
            "--duplicates 100.5",
            "--duplicates 1.234",
            "--duplicates x",
            "--intervals 0s",
            "--target-p99 250",
            "--name a/b",
            "--size 1000000",
            "--modes fast",
        ] {
            bench(words).expect_err(words);
        }
    }

    #[test]
    fn percentages_are_exact() {
        assert_eq!(percent("5"), Ok(500));
        assert_eq!(percent("0.05"), Ok(5));
        assert_eq!(percent("100"), Ok(10_000));
    }
}
