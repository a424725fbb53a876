//! The command line of `firstseen state`.

use std::path::PathBuf;
use std::time::UNIX_EPOCH;

use clap::error::ErrorKind;
use clap::{Args, Subcommand};

use crate::commands::{InspectOptions, RecordOptions, StateAction, StateOptions};
use crate::words::Timestamp;

const KEY_HELP: &str = "\
The key is given in one of two ways.
One KEY for each part of the topic's `dedup.key`, in its order: the text of the record key, value or \
header; for `json:/...` a JSON scalar as it is spelt in the records (42, \"42\", true), and anything \
else stands for a string.
Or the record in parts: --key-hex, --key-null, --key-file, --value-file, --header; the rule takes from \
it what it needs. A KEY beside them is the record key. Other users may see arguments; files they may \
not.";

#[derive(Args, Debug)]
pub(super) struct StateArgs {
    #[command(subcommand)]
    action: ActionArgs,
    /// The config file (TOML) of the `run` whose state this is.
    #[arg(long, value_name = "FILE", global = true)]
    config: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long, global = true)]
    json: bool,
    /// Only this source topic.
    #[arg(long, value_name = "NAME", global = true)]
    topic: Option<String>,
    /// Only this source partition.
    #[arg(long, value_name = "N", global = true)]
    partition: Option<i32>,
}

#[derive(Subcommand, Debug)]
enum ActionArgs {
    /// Keys, bytes, segments, memory, how far back, what a day costs. Works while `run` does.
    Stats,
    /// List segments, runs and entries.
    Inspect(InspectArgs),
    /// Say what would become of a record, and why. Works while `run` does.
    #[command(after_help = KEY_HELP)]
    Explain(ExplainArgs),
    /// Make the state as small as it can be. While `run` holds it, merge its runs.
    Compact,
    /// Read every checksum and name what is wrong; exit code 3 where something is.
    Verify,
    /// Write the state to a file, with its secret, to be imported elsewhere.
    Export {
        /// The file; must not be there yet.
        file: PathBuf,
    },
    /// Make the state from such a file; never over one that is there.
    Import {
        /// The file.
        file: PathBuf,
    },
    /// Forget a key, so that the next record with it is forwarded.
    #[command(after_help = KEY_HELP)]
    Forget(RecordArgs),
    /// Remove the state, so that `run` rebuilds it.
    Reset {
        /// Really.
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Args, Debug)]
struct InspectArgs {
    /// How many entries of each partition at most.
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
    /// Only entries at this time or later (RFC 3339, or ms since 1970).
    #[arg(long, value_name = "TIME", value_parser = time, allow_hyphen_values = true)]
    since: Option<Timestamp>,
    /// Only entries at this time or earlier.
    #[arg(long, value_name = "TIME", value_parser = time, allow_hyphen_values = true)]
    until: Option<Timestamp>,
    /// Only entries of this segment.
    #[arg(long, value_name = "NAME")]
    segment: Option<String>,
    /// Only entries whose fingerprint begins with these hexadecimal digits.
    #[arg(long, value_name = "HEX")]
    fingerprint: Option<String>,
    /// List runs, no entries.
    #[arg(long)]
    runs: bool,
}

#[derive(Args, Debug)]
struct ExplainArgs {
    #[command(flatten)]
    record: RecordArgs,
    /// The time at which it is judged (RFC 3339, or ms since 1970); now if not given.
    #[arg(long, value_name = "TIME", value_parser = time, allow_hyphen_values = true)]
    at: Option<Timestamp>,
}

#[derive(Args)]
struct RecordArgs {
    /// One for each part of the key rule, in order.
    #[arg(value_name = "KEY")]
    keys: Vec<String>,
    /// The record key in hexadecimal.
    #[arg(long, value_name = "HEX")]
    key_hex: Option<String>,
    /// The record key is null.
    #[arg(long)]
    key_null: bool,
    /// A file that holds the record key; `-` is stdin.
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// A file that holds the value; `-` is stdin.
    #[arg(long, value_name = "FILE")]
    value_file: Option<PathBuf>,
    /// A header; may be given several times.
    #[arg(long = "header", value_name = "NAME=VALUE")]
    headers: Vec<String>,
}

/// Says nothing of what was typed.
impl std::fmt::Debug for RecordArgs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordArgs").finish_non_exhaustive()
    }
}

fn time(text: &str) -> Result<Timestamp, String> {
    if let Ok(ms) = text.parse() {
        return Ok(Timestamp(ms));
    }
    let expected = || "expected a time such as 2026-11-30T12:00:00Z, or ms since 1970".to_owned();
    let time = humantime::parse_rfc3339_weak(text).map_err(|_error| expected())?;
    let since = time.duration_since(UNIX_EPOCH).map_err(|_error| expected())?;
    i64::try_from(since.as_millis()).map(Timestamp).map_err(|_error| expected())
}

impl StateArgs {
    /// Returns what was asked for. A flag that every subcommand takes cannot be a required one for
    /// the parser, so the config file is asked for here.
    pub(super) fn options(self) -> Result<StateOptions, clap::Error> {
        let Self { action, config, json, topic, partition } = self;
        let Some(config) = config else {
            let text = "the following required arguments were not provided:\n  --config <FILE>\n";
            return Err(super::command().error(ErrorKind::MissingRequiredArgument, text));
        };
        Ok(StateOptions { config, json, topic, partition, action: action.into() })
    }
}

impl From<ActionArgs> for StateAction {
    fn from(args: ActionArgs) -> Self {
        match args {
            ActionArgs::Stats => Self::Stats,
            ActionArgs::Inspect(args) => Self::Inspect(args.into()),
            ActionArgs::Explain(args) => Self::Explain { record: args.record.into(), at: args.at },
            ActionArgs::Compact => Self::Compact,
            ActionArgs::Verify => Self::Verify,
            ActionArgs::Export { file } => Self::Export { file },
            ActionArgs::Import { file } => Self::Import { file },
            ActionArgs::Forget(args) => Self::Forget { record: args.into() },
            ActionArgs::Reset { yes } => Self::Reset { yes },
        }
    }
}

impl From<InspectArgs> for InspectOptions {
    fn from(args: InspectArgs) -> Self {
        let InspectArgs { limit, since, until, segment, fingerprint, runs } = args;
        Self { limit, since, until, segment, fingerprint, runs }
    }
}

impl From<RecordArgs> for RecordOptions {
    fn from(args: RecordArgs) -> Self {
        let RecordArgs { keys, key_hex, key_null, key_file, value_file, headers } = args;
        Self { keys, key_hex, key_null, key_file, value_file, headers }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_calendar_times_and_as_milliseconds() {
        assert_eq!(time("1700000000123"), Ok(Timestamp(1_700_000_000_123)));
        assert_eq!(time("2023-11-14T22:13:20.123Z"), Ok(Timestamp(1_700_000_000_123)));
        assert_eq!(time("2023-11-14 22:13:20"), Ok(Timestamp(1_700_000_000_000)));
        assert_eq!(time("-5"), Ok(Timestamp(-5)));
        assert!(time("yesterday").is_err());
    }
}
