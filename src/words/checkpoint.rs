//! What is made durable together: an exact prefix of the work done.

use super::{OutputPosition, ResumeOffset, Timestamp};

/// How far a source partition has come, and what came of its records.
///
/// Describes an exact prefix: every record below `resume` is finished and counted here, and no
/// record at or above it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// The next source offset to read.
    pub resume: ResumeOffset,
    /// Where catch-up starts reading the output; `None` where no output offset is known yet, so
    /// that catch-up reads from the start of the log.
    pub output: Option<OutputPosition>,
    /// Up to where everything on the output is known to be the writer's or was looked at; `None`
    /// where that is not known.
    pub accounted: Option<OutputPosition>,
    /// The latest effective time of any record so far; [`Timestamp::MIN`] before the first.
    pub high_mark: Timestamp,
    /// What came of the records below `resume`, since the state was made.
    pub counts: Counts,
    /// Whether it was written while leaving, with nothing in flight.
    pub clean: bool,
    /// Which run of the process wrote it.
    pub incarnation: u128,
    /// The writer's wall clock.
    pub written_at: Timestamp,
    /// The source topic's id, where the broker tells it.
    pub source_topic_id: Option<TopicId>,
    /// The output topic's id, where the broker tells it.
    pub output_topic_id: Option<TopicId>,
}

/// A topic's identity: a topic made again under the same name has another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TopicId(pub [u8; 16]);

/// What came of records. At any checkpoint
/// `read = forwarded + suppressed + replayed + left_out + dead_lettered`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Records read from the source, replays included.
    pub read: u64,
    /// First occurrences confirmed on the output.
    pub forwarded: u64,
    /// Duplicates not forwarded.
    pub suppressed: u64,
    /// Records read again after a restart, already on the output.
    pub replayed: u64,
    /// Records left out on purpose (`drop`).
    pub left_out: u64,
    /// Records confirmed on the dead-letter topic.
    pub dead_lettered: u64,
    /// Of the forwarded: records without a dedup key, never deduplicated.
    pub missing_key: u64,
    /// Records whose event time was clamped because it lies too far ahead.
    pub future: u64,
    /// Of the forwarded: records too old to be judged by the whole window.
    pub too_old: u64,
    /// Records without a timestamp, judged by arrival time.
    pub no_timestamp: u64,
    /// Output records that somebody else wrote after we took over.
    pub late_writes: u64,
    /// Of the late writes: those whose key we had forwarded, too.
    pub repeated: u64,
}
