//! Many records by one call: the fastest way librdkafka hands them out.
//!
//! The traps of `rd_kafka_consume_batch_queue` are closed by types. It must never be called on a
//! consumer's own queue, where it swallows rebalances: a [`Stream`] is made of partition queues
//! only. Its messages must be given back: a [`Batch`] does so before it is filled again and when
//! it is dropped.

use std::ffi::CString;
use std::ptr;
use std::time::Duration;

use rdkafka::client::NativeClient;
use rdkafka::types::RDKafkaErrorCode;
use rdkafka_sys as sys;

use super::{Queue, bytes, code, millis};

/// The records of several assigned partitions in one queue. Must be dropped before the consumer.
#[derive(Debug)]
pub(in crate::kafka) struct Stream {
    /// Before the queue they forward to.
    partitions: Vec<Queue>,
    queue: Queue,
}

impl Stream {
    /// Takes the records of `topic`'s first `partitions` partitions, which must be assigned, off
    /// the consumer's own queue.
    pub(in crate::kafka) fn of(
        client: &NativeClient,
        topic: &str,
        partitions: i32,
    ) -> Option<Self> {
        let topic = CString::new(topic).ok()?;
        let queue = Queue::new(client)?;
        let mut forwarded = Vec::new();
        for partition in 0..partitions {
            // SAFETY: the client is alive and the name is read during the call only; the
            // reference returned is ours to give back.
            let raw = unsafe {
                sys::rd_kafka_queue_get_partition(client.ptr(), topic.as_ptr(), partition)
            };
            let from = Queue(ptr::NonNull::new(raw)?);
            // SAFETY: both queues are alive; librdkafka keeps its own reference to the second.
            unsafe { sys::rd_kafka_queue_forward(from.0.as_ptr(), queue.0.as_ptr()) };
            forwarded.push(from);
        }
        Some(Self { partitions: forwarded, queue })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        for from in &self.partitions {
            // SAFETY: both are alive; a null target ends the forwarding.
            unsafe { sys::rd_kafka_queue_forward(from.0.as_ptr(), ptr::null_mut()) };
        }
    }
}

/// Records taken by one call, given back when it is filled again or dropped.
#[derive(Debug)]
pub(in crate::kafka) struct Batch {
    slots: Vec<*mut sys::rd_kafka_message_t>,
    /// How many of the slots hold a message that is ours.
    filled: usize,
}

impl Batch {
    /// Room for `size` records.
    pub(in crate::kafka) fn of(size: usize) -> Self {
        Self { slots: vec![ptr::null_mut(); size], filled: 0 }
    }

    /// Takes what is there, up to its size; waits for nothing.
    pub(in crate::kafka) fn fill(&mut self, stream: &Stream) -> Result<usize, RDKafkaErrorCode> {
        self.take(stream, self.slots.len(), Duration::ZERO)
    }

    /// Waits up to `wait` for one record. With room for more it would wait until that is used.
    pub(in crate::kafka) fn wait(
        &mut self,
        stream: &Stream,
        wait: Duration,
    ) -> Result<usize, RDKafkaErrorCode> {
        self.take(stream, 1, wait)
    }

    fn take(
        &mut self,
        stream: &Stream,
        most: usize,
        wait: Duration,
    ) -> Result<usize, RDKafkaErrorCode> {
        self.give_back();
        let most = most.min(self.slots.len());
        // SAFETY: the queue is alive, and there are `most` slots to write pointers to.
        let taken = unsafe {
            sys::rd_kafka_consume_batch_queue(
                stream.queue.0.as_ptr(),
                millis(wait),
                self.slots.as_mut_ptr(),
                most,
            )
        };
        match usize::try_from(taken) {
            Ok(taken) => self.filled = taken,
            Err(_negative) => {
                // SAFETY: reads this thread's last error.
                let error = code(unsafe { sys::rd_kafka_last_error() });
                return Err(error.unwrap_or(RDKafkaErrorCode::Fail));
            }
        }
        Ok(self.filled)
    }

    /// Returns the records in the order they were taken.
    pub(in crate::kafka) fn iter(&self) -> impl Iterator<Item = Fetched<'_>> {
        let filled = self.slots.iter().take(self.filled);
        // SAFETY: filled slots hold messages that live until they are given back, which needs
        // `self` mutably.
        filled.filter_map(|raw| unsafe { raw.as_ref() }).map(Fetched)
    }

    fn give_back(&mut self) {
        for slot in self.slots.iter_mut().take(self.filled) {
            let raw = std::mem::replace(slot, ptr::null_mut());
            // SAFETY: the message is ours, and its slot is empty from now on.
            unsafe { sys::rd_kafka_message_destroy(raw) };
        }
        self.filled = 0;
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        self.give_back();
    }
}

/// One record of a batch, or an error in its place.
#[derive(Clone, Copy, Debug)]
pub(in crate::kafka) struct Fetched<'a>(&'a sys::rd_kafka_message_t);

impl<'a> Fetched<'a> {
    pub(in crate::kafka) fn error(self) -> Option<RDKafkaErrorCode> {
        code(self.0.err)
    }

    pub(in crate::kafka) fn partition(self) -> i32 {
        self.0.partition
    }

    pub(in crate::kafka) fn key(self) -> Option<&'a [u8]> {
        // SAFETY: the message keeps its bytes alive.
        unsafe { bytes(self.0.key, self.0.key_len) }
    }

    pub(in crate::kafka) fn value(self) -> Option<&'a [u8]> {
        // SAFETY: the message keeps its bytes alive.
        unsafe { bytes(self.0.payload, self.0.len) }
    }

    /// Milliseconds, or a negative number for "none".
    pub(in crate::kafka) fn timestamp(self) -> i64 {
        // SAFETY: the message is alive; the kind of timestamp is not asked for.
        unsafe { sys::rd_kafka_message_timestamp(self.0, ptr::null_mut()) }
    }
}
