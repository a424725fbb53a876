//! `firstseen check`: what this config promises on these brokers, and what weakens it.
//!
//! Facts are gathered first ([`facts`], [`place`]), then judged without any I/O ([`judge`]), then
//! told ([`report`]). What nobody told is "unknown", never "ok".

mod command;
mod error;
mod facts;
mod finding;
mod judge;
mod mode;
mod place;
mod reference;
mod report;
#[cfg(test)]
mod tests;

use std::io::IsTerminal;
use std::path::PathBuf;

use super::out;
use crate::config::{self, Environment};
use error::Error;
use finding::{Finding, Kind};
use report::{Counts, Report};

/// What `check` was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The config file.
    pub config: PathBuf,
    /// Print one JSON object.
    pub json: bool,
    /// Findings to live with, by name.
    pub accept: Vec<String>,
}

/// Returns the page that lists every finding, as Markdown.
pub fn reference() -> String {
    reference::reference()
}

pub(super) fn run(options: &Options) -> Result<(), crate::error::Error> {
    let accepted = accepted(&options.accept)?;
    let config = config::load(&options.config, &Environment::of_process())?;
    let facts = facts::gather(&config, &progress)?;
    let (choice, mut findings) = judge::judge(&config, &facts);
    accept(&mut findings, &accepted);
    let report = Report::new(&config, &choice, &findings);
    let text = if options.json { report.json().map_err(Error::from)? } else { report.text() };
    out::write(&text)?;
    Ok(verdict(Counts::of(&findings))?)
}

/// Tells how far it is where somebody waits at a terminal.
fn progress(what: &str) {
    if std::io::stderr().is_terminal() {
        out::tell(&format!("{what} ..."));
    }
}

fn accepted(names: &[String]) -> Result<Vec<Kind>, Error> {
    let known = |name: &String| {
        Kind::ALL.iter().find(|kind| kind.name() == name).copied().ok_or_else(|| {
            let near = Kind::ALL.iter().max_by(|a, b| {
                let like = |kind: &Kind| strsim::jaro(kind.name(), name);
                like(a).total_cmp(&like(b))
            });
            Error::NoSuchFinding {
                name: name.clone(),
                nearest: near.map_or("replication", |kind| kind.name()),
            }
        })
    };
    names.iter().map(known).collect()
}

fn accept(findings: &mut [Finding], kinds: &[Kind]) {
    for finding in findings {
        finding.accepted = finding.counts() && kinds.contains(&finding.kind);
    }
}

fn verdict(counts: Counts) -> Result<(), Error> {
    if counts.is_clean() {
        return Ok(());
    }
    let Counts { breaks, weakens, unknown, .. } = counts;
    Err(Error::Found { breaks, weakens, unknown })
}
