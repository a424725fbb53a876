//! Taking many records at a time from the queue of one partition.
//!
//! # Traps that the types close
//! - On the consumer's own queue a batch call swallows rebalances. So only a [`PartitionQueue`] has
//!   one, and it is cut off from the consumer's queue: the client joins them again only where it
//!   makes the partition anew, and then its records show on the consumer's queue.
//! - A batch call moves the client's position over an error or an end as if it were a record, and a
//!   pause goes on from there (librdkafka 2.12.1, #4844). So ends are not asked for where partitions
//!   are paused, and after an error the caller moves to where it stands.

use std::collections::VecDeque;
use std::ffi::CString;
use std::ptr::{self, NonNull};
use std::time::Duration;

use rdkafka::client::NativeClient;
use rdkafka_sys as sys;

use super::{Message, millis};

/// How many records are taken at a time.
const MOST: usize = 512;

/// Where the records of one partition arrive. Must be dropped before the client it came from.
#[derive(Debug)]
pub(in crate::kafka) struct PartitionQueue(NonNull<sys::rd_kafka_queue_t>);

// SAFETY: librdkafka's queues may be used from any thread.
unsafe impl Send for PartitionQueue {}

impl PartitionQueue {
    /// Has a partition's records arrive on a queue of its own. To be called when the partition is
    /// assigned: the client may give a partition that it does not know yet another queue then.
    pub(in crate::kafka) fn cut_off(
        client: &NativeClient,
        topic: &str,
        partition: i32,
    ) -> Option<Self> {
        let topic = CString::new(topic).ok()?;
        // SAFETY: the client is alive and the name is copied; the reference returned is ours.
        let queue = NonNull::new(unsafe {
            sys::rd_kafka_queue_get_partition(client.ptr(), topic.as_ptr(), partition)
        })?;
        // SAFETY: the queue is alive; no target means that it forwards to none.
        unsafe { sys::rd_kafka_queue_forward(queue.as_ptr(), ptr::null_mut()) };
        Some(Self(queue))
    }
}

impl Drop for PartitionQueue {
    fn drop(&mut self) {
        // SAFETY: gives back the one reference this value holds.
        unsafe { sys::rd_kafka_queue_destroy(self.0.as_ptr()) }
    }
}

/// Records that were taken and not looked at yet, in order. Keeps its memory.
#[derive(Debug, Default)]
pub(in crate::kafka) struct Taken {
    messages: VecDeque<Message>,
    raw: Vec<*mut sys::rd_kafka_message_t>,
}

// SAFETY: messages have one owner, and the pointers left in `raw` are never followed.
unsafe impl Send for Taken {}

impl Taken {
    /// Takes what has arrived, up to some hundred records; does not wait.
    ///
    /// Returns whether there was anything.
    pub(in crate::kafka) fn take(&mut self, queue: &PartitionQueue) -> bool {
        self.fill(queue, MOST, Duration::ZERO)
    }

    /// Takes one record, waiting up to `wait` for it: a batch call waits until it is full.
    pub(in crate::kafka) fn take_one(&mut self, queue: &PartitionQueue, wait: Duration) -> bool {
        self.fill(queue, 1, wait)
    }

    /// Returns the next of them.
    pub(in crate::kafka) fn next(&mut self) -> Option<Message> {
        self.messages.pop_front()
    }

    /// Throws away those that `unwanted` names; returns whether there were any.
    pub(in crate::kafka) fn discard(&mut self, unwanted: impl Fn(&Message) -> bool) -> bool {
        let before = self.messages.len();
        self.messages.retain(|message| !unwanted(message));
        self.messages.len() < before
    }

    /// Whether one of them is as `wanted` says.
    pub(in crate::kafka) fn any(&self, wanted: impl Fn(&Message) -> bool) -> bool {
        self.messages.iter().any(wanted)
    }

    fn fill(&mut self, queue: &PartitionQueue, most: usize, wait: Duration) -> bool {
        self.raw.resize(most, ptr::null_mut());
        // SAFETY: there is room for `most` pointers; each one written is a message of ours.
        let count = unsafe {
            sys::rd_kafka_consume_batch_queue(
                queue.0.as_ptr(),
                millis(wait),
                self.raw.as_mut_ptr(),
                most,
            )
        };
        let count = usize::try_from(count).unwrap_or_default();
        let fresh = self.raw.drain(..).take(count).filter_map(NonNull::new);
        self.messages.extend(fresh.map(Message::new));
        count > 0
    }
}
