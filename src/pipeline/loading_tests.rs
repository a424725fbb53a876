//! What is made of records that are read back.

use super::*;
use crate::config::{Environment, load_text};
use crate::words::Span;

const NOW: Timestamp = Timestamp(1_000_000_000);
const WINDOW_MS: i64 = 60_000;

fn window(clock: &str) -> Window {
    let text = format!(
        "[kafka]\nbootstrap_servers = \"a:1\"\n[source]\ngroup = \"g\"\ntopics = [\"t\"]\n\
         [sink]\ntopic = \"u\"\n[dedup]\nwindow = \"60s\"\nclock = \"{clock}\"\n"
    );
    let config = load_text(&text, "test", &Environment::default()).expect("a good config");
    let window = Window::new(config.rule("t"));
    assert_eq!(window.length(), Span::from_ms(WINDOW_MS));
    window
}

fn start(floor: Option<Timestamp>, trimmed: bool) -> Start {
    Start { position: OutputPosition(0), floor, trimmed }
}

fn key(number: u128) -> Identity {
    Identity::Key(Fingerprint(number))
}

fn at(ms: i64) -> Option<Timestamp> {
    Some(Timestamp(NOW.0 + ms))
}

#[test]
fn what_expires_while_loading_follows_the_latest_record_and_never_the_future() {
    let window = window("event");
    let mut loading = Loading::new(window, NOW, start(None, false), true);
    loading.take(key(1), at(-500_000));
    assert_eq!(loading.rest().expire_before, Some(window.keep_from(Timestamp(NOW.0 - 500_000))));
    // Half an hour ahead of the clock, which is allowed, and a year ahead, which is cut back.
    loading.take(key(2), at(1_800_000));
    loading.take(key(3), at(31_536_000_000));
    let chunk = loading.rest();
    assert_eq!(chunk.entries.len(), 2);
    assert_eq!(chunk.expire_before, Some(window.keep_from(NOW)));
    assert_eq!(loading.high_mark, NOW);
}

#[test]
fn nothing_expires_where_records_of_any_age_may_follow() {
    let mut loading = Loading::new(window("event"), NOW, start(None, false), false);
    loading.take(key(1), at(0));
    assert_eq!(loading.rest().expire_before, None);
}

#[test]
fn what_was_not_read_is_known_to_be_forgotten() {
    let since = Timestamp(NOW.0 - 90_000);
    let floor_of = |start, times: &[Option<Timestamp>]| {
        let mut loading = Loading::new(window("event"), NOW, start, true);
        for (number, time) in (0..).zip(times) {
            loading.take(key(number), *time);
        }
        loading.rest().floor
    };
    assert_eq!(floor_of(start(None, false), &[at(-10)]), None, "all of the log was read");
    assert_eq!(floor_of(start(Some(since), false), &[at(-10)]), Some(since));
    // Retention removed what lay before the first record that is left.
    assert_eq!(floor_of(start(Some(since), true), &[at(-10), at(-5)]), at(-10));
    assert_eq!(floor_of(start(Some(since), true), &[at(-95_000), at(-5)]), Some(since));
    assert_eq!(floor_of(start(None, true), &[at(-10), at(-5)]), at(-10));
    assert_eq!(floor_of(start(None, true), &[None, at(-5)]), None, "its time tells nothing");
}

#[test]
fn what_the_output_lost_says_nothing_about_arrivals() {
    let mut loading = Loading::new(window("arrival"), NOW, start(None, true), false);
    loading.take(key(1), at(-10));
    assert_eq!(loading.rest().floor, None);
}

#[test]
fn a_chunk_is_handed_out_when_it_is_full() {
    let mut loading = Loading::new(window("event"), NOW, start(None, false), true);
    let full = (0..).find_map(|number| loading.take(key(number), at(0)));
    assert_eq!(full.map(|chunk| chunk.entries.len()), Some(CHUNK));
    assert!(loading.rest().entries.is_empty());
}
