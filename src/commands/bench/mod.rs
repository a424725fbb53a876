//! `firstseen bench`: what deduplication and transactions cost, side by side, on the user's own
//! brokers.
//!
//! It makes topics of its own, writes records of a fixed seed, and lets each path copy them in
//! turns: a plain passthrough, the fastest passthrough we can write, and the real
//! `firstseen run`, each as a child process. The rounds are interleaved and each starts with
//! another path, so that a machine that drifts does not favour one. Whatever a path wrote goes
//! through the ledger ([`crate::ledger`]): one that lost, repeated or reordered gets no figures.
//!
//! Measuring is in [`throughput`] and [`steady`]; what the figures mean is decided by pure code:
//! [`series`], [`figures`], [`report`], [`verdict`].

mod audit;
mod child;
mod error;
mod figures;
mod matrix;
mod options;
mod page;
mod pass;
mod pen;
mod place;
mod plan;
mod prefill;
mod proc;
mod progress;
mod report;
mod rounds;
mod series;
mod setup;
mod steady;
mod table;
mod throughput;
mod verdict;

pub use error::Error;
pub use matrix::Mode;
pub use options::Options;
pub use pass::Options as PassOptions;
pub(super) use pass::run as pass;

use std::path::Path;

use super::out;
use report::Report;

pub(super) fn run(options: &Options) -> Result<(), crate::error::Error> {
    options.check()?;
    let text = match &options.config {
        Some(file) => Some(read(file)?),
        None => None,
    };
    // Every fault of the user's config is told before anything is started.
    if let Some(file) = &options.config {
        crate::config::load(file, &crate::config::Environment::of_process())?;
    }
    let (report, ended) = rounds::play(options, text.as_deref())?;
    show(options, &report)?;
    ended?;
    Ok(report.verdict_on_itself()?)
}

fn show(options: &Options, report: &Report) -> Result<(), crate::error::Error> {
    if let Some(path) = &options.report {
        std::fs::write(path, page::page(report)).map_err(|source| Error::File {
            attempt: "write",
            path: path.clone(),
            source,
        })?;
    }
    let text = if options.json {
        let mut text = serde_json::to_string_pretty(report).map_err(Error::Json)?;
        text.push('\n');
        text
    } else {
        table::table(report)
    };
    out::write(&text)?;
    if let Some(path) = options.report.as_ref().filter(|_| !options.json) {
        out::tell(&format!("the page is in {}", path.display()));
    }
    Ok(())
}

fn read(file: &Path) -> Result<String, Error> {
    std::fs::read_to_string(file).map_err(|source| Error::File {
        attempt: "read",
        path: file.to_owned(),
        source,
    })
}
