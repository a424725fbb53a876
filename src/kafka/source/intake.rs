//! What comes in: records from the queues of the partitions held, everything else from the
//! consumer's own.

use std::time::{Duration, Instant};

use rdkafka::types::RDKafkaErrorCode;

use super::failure::source_error;
use super::{Held, Pending, Polled, Source};
use crate::kafka::error::{Cause, Class};
use crate::kafka::ffi::{Event, EventKind, Message};
use crate::kafka::record::SourceRecord;
use crate::words::{RecordOffset, SourcePartition};

/// How many records may be handed out between two looks for events.
const RECORDS_PER_LOOK: u32 = 32;

/// How long to wait on one partition's queue before the others and the events get a look.
const SLICE: Duration = Duration::from_millis(2);

impl Source {
    /// Returns the next record or event, waiting up to `timeout`.
    pub fn poll(&mut self, timeout: Duration) -> Polled<'_> {
        if let Some(polled) = self.queued.pop_front() {
            return polled;
        }
        let mut start = None;
        loop {
            if self.since_events >= RECORDS_PER_LOOK
                && let Some(polled) = self.next_event(Duration::ZERO)
            {
                return polled;
            }
            if let Some(message) = self.taken.next() {
                self.since_events += 1;
                if let Some(polled) = self.take_message(message) {
                    return polled;
                }
                continue;
            }
            if let Some(polled) = self.next_event(Duration::ZERO) {
                return polled;
            }
            if self.refill() {
                continue;
            }
            if timeout.is_zero() {
                return Polled::Nothing;
            }
            let left = timeout.saturating_sub(start.get_or_insert_with(Instant::now).elapsed());
            if left.is_zero() {
                return Polled::Nothing;
            }
            if let Some(polled) = self.wait(left) {
                return polled;
            }
        }
    }

    /// Takes what has arrived in one of the partitions, the next in turn first.
    fn refill(&mut self) -> bool {
        for _ in 0..self.held.len() {
            self.turn = (self.turn + 1) % self.held.len();
            if let Some(held) = self.held.get(self.turn)
                && self.taken.take(&held.queue)
            {
                return true;
            }
        }
        false
    }

    /// Waits for a record of the partition in turn, or for an event where none is held.
    fn wait(&mut self, left: Duration) -> Option<Polled<'static>> {
        if self.held.is_empty() {
            return self.next_event(left);
        }
        self.turn = (self.turn + 1) % self.held.len();
        let held = self.held.get(self.turn)?;
        self.taken.take_one(&held.queue, left.min(SLICE));
        None
    }

    /// Takes events until one of them matters, waiting up to `wait` for the first.
    fn next_event(&mut self, mut wait: Duration) -> Option<Polled<'static>> {
        self.since_events = 0;
        loop {
            let event = match self.consumer() {
                Ok(consumer) => consumer.queue.poll(std::mem::take(&mut wait))?,
                Err(error) => return Some(Polled::Failed(error)),
            };
            if let Some(polled) = self.take_event(&event) {
                return Some(polled);
            }
        }
    }

    fn take_event(&mut self, event: &Event) -> Option<Polled<'static>> {
        match event.kind() {
            EventKind::Rebalance => Some(self.take_rebalance(event)),
            EventKind::Commit => Some(Polled::Committed {
                result: self.commit_outcome(event),
                sent_at: self.epoch + Duration::from_nanos(event.commit_token()),
            }),
            EventKind::Error => {
                let cause = self.consumer.as_ref()?.context().absorb(event)?;
                self.take_error(event.error()?, cause, event.place()).map(Polled::Failed)
            }
            EventKind::Fetch => {
                let (topic, partition) = event.fetched()?;
                self.put_right(&topic, partition).err().map(Polled::Failed)
            }
            _ => {
                self.consumer.as_ref()?.context().absorb(event);
                None
            }
        }
    }

    fn take_message(&mut self, message: Message) -> Option<Polled<'static>> {
        if message.error().is_some() {
            return self.take_partition_error(&message);
        }
        let place = self.place_of(&message)?;
        let held = self.held.get_mut(place)?;
        let offset = message.offset();
        let Some(next) = held.next else {
            // Fetched before the pause took hold; `begin` seeks back for it.
            held.assigned_at = None;
            return None;
        };
        if offset < next {
            return None;
        }
        held.next = Some(RecordOffset(offset).next().0);
        Some(Polled::Record(SourceRecord::new(message)))
    }

    /// Finds a record's partition; records come in runs, so the last one is looked at first.
    fn place_of(&mut self, message: &Message) -> Option<usize> {
        let (topic, partition) = (message.topic_number(), message.partition());
        if let Some((t, p, place)) = self.last
            && (t, p) == (topic, partition)
        {
            return Some(place);
        }
        let name = message.topic();
        let same = |h: &Held| h.partition.partition == partition && *h.partition.topic == *name;
        let place = self.held.iter().position(same)?;
        self.last = Some((topic, partition, place));
        Some(place)
    }

    fn take_rebalance(&mut self, event: &Event) -> Polled<'static> {
        let partitions: Vec<_> = event
            .partitions()
            .into_iter()
            .map(|entry| SourcePartition::new(entry.topic, entry.partition))
            .collect();
        if event.error() == Some(RDKafkaErrorCode::AssignPartitions) {
            self.pending = Some(Pending::Assign(partitions.clone()));
            return Polled::Assigned(partitions);
        }
        self.pending = Some(Pending::Revoke(partitions.clone()));
        Polled::Revoked { partitions, lost: self.assignment_lost() }
    }

    /// Takes an error that came among the records of a partition. It moved the client's position;
    /// where reading goes on, it goes on where it was.
    #[cold]
    fn take_partition_error(&mut self, message: &Message) -> Option<Polled<'static>> {
        let cause = self.consumer.as_ref()?.context().learn(message)?;
        let place = (message.topic().to_owned(), message.partition(), message.offset());
        if let Some(error) = self.take_error(message.error()?, cause, Some(place)) {
            return Some(Polled::Failed(error));
        }
        self.put_right(message.topic(), message.partition()).err().map(Polled::Failed)
    }

    fn take_error(
        &mut self,
        code: RDKafkaErrorCode,
        cause: Cause,
        place: Option<(String, i32, i64)>,
    ) -> Option<crate::kafka::Error> {
        if cause.class() == Class::OffsetReset && self.not_begun(place.as_ref()) {
            // About the number a partition was taken at, which means nothing yet. The client has
            // stopped fetching it, which `begin` learns by moving.
            self.transient += 1;
            return None;
        }
        let consumer = self.consumer.as_ref()?;
        let error = source_error(code, cause, place, &self.group, &consumer.servers);
        if error.is_none() {
            self.transient += 1;
        }
        error
    }

    /// Whether an error is about a partition that has not begun; makes sure that it will seek.
    fn not_begun(&mut self, place: Option<&(String, i32, i64)>) -> bool {
        let Some((topic, partition, _)) = place else { return false };
        let same =
            |h: &&mut Held| h.partition.partition == *partition && *h.partition.topic == **topic;
        let Some(held) = self.held.iter_mut().find(same) else { return true };
        if held.next.is_some() {
            return false;
        }
        held.assigned_at = None;
        true
    }
}
