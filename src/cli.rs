//! The command line, as typed. `clap` stops here: [`parse`] hands out plain types.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

use crate::commands::{CheckOptions, DemoOptions, Invocation, RunOptions, version};
use crate::logging::Format;

const AFTER_HELP: &str = "\
Exit codes: 0 done or drained, 1 failed at run time, 2 usage or config, 3 the check or the \
ledger found faults.
Environment: FIRSTSEEN_LOG sets the log filter (default `info`); logs go to stderr.";

/// Forwards each key's first occurrence from one Kafka topic to another, safe across crashes.
#[derive(Parser, Debug)]
#[command(name = "firstseen", version, after_help = AFTER_HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Deduplicate the topics a config file names, until told to stop.
    Run(RunArgs),
    /// Say what a config promises on its brokers, and what weakens it; changes nothing.
    Check(CheckArgs),
    /// Show it working: an embedded broker, made records, a sink killed again and again.
    Demo(DemoArgs),
}

#[derive(Args, Debug)]
struct RunArgs {
    /// The config file (TOML).
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Check the config, list every fault, and leave without touching a broker.
    #[arg(long)]
    check_config: bool,
    /// With `delivery.mode = "auto"`: ask the brokers anew whether they allow transactions,
    /// whatever they said before.
    #[arg(long)]
    redecide: bool,
    /// How logs are written to stderr.
    #[arg(long, value_enum, default_value_t = LogFormat::Human)]
    log: LogFormat,
}

#[derive(Args, Debug)]
struct CheckArgs {
    /// The config file (TOML).
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Print the report as one JSON object.
    #[arg(long)]
    json: bool,
    /// Live with a finding, given by its name (docs/check.md); may be given again.
    #[arg(long, value_name = "NAME")]
    accept: Vec<String>,
}

#[derive(Args, Debug)]
struct DemoArgs {
    /// Print the ledger alone, as one JSON object.
    #[arg(long)]
    json: bool,
    /// How often the sink is killed with SIGKILL.
    #[arg(long, value_name = "N", default_value_t = DemoOptions::default().kills,
          value_parser = clap::value_parser!(u32).range(0..=100))]
    kills: u32,
    /// How many records are written to the source topic.
    #[arg(long, value_name = "N", default_value_t = DemoOptions::default().records,
          value_parser = clap::value_parser!(u64).range(1_000..=500_000))]
    records: u64,
    /// Chooses the records and the moments of the kills.
    #[arg(long, value_name = "N", default_value_t = DemoOptions::default().seed)]
    seed: u64,
    /// Keep the working directory (config, state, log of the sink) and say where it is.
    #[arg(long)]
    keep: bool,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
enum LogFormat {
    /// One readable line each.
    Human,
    /// One JSON object each.
    Json,
}

/// An invocation that ends before any work: help, version, or a usage error.
#[derive(Debug)]
pub struct Early(clap::Error);

impl Early {
    /// Prints the text where it belongs and returns the exit code (usage errors are 2).
    ///
    /// A reader that closed its end of the pipe early has seen enough; that is no failure.
    pub fn print(&self) -> ExitCode {
        let asked_for = matches!(self.0.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
        match self.0.print() {
            Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => ExitCode::from(1),
            _ if asked_for => ExitCode::SUCCESS,
            _ => ExitCode::from(2),
        }
    }
}

/// Parses the arguments, the program's name first.
///
/// # Errors
/// Help and version texts, and usage errors; print them and leave.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Invocation, Early> {
    let matches = command().try_get_matches_from(args).map_err(Early)?;
    let cli = Cli::from_arg_matches(&matches).map_err(Early)?;
    Ok(match cli.command {
        Command::Run(args) => Invocation::Run(args.into()),
        Command::Check(args) => Invocation::Check(args.into()),
        Command::Demo(args) => Invocation::Demo(args.into()),
    })
}

fn command() -> clap::Command {
    Cli::command().long_version(version::long())
}

impl From<RunArgs> for RunOptions {
    fn from(args: RunArgs) -> Self {
        Self {
            config: args.config,
            check_config: args.check_config,
            redecide: args.redecide,
            log: args.log.into(),
        }
    }
}

impl From<CheckArgs> for CheckOptions {
    fn from(args: CheckArgs) -> Self {
        Self { config: args.config, json: args.json, accept: args.accept }
    }
}

impl From<DemoArgs> for DemoOptions {
    fn from(args: DemoArgs) -> Self {
        Self {
            json: args.json,
            kills: args.kills,
            records: args.records,
            seed: args.seed,
            keep: args.keep,
        }
    }
}

impl From<LogFormat> for Format {
    fn from(format: LogFormat) -> Self {
        match format {
            LogFormat::Human => Self::Human,
            LogFormat::Json => Self::Json,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_words(words: &str) -> Result<Invocation, Early> {
        parse(words.split(' ').map(OsString::from))
    }

    #[test]
    fn the_command_line_is_well_formed() {
        command().debug_assert();
    }

    #[test]
    fn run_needs_a_config_file() {
        let error = parse_words("firstseen run").expect_err("no config given");
        assert_eq!(error.0.kind(), ErrorKind::MissingRequiredArgument);
    }

    #[test]
    fn a_demo_without_flags_has_the_defaults_of_the_library() {
        let Ok(Invocation::Demo(options)) = parse_words("firstseen demo") else {
            panic!("expected a demo");
        };
        assert_eq!(options, DemoOptions::default());
    }

    #[test]
    fn flags_reach_the_options() {
        let Ok(Invocation::Run(run)) =
            parse_words("firstseen run --config a.toml --check-config --log json")
        else {
            panic!("expected a run");
        };
        assert_eq!(run.config, PathBuf::from("a.toml"));
        assert!(run.check_config);
        assert_eq!(run.log, Format::Json);
    }

    #[test]
    fn more_records_than_the_embedded_broker_keeps_are_refused() {
        let error = parse_words("firstseen demo --records 500001").expect_err("out of range");
        assert_eq!(error.0.kind(), ErrorKind::ValueValidation);
    }
}
