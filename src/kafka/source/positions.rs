//! Taking partitions, where each is read from, and letting them go.

use std::time::{Duration, Instant};

use rdkafka::Offset;
use rdkafka::consumer::{Consumer, RebalanceProtocol};
use rdkafka::types::RDKafkaErrorCode;

use super::{Held, Pending, Source, failed};
use crate::config::Membership;
use crate::kafka::client::{list, no_queue};
use crate::kafka::error::{Cause, Error};
use crate::kafka::ffi::{self, Message, PartitionQueue};
use crate::words::{ResumeOffset, SourcePartition};

impl Source {
    /// Answers an assignment: takes the partitions, paused. Recovery comes first; then
    /// [`Source::begin`].
    ///
    /// Takes where to read on where that is known already, which spares a seek.
    ///
    /// # Errors
    /// [`Error::Client`] where the group refuses; it will then rebalance again.
    pub fn accept(
        &mut self,
        partitions: &[(SourcePartition, Option<ResumeOffset>)],
    ) -> Result<(), Error> {
        if matches!(self.pending, Some(Pending::Assign(_))) {
            self.pending = None;
        }
        // Any number will do where none is known yet; never a logical offset, see above.
        let start = |at: &Option<ResumeOffset>| at.map_or(0, |at| at.0);
        let raw = |at: &Option<ResumeOffset>| Offset::Offset(start(at));
        let wanted = list(partitions.iter().map(|(p, at)| (&*p.topic, p.partition, raw(at))))?;
        let consumer = &self.consumer()?.client;
        // Alone, whatever comes later is added.
        let incremental = match self.membership {
            Membership::Group => {
                matches!(consumer.rebalance_protocol(), RebalanceProtocol::Cooperative)
            }
            Membership::Alone => !self.held.is_empty(),
        };
        if incremental { consumer.incremental_assign(&wanted) } else { consumer.assign(&wanted) }
            .map_err(|error| failed("take partitions", error))?;
        if !partitions.is_empty() {
            consumer.pause(&wanted).map_err(|error| failed("pause partitions", error))?;
        }
        drop(wanted);
        // Whatever was fetched before the pause is outdated, so nothing is missed by cutting off now.
        let queues = partitions.iter().map(|(partition, _)| self.cut_off(partition));
        let queues = queues.collect::<Result<Vec<_>, Error>>()?;
        if !incremental {
            self.held.clear();
            self.taken.discard(|_| true);
        }
        for ((partition, at), queue) in partitions.iter().zip(queues) {
            self.let_go(partition);
            self.held.push(Held {
                partition: partition.clone(),
                next: None,
                assigned_at: Some(start(at)),
                queue,
            });
        }
        Ok(())
    }

    /// Lets a partition's records out, from `offset` on.
    ///
    /// # Errors
    /// [`Error::Client`] where the client does not move there within `timeout`.
    pub fn begin(
        &mut self,
        partition: &SourcePartition,
        offset: ResumeOffset,
        timeout: Duration,
    ) -> Result<(), Error> {
        let place = self.place(partition)?;
        // The client stands behind what was taken from it, which was read from another offset on.
        let moved = self.taken.discard(|message| is_of(message, partition));
        let stands_there =
            self.held.get(place).is_some_and(|held| held.assigned_at == Some(offset.0)) && !moved;
        if !stands_there {
            self.seek(partition, offset, timeout)?;
        }
        if let Some(held) = self.held.get_mut(place) {
            held.next = Some(offset.0);
            held.assigned_at = None;
        }
        self.resume(partition)
    }

    /// Lets the client fetch no more of a partition. What it read ahead is dropped by it and read
    /// again on [`Source::resume`]; what was taken from it already is still handed out.
    ///
    /// # Errors
    /// [`Error::Client`] where the client refuses.
    pub fn pause(&mut self, partition: &SourcePartition) -> Result<(), Error> {
        let one = list([(&*partition.topic, partition.partition, Offset::Invalid)])?;
        self.consumer()?.client.pause(&one).map_err(|error| failed("pause a partition", error))
    }

    /// Goes on where [`Source::pause`] stopped.
    ///
    /// # Errors
    /// [`Error::Client`] where the client refuses.
    pub fn resume(&mut self, partition: &SourcePartition) -> Result<(), Error> {
        let one = list([(&*partition.topic, partition.partition, Offset::Invalid)])?;
        self.consumer()?.client.resume(&one).map_err(|error| failed("resume a partition", error))
    }

    /// Answers a revocation: gives the partitions up.
    ///
    /// # Errors
    /// [`Error::Client`] where the client refuses.
    pub fn release(&mut self, partitions: &[SourcePartition]) -> Result<(), Error> {
        if matches!(self.pending, Some(Pending::Revoke(_))) {
            self.pending = None;
        }
        let consumer = &self.consumer()?.client;
        let result = if matches!(consumer.rebalance_protocol(), RebalanceProtocol::Cooperative) {
            let gone = list(partitions.iter().map(|p| (&*p.topic, p.partition, Offset::Invalid)))?;
            consumer.incremental_unassign(&gone)
        } else {
            consumer.unassign()
        };
        for partition in partitions {
            self.let_go(partition);
        }
        result.map_err(|error| failed("give partitions up", error))
    }

    /// Moves the client to `offset`.
    pub(super) fn seek(
        &self,
        partition: &SourcePartition,
        offset: ResumeOffset,
        timeout: Duration,
    ) -> Result<(), Error> {
        /// How long the client may take to start a partition, before it is taken to have stopped.
        const STARTS_WITHIN: Duration = Duration::from_millis(100);
        let start = Instant::now();
        let mut started_anew = false;
        loop {
            let to = list([(&*partition.topic, partition.partition, Offset::Offset(offset.0))])?;
            let left = timeout.saturating_sub(start.elapsed()).max(Duration::from_millis(1));
            let moved = self
                .consumer()?
                .client
                .seek_partitions(to, left)
                .map_err(|error| failed("move to the resume offset", error))?;
            let refused = ffi::list_entries(&moved).into_iter().find_map(|entry| entry.error);
            drop(moved);
            match refused {
                None => return Ok(()),
                // The client has not started the partition yet, or has stopped it for good: it
                // does so where the number the partition was taken at is not in the source.
                Some(RDKafkaErrorCode::State | RDKafkaErrorCode::PreviousInProgress)
                    if start.elapsed() < timeout =>
                {
                    if start.elapsed() >= STARTS_WITHIN && !started_anew {
                        self.start_anew(partition, offset)?;
                        started_anew = true;
                    }
                    std::thread::sleep(Duration::from_millis(2));
                }
                Some(code) => {
                    return Err(Error::Client {
                        task: "move to the resume offset",
                        cause: Cause::of(code),
                    });
                }
            }
        }
    }

    /// Gives a partition up and takes it again at `offset`: the only way to start one that the
    /// client has stopped. The group does not see it.
    fn start_anew(&self, partition: &SourcePartition, offset: ResumeOffset) -> Result<(), Error> {
        let client = &self.consumer()?.client;
        let again = list([(&*partition.topic, partition.partition, Offset::Offset(offset.0))])?;
        client
            .incremental_unassign(&again)
            .and_then(|()| client.incremental_assign(&again))
            .map_err(|error| failed("take a partition again", error))
    }

    fn place(&self, partition: &SourcePartition) -> Result<usize, Error> {
        self.held.iter().position(|held| held.partition == *partition).ok_or_else(|| {
            Error::Client {
                task: "begin a partition",
                cause: Cause::text(format!("{partition} was not accepted")),
            }
        })
    }

    /// Returns how many records lie between `resume` and the end, as of the last fetch.
    ///
    /// The end is the high watermark, so an open transaction shows as lag. Where the client stands
    /// at the high watermark and all it handed out is finished, the lag is 0, even if the last
    /// offsets belong to markers or aborted records that nobody reads.
    pub fn lag(&self, partition: &SourcePartition, resume: ResumeOffset) -> Option<i64> {
        let native = self.consumer.as_ref()?.client.client().native_client();
        let (_, high) = ffi::cached_watermarks(native, &partition.topic, partition.partition)?;
        let held = self.held.iter().find(|held| held.partition == *partition)?;
        let one = list([(&*partition.topic, partition.partition, Offset::Invalid)]).ok()?;
        let stands_at_end = ffi::position(native, &one).is_some_and(|at| at >= high);
        let all_handed_out = || !self.taken.any(|message| is_of(message, partition));
        if stands_at_end && held.next.is_some_and(|next| resume.0 >= next) && all_handed_out() {
            return Some(0);
        }
        Some(high.saturating_sub(resume.0).max(0))
    }

    fn cut_off(&self, partition: &SourcePartition) -> Result<PartitionQueue, Error> {
        let native = self.consumer()?.client.client().native_client();
        PartitionQueue::cut_off(native, &partition.topic, partition.partition).ok_or_else(no_queue)
    }

    /// Puts right a partition whose records came on the consumer's queue: cuts it off again, and
    /// goes back to where it stood.
    pub(super) fn put_right(&mut self, topic: &str, number: i32) -> Result<(), Error> {
        /// How long the client may take to move.
        const LIMIT: Duration = Duration::from_secs(5);
        let partition = SourcePartition::new(topic, number);
        let Ok(place) = self.place(&partition) else { return Ok(()) };
        let queue = self.cut_off(&partition)?;
        self.taken.discard(|message| is_of(message, &partition));
        let Some(held) = self.held.get_mut(place) else { return Ok(()) };
        held.queue = queue;
        held.assigned_at = None;
        match held.next {
            Some(next) => self.seek(&partition, ResumeOffset(next), LIMIT),
            // `begin` moves there.
            None => Ok(()),
        }
    }

    /// Forgets a partition and what was taken of it.
    fn let_go(&mut self, partition: &SourcePartition) {
        self.held.retain(|held| held.partition != *partition);
        self.taken.discard(|message| is_of(message, partition));
        self.last = None;
    }
}

fn is_of(message: &Message, partition: &SourcePartition) -> bool {
    message.partition() == partition.partition && message.topic() == &*partition.topic
}
