//! The words of the field, as types. No I/O, no decisions.
//!
//! Every other room imports these; this one imports nothing of ours.

mod board;
mod checkpoint;
mod clock;
mod code;
mod offset;
mod partition;
mod partition_board;
mod time;

pub use board::{Aborted, Anew, Board, BoardSnapshot, Failure, Histogram, Mode, Transactions};
pub use checkpoint::{Checkpoint, Counts, TopicId};
pub use clock::{ManualClock, WallClock};
pub use code::{Code, Coded};
pub use offset::{OutputPosition, RecordOffset, ResumeOffset};
pub use partition::SourcePartition;
pub use partition_board::{PartitionBoard, PartitionSnapshot, PartitionState, Tally};
pub use time::{Span, Timestamp};
