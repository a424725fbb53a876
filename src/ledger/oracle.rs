//! The checker once more, slow and obvious, to check the checker.

use super::Record;
use crate::words::{Span, Timestamp};

/// The counts of a ledger.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) forwarded: usize,
    pub(super) suppressed: usize,
    pub(super) lost: usize,
    pub(super) repeated: usize,
    pub(super) reordered: usize,
    pub(super) altered: usize,
    pub(super) phantom: usize,
}

/// Returns which input records must be on the output, by comparing each with all before it. Times
/// must not run backwards by more than the window.
pub(super) fn first_occurrences(input: &[Record], window: Span) -> Vec<usize> {
    let mut firsts: Vec<usize> = Vec::new();
    for (place, record) in input.iter().enumerate() {
        let repeats = |first: &usize| {
            let first = &input[*first];
            first.key.is_some()
                && first.key == record.key
                && time(first).distance(time(record)) <= window
        };
        if !firsts.iter().any(repeats) {
            firsts.push(place);
        }
    }
    firsts
}

/// Judges an output by comparing each of its records with every record of the input.
pub(super) fn judge(input: &[Record], output: &[Record], window: Span) -> Counts {
    let firsts = first_occurrences(input, window);
    let mut taken_for: Vec<Option<usize>> = vec![None; output.len()];
    for (place, record) in output.iter().enumerate() {
        taken_for[place] = firsts
            .iter()
            .copied()
            .find(|first| !taken_for.contains(&Some(*first)) && same(&input[*first], record));
    }
    let equal = taken_for.clone();
    let mut counts = Counts::default();
    for (place, record) in output.iter().enumerate().filter(|(place, _)| equal[*place].is_none()) {
        let copies = equal.iter().flatten().any(|first| same(&input[*first], record));
        let missing = firsts
            .iter()
            .copied()
            .find(|first| !taken_for.contains(&Some(*first)) && input[*first].key == record.key);
        let known = record.key.is_some() && input.iter().any(|other| other.key == record.key);
        if copies {
            counts.repeated += 1;
        } else if let Some(first) = missing {
            counts.altered += 1;
            taken_for[place] = Some(first);
        } else if known {
            counts.repeated += 1;
        } else {
            counts.phantom += 1;
        }
    }
    let order: Vec<usize> = taken_for.into_iter().flatten().collect();
    counts.reordered =
        (0..order.len()).filter(|at| order[..*at].iter().any(|one| *one > order[*at])).count();
    counts.forwarded = order.len();
    counts.lost = firsts.len() - order.len();
    counts.suppressed = input.len() - firsts.len();
    counts
}

fn same(one: &Record, other: &Record) -> bool {
    one.key == other.key
        && one.value == other.value
        && one.headers == other.headers
        && one.timestamp == other.timestamp
}

fn time(record: &Record) -> Timestamp {
    record.timestamp.expect("the oracle's records have times")
}
