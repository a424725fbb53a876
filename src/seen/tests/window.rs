//! The promised window through core, store and expiry: never shorter because of where a segment ends,
//! and never longer than a millisecond for the verdict.

use proptest::prelude::*;

use super::super::{Batch, Opened, Options, Seen};
use super::fingerprint;
use crate::config::{DedupRule, DropRule, OnMissingKey, WindowClock};
use crate::engine::{Core, Identity, Incoming, Setup, Verdict, Why};
use crate::key::{HashKind, KeyRule};
use crate::store::memory::MemoryShelf;
use crate::window::Window;
use crate::words::{Counts, RecordOffset, ResumeOffset, Span, Timestamp};

/// Long after every time in here, so that nothing is clamped.
const ARRIVAL: Timestamp = Timestamp(1 << 40);

fn window(length_ms: i64) -> Window {
    Window::new(&DedupRule {
        key: KeyRule::record_key(),
        hash: HashKind::Xxh3,
        window: Span::from_ms(length_ms),
        clock: WindowClock::Event,
        max_future: Span::ZERO,
        refresh: false,
        on_missing_key: OnMissingKey::Forward,
        drop: DropRule::default(),
    })
}

/// A partition that makes a checkpoint after every record.
struct Partition {
    core: Core,
    seen: Seen,
    shelf: MemoryShelf,
    next: i64,
    window: Window,
}

impl Partition {
    fn new(window: Window) -> Self {
        let shelf = MemoryShelf::default();
        let seen = open(&shelf, window.segment());
        let core = core(window, ResumeOffset(0), Timestamp::MIN);
        Self { core, seen, shelf, next: 0, window }
    }

    fn record(&mut self, key: u64, at: i64) -> Verdict {
        let offset = RecordOffset(self.next);
        self.next += 1;
        let record = Incoming {
            offset,
            identity: Identity::Key(fingerprint(key)),
            timestamp: Some(Timestamp(at)),
            arrival: ARRIVAL,
            bytes: 1,
        };
        let verdict = self.core.record(record, &self.seen).expect("the store works");
        if let Verdict::Deliver(sequence) = verdict {
            self.core.confirm(sequence, None).expect("it is in flight");
        }
        let draft = self.core.begin_checkpoint(ARRIVAL, false).expect("none is open");
        let batch = Batch { entries: draft.entries.clone(), checkpoint: draft.checkpoint };
        self.seen.write(batch).expect("it is written");
        self.seen.expire(self.window.keep_from(self.core.high_mark())).expect("it expires");
        self.core.checkpoint_durable(draft.entries);
        verdict
    }

    /// Starts again under another window, with the segments of before.
    fn restart(&mut self, window: Window) {
        self.seen = open(&self.shelf, window.segment());
        self.core = core(window, ResumeOffset(self.next), self.core.high_mark());
        self.window = window;
    }
}

fn open(shelf: &MemoryShelf, segment: Span) -> Seen {
    let options = Options::new(segment, 1 << 20);
    let opened = Seen::open_on(Box::new(shelf.clone()), "t-test".to_owned(), &options, None);
    let Opened { seen, .. } = opened.expect("it opens");
    seen
}

fn core(window: Window, resume: ResumeOffset, high_mark: Timestamp) -> Core {
    Core::new(Setup {
        window,
        resume,
        output: None,
        accounted: None,
        high_mark,
        counts: Counts::default(),
        incarnation: 1,
        source_topic_id: None,
        output_topic_id: None,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Others come in between, up to one segment ahead of the copy, so segments open and expire.
    #[test]
    fn a_copy_at_exactly_the_window_is_suppressed_and_one_a_millisecond_later_is_not(
        length in prop_oneof![1_i64..3_000, 8_000_i64..120_000],
        first in 0_i64..300_000,
        others in prop::collection::vec(0.0_f64..1.0, 0..12),
        backwards in any::<bool>(),
    ) {
        let window = window(length);
        let reach = length + window.segment().as_ms();
        let mut partition = Partition::new(window);
        let (early, exact, after) = if backwards {
            (first + length, first, first - 1)
        } else {
            (first, first + length, first + length + 1)
        };
        prop_assert!(matches!(partition.record(1, early), Verdict::Deliver(_)));
        if !backwards {
            for (key, share) in (2..).zip(&others) {
                #[expect(clippy::cast_possible_truncation, reason = "a time in a test")]
                let ahead = (share * reach as f64) as i64;
                partition.record(key, early + ahead);
            }
        }
        prop_assert_eq!(partition.record(1, exact), Verdict::Suppress(Why::Seen));
        prop_assert!(matches!(partition.record(1, after), Verdict::Deliver(_)));
    }

    #[test]
    fn a_window_that_is_changed_between_runs_judges_by_its_new_length(
        old in 8_000_i64..60_000,
        new in 8_000_i64..60_000,
        first in 0_i64..300_000,
        share in 0.0_f64..1.0,
    ) {
        let mut partition = Partition::new(window(old));
        partition.record(1, first);
        // What the old window would have let expire is not judged here.
        #[expect(clippy::cast_possible_truncation, reason = "a time in a test")]
        let ahead = (share * old as f64) as i64;
        partition.record(2, first + ahead);
        partition.restart(window(new));
        prop_assert_eq!(partition.record(1, first + new), Verdict::Suppress(Why::Seen));
        prop_assert!(matches!(partition.record(1, first + new + 1), Verdict::Deliver(_)));
    }
}

#[test]
fn a_longer_window_says_from_when_on_it_is_whole() {
    let (short, long) = (window(8_000), window(80_000));
    let mut partition = Partition::new(short);
    for at in (0..40_000).step_by(1_000) {
        partition.record(u64::try_from(at).unwrap(), at);
    }
    let (floor, high_mark) = (partition.seen.floor(), partition.core.high_mark());
    assert!(floor > Timestamp(20_000), "most of it is forgotten");
    assert_eq!(short.whole_from(floor, high_mark), None);
    assert_eq!(long.whole_from(floor, high_mark), Some(floor.after(long.length())));
    partition.restart(long);
    assert_eq!(partition.record(39_000, 119_000), Verdict::Suppress(Why::Seen), "still known");
    let whole = floor.after(long.length());
    assert_eq!(long.whole_from(floor, whole), None, "whole from then on");
    assert!(long.whole_from(floor, Timestamp(whole.0 - 1)).is_some(), "and not before");
}
