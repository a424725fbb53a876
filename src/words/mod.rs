//! The words of the field, as types. No I/O, no decisions.
//!
//! Every other room imports these; this one imports nothing of ours.

mod checkpoint;
mod clock;
mod code;
mod offset;
mod partition;
mod time;

pub use checkpoint::{Checkpoint, Counts, TopicId};
pub use clock::{ManualClock, WallClock};
pub use code::{Code, Coded};
pub use offset::{OutputPosition, RecordOffset, ResumeOffset};
pub use partition::SourcePartition;
pub use time::{Span, Timestamp};
