//! What the program can do, one file a command. Nothing here knows how arguments are typed.

mod bench;
mod demo;
mod out;
mod run;
mod signals;
pub mod version;

pub use bench::{
    Error as BenchError, Mode as BenchMode, Options as BenchOptions,
    PassOptions as BenchPassOptions,
};
pub use demo::{
    Error as DemoError, Ledger, Options as DemoOptions, Outcome, Progress, SinkCommand, play,
};
pub use run::Options as RunOptions;
pub use signals::Forced;

use crate::error::Error;
use crate::logging;

/// One thing the user asked for, checked as far as the command line alone allows.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Invocation {
    /// Deduplicate until told to stop.
    Run(RunOptions),
    /// Show it working on an embedded broker.
    Demo(DemoOptions),
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
        Invocation::Demo(options) => {
            logging::init(logging::Format::Human, "firstseen=info")?;
            demo::run(&options)
        }
        Invocation::Bench(options) => {
            logging::init(logging::Format::Human, "firstseen=warn")?;
            bench::run(&options)
        }
        Invocation::BenchPass(options) => bench::pass(&options),
    }
}
