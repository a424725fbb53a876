//! From a record to its fingerprint. Pure: bytes in, 128 bits out.
//!
//! A [`KeyRule`] names the parts a dedup key is made of. [`Hasher::fingerprint`] finds them in a
//! [`RecordView`], writes each as `tag, length, bytes` into a buffer it keeps, and hashes that
//! under the state's [`Secret`]. Start reading at `encode.rs`: it says which keys are equal.
//!
//! - Bytes are compared as they are: no lossy decoding, no Unicode normalisation, no case folding,
//!   no trimming. Two spellings of one visible id are two keys.
//! - A part that is null or not there yields [`Missing`], never a fingerprint: records without a
//!   key share no slot. An empty key is a key.
//! - Topic and partition are not hashed, since every source partition has a seen-set of its own.
//! - The bytes that are hashed are part of the stored format; tests pin them.

mod encode;
mod fingerprint;
mod json;
mod record;
mod rule;
mod secret;

pub use fingerprint::{Fingerprint, HashKind, Hasher};
pub use record::{Headers, Missing, NoHeaders, OwnedHeader, OwnedRecord, RecordView};
pub use rule::{KeyPart, KeyRule, KeyRuleError};
pub use secret::Secret;
