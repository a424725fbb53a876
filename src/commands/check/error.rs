//! What the check ends with where it found something, and what keeps it from its end.

use crate::words::{Code, Coded};

/// The check did not come out clean, or did not come to its end.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// Something weakens or breaks the promise, or is not known.
    #[error("check found {}", counted(*breaks, *weakens, *unknown))]
    Found {
        /// How many findings break the promise.
        breaks: usize,
        /// How many weaken it.
        weakens: usize,
        /// How many things nobody told.
        unknown: usize,
    },
    /// A finding was accepted that there is not.
    #[error("no finding is called `{name}`")]
    NoSuchFinding {
        /// What was asked for.
        name: String,
        /// The nearest one that there is.
        nearest: &'static str,
    },
    /// The report could not be turned into JSON.
    #[error("failed to write the report as JSON")]
    Json(#[from] serde_json::Error),
}

fn counted(breaks: usize, weakens: usize, unknown: usize) -> String {
    let all = [
        (breaks, "that breaks the promise", "that break the promise"),
        (weakens, "that weakens it", "that weaken it"),
        (unknown, "that nobody told", "that nobody told"),
    ];
    let parts: Vec<String> = all
        .into_iter()
        .filter(|(count, ..)| *count > 0)
        .map(|(count, one, many)| format!("{count} {}", if count == 1 { one } else { many }))
        .collect();
    parts.join(", ")
}

impl Coded for Error {
    fn code(&self) -> Code {
        match self {
            Self::Found { .. } => Code::CheckFaults,
            Self::NoSuchFinding { .. } => Code::ConfigOutOfRange,
            Self::Json(_) => Code::CommandFailed,
        }
    }

    fn fix(&self) -> String {
        match self {
            Self::Found { .. } => {
                "do what each line of the report says, or accept it by `--accept NAME`".to_owned()
            }
            Self::NoSuchFinding { nearest, .. } => {
                format!("write `--accept {nearest}`, or another name of docs/check.md")
            }
            Self::Json(_) => "report it as a bug".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_counts_what_was_found_and_leaves_out_what_was_not() {
        let line = |breaks, weakens, unknown| {
            let error = Error::Found { breaks, weakens, unknown };
            crate::error::render(&error)
        };
        assert_eq!(
            line(2, 1, 0),
            "error[E7006]: check found 2 that break the promise, 1 that weakens it; fix: do what \
             each line of the report says, or accept it by `--accept NAME`"
        );
        assert!(line(0, 0, 3).contains("found 3 that nobody told;"));
    }
}
