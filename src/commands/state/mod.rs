//! `firstseen state`: look into the state, move it, mend it.
//!
//! Every command but three refuses a state that another process holds. `stats`, `explain` and `compact`
//! then ask that process, at its status address. No key is ever logged; fingerprints are shown, from
//! which no key follows.

mod ask;
mod compact;
mod error;
mod explain;
mod forget;
mod inspect;
mod key;
mod online;
mod progress;
mod reset;
mod scope;
mod stats;
mod transfer;
mod verify;

use std::path::PathBuf;

pub use error::Error;
pub use explain::{Explanation, Verdict};
pub use inspect::InspectOptions;
pub use key::RecordOptions;
pub(super) use online::Online;
pub use stats::{PartitionStats, SegmentStats, StatsReport};

use crate::commands::out;
use crate::config::{self, Config, Environment};
use crate::words::Timestamp;
use progress::Progress;
use scope::Scope;

/// What `state` was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The config file.
    pub config: PathBuf,
    /// Print one JSON object.
    pub json: bool,
    /// Only this source topic.
    pub topic: Option<String>,
    /// Only this source partition.
    pub partition: Option<i32>,
    /// What to do.
    pub action: Action,
}

/// What to do with the state.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action {
    /// Show figures.
    Stats,
    /// List segments, runs and entries.
    Inspect(InspectOptions),
    /// Say what would become of a record, and why.
    Explain {
        /// The record.
        record: RecordOptions,
        /// The time at which it is judged; now if not given.
        at: Option<Timestamp>,
    },
    /// Make it as small as it can be.
    Compact,
    /// Read every checksum.
    Verify,
    /// Write it to a file.
    Export {
        /// The file.
        file: PathBuf,
    },
    /// Make it from a file.
    Import {
        /// The file.
        file: PathBuf,
    },
    /// Forget a key.
    Forget {
        /// A record with that key.
        record: RecordOptions,
    },
    /// Remove it.
    Reset {
        /// Really.
        yes: bool,
    },
}

/// What every command works with.
struct Context {
    config: Config,
    scope: Scope,
    json: bool,
}

impl Context {
    fn progress(&self, what: &'static str) -> Progress {
        Progress::new(what, self.json)
    }

    /// Prints a result: the object for programs, or the text for people.
    fn print(&self, object: &impl serde::Serialize, text: &str) -> Result<(), out::Error> {
        if !self.json {
            return out::write(text);
        }
        // Only maps with keys that are no strings fail; there are none.
        let json = serde_json::to_string_pretty(object).unwrap_or_default();
        out::write(&format!("{json}\n"))
    }
}

pub(super) fn run(options: &Options) -> Result<(), crate::error::Error> {
    let config = config::load(&options.config, &Environment::of_process())?;
    let scope = Scope { topic: options.topic.clone(), partition: options.partition };
    let context = Context { config, scope, json: options.json };
    match &options.action {
        Action::Stats => stats::run(&context),
        Action::Inspect(options) => inspect::run(&context, options),
        Action::Explain { record, at } => explain::run(&context, record, *at),
        Action::Compact => compact::run(&context),
        Action::Verify => verify::run(&context),
        Action::Export { file } => transfer::export(&context, file),
        Action::Import { file } => transfer::import(&context, file),
        Action::Forget { record } => forget::run(&context, record),
        Action::Reset { yes } => reset::run(&context, *yes),
    }
}
