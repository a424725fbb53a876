//! The note that travels with a committed offset.
//!
//! Kafka keeps a short text beside each committed offset. Ours says where on the output that
//! offset's work ended, and who committed it, so that an instance without state knows which
//! records may be replays, and whether the last writer left cleanly.

use std::fmt;

use crate::words::{Checkpoint, OutputPosition, Timestamp};

/// What we say beside a committed offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitNote {
    /// Which run of the process committed it.
    pub incarnation: u128,
    /// Where catch-up starts on the output, if known.
    pub output: Option<OutputPosition>,
    /// Whether the writer left with nothing in flight.
    pub clean: bool,
    /// The writer's wall clock.
    pub written_at: Timestamp,
    /// Whether it was committed in a transaction with the records it stands for, so that taking
    /// the transactional id over ends all that its writer has under way.
    pub transactional: bool,
}

const PREFIX: &str = "firstseen1";

/// Stands at the end of a note that was committed in a transaction.
const TRANSACTIONAL: &str = "t";

impl CommitNote {
    /// Reads a note; `None` for anything we did not write.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(';');
        if parts.next() != Some(PREFIX) {
            return None;
        }
        let incarnation = u128::from_str_radix(parts.next()?, 16).ok()?;
        let output = match parts.next()? {
            "-" => None,
            position => Some(OutputPosition(position.parse().ok()?)),
        };
        let clean = match parts.next()? {
            "clean" => true,
            "open" => false,
            _ => return None,
        };
        let written_at = Timestamp(parts.next()?.parse().ok()?);
        let transactional = parts.next() == Some(TRANSACTIONAL);
        Some(Self { incarnation, output, clean, written_at, transactional })
    }
}

impl From<&Checkpoint> for CommitNote {
    fn from(checkpoint: &Checkpoint) -> Self {
        Self {
            incarnation: checkpoint.incarnation,
            output: checkpoint.output,
            clean: checkpoint.clean,
            written_at: checkpoint.written_at,
            transactional: false,
        }
    }
}

impl fmt::Display for CommitNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX};{:x};", self.incarnation)?;
        match self.output {
            Some(position) => write!(f, "{position}")?,
            None => f.write_str("-")?,
        }
        let clean = if self.clean { "clean" } else { "open" };
        write!(f, ";{clean};{}", self.written_at)?;
        if self.transactional { write!(f, ";{TRANSACTIONAL}") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_reads_back_as_it_was_written() {
        for output in [None, Some(OutputPosition(0)), Some(OutputPosition(i64::MAX))] {
            for (clean, transactional) in [(true, false), (false, false), (false, true)] {
                let written_at = Timestamp(-1);
                let incarnation = u128::MAX;
                let note = CommitNote { incarnation, output, clean, written_at, transactional };
                assert_eq!(CommitNote::parse(&note.to_string()), Some(note));
            }
        }
    }

    #[test]
    fn a_text_that_is_not_ours_is_no_note() {
        for text in ["", "firstseen", "firstseen2;1;2;clean;3", "firstseen1;x;-;clean;3"] {
            assert_eq!(CommitNote::parse(text), None, "{text}");
        }
    }
}
