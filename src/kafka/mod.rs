//! Kafka: the only room that knows the client library.
//!
//! [`Source`] reads records in a consumer group, [`Sink`] writes them and reports what came of
//! each, [`Committer`] ends its transactions, [`probe`] finds out whether there can be any,
//! [`OutputReader`] reads the output back, [`Cluster`] answers questions about topics, and
//! [`survey`] holds all that brokers tell for `check`.
//! Each is owned by one thread; nothing here decides what to do with a record.

mod client;
mod cluster;
mod error;
mod ffi;
mod output;
mod probe;
mod record;
mod sink;
mod source;
pub mod survey;
#[cfg(test)]
mod tests;
mod transaction;

pub use cluster::{Cluster, TimestampType, TopicFacts};
pub use error::{Cause, Error};
pub use output::{OutputReader, TimeLookup};
pub use probe::{Answer, Refusal, probe};
pub use record::{Header, SourceRecord};
pub use sink::{
    FailureKind, Outcome, RecordLimits, Refused, Report, Sink, Target, Writes, Written,
};
pub use source::{Closed, Committed, GroupMember, Polled, Source, Timings};
pub use transaction::{Committer, Ended, Offsets, Undone};
