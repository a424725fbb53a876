//! Which records should have been forwarded, decided anew from the input alone.

use crate::words::{RecordOffset, Span, Timestamp};

/// What should have come of a source record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// It must be on the output.
    Must,
    /// Either is right: the occurrence it repeats lies so far behind that it may be forgotten.
    May,
    /// It must not be on the output.
    Not,
}

/// A source record that must or may be on the output.
#[derive(Debug)]
pub(super) struct Occurrence {
    pub(super) source: RecordOffset,
    pub(super) time: Option<Timestamp>,
    pub(super) due: Due,
    /// Where on the output the record lies that was taken for it.
    pub(super) output: Option<RecordOffset>,
    /// Hash of the content.
    pub(super) hash: u128,
}

/// Judges a record at `time`, read when the newest time before it was `newest`, against the
/// occurrences of its key so far.
///
/// A record without a time is taken to lie within the window of every other.
pub(super) fn judge<'a>(
    occurrences: impl Iterator<Item = &'a Occurrence>,
    time: Option<Timestamp>,
    newest: Timestamp,
    window: Span,
) -> Due {
    let kept_from = newest.before(window);
    let mut due = Due::Must;
    for other in occurrences {
        let near = other.time.zip(time).is_none_or(|(a, b)| a.distance(b) <= window);
        if !near {
            continue;
        }
        let remembered = other.time.is_none_or(|at| at >= kept_from);
        if other.due == Due::Must && remembered {
            return Due::Not;
        }
        due = Due::May;
    }
    due
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Span = Span::from_ms(10);

    fn at(time: i64, due: Due) -> Occurrence {
        Occurrence {
            source: RecordOffset(0),
            time: Some(Timestamp(time)),
            due,
            output: None,
            hash: 0,
        }
    }

    fn judged(occurrences: &[Occurrence], time: i64, newest: i64) -> Due {
        judge(occurrences.iter(), Some(Timestamp(time)), Timestamp(newest), WINDOW)
    }

    #[test]
    fn the_window_includes_its_edge_in_both_directions() {
        let first = [at(100, Due::Must)];
        assert_eq!(judged(&first, 110, 100), Due::Not);
        assert_eq!(judged(&first, 111, 100), Due::Must);
        assert_eq!(judged(&first, 90, 100), Due::Not);
        assert_eq!(judged(&first, 89, 100), Due::Must);
    }

    #[test]
    fn a_late_copy_of_an_occurrence_that_may_be_forgotten_may_pass() {
        let first = [at(100, Due::Must)];
        assert_eq!(judged(&first, 105, 110), Due::Not);
        assert_eq!(judged(&first, 105, 111), Due::May);
    }

    #[test]
    fn a_copy_of_a_record_that_may_have_passed_may_pass() {
        assert_eq!(judged(&[at(100, Due::May)], 105, 100), Due::May);
    }
}
