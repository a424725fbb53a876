//! `firstseen run`: load the config, then deduplicate until told to stop.

use std::path::PathBuf;
use std::sync::Arc;

use super::{out, signals};
use crate::config::{self, Environment};
use crate::error::Error;
use crate::logging::{self, Format};
use crate::pipeline::{self, Control};
use crate::status;
use crate::words::{Board, WallClock};

/// What `run` was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The config file.
    pub config: PathBuf,
    /// Only check the config.
    pub check_config: bool,
    /// Ask the brokers anew how records can be delivered.
    pub redecide: bool,
    /// How logs look.
    pub log: Format,
}

pub(super) fn run(options: &Options) -> Result<(), Error> {
    logging::init(options.log, "info")?;
    let config = config::load(&options.config, &Environment::of_process())?;
    for warning in config::warnings(&config) {
        tracing::warn!("{warning}");
    }
    if options.check_config {
        out::write(&config::print(&config))?;
        return Ok(());
    }
    let control = Control { redecide: options.redecide, ..Control::default() };
    signals::install(&control)?;
    let board = Arc::new(Board::new(WallClock::system().now()));
    let status = match config.status.listen {
        Some(addr) => Some(status::serve(addr, Arc::clone(&board))?),
        None => None,
    };
    if let Some(status) = &status {
        tracing::info!(address = %status.addr(), "serving metrics and health");
    }
    pipeline::run(config, board, control)?;
    drop(status);
    tracing::info!("stopped: everything is drained and checkpointed");
    Ok(())
}
