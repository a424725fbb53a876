//! Progress while it plays, on stderr: a bar on a terminal, plain lines elsewhere, nothing for
//! `--json` away from a terminal.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressStyle};

use super::Options;
use crate::commands::out;

/// How far the demo has come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) written: u64,
    pub(super) forwarded: u64,
    pub(super) kills: u64,
}

/// Where progress is told.
#[derive(Debug)]
pub struct Progress {
    to: To,
    kills: u32,
}

#[derive(Debug)]
enum To {
    Bar(ProgressBar),
    Lines,
    Nowhere,
}

impl Progress {
    /// Tells nothing.
    pub fn silent() -> Self {
        Self { to: To::Nowhere, kills: 0 }
    }

    pub(super) fn new(options: &Options) -> Self {
        let to = if std::io::stderr().is_terminal() {
            To::Bar(bar(options.records))
        } else if options.json {
            To::Nowhere
        } else {
            To::Lines
        };
        let mut progress = Self { to, kills: options.kills };
        progress.tell(&format!(
            "{} records with duplicates, an embedded broker, and a sink that is killed {} times",
            options.records, options.kills
        ));
        progress
    }

    pub(super) fn tell(&mut self, line: &str) {
        match &self.to {
            To::Bar(bar) => bar.println(line),
            To::Lines => out::tell(line),
            To::Nowhere => {}
        }
    }

    pub(super) fn show(&mut self, seen: &Seen) {
        if let To::Bar(bar) = &self.to {
            bar.set_position(seen.written);
            bar.set_message(format!("{} forwarded, {} kills", seen.forwarded, seen.kills));
        }
    }

    pub(super) fn killed(&mut self, seen: &Seen) {
        self.tell(&format!(
            "kill -9, {} of {}: {} records written, {} on the output; starting it again",
            seen.kills, self.kills, seen.written, seen.forwarded
        ));
    }

    pub(super) fn end(&mut self) {
        if let To::Bar(bar) = &self.to {
            bar.finish_and_clear();
        }
    }
}

fn bar(records: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:32} {pos}/{len} written, {msg}")
        .unwrap_or_else(|_template| ProgressStyle::default_bar());
    ProgressBar::new(records).with_style(style)
}
