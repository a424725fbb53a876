//! Kafka: the only room that knows the client library.
//!
//! [`Source`] reads records in a consumer group, [`Sink`] writes them and reports what came of
//! each, [`OutputReader`] reads the output back, [`Cluster`] answers questions about topics.
//! Each is owned by one thread; nothing here decides what to do with a record.

pub mod bench;
mod client;
mod cluster;
mod error;
mod ffi;
mod output;
mod record;
mod sink;
mod source;
#[cfg(test)]
mod tests;

pub use cluster::{Cluster, TimestampType, TopicFacts};
pub use error::{Cause, Error};
pub use output::{OutputReader, TimeLookup};
pub use record::{Header, SourceRecord};
pub use sink::{FailureKind, Outcome, Refused, Report, Sink, Target, Written};
pub use source::{Closed, Committed, Polled, Source};
