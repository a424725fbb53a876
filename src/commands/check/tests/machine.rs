//! The state directory and the status port.

use super::super::judge::records_in_window;
use super::Severity::{Breaks, Ok as Good, Unknown, Weakens};
use super::*;
use crate::words::Span;

#[test]
fn a_state_that_is_held_breaks_it() {
    each(
        Kind::StateLock,
        &[],
        &[
            ("by nobody", Good, |_| {}),
            ("by a process", Breaks, |w| w.facts.place.held = Ok(Some(Some(4711)))),
            ("by one that left no id", Breaks, |w| w.facts.place.held = Ok(Some(None))),
            ("not known", Unknown, |w| {
                w.facts.place.held = Err("failed to open `/var/lib/firstseen/LOCK`".to_owned());
            }),
        ],
    );
}

#[test]
fn a_state_of_somebody_elses_breaks_it() {
    each(
        Kind::StateOwner,
        &[],
        &[
            ("ours", Good, |_| {}),
            ("not made yet", Good, |w| w.facts.place.base = "/var/lib".into()),
            ("another's", Breaks, |w| {
                let why = "it belongs to user 1000, not to 1001".to_owned();
                w.facts.place.shared = Ok(Some(why));
            }),
            ("not writable", Breaks, |w| {
                w.facts.place.base = "/var/lib".into();
                w.facts.place.unwritable = Some("Permission denied (os error 13)".to_owned());
            }),
            ("not known", Unknown, |w| w.facts.place.shared = Err("no access".to_owned())),
        ],
    );
}

#[test]
fn a_file_system_that_vanishes_or_is_far_away_weakens() {
    each(
        Kind::StateFileSystem,
        &[],
        &[
            ("a local disk", Good, |_| {}),
            ("memory", Weakens, |w| {
                w.facts.place.file_system = Some(FileSystem::Memory("tmpfs"));
            }),
            ("a container's layer", Weakens, |w| {
                w.facts.place.file_system = Some(FileSystem::Layer("overlayfs"));
            }),
            ("a network", Weakens, |w| {
                w.facts.place.file_system = Some(FileSystem::Network("NFS"));
            }),
            ("not known", Unknown, |w| w.facts.place.file_system = None),
        ],
    );
}

#[test]
fn a_disk_that_does_not_hold_a_window_weakens() {
    each(
        Kind::StateSpace,
        &[Kind::OpenTransaction],
        &[
            ("enough", Good, |_| {}),
            ("enough with what the state has already", Good, |w| {
                (w.facts.place.free, w.facts.place.used) = (Ok(0), Ok(1 << 30));
            }),
            ("too little", Weakens, |w| w.facts.place.free = Ok(65 << 20)),
            ("the rate is not known", Unknown, |w| w.source().offsets = Err(silence())),
            ("the room is not known", Unknown, |w| w.facts.place.free = Err("no".to_owned())),
        ],
    );
}

#[test]
fn a_port_that_is_taken_breaks_it() {
    each(
        Kind::StatusPort,
        &[],
        &[
            ("free", Good, |_| {}),
            ("taken", Breaks, |w| {
                w.facts.port_taken = Some("Address already in use (os error 98)".to_owned());
            }),
        ],
    );
}

fn partition(end: i64, window: Option<(i64, i64)>, recent: Option<(i64, i64)>) -> OffsetFacts {
    let ago = |(offset, ms)| (offset, Timestamp(NOW.0 - ms));
    let (window, recent) = (window.map(ago), recent.map(ago));
    OffsetFacts { partition: 0, start: 0, end, stable: end, window, recent }
}

fn in_a_day(offsets: &[OffsetFacts]) -> u64 {
    records_in_window(offsets, Span::from_ms(24 * HOUR), NOW)
}

#[test]
fn the_records_of_a_window_are_counted_where_the_source_still_has_them() {
    let steady = partition(50_000, Some((26_000, 24 * HOUR)), Some((49_000, HOUR)));
    assert_eq!(in_a_day(&[steady, steady]), 48_000);
}

#[test]
fn a_rate_that_has_risen_counts_for_the_whole_window() {
    let risen = partition(50_000, Some((26_000, 24 * HOUR)), Some((40_000, HOUR)));
    assert_eq!(in_a_day(&[risen]), 240_000);
}

#[test]
fn a_log_shorter_than_the_window_is_carried_on() {
    let young = partition(3_000, Some((0, 6 * HOUR)), None);
    assert_eq!(in_a_day(&[young]), 12_000);
}

#[test]
fn a_burst_of_a_moment_is_not_taken_for_a_rate_of_a_second() {
    let burst = partition(1_000, Some((0, 1)), Some((0, 1)));
    assert_eq!(in_a_day(&[burst]), 1_000 * 24 * 60);
}

#[test]
fn an_idle_source_needs_nothing() {
    assert_eq!(in_a_day(&[partition(7_000, None, None)]), 0);
    assert_eq!(in_a_day(&[]), 0);
}
