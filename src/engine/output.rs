//! Where we are on the output: the position that catch-up starts from, and holes in our writes.
//!
//! With one output partition per source partition we are its only writer, so our delivery
//! reports must be contiguous. A hole between two of them is a record somebody else wrote: a dead
//! or frozen predecessor, as a rule.

use crate::words::{OutputPosition, RecordOffset};

/// Output offsets that none of our reports accounts for: `from` included, `to` not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hole {
    /// The first offset to read.
    pub from: OutputPosition,
    /// The first offset that is ours again.
    pub to: OutputPosition,
    /// How many records of ours lie in it: those whose report carried no offset.
    pub ours: u64,
}

/// Follows the reports of one output partition.
#[derive(Debug)]
pub(super) struct OutputTrack {
    /// Behind the last settled record of ours; what a checkpoint stores.
    settled: Option<OutputPosition>,
    /// The offset that our next report must carry.
    expected: Option<OutputPosition>,
    /// Reports without an offset since `expected` was last exact.
    unplaced: u64,
}

impl OutputTrack {
    pub(super) fn new(settled: Option<OutputPosition>) -> Self {
        Self { settled, expected: None, unplaced: 0 }
    }

    pub(super) fn settled(&self) -> Option<OutputPosition> {
        self.settled
    }

    /// Notes that the record at `offset` is settled.
    pub(super) fn settle(&mut self, offset: RecordOffset) {
        let next = Some(offset.next_output());
        if self.settled < next {
            self.settled = next;
        }
    }

    /// Notes that everything below `end` has been read: what comes next is ours.
    pub(super) fn caught_up(&mut self, end: OutputPosition) {
        self.expected = Some(end);
        self.unplaced = 0;
    }

    /// Takes the output offset of a report of ours; returns the hole before it, if there is one.
    pub(super) fn report(&mut self, offset: Option<RecordOffset>) -> Option<Hole> {
        let Some(offset) = offset else {
            self.unplaced = self.unplaced.saturating_add(1);
            return None;
        };
        let here = OutputPosition(offset.0);
        let expected = self.expected.unwrap_or(here);
        let ours = std::mem::take(&mut self.unplaced);
        let accounted = expected.0.saturating_add(i64::try_from(ours).unwrap_or(i64::MAX));
        // A report below what is expected belongs to a retry that the broker placed earlier.
        self.expected = self.expected.max(Some(offset.next_output()));
        (here.0 > accounted).then_some(Hole { from: expected, to: here, ours })
    }

    /// Returns what lies between our last report and `end`, if anything does: nobody else may
    /// write there while nothing of ours is in flight.
    pub(super) fn quiet_hole(&mut self, end: OutputPosition) -> Option<Hole> {
        let expected = self.expected?;
        let ours = std::mem::take(&mut self.unplaced);
        let accounted = expected.0.saturating_add(i64::try_from(ours).unwrap_or(i64::MAX));
        self.expected = Some(expected.max(end));
        (end.0 > accounted).then_some(Hole { from: expected, to: end, ours })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(offset: i64) -> Option<RecordOffset> {
        Some(RecordOffset(offset))
    }

    #[test]
    fn contiguous_reports_leave_no_hole() {
        let mut track = OutputTrack::new(None);
        track.caught_up(OutputPosition(10));
        assert_eq!(track.report(at(10)), None);
        assert_eq!(track.report(at(11)), None);
    }

    #[test]
    fn a_skipped_offset_is_a_hole_with_its_bounds() {
        let mut track = OutputTrack::new(None);
        track.caught_up(OutputPosition(10));
        assert_eq!(track.report(at(10)), None);
        let hole = Hole { from: OutputPosition(11), to: OutputPosition(14), ours: 0 };
        assert_eq!(track.report(at(14)), Some(hole));
        assert_eq!(track.report(at(15)), None);
    }

    #[test]
    fn a_report_without_an_offset_accounts_for_one_record() {
        let mut track = OutputTrack::new(None);
        track.caught_up(OutputPosition(0));
        assert_eq!(track.report(None), None);
        assert_eq!(track.report(at(1)), None);
        assert_eq!(track.report(None), None);
        let hole = Hole { from: OutputPosition(2), to: OutputPosition(4), ours: 1 };
        assert_eq!(track.report(at(4)), Some(hole));
    }

    #[test]
    fn a_record_written_while_we_were_quiet_is_a_hole() {
        let mut track = OutputTrack::new(None);
        track.caught_up(OutputPosition(5));
        assert_eq!(track.quiet_hole(OutputPosition(5)), None);
        let hole = Hole { from: OutputPosition(5), to: OutputPosition(6), ours: 0 };
        assert_eq!(track.quiet_hole(OutputPosition(6)), Some(hole));
        assert_eq!(track.report(at(6)), None);
    }

    #[test]
    fn the_settled_position_never_moves_back() {
        let mut track = OutputTrack::new(Some(OutputPosition(9)));
        track.settle(RecordOffset(3));
        assert_eq!(track.settled(), Some(OutputPosition(9)));
        track.settle(RecordOffset(9));
        assert_eq!(track.settled(), Some(OutputPosition(10)));
    }
}
