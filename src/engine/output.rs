//! Where we are on the output: the position that catch-up starts from, and holes in our writes.
//!
//! With one output partition per source partition we are its only writer, so our delivery
//! reports must be contiguous. A hole between two of them is a record somebody else wrote: a dead
//! or frozen predecessor, as a rule.

use crate::words::{OutputPosition, RecordOffset};

use super::Identity;

/// Output offsets that none of our reports accounts for: `from` included, `to` not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hole {
    /// The first offset to read.
    pub from: OutputPosition,
    /// The first offset that is ours again.
    pub to: OutputPosition,
    /// The records of ours that lie in it and were not met yet: those whose report carried no
    /// offset.
    pub ours: Vec<Identity>,
}

impl Hole {
    /// Meets a record in the hole. Returns whether it is one of ours.
    pub(super) fn claim(&mut self, identity: Identity) -> bool {
        let ours = self.ours.iter().position(|other| *other == identity);
        ours.map(|index| self.ours.swap_remove(index)).is_some()
    }
}

/// Follows the reports of one output partition.
#[derive(Debug)]
pub(super) struct OutputTrack {
    /// Behind the last settled record of ours; what a checkpoint stores.
    settled: Option<OutputPosition>,
    /// The offset that our next report must carry.
    expected: Option<OutputPosition>,
    /// What was reported without an offset since `expected` was last exact.
    unplaced: Vec<Identity>,
    /// Whether a record of ours was written in the transaction that is open.
    wrote: bool,
    /// Transactions that ended since `expected` was last exact: the mark of each takes an offset.
    marks: usize,
}

impl OutputTrack {
    pub(super) fn new(settled: Option<OutputPosition>) -> Self {
        Self { settled, expected: None, unplaced: Vec::new(), wrote: false, marks: 0 }
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

    /// Meets a record while catching up. Returns whether it must be somebody else's, if it is not
    /// one of ours that failed: it lies behind our last report, and no report without an offset
    /// accounts for it.
    pub(super) fn is_foreign(&mut self, offset: RecordOffset, identity: Identity) -> bool {
        if self.expected.is_none_or(|expected| offset.0 < expected.0) {
            return false;
        }
        let ours = self.unplaced.iter().position(|other| *other == identity);
        ours.map(|index| self.unplaced.swap_remove(index)).is_none()
    }

    /// Goes back to `position`: what lies behind it is not settled after all.
    pub(super) fn go_back(&mut self, position: OutputPosition) {
        self.settled = self.settled.map(|settled| settled.min(position));
    }

    /// Notes that everything below `end` has been read: what comes next is ours.
    pub(super) fn caught_up(&mut self, end: OutputPosition) {
        self.expected = Some(end);
        self.unplaced.clear();
        (self.wrote, self.marks) = (false, 0);
    }

    /// Takes the output offset of a report of ours; returns the hole before it, if there is one.
    pub(super) fn report(
        &mut self,
        offset: Option<RecordOffset>,
        identity: Identity,
    ) -> Option<Hole> {
        self.wrote = true;
        let Some(offset) = offset else {
            self.unplaced.push(identity);
            return None;
        };
        let here = OutputPosition(offset.0);
        let hole = self.hole_up_to(self.expected.unwrap_or(here), here);
        // A report below what is expected belongs to a retry that the broker placed earlier.
        self.expected = self.expected.max(Some(offset.next_output()));
        hole
    }

    /// Notes that a transaction with the records reported so far was committed.
    pub(super) fn transaction_ended(&mut self) {
        self.marks += usize::from(std::mem::take(&mut self.wrote));
    }

    /// Returns what lies between our last report and `end`, if anything does: nobody else may
    /// write there while nothing of ours is in flight.
    pub(super) fn quiet_hole(&mut self, end: OutputPosition) -> Option<Hole> {
        let expected = self.expected?;
        self.expected = Some(expected.max(end));
        self.hole_up_to(expected, end)
    }

    fn hole_up_to(&mut self, from: OutputPosition, to: OutputPosition) -> Option<Hole> {
        let ours = std::mem::take(&mut self.unplaced);
        let marks = if to > from { std::mem::take(&mut self.marks) } else { 0 };
        let known = i64::try_from(ours.len() + marks).unwrap_or(i64::MAX);
        let accounted = from.0.saturating_add(known);
        (to.0 > accounted).then_some(Hole { from, to, ours })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Fingerprint;

    const KEY: Identity = Identity::Key(Fingerprint(1));

    fn at(offset: i64) -> Option<RecordOffset> {
        Some(RecordOffset(offset))
    }

    #[test]
    fn contiguous_reports_leave_no_hole() {
        let mut track = OutputTrack::new(None);
        track.caught_up(OutputPosition(10));
        assert_eq!(track.report(at(10), KEY), None);
        assert_eq!(track.report(at(11), KEY), None);
    }

    #[test]
    fn a_skipped_offset_is_a_hole_with_its_bounds() {
        let mut track = OutputTrack::new(None);
        track.caught_up(OutputPosition(10));
        assert_eq!(track.report(at(10), KEY), None);
        let hole = Hole { from: OutputPosition(11), to: OutputPosition(14), ours: Vec::new() };
        assert_eq!(track.report(at(14), KEY), Some(hole));
        assert_eq!(track.report(at(15), KEY), None);
    }

    #[test]
    fn a_report_without_an_offset_accounts_for_one_record() {
        let mut track = OutputTrack::new(None);
        track.caught_up(OutputPosition(0));
        assert_eq!(track.report(None, KEY), None);
        assert_eq!(track.report(at(1), KEY), None);
        assert_eq!(track.report(None, KEY), None);
        let hole = Hole { from: OutputPosition(2), to: OutputPosition(4), ours: vec![KEY] };
        assert_eq!(track.report(at(4), KEY), Some(hole));
    }

    #[test]
    fn a_record_written_while_we_were_quiet_is_a_hole() {
        let mut track = OutputTrack::new(None);
        track.caught_up(OutputPosition(5));
        assert_eq!(track.quiet_hole(OutputPosition(5)), None);
        let hole = Hole { from: OutputPosition(5), to: OutputPosition(6), ours: Vec::new() };
        assert_eq!(track.quiet_hole(OutputPosition(6)), Some(hole));
        assert_eq!(track.report(at(6), KEY), None);
    }

    #[test]
    fn the_mark_of_a_transaction_is_no_hole_and_hides_none() {
        let mut track = OutputTrack::new(None);
        track.caught_up(OutputPosition(10));
        track.transaction_ended();
        assert_eq!(track.report(at(10), KEY), None, "a transaction of offsets leaves no mark");
        track.transaction_ended();
        assert_eq!(track.quiet_hole(OutputPosition(11)), None, "the mark is not there yet");
        assert_eq!(track.quiet_hole(OutputPosition(12)), None);
        assert_eq!(track.report(at(12), KEY), None);
        track.transaction_ended();
        let hole = Hole { from: OutputPosition(13), to: OutputPosition(15), ours: Vec::new() };
        assert_eq!(track.report(at(15), KEY), Some(hole), "one is the mark, the other is not");
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
