//! How far a command has come, on stderr: a bar on a terminal, plain lines elsewhere, nothing for
//! `--json` away from a terminal.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::commands::out;
use crate::words::time_left;

/// How often a plain line is written.
const TELL_EVERY: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct Progress {
    what: &'static str,
    to: To,
    begun: Instant,
    told: Instant,
}

#[derive(Debug)]
enum To {
    Bar(ProgressBar),
    Lines,
    Nowhere,
}

impl Progress {
    pub(super) fn new(what: &'static str, json: bool) -> Self {
        let to = if std::io::stderr().is_terminal() {
            let style = ProgressStyle::with_template("{msg} {bar:32} {pos}/{len}, {eta} left")
                .unwrap_or_else(|_template| ProgressStyle::default_bar());
            To::Bar(ProgressBar::new(0).with_style(style).with_message(what))
        } else if json {
            To::Nowhere
        } else {
            To::Lines
        };
        let now = Instant::now();
        Self { what, to, begun: now, told: now }
    }

    pub(super) fn show(&mut self, done: u64, total: u64) {
        match &self.to {
            To::Bar(bar) => {
                bar.set_length(total);
                bar.set_position(done);
            }
            To::Lines if self.told.elapsed() >= TELL_EVERY => {
                self.told = Instant::now();
                let left = time_left(done, total, self.begun.elapsed()).unwrap_or_default();
                let left = humantime::format_duration(Duration::from_secs(left.as_secs()));
                out::tell(&format!("{}: {done} of {total}, about {left} left", self.what));
            }
            To::Lines | To::Nowhere => {}
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let To::Bar(bar) = &self.to {
            bar.finish_and_clear();
        }
    }
}
