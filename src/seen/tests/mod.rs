//! Tests of the whole room: against a model, with crashes, with faults, and on a real disk.

mod disk;
mod faults;
mod model;
mod moving;
mod window;

use super::{Batch, Opened, Options, Seen};
use crate::key::Fingerprint;
use crate::store::memory::MemoryShelf;
use crate::words::{Checkpoint, Counts, OutputPosition, ResumeOffset, Span, Timestamp};

/// A fingerprint whose halves both depend on `key`, as a hash's would.
fn fingerprint(key: u64) -> Fingerprint {
    Fingerprint(u128::from(key + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835))
}

fn checkpoint(resume: i64) -> Checkpoint {
    Checkpoint {
        resume: ResumeOffset(resume),
        output: Some(OutputPosition(resume / 2)),
        accounted: None,
        high_mark: Timestamp(resume),
        counts: Counts { read: resume.unsigned_abs(), ..Counts::default() },
        clean: false,
        incarnation: 7,
        written_at: Timestamp(1_000),
        source_topic_id: None,
        output_topic_id: None,
    }
}

fn batch(resume: i64, entries: &[(u64, i64)]) -> Batch {
    let entry = |&(key, at): &(u64, i64)| (fingerprint(key), Timestamp(at));
    Batch { entries: entries.iter().map(entry).collect(), checkpoint: checkpoint(resume) }
}

fn options() -> Options {
    Options::new(Span::from_ms(20), 1 << 20)
}

fn open(shelf: &MemoryShelf) -> Opened {
    try_open(shelf).expect("the state opens")
}

fn try_open(shelf: &MemoryShelf) -> Result<Opened, super::Error> {
    Seen::open_on(Box::new(shelf.clone()), "t-test".to_owned(), &options(), None)
}

fn nearest(seen: &Seen, key: u64, at: i64, window: i64) -> Option<i64> {
    seen.nearest(fingerprint(key), Timestamp(at), Span::from_ms(window))
        .expect("the look-up works")
        .map(|found| found.0)
}
