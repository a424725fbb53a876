//! What the dedup key of a record is made of.

/// The parts of a record that keys are made from, borrowed from wherever it lies.
#[derive(Clone, Copy, Debug)]
pub struct RecordView<'a, H: Headers + ?Sized> {
    /// The record key; `None` is null, which differs from empty.
    pub key: Option<&'a [u8]>,
    /// The value; `None` is null (a tombstone).
    pub value: Option<&'a [u8]>,
    /// The headers, decoded only if a rule asks.
    pub headers: &'a H,
}

/// Looks up header values without decoding names lossily.
pub trait Headers {
    /// Calls `each` with the value of every header named `name`, in order.
    fn each_named<'a>(&'a self, name: &[u8], each: &mut dyn FnMut(Option<&'a [u8]>));
}

/// What a dedup key is made of: one part, or several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRule {
    parts: Vec<KeyPart>,
}

/// One part of a dedup key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyPart {
    /// The record key's bytes.
    RecordKey,
    /// The value's bytes.
    Value,
    /// The bytes of the one header with this name.
    Header(String),
    /// The scalar at this JSON pointer (RFC 6901) in the value; tokens unescaped.
    Json(Vec<String>),
}

/// Why a record has no dedup key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Missing {
    /// The part is null.
    Null,
    /// The part is not there, or not a scalar.
    Absent,
    /// The value is not JSON, or nests too deep.
    Unparsable,
    /// The header or member is there more than once.
    Ambiguous,
}
