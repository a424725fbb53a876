//! From a record to its fingerprint. Pure: bytes in, 128 bits out.

mod fingerprint;
mod rule;

pub use fingerprint::{Fingerprint, HashKind, Hasher, Secret};
pub use rule::{KeyPart, KeyRule, Missing, RecordView};
