//! `firstseen demo`: the whole promise in one command, on nothing but this binary.
//!
//! It starts librdkafka's mock broker inside this process, writes records with planned duplicates,
//! runs the real sink (`firstseen run`) as a child process, kills that with SIGKILL in the middle of
//! its work again and again, lets the last one drain, and then audits the two topics.
//!
//! The audit shares nothing with the sink: it reads both topics with a client of its own and judges
//! them with [`crate::ledger`]. This is also why the demo talks to `rdkafka` itself instead of going
//! through `kafka/`.
//!
//! The mock broker keeps 5 MiB a partition and silently drops what is older, so the number of
//! partitions grows with the number of records ([`plan`]), and the audit refuses to judge a topic
//! whose beginning is gone.

mod audit;
mod broker;
mod error;
pub(super) mod plan;
mod progress;
mod report;
pub(super) mod sink;
mod stage;
pub(super) mod surroundings;
mod writer;

pub use audit::Ledger;
pub use error::Error;
pub use progress::Progress;
pub use sink::SinkCommand;
pub use stage::{Outcome, play};

use super::out;

/// What the demo was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Print the ledger alone, as one JSON object.
    pub json: bool,
    /// How often the sink is killed.
    pub kills: u32,
    /// How many records are written to the source topic.
    pub records: u64,
    /// Chooses the records and the moments of the kills.
    pub seed: u64,
    /// Keep the working directory.
    pub keep: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { json: false, kills: 5, records: 60_000, seed: 1, keep: false }
    }
}

pub(super) fn run(options: &Options) -> Result<(), crate::error::Error> {
    let sink = SinkCommand::this_program()?;
    let outcome = play(options, &sink, &mut Progress::new(options))?;
    let text = if options.json {
        report::json(&outcome.ledger)?
    } else {
        report::human(options, &outcome)
    };
    out::write(&text)?;
    Ok(outcome.verdict()?)
}
