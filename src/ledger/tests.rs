//! Seeded faults: each must come up under its own heading, and under no other.

use proptest::prelude::*;

use super::oracle::{self, Counts};
use super::{Check, Fault, FaultKind, Ledger, Record, Rules};
use crate::words::{RecordOffset, Span, Timestamp};

const WINDOW: Span = Span::from_ms(1_000);

fn record(offset: i64, key: Option<&str>, at: i64) -> Record {
    Record {
        offset: RecordOffset(offset),
        key: key.map(|key| key.as_bytes().to_vec()),
        value: Some(format!("value {offset}").into_bytes()),
        headers: vec![(b"a".to_vec(), Some(b"1".to_vec())), (b"b".to_vec(), None)],
        timestamp: Some(Timestamp(at)),
    }
}

/// 60 records: keys 0 to 19 three times, the second time within the window, the third time after
/// it; every tenth record has no key.
fn input() -> Vec<Record> {
    (0..60)
        .map(|n| {
            let key = format!("key {}", n % 20);
            let at = if n < 40 { n } else { 5_000 + n };
            record(n, (n % 10 != 3).then_some(key.as_str()), at)
        })
        .collect()
}

fn perfect(input: &[Record]) -> Vec<Record> {
    oracle::first_occurrences(input, WINDOW).into_iter().map(|n| input[n].clone()).collect()
}

/// Gives the records the offsets of their places, with a hole now and then.
fn renumber(output: &mut [Record]) {
    for (record, place) in output.iter_mut().zip(0..) {
        record.offset = RecordOffset(place + place / 7);
    }
}

fn check(input: &[Record], output: &[Record]) -> Ledger {
    let mut check = Check::new(3, Rules::by_record_key(WINDOW));
    input.iter().for_each(|record| check.input(record));
    output.iter().for_each(|record| check.output(record));
    check.finish()
}

/// Spoils a perfect output and returns what the checker says.
fn spoiled(spoil: impl FnOnce(&mut Vec<Record>)) -> Ledger {
    let input = input();
    let mut output = perfect(&input);
    spoil(&mut output);
    renumber(&mut output);
    check(&input, &output)
}

fn assert_only(ledger: &Ledger, expected: &[(FaultKind, u64)]) {
    use FaultKind::{Altered, Lost, Phantom, Reordered, Repeated};
    for kind in [Lost, Repeated, Reordered, Altered, Phantom] {
        let count = expected.iter().find(|(other, _)| *other == kind).map_or(0, |(_, n)| *n);
        assert_eq!(ledger.count(kind), count, "{kind} in {ledger}");
    }
    assert_eq!(ledger.is_clean(), expected.is_empty());
}

fn only_fault(ledger: &Ledger) -> &Fault {
    assert_eq!(ledger.faults.len(), 1, "{ledger}");
    &ledger.faults[0]
}

#[test]
fn a_perfect_output_is_clean_and_adds_up() {
    let ledger = spoiled(|_| ());
    assert_only(&ledger, &[]);
    // 18 keyed firsts twice, 2 of each 20 keyless always.
    assert_eq!((ledger.read, ledger.forwarded, ledger.suppressed), (60, 42, 18));
    assert!(ledger.faults.is_empty());
}

#[test]
fn an_empty_log_against_an_empty_log_is_clean() {
    assert_only(&check(&[], &[]), &[]);
}

#[test]
fn a_dropped_record_is_lost() {
    let ledger = spoiled(|output| {
        output.remove(5);
    });
    assert_only(&ledger, &[(FaultKind::Lost, 1)]);
    assert_eq!(only_fault(&ledger).source, Some(RecordOffset(5)));
    assert_eq!(only_fault(&ledger).partition, 3);
}

#[test]
fn a_dropped_record_without_a_key_is_lost() {
    let ledger = spoiled(|output| {
        output.retain(|record| record.offset != RecordOffset(33));
    });
    assert_only(&ledger, &[(FaultKind::Lost, 1)]);
    assert_eq!(only_fault(&ledger).source, Some(RecordOffset(33)));
}

#[test]
fn suppressing_a_key_beyond_its_window_is_loss() {
    let ledger = spoiled(|output| output.retain(|record| record.offset.0 < 40));
    assert_only(&ledger, &[(FaultKind::Lost, 20)]);
    assert_eq!(ledger.faults.len(), 8, "the first few are told");
}

#[test]
fn a_record_doubled_next_to_itself_is_repeated() {
    let ledger = spoiled(|output| output.insert(6, output[5].clone()));
    assert_only(&ledger, &[(FaultKind::Repeated, 1)]);
    let fault = only_fault(&ledger);
    assert_eq!(fault.source, Some(RecordOffset(5)));
    assert_eq!((fault.output, fault.first), (Some(RecordOffset(6)), Some(RecordOffset(5))));
}

#[test]
fn a_record_doubled_far_away_is_repeated() {
    let ledger = spoiled(|output| output.push(output[0].clone()));
    assert_only(&ledger, &[(FaultKind::Repeated, 1)]);
}

#[test]
fn a_keyless_record_doubled_is_repeated() {
    let ledger = spoiled(|output| output.push(output[3].clone()));
    assert_only(&ledger, &[(FaultKind::Repeated, 1)]);
}

#[test]
fn a_duplicate_that_was_forwarded_is_repeated() {
    let ledger = spoiled(|output| output.insert(22, input()[20].clone()));
    assert_only(&ledger, &[(FaultKind::Repeated, 1)]);
    assert_eq!(only_fault(&ledger).source, Some(RecordOffset(0)));
}

#[test]
fn the_second_copy_in_place_of_the_first_is_altered() {
    let ledger = spoiled(|output| output[0] = input()[20].clone());
    assert_only(&ledger, &[(FaultKind::Altered, 1)]);
}

#[test]
fn swapped_records_are_reordered() {
    let ledger = spoiled(|output| output.swap(7, 8));
    assert_only(&ledger, &[(FaultKind::Reordered, 1)]);
    let fault = only_fault(&ledger);
    assert_eq!((fault.source, fault.output), (Some(RecordOffset(7)), Some(RecordOffset(9))));
}

#[test]
fn any_part_that_was_altered_shows() {
    let spoils: [fn(&mut Record); 8] = [
        |record| record.value = Some(b"other".to_vec()),
        |record| record.value = None,
        |record| record.value = Some(Vec::new()),
        |record| record.timestamp = Some(Timestamp(7)),
        |record| record.timestamp = None,
        |record| record.headers.reverse(),
        |record| record.headers.clear(),
        |record| record.headers[1].1 = Some(Vec::new()),
    ];
    for (n, spoil) in spoils.into_iter().enumerate() {
        for place in [4, 13] {
            let ledger = spoiled(|output| spoil(&mut output[place]));
            assert_only(&ledger, &[(FaultKind::Altered, 1)]);
            assert!(only_fault(&ledger).source.is_some(), "spoil {n}");
        }
    }
}

#[test]
fn a_null_key_turned_empty_is_a_loss_and_a_phantom() {
    let ledger = spoiled(|output| output[3].key = Some(Vec::new()));
    assert_only(&ledger, &[(FaultKind::Lost, 1), (FaultKind::Phantom, 1)]);
}

#[test]
fn a_record_from_nowhere_is_a_phantom() {
    let ledger = spoiled(|output| output.insert(9, record(0, Some("stranger"), 0)));
    assert_only(&ledger, &[(FaultKind::Phantom, 1)]);
    assert_eq!(only_fault(&ledger).output, Some(RecordOffset(10)));
}

#[test]
fn a_keyless_record_from_nowhere_is_a_phantom() {
    let ledger = spoiled(|output| output.insert(9, record(99, None, 0)));
    assert_only(&ledger, &[(FaultKind::Phantom, 1)]);
}

#[test]
fn a_partition_that_was_ignored_is_lost_in_the_merged_ledger() {
    let input = input();
    let mut total = check(&input, &perfect(&input));
    total.merge(&check(&input, &[]));
    assert_eq!((total.read, total.forwarded, total.lost), (120, 42, 42));
    assert!(!total.is_clean());
}

#[test]
fn a_late_copy_of_a_forgotten_record_may_or_may_not_pass() {
    let input = [record(0, Some("a"), 0), record(1, Some("b"), 1_500), record(2, Some("a"), 900)];
    for output in [&input[..], &input[..2]] {
        let ledger = check(&input, output);
        assert_only(&ledger, &[]);
        assert_eq!(ledger.undecided, 1);
    }
}

#[test]
fn the_digests_tell_equal_sets_from_others() {
    let input = input();
    let output = perfect(&input);
    let mut shuffled = output.clone();
    shuffled.reverse();
    assert_eq!(check(&input, &output).output, check(&input, &shuffled).output);
    assert_ne!(check(&input, &output).output, check(&input, &output[1..]).output);
    assert_eq!(check(&input, &output).input, check(&input, &[]).input);
}

/// Something that happens to an output; the numbers choose where.
#[derive(Clone, Debug)]
enum Spoil {
    Drop(usize),
    Double(usize, usize),
    Swap(usize, usize),
    Value(usize, u8),
    NoHeaders(usize),
    Stranger(usize),
    Forward(usize, usize),
}

impl Spoil {
    fn apply(&self, output: &mut Vec<Record>, input: &[Record]) {
        let len = output.len();
        if len == 0 {
            return;
        }
        match *self {
            Self::Drop(at) => drop(output.remove(at % len)),
            Self::Double(from, to) => output.insert(to % len, output[from % len].clone()),
            Self::Swap(a, b) => output.swap(a % len, b % len),
            Self::Value(at, value) => output[at % len].value = Some(vec![value]),
            Self::NoHeaders(at) => output[at % len].headers.clear(),
            Self::Stranger(at) => output.insert(at % len, record(-1, Some("stranger"), 0)),
            Self::Forward(from, to) => output.insert(to % len, input[from % input.len()].clone()),
        }
    }
}

fn spoil() -> impl Strategy<Value = Spoil> {
    let at = any::<usize>;
    prop_oneof![
        at().prop_map(Spoil::Drop),
        (at(), at()).prop_map(|(from, to)| Spoil::Double(from, to)),
        (at(), at()).prop_map(|(a, b)| Spoil::Swap(a, b)),
        (at(), any::<u8>()).prop_map(|(at, value)| Spoil::Value(at, value)),
        at().prop_map(Spoil::NoHeaders),
        at().prop_map(Spoil::Stranger),
        (at(), at()).prop_map(|(from, to)| Spoil::Forward(from, to)),
    ]
}

/// Logs whose times never run backwards; few keys and few values, so that records collide.
fn log() -> impl Strategy<Value = Vec<Record>> {
    let one = (0..8_u8, 0..3_u8, prop_oneof![9 => 0..200_i64, 1 => 900..1_300_i64]);
    prop::collection::vec(one, 1..60).prop_map(|rows| {
        let mut at = 0;
        let row = |(n, (key, value, step)): (i64, (u8, u8, i64))| {
            at += step;
            Record {
                offset: RecordOffset(n),
                key: (key > 0).then(|| vec![key]),
                value: (value > 0).then(|| vec![value]),
                headers: vec![(vec![value], None)],
                timestamp: Some(Timestamp(at)),
            }
        };
        (0..).zip(rows).map(row).collect()
    })
}

fn counts(ledger: &Ledger) -> Counts {
    let count = |n: u64| usize::try_from(n).expect("small");
    Counts {
        forwarded: count(ledger.forwarded),
        suppressed: count(ledger.suppressed),
        lost: count(ledger.lost),
        repeated: count(ledger.repeated),
        reordered: count(ledger.reordered),
        altered: count(ledger.altered),
        phantom: count(ledger.phantom),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn any_spoiled_log_is_judged_as_the_oracle_judges_it(
        input in log(),
        spoils in prop::collection::vec(spoil(), 0..6),
    ) {
        let mut output = perfect(&input);
        spoils.iter().for_each(|spoil| spoil.apply(&mut output, &input));
        renumber(&mut output);
        let ledger = check(&input, &output);
        prop_assert_eq!(counts(&ledger), oracle::judge(&input, &output, WINDOW));
        prop_assert_eq!(ledger.read, ledger.forwarded + ledger.suppressed + ledger.lost);
        let on_output = ledger.forwarded + ledger.repeated + ledger.phantom;
        prop_assert_eq!(usize::try_from(on_output).expect("small"), output.len());
    }

    #[test]
    fn the_verdict_does_not_depend_on_which_log_comes_first(
        input in log(),
        spoils in prop::collection::vec(spoil(), 0..6),
        turns in prop::collection::vec(any::<bool>(), 0..120),
    ) {
        let mut output = perfect(&input);
        spoils.iter().for_each(|spoil| spoil.apply(&mut output, &input));
        renumber(&mut output);
        let mut mixed = Check::new(3, Rules::by_record_key(WINDOW));
        let (mut left, mut right) = (input.iter(), output.iter());
        for turn in turns {
            if turn {
                left.next().into_iter().for_each(|record| mixed.input(record));
            } else {
                right.next().into_iter().for_each(|record| mixed.output(record));
            }
        }
        right.for_each(|record| mixed.output(record));
        left.for_each(|record| mixed.input(record));
        prop_assert_eq!(mixed.finish(), check(&input, &output));
    }
}
