//! The checker: input against output, record by record.
//!
//! It is fed the records of one source partition and of the output partition they went to, each in
//! offset order, interleaved in any way, and ends with a [`Ledger`]: what was lost, repeated,
//! reordered, altered or made up, with coordinates. It decides anew which records should have been
//! forwarded and shares no code with the parts that decide so in the sink; a checker that did
//! would share their mistakes.
//!
//! ```
//! use firstseen::ledger::{Check, Record, Rules};
//! use firstseen::words::{RecordOffset, Span, Timestamp};
//!
//! let record = |offset| Record {
//!     offset: RecordOffset(offset),
//!     key: Some(b"k".to_vec()),
//!     value: Some(b"v".to_vec()),
//!     headers: Vec::new(),
//!     timestamp: Some(Timestamp(1_000)),
//! };
//! let mut check = Check::new(0, Rules::by_record_key(Span::from_ms(60_000)));
//! check.input(&record(0));
//! check.input(&record(1));
//! check.output(&record(0));
//! let ledger = check.finish();
//! assert!(ledger.is_clean());
//! assert_eq!((ledger.read, ledger.forwarded, ledger.suppressed), (2, 1, 1));
//! ```

mod check;
mod digest;
mod due;
mod record;
mod settle;
mod verdict;

#[cfg(test)]
mod oracle;
#[cfg(test)]
mod tests;

pub use check::{Check, Rules};
pub use digest::Digest;
pub use record::{Header, Record};
pub use verdict::{Fault, FaultKind, Ledger};
