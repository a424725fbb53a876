//! One record as it was read, borrowed from the client's memory.

use std::fmt;
use std::marker::PhantomData;

use super::ffi;
use crate::key::Headers;
use crate::words::{RecordOffset, SourcePartition, Timestamp};

/// A header's name and value; a value may be null.
pub type Header<'a> = (&'a [u8], Option<&'a [u8]>);

/// A record that was read. Holds its whole fetch response in memory: keep it shortly.
pub struct SourceRecord<'a> {
    message: ffi::Message,
    _owner: PhantomData<&'a ()>,
}

impl SourceRecord<'_> {
    pub(super) fn new(message: ffi::Message) -> Self {
        Self { message, _owner: PhantomData }
    }

    /// The topic it was read from.
    pub fn topic(&self) -> &str {
        self.message.topic()
    }

    /// The partition it was read from.
    pub fn partition(&self) -> i32 {
        self.message.partition()
    }

    /// Topic and partition together; allocates, so not for every record.
    pub fn source_partition(&self) -> SourcePartition {
        SourcePartition::new(self.topic(), self.partition())
    }

    /// Its offset.
    pub fn offset(&self) -> RecordOffset {
        RecordOffset(self.message.offset())
    }

    /// Its timestamp; `None` where the record carries none (-1).
    pub fn timestamp(&self) -> Option<Timestamp> {
        let ms = self.message.timestamp();
        (ms != NO_TIMESTAMP).then_some(Timestamp(ms))
    }

    /// Its key; `None` is null, which differs from empty.
    pub fn key(&self) -> Option<&[u8]> {
        self.message.key()
    }

    /// Its value; `None` is null (a tombstone).
    pub fn value(&self) -> Option<&[u8]> {
        self.message.value()
    }

    /// Name and value of every header, in order, as bytes.
    pub fn headers(&self) -> impl Iterator<Item = Header<'_>> {
        self.message.headers().ok().flatten().into_iter().flat_map(ffi::HeaderList::iter)
    }

    /// How many bytes key, value and headers take together.
    pub fn size_bytes(&self) -> usize {
        let len = |bytes: Option<&[u8]>| bytes.map_or(0, <[u8]>::len);
        let headers: usize = self.headers().map(|(name, value)| name.len() + len(value)).sum();
        len(self.key()) + len(self.value()) + headers
    }

    /// Keeps the record beyond the poll it came from. It must not outlive the consumer.
    pub(crate) fn keep(self) -> SourceRecord<'static> {
        SourceRecord::new(self.message)
    }

    pub(super) fn message(&self) -> &ffi::Message {
        &self.message
    }
}

/// What the protocol writes for "no timestamp".
pub(super) const NO_TIMESTAMP: i64 = -1;

impl Headers for SourceRecord<'_> {
    fn each_named<'a>(&'a self, name: &[u8], each: &mut dyn FnMut(Option<&'a [u8]>)) {
        self.headers().filter(|(n, _)| *n == name).for_each(|(_, value)| each(value));
    }
}

impl fmt::Debug for SourceRecord<'_> {
    /// Says where the record is, never what is in it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SourceRecord")
            .field("topic", &self.topic())
            .field("partition", &self.partition())
            .field("offset", &self.offset())
            .finish_non_exhaustive()
    }
}
