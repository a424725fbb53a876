//! What a key rule sees of a record, and why it may find no key there.

use std::fmt;

/// The parts of a record that keys are made from, borrowed from wherever it lies.
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

/// The headers of a record that has none.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHeaders;

/// Why a record has no dedup key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Missing {
    /// The part is null.
    Null,
    /// The part is not there, or not a scalar.
    Absent,
    /// The value is not JSON in UTF-8.
    Unparsable,
    /// The header or member is there more than once.
    Ambiguous,
}

impl Missing {
    /// Every reason, in order.
    pub const ALL: [Self; 4] = [Self::Null, Self::Absent, Self::Unparsable, Self::Ambiguous];

    /// Returns the reason as one lowercase word, for logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Absent => "absent",
            Self::Unparsable => "unparsable",
            Self::Ambiguous => "ambiguous",
        }
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Headers for NoHeaders {
    fn each_named<'a>(&'a self, _name: &[u8], _each: &mut dyn FnMut(Option<&'a [u8]>)) {}
}

/// Headers held as name and value, in order; names are bytes and need not be UTF-8.
impl Headers for [(Vec<u8>, Option<Vec<u8>>)] {
    fn each_named<'a>(&'a self, name: &[u8], each: &mut dyn FnMut(Option<&'a [u8]>)) {
        for (_, value) in self.iter().filter(|(candidate, _)| candidate == name) {
            each(value.as_deref());
        }
    }
}

/// Name and value of a header.
pub type OwnedHeader = (Vec<u8>, Option<Vec<u8>>);

/// The parts of a record, owned: what somebody asks about.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct OwnedRecord {
    /// The record key; `None` is null.
    pub key: Option<Vec<u8>>,
    /// The value; `None` is null.
    pub value: Option<Vec<u8>>,
    /// The headers, in order.
    pub headers: Vec<OwnedHeader>,
}

impl OwnedRecord {
    /// Returns the record as rules see it.
    pub fn view(&self) -> RecordView<'_, [OwnedHeader]> {
        RecordView {
            key: self.key.as_deref(),
            value: self.value.as_deref(),
            headers: self.headers.as_slice(),
        }
    }
}

/// Shows lengths only.
impl fmt::Debug for OwnedRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.view().fmt(f)
    }
}

// Written by hand because derived ones would ask the same of `H`.
impl<H: Headers + ?Sized> Clone for RecordView<'_, H> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<H: Headers + ?Sized> Copy for RecordView<'_, H> {}

/// Shows lengths only: keys and values belong in no log.
impl<H: Headers + ?Sized> fmt::Debug for RecordView<'_, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordView")
            .field("key_len", &self.key.map(<[u8]>::len))
            .field("value_len", &self.value.map(<[u8]>::len))
            .finish_non_exhaustive()
    }
}
