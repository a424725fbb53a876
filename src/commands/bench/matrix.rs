//! What is measured, and in which order. Pure.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

/// A way from the source to the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Poll and send, nothing else: what all others are compared with.
    Passthrough,
    /// The same, as fast as we can write it.
    FastPassthrough,
    /// `run` without transactions.
    Dedup,
    /// `run` with transactions.
    Transactional,
}

impl Mode {
    /// Every mode, in the order of reports.
    pub const ALL: [Self; 4] =
        [Self::Passthrough, Self::FastPassthrough, Self::Dedup, Self::Transactional];

    /// Returns the name used in reports and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Passthrough => "passthrough",
            Self::FastPassthrough => "fast-passthrough",
            Self::Dedup => "dedup",
            Self::Transactional => "transactional",
        }
    }

    /// Returns whether it is `run`: it has a state, checkpoints, and outlives a kill.
    pub(super) fn is_run(self) -> bool {
        matches!(self, Self::Dedup | Self::Transactional)
    }
}

/// One row of the report: a mode, and for `run` an interval between checkpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Case {
    pub(super) mode: Mode,
    pub(super) interval: Option<Duration>,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.mode.as_str())?;
        match self.interval {
            Some(interval) => write!(f, " every {}", humantime::format_duration(interval)),
            None => Ok(()),
        }
    }
}

/// Returns the rows: the plain passthrough always, the others as asked for.
pub(super) fn cases(modes: &[Mode], intervals: &[Duration]) -> Vec<Case> {
    let wanted =
        Mode::ALL.into_iter().filter(|mode| *mode == Mode::Passthrough || modes.contains(mode));
    let mut cases = Vec::new();
    for mode in wanted {
        if mode.is_run() {
            cases.extend(intervals.iter().map(|at| Case { mode, interval: Some(*at) }));
        } else {
            cases.push(Case { mode, interval: None });
        }
    }
    cases
}

/// Returns the order of a round, counted from 0: each starts with another row, so that whatever
/// drifts on the machine does not always meet the same one.
pub(super) fn order(cases: usize, round: u32) -> Vec<usize> {
    let mut order: Vec<usize> = (0..cases).collect();
    if cases > 0 {
        let by = usize::try_from(round).unwrap_or(0) % cases;
        order.rotate_left(by);
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_passthrough_is_always_there_and_each_interval_is_a_row_of_its_own() {
        let intervals = [Duration::from_millis(100), Duration::from_secs(1)];
        let names: Vec<String> =
            cases(&[Mode::Dedup], &intervals).iter().map(Case::to_string).collect();
        assert_eq!(names, ["passthrough", "dedup every 100ms", "dedup every 1s"]);
    }

    #[test]
    fn every_round_has_every_row_and_starts_with_another() {
        assert_eq!(order(3, 0), [0, 1, 2]);
        assert_eq!(order(3, 1), [1, 2, 0]);
        assert_eq!(order(3, 3), [0, 1, 2]);
        assert_eq!(order(0, 3), [0_usize; 0]);
    }
}
