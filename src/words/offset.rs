//! Offsets: the one of a record, and the next one to read.
//!
//! They differ by one and are different types; the `+ 1` lives in [`RecordOffset::next`] only.

use std::fmt;

/// The offset of one record in its partition, source or output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordOffset(pub i64);

/// The next source offset to read: what Kafka calls the committed offset.
///
/// Every record below it is finished: forwarded and confirmed, suppressed, or left out on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResumeOffset(pub i64);

/// The next offset to read in an output partition.
///
/// At or below the output offset of every record that came from a source offset at or above the
/// resume offset it is stored with, so that reading from here finds all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OutputPosition(pub i64);

impl RecordOffset {
    /// Returns the resume offset that has this record as the last one finished.
    pub fn next(self) -> ResumeOffset {
        ResumeOffset(self.0.saturating_add(1))
    }

    /// Returns the output position just behind this record.
    pub fn next_output(self) -> OutputPosition {
        OutputPosition(self.0.saturating_add(1))
    }
}

impl ResumeOffset {
    /// Returns whether the record at `offset` is finished when this is the resume offset.
    pub fn covers(self, offset: RecordOffset) -> bool {
        offset.0 < self.0
    }
}

impl fmt::Display for RecordOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for ResumeOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for OutputPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resume_offset_covers_exactly_the_records_below_it() {
        let resume = RecordOffset(41).next();
        assert_eq!(resume, ResumeOffset(42));
        assert!(resume.covers(RecordOffset(41)));
        assert!(!resume.covers(RecordOffset(42)));
    }
}
