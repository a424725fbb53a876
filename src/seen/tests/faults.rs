//! Damage that a state must notice, and failures that must end it.

use std::io;

use super::{batch, nearest, open, try_open};
use crate::seen::{Error, Found, Opened};
use crate::store::SegmentId;
use crate::store::memory::{Fault, MemoryShelf};
use crate::words::{Code, Coded, Timestamp};

/// Three segments with a checkpoint each, the head last, and late entries in the first.
fn three_segments() -> MemoryShelf {
    let shelf = MemoryShelf::default();
    let Opened { seen, .. } = open(&shelf);
    seen.write(batch(1, &[(1, 5), (2, 6)])).expect("it is written");
    seen.write(batch(2, &[(3, 25)])).expect("it is written");
    seen.write(batch(3, &[(4, 45), (5, 7)])).expect("it is written");
    assert_eq!(seen.stats().segments, 3);
    shelf
}

fn assert_damaged(shelf: &MemoryShelf, what: &str) {
    let error = try_open(shelf).map(drop).expect_err(what);
    assert!(error.is_damage(), "{what}: {error}");
    assert_eq!(error.code(), Code::StateCorrupt);
}

#[test]
fn a_missing_segment_is_damage_whichever_it_is() {
    for id in 1..=3 {
        for witness_lost in [false, true] {
            let shelf = three_segments();
            shelf.tamper(|segments| drop(segments.remove(&SegmentId(id))));
            shelf.reboot(witness_lost);
            assert_damaged(&shelf, &format!("segment {id}"));
        }
    }
}

#[test]
fn a_segment_put_back_to_an_older_state_is_damage() {
    let shelf = MemoryShelf::default();
    let Opened { seen, .. } = open(&shelf);
    seen.write(batch(1, &[(1, 5), (3, 25)])).expect("it is written");
    let older = shelf.copy();
    seen.write(batch(2, &[(2, 6), (4, 26)])).expect("it is written");
    drop(seen);
    let newer = shelf.copy();
    for id in older.keys() {
        shelf.tamper(|segments| {
            *segments = newer.clone();
            segments.insert(*id, older[id].clone());
        });
        assert_damaged(&shelf, &id.to_string());
    }
    shelf.tamper(|segments| *segments = older.clone());
    assert_damaged(&shelf, "all of them, given away by the witness");
    shelf.reboot(true);
    let Found::Checkpoint(checkpoint) = open(&shelf).found else {
        panic!("without a witness an older state that agrees with itself is taken")
    };
    assert_eq!(checkpoint, super::checkpoint(1));
}

#[test]
fn swapped_segments_and_segments_of_another_partition_are_damage() {
    let shelf = three_segments();
    shelf.tamper(|segments| {
        let (one, two) = (segments[&SegmentId(1)].clone(), segments[&SegmentId(2)].clone());
        segments.insert(SegmentId(1), two);
        segments.insert(SegmentId(2), one);
    });
    assert_damaged(&shelf, "swapped");
    let other = crate::seen::Seen::open_on(
        Box::new(three_segments()),
        "t-other".to_owned(),
        &super::options(),
        None,
    );
    assert!(other.expect_err("another partition's").is_damage());
}

#[test]
fn every_flipped_or_removed_or_swapped_value_is_damage_or_changes_nothing() {
    let clean = three_segments().copy();
    let mut keys = Vec::new();
    for (id, pairs) in &clean {
        keys.extend(pairs.keys().map(|key| (*id, key.clone())));
    }
    let check = |change: &dyn Fn(&mut std::collections::BTreeMap<_, _>), what: &str| {
        let shelf = three_segments();
        shelf.tamper(|segments| change(segments));
        match try_open(&shelf) {
            Err(error) => assert!(error.is_damage(), "{what}: {error}"),
            Ok(Opened { seen, .. }) => {
                for (key, at) in [(1, 5), (2, 6), (3, 25), (4, 45), (5, 7)] {
                    assert_eq!(nearest(&seen, key, at, 0), Some(at), "{what}");
                }
            }
        }
    };
    let mut damaged = 0;
    for (id, key) in &keys {
        for bit in [0, 9, 70] {
            let flip = |segments: &mut std::collections::BTreeMap<SegmentId, _>| {
                let pairs: &mut std::collections::BTreeMap<Vec<u8>, crate::store::Value> =
                    segments.get_mut(id).unwrap();
                let mut bytes = pairs[key].to_vec();
                let len = bytes.len();
                bytes[(bit / 8) % len] ^= 1 << (bit % 8);
                pairs.insert(key.clone(), bytes.into());
            };
            check(&flip, &format!("bit {bit} of {key:?} in {id}"));
            damaged += 1;
        }
        check(
            &|segments| drop(segments.get_mut(id).unwrap().remove(key)),
            &format!("{key:?} of {id} removed"),
        );
        for (other_id, other) in &keys {
            let swap = |segments: &mut std::collections::BTreeMap<SegmentId, _>| {
                let value = clean[other_id][other].clone();
                let pairs: &mut std::collections::BTreeMap<Vec<u8>, crate::store::Value> =
                    segments.get_mut(id).unwrap();
                pairs.insert(key.clone(), value);
            };
            check(&swap, &format!("{key:?} of {id} replaced by {other:?} of {other_id}"));
        }
    }
    assert!(damaged > 20);
}

#[test]
fn after_any_failed_write_every_call_fails_and_what_was_durable_is_there_again() {
    for at in 0..6 {
        let shelf = three_segments();
        let Opened { seen, .. } = open(&shelf);
        shelf.fail_at(at, Fault::Fail(io::ErrorKind::StorageFull));
        let Err(error) = seen.write(batch(4, &[(6, 8), (7, 46), (8, 90)])) else {
            assert!(at > 4, "the write has more than {at} operations");
            continue;
        };
        assert_eq!(error.code(), Code::StateNoSpace);
        let again = seen.write(batch(5, &[])).expect_err("no retry");
        assert_eq!(again.code(), Code::StateIo);
        let found = seen.nearest(super::fingerprint(1), Timestamp(5), super::options().segment);
        assert!(matches!(found, Err(Error::Poisoned)));
        assert!(matches!(seen.expire(Timestamp(90)), Err(Error::Poisoned)));
        drop(seen);
        let Opened { seen, .. } = open(&shelf);
        assert_eq!(nearest(&seen, 1, 5, 0), Some(5));
        seen.write(batch(5, &[(9, 9)])).expect("opened anew it goes on");
    }
}

#[test]
fn other_failures_are_named_as_failures_to_make_durable() {
    let shelf = three_segments();
    let Opened { seen, .. } = open(&shelf);
    shelf.fail_at(0, Fault::Fail(io::ErrorKind::Other));
    let error = seen.write(batch(4, &[(6, 8)])).expect_err("it fails");
    assert_eq!(error.code(), Code::StateIo);
    assert!(std::error::Error::source(&error).is_some());
}

#[test]
fn expiry_keeps_the_segment_with_the_newest_checkpoint() {
    let shelf = three_segments();
    let Opened { seen, .. } = open(&shelf);
    assert_eq!(seen.expire(Timestamp(20)).expect("it expires"), 1);
    assert_eq!(seen.floor(), Timestamp(20));
    assert_eq!(seen.expire(Timestamp(i64::MAX)).expect("it expires"), 1);
    assert_eq!(nearest(&seen, 4, 45, 0), Some(45));
    assert_eq!(nearest(&seen, 1, 5, 0), None);
    drop(seen);
    let Opened { seen, found } = open(&shelf);
    assert!(matches!(found, Found::Checkpoint(checkpoint) if checkpoint == super::checkpoint(3)));
    assert_eq!((seen.floor(), seen.stats().segments), (Timestamp(40), 1));
}

#[test]
fn answers_do_not_depend_on_filters_or_caches() {
    let shelf = three_segments();
    let tiny = crate::seen::Options { memory_bytes: 0, ..super::options() };
    let opened = crate::seen::Seen::open_on(Box::new(shelf), "t-test".to_owned(), &tiny, None);
    let seen = opened.expect("the state opens").seen;
    assert_eq!((seen.stats().filter_bytes, seen.stats().segments_without_filter), (0, 3));
    for _ in 0..2 {
        assert_eq!(nearest(&seen, 1, 5, 0), Some(5));
        assert_eq!(nearest(&seen, 9, 5, 100), None);
    }
}
