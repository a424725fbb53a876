//! What the program can do, one file a command. Nothing here knows how arguments are typed.

mod bench;
mod check;
mod demo;
mod out;
mod run;
mod signals;
mod state;
pub mod version;

pub use bench::{
    Error as BenchError, Mode as BenchMode, Options as BenchOptions,
    PassOptions as BenchPassOptions,
};
pub use check::{Options as CheckOptions, reference as check_reference};
pub use demo::{
    Error as DemoError, Ledger, Options as DemoOptions, Outcome, Progress, SinkCommand, play,
};
pub use run::Options as RunOptions;
pub use signals::Forced;
pub use state::{
    Action as StateAction, Error as StateError, Explanation, InspectOptions,
    Options as StateOptions, PartitionStats, RecordOptions, SegmentStats, StatsReport, Verdict,
};

use crate::error::Error;
use crate::logging;

/// One thing the user asked for, checked as far as the command line alone allows.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Invocation {
    /// Deduplicate until told to stop.
    Run(RunOptions),
    /// Say what a config promises on its brokers.
    Check(CheckOptions),
    /// Show it working on an embedded broker.
    Demo(DemoOptions),
    /// Look into the state, move it, mend it.
    State(StateOptions),
    /// Measure what it costs.
    Bench(Box<BenchOptions>),
    /// The passthrough a bench measures against, as its child process.
    BenchPass(BenchPassOptions),
}

/// Does it.
///
/// # Errors
/// Everything the user has to be told, with the exit code.
pub fn run(invocation: Invocation) -> Result<(), Error> {
    match invocation {
        Invocation::Run(options) => run::run(&options),
        Invocation::Check(options) => {
            // What goes wrong is in the report; the client's lines would only be in its way.
            logging::init(logging::Format::Human, "off")?;
            check::run(&options)
        }
        Invocation::Demo(options) => {
            logging::init(logging::Format::Human, "firstseen=info")?;
            demo::run(&options)
        }
        Invocation::State(options) => {
            logging::init(logging::Format::Human, "warn")?;
            state::run(&options)
        }
        Invocation::Bench(options) => {
            logging::init(logging::Format::Human, "firstseen=warn")?;
            bench::run(&options)
        }
        Invocation::BenchPass(options) => bench::pass(&options),
    }
}
