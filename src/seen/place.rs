//! Which segment an occurrence belongs to.

use super::record::Range;
use crate::words::Span;

/// The most segments a partition keeps. Past it, existing ones cover more time instead: absurd
/// event times cost space for longer, never a directory each.
pub(super) const MAX_SEGMENTS: usize = 64;

/// What it takes to cover a time that no segment covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cover {
    /// Make a segment for this range.
    New(Range),
    /// Let the segment at this position cover this range.
    Widen(usize, Range),
}

/// Returns the position of the range that covers `at`; `ranges` are in order and do not overlap.
pub(super) fn position(ranges: &[Range], at: i64) -> Option<usize> {
    let index = ranges.partition_point(|range| range.last < at);
    ranges.get(index).filter(|range| range.covers(at)).map(|_| index)
}

/// Returns how to cover `at`, which none of `ranges` does.
///
/// A new segment is the slot of length `len` around `at`, cut where its neighbours begin: they may
/// have been made under another length.
pub(super) fn cover(ranges: &[Range], at: i64, len: Span) -> Cover {
    let next = ranges.partition_point(|range| range.last < at);
    let before = next.checked_sub(1).and_then(|index| Some((index, *ranges.get(index)?)));
    let behind = ranges.get(next).map(|range| (next, *range));
    if ranges.len() >= MAX_SEGMENTS
        && let Some((index, range)) = before.or(behind)
    {
        let widened = Range { first: range.first.min(at), last: range.last.max(at) };
        return Cover::Widen(index, widened);
    }
    let slot = slot(at, len);
    let first =
        before.map_or(slot.first, |(_, range)| slot.first.max(range.last.saturating_add(1)));
    let last = behind.map_or(slot.last, |(_, range)| slot.last.min(range.first.saturating_sub(1)));
    Cover::New(Range { first, last })
}

fn slot(at: i64, len: Span) -> Range {
    let len = len.as_ms().max(1);
    let first = at.div_euclid(len).saturating_mul(len);
    Range { first, last: first.saturating_add(len - 1).max(at) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn covering_any_times_under_changing_lengths_never_overlaps(
            times in prop::collection::vec(
                (prop_oneof![any::<i64>(), -1_000_i64..1_000, Just(i64::MIN), Just(i64::MAX)],
                 prop_oneof![0_i64..50, any::<i64>()]),
                1..200,
            ),
        ) {
            let mut ranges: Vec<Range> = Vec::new();
            for (at, len) in times {
                if position(&ranges, at).is_none() {
                    match cover(&ranges, at, Span::from_ms(len)) {
                        Cover::New(range) => ranges.push(range),
                        Cover::Widen(index, range) => ranges[index] = range,
                    }
                    ranges.sort_by_key(|range| range.first);
                }
                let found = position(&ranges, at);
                prop_assert!(found.is_some_and(|index| ranges[index].covers(at)));
                prop_assert!(ranges.iter().all(|range| range.first <= range.last));
                prop_assert!(ranges.windows(2).all(|pair| pair[0].last < pair[1].first));
                prop_assert!(ranges.len() <= MAX_SEGMENTS);
            }
        }
    }

    #[test]
    fn a_slot_starts_at_a_multiple_of_its_length_also_before_1970() {
        let len = Span::from_ms(10);
        assert_eq!(cover(&[], -1, len), Cover::New(Range { first: -10, last: -1 }));
        assert_eq!(cover(&[], 10, len), Cover::New(Range { first: 10, last: 19 }));
    }
}
