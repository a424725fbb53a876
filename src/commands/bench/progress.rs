//! Progress on stderr: a bar on a terminal, plain lines elsewhere, nothing for `--json` away from
//! a terminal.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressStyle};

use crate::commands::out;

/// Where progress is told.
#[derive(Debug)]
pub(super) struct Progress(To);

#[derive(Debug)]
enum To {
    Bar(ProgressBar),
    Lines,
    Nowhere,
}

impl Progress {
    pub(super) fn new(json: bool) -> Self {
        Self(if std::io::stderr().is_terminal() {
            To::Bar(bar())
        } else if json {
            To::Nowhere
        } else {
            To::Lines
        })
    }

    /// Tells a line that stays.
    pub(super) fn tell(&self, line: &str) {
        match &self.0 {
            To::Bar(bar) => bar.println(line),
            To::Lines => out::tell(line),
            To::Nowhere => {}
        }
    }

    /// Says what is being done; only on a terminal.
    pub(super) fn doing(&self, what: &str) {
        if let To::Bar(bar) = &self.0 {
            bar.set_length(1);
            bar.set_position(0);
            bar.set_message(what.to_owned());
        }
    }

    /// Says how far it is; only on a terminal.
    pub(super) fn counted(&self, what: &str, done: u64, all: u64) {
        if let To::Bar(bar) = &self.0 {
            bar.set_length(all.max(done));
            bar.set_position(done);
            bar.set_message(what.to_owned());
        }
    }

    pub(super) fn end(&self) {
        if let To::Bar(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

fn bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:24} {pos}/{len} {msg}")
        .unwrap_or_else(|_template| ProgressStyle::default_bar());
    ProgressBar::new(1).with_style(style)
}
