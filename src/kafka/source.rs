//! Reading source records, as a member of a consumer group or alone.
//!
//! # Rebalances are answered later
//! The client hands a rebalance to us as an event and then waits in a state of its own until it is
//! assigned or unassigned, however long that takes; handing it out from [`Source::poll`] and
//! answering by [`Source::accept`] or [`Source::release`] after a drain is what its event interface
//! is made for. While it waits, *all* partitions of this consumer stand still and heartbeats go on;
//! the group waits too, up to `max.poll.interval.ms`. [`Source::poll`] must go on being called.
//!
//! # Never a logical offset
//! A partition taken at "the end" makes the client ask the broker where that is. If it is moved
//! before the answer comes, the client discards the answer as outdated, asks again half a second
//! later, and then jumps to the end: everything between is skipped without a word (librdkafka
//! 2.12.1, the retry of an outdated offset reply). So partitions are taken at numbers only.
//!
//! # Invariants
//! - No record of a partition is handed out before [`Source::begin`] names its first offset.
//! - Offsets handed out rise within a partition, from that offset on, without exception.
//! - No partition list of the client's outlives a call: one would hold the consumer open.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::Offset;
use rdkafka::consumer::{Consumer, RebalanceProtocol};
use rdkafka::types::RDKafkaErrorCode;

use super::client::{Consuming, Reach, list};
use super::error::{Cause, Class, Error, class};
use super::ffi::{self, Event, EventKind, Message, Queue};
use super::record::SourceRecord;
use crate::config::{Config, Membership, StartAt, TopicSelection};
use crate::words::{RecordOffset, ResumeOffset, SourcePartition};

/// Reads source records. Owned by one thread.
pub struct Source {
    /// Gone only while closing.
    consumer: Option<Consuming>,
    group: String,
    membership: Membership,
    topics: TopicSelection,
    held: Vec<Held>,
    /// The partition of the last record, as topic number, partition number and place in `held`.
    last: Option<(usize, i32, usize)>,
    pending: Option<Pending>,
    queued: VecDeque<Polled<'static>>,
    /// Commit tokens are nanoseconds since this.
    epoch: Instant,
    transient: u64,
}

/// A partition that was accepted.
struct Held {
    partition: SourcePartition,
    /// The next offset to hand out; `None` before `begin`.
    next: Option<i64>,
    /// Where the client stands, while nothing was fetched that had to be thrown away.
    assigned_at: Option<i64>,
    /// Where the client last ran out of records, and `next` at that time.
    caught_up: Option<(i64, i64)>,
}

enum Pending {
    Assign(Vec<SourcePartition>),
    Revoke(Vec<SourcePartition>),
}

/// What [`Source::poll`] found.
#[derive(Debug)]
pub enum Polled<'a> {
    /// The next record of a partition that has begun.
    Record(SourceRecord<'a>),
    /// The group gives these partitions; answer by [`Source::accept`]. May be empty.
    Assigned(Vec<SourcePartition>),
    /// The group takes these partitions away; finish, then answer by [`Source::release`].
    Revoked {
        /// Which.
        partitions: Vec<SourcePartition>,
        /// Whether they are gone already, so that nothing may be committed.
        lost: bool,
    },
    /// What came of a [`Source::commit`].
    Committed {
        /// Whether the group took all of it.
        result: Result<(), Error>,
        /// When it was sent: the group knew us at some time after this.
        sent_at: Instant,
    },
    /// Nothing within the timeout.
    Nothing,
    /// Reading cannot go on as it is.
    Failed(Error),
}

/// A committed offset, perhaps by somebody else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The next offset to read.
    pub offset: ResumeOffset,
    /// What was stored with it; `None` where there is none or it is not text.
    pub metadata: Option<String>,
}

/// Who we are in the group at one moment, for offsets that travel in a transaction.
#[derive(Debug)]
pub struct GroupMember(pub(super) ffi::Member);

/// How a close went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// The group knows that we left.
    Clean,
    /// The client did not finish in time and was left behind; only the end of the process is safe.
    Abandoned,
}

impl Source {
    /// Makes the consumer. Does not wait for a broker.
    ///
    /// # Errors
    /// [`Error::Setting`] where the client refuses a property.
    pub fn connect(config: &Config) -> Result<Self, Error> {
        let reach = Reach::source(config);
        let consumer = Consuming::consumer(&reach, &settings(config, &reach))?;
        Ok(Self {
            consumer: Some(consumer),
            group: config.source.group.clone(),
            membership: config.source.membership,
            topics: config.source.topics.clone(),
            held: Vec::new(),
            last: None,
            pending: None,
            queued: VecDeque::new(),
            epoch: Instant::now(),
            transient: 0,
        })
    }

    /// Joins the group for the configured topics.
    ///
    /// # Errors
    /// [`Error::Client`] where the client refuses the subscription.
    pub fn subscribe(&mut self) -> Result<(), Error> {
        let names: Vec<String> = match &self.topics {
            TopicSelection::List(names) => names.clone(),
            // The client takes a leading `^` for a pattern and searches; we match whole names.
            TopicSelection::Pattern(pattern) => vec![format!("^({pattern})$")],
        };
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        self.consumer()?
            .client
            .subscribe(&names)
            .map_err(|error| failed("subscribe to topics", error))
    }

    /// Takes these partitions with no group protocol; they come out of [`Source::poll`] as
    /// assigned. Only one instance may run.
    pub fn assign_alone(&mut self, partitions: Vec<SourcePartition>) {
        self.pending = Some(Pending::Assign(partitions.clone()));
        self.queued.push_back(Polled::Assigned(partitions));
    }

    /// Returns the next record or event, waiting up to `timeout`.
    pub fn poll(&mut self, timeout: Duration) -> Polled<'_> {
        if let Some(polled) = self.queued.pop_front() {
            return polled;
        }
        let start = Instant::now();
        let mut left = timeout;
        loop {
            let event = match self.consumer() {
                Ok(consumer) => consumer.queue.poll(left),
                Err(error) => return Polled::Failed(error),
            };
            let Some(event) = event else { return Polled::Nothing };
            if let Some(polled) = self.take(event) {
                return polled;
            }
            left = timeout.saturating_sub(start.elapsed());
        }
    }

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
        let cooperative = self.membership == Membership::Group
            && matches!(consumer.rebalance_protocol(), RebalanceProtocol::Cooperative);
        if cooperative { consumer.incremental_assign(&wanted) } else { consumer.assign(&wanted) }
            .map_err(|error| failed("take partitions", error))?;
        if !partitions.is_empty() {
            consumer.pause(&wanted).map_err(|error| failed("pause partitions", error))?;
        }
        drop(wanted);
        if !cooperative {
            self.held.clear();
        }
        for (partition, at) in partitions {
            self.held.retain(|held| held.partition != *partition);
            self.held.push(Held {
                partition: partition.clone(),
                next: None,
                assigned_at: Some(start(at)),
                caught_up: None,
            });
        }
        self.last = None;
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
        let stands_there =
            self.held.get(place).is_some_and(|held| held.assigned_at == Some(offset.0));
        if !stands_there {
            self.seek(partition, offset, timeout)?;
        }
        if let Some(held) = self.held.get_mut(place) {
            held.next = Some(offset.0);
            held.assigned_at = None;
            held.caught_up = None;
        }
        self.resume(partition)
    }

    /// Stops handing out a partition's records. What the client read ahead is dropped by it and
    /// read again on [`Source::resume`].
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
        self.held.retain(|held| !partitions.contains(&held.partition));
        self.last = None;
        result.map_err(|error| failed("give partitions up", error))
    }

    /// Commits offsets, each with a note for whoever reads it, without waiting; the outcome comes
    /// out of [`Source::poll`].
    ///
    /// # Errors
    /// [`Error::Commit`] where it cannot even be sent.
    pub fn commit(
        &mut self,
        offsets: &[(SourcePartition, ResumeOffset, String)],
    ) -> Result<(), Error> {
        let token = u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let consumer = self.consumer()?;
        let native = consumer.client.client().native_client();
        ffi::commit(native, &with_metadata(offsets)?, &consumer.queue, token)
            .map_err(|code| self.commit_failed(Cause::of(code)))
    }

    /// Commits and waits for the outcome, up to `timeout`. The caller leaves this out where the
    /// assignment is lost: it would wait in vain.
    ///
    /// # Errors
    /// [`Error::Commit`] where the group refuses or does not answer.
    pub fn commit_now(
        &mut self,
        offsets: &[(SourcePartition, ResumeOffset, String)],
        timeout: Duration,
    ) -> Result<(), Error> {
        let consumer = self.consumer()?;
        let native = consumer.client.client().native_client();
        let answers = Queue::new(native).ok_or_else(super::client::no_queue)?;
        ffi::commit(native, &with_metadata(offsets)?, &answers, 0)
            .map_err(|code| self.commit_failed(Cause::of(code)))?;
        match answers.poll(timeout) {
            Some(event) => self.commit_outcome(&event),
            None => Err(self.commit_failed(Cause::of(RDKafkaErrorCode::OperationTimedOut))),
        }
    }

    /// Returns who we are in the group now.
    ///
    /// # Errors
    /// [`Error::Client`] where the client does not tell.
    pub fn member(&self) -> Result<GroupMember, Error> {
        let native = self.consumer()?.client.client().native_client();
        ffi::Member::of(native).map(GroupMember).ok_or_else(|| Error::Client {
            task: "tell who we are in the group",
            cause: Cause::text("the client does not say"),
        })
    }

    /// Asks the group for committed offsets, in the order of `partitions`.
    ///
    /// # Errors
    /// [`Error::Unreachable`] where nothing answers, [`Error::BrokerAuthorization`] where the group
    /// may not be read.
    pub fn committed(
        &self,
        partitions: &[SourcePartition],
        timeout: Duration,
    ) -> Result<Vec<Option<Committed>>, Error> {
        let wanted = list(partitions.iter().map(|p| (&*p.topic, p.partition, Offset::Invalid)))?;
        let consumer = self.consumer()?;
        let found = consumer
            .client
            .committed_offsets(wanted, timeout)
            .map_err(|error| self.explain("read committed offsets", timeout, error.into()))?;
        let entries = ffi::list_entries(&found);
        drop(found);
        partitions
            .iter()
            .map(|partition| self.committed_one(&entries, partition, timeout))
            .collect()
    }

    fn committed_one(
        &self,
        entries: &[ffi::Entry],
        partition: &SourcePartition,
        timeout: Duration,
    ) -> Result<Option<Committed>, Error> {
        let same =
            |e: &&ffi::Entry| e.topic == *partition.topic && e.partition == partition.partition;
        let Some(entry) = entries.iter().find(same) else { return Ok(None) };
        if let Some(code) = entry.error {
            return Err(self.explain("read committed offsets", timeout, Cause::of(code)));
        }
        let metadata = String::from_utf8(entry.metadata.clone()).ok().filter(|m| !m.is_empty());
        Ok((entry.offset >= 0)
            .then_some(Committed { offset: ResumeOffset(entry.offset), metadata }))
    }

    /// Whether the group took everything away already. Changes without a poll.
    pub fn assignment_lost(&self) -> bool {
        self.consumer.as_ref().is_none_or(|consumer| consumer.client.assignment_lost())
    }

    /// Returns how many records lie between `resume` and the end, as of the last fetch.
    ///
    /// The end is the high watermark, so an open transaction shows as lag. Where the client ran
    /// out of records at the high watermark and all it handed out is finished, the lag is 0, even
    /// if the last offsets belong to markers or aborted records that nobody reads.
    pub fn lag(&self, partition: &SourcePartition, resume: ResumeOffset) -> Option<i64> {
        let native = self.consumer.as_ref()?.client.client().native_client();
        let (_, high) = ffi::cached_watermarks(native, &partition.topic, partition.partition)?;
        let held = self.held.iter().find(|held| held.partition == *partition)?;
        match held.caught_up {
            Some((end, next)) if high <= end && resume.0 >= next => Some(0),
            _ => Some(high.saturating_sub(resume.0).max(0)),
        }
    }

    /// Returns the offset to start at; `None` for [`StartAt::Stop`].
    ///
    /// # Errors
    /// As [`Source::watermarks`].
    pub fn start_offset(
        &self,
        partition: &SourcePartition,
        start: StartAt,
        timeout: Duration,
    ) -> Result<Option<ResumeOffset>, Error> {
        Ok(match start {
            StartAt::Earliest => Some(self.watermarks(partition, timeout)?.0),
            StartAt::Latest => Some(self.watermarks(partition, timeout)?.1),
            StartAt::Stop => None,
        })
    }

    /// Asks for the first offset and the last stable offset.
    ///
    /// # Errors
    /// [`Error::Unreachable`] where no leader answers.
    pub fn watermarks(
        &self,
        partition: &SourcePartition,
        timeout: Duration,
    ) -> Result<(ResumeOffset, ResumeOffset), Error> {
        let (low, end) = self
            .consumer()?
            .client
            .fetch_watermarks(&partition.topic, partition.partition, timeout)
            .map_err(|error| self.explain("read a partition's bounds", timeout, error.into()))?;
        Ok((ResumeOffset(low), ResumeOffset(end)))
    }

    /// Returns how many failures the client got over by itself.
    pub fn transient_errors(&self) -> u64 {
        self.transient
    }

    /// Leaves the group and closes, waiting up to `limit`.
    ///
    /// The client can hang while it closes with brokers away, so it closes on a thread that can be
    /// left behind.
    pub fn close(mut self, limit: Duration) -> Closed {
        self.close_within(limit)
    }

    fn close_within(&mut self, limit: Duration) -> Closed {
        let Some(consumer) = self.consumer.take() else { return Closed::Clean };
        answer_now(&consumer, self.pending.take());
        let (done, finished) = crossbeam_channel::bounded::<()>(1);
        let closer = std::thread::Builder::new().name("close-source".to_owned()).spawn(move || {
            drop(consumer);
            drop(done);
        });
        match closer {
            // The sender is dropped at the end, so a disconnect is the good news.
            Ok(_) => match finished.recv_timeout(limit) {
                Err(crossbeam_channel::RecvTimeoutError::Timeout) => Closed::Abandoned,
                _ => Closed::Clean,
            },
            Err(_) => Closed::Clean,
        }
    }

    fn take(&mut self, event: Event) -> Option<Polled<'static>> {
        match event.kind() {
            EventKind::Fetch => self.take_record(event.into_message()?),
            EventKind::Rebalance => Some(self.take_rebalance(&event)),
            EventKind::Commit => Some(Polled::Committed {
                result: self.commit_outcome(&event),
                sent_at: self.epoch + Duration::from_nanos(event.commit_token()),
            }),
            EventKind::Error => self.take_error(&event).map(Polled::Failed),
            _ => {
                self.consumer.as_ref()?.context().absorb(&event);
                None
            }
        }
    }

    fn take_record(&mut self, message: Message) -> Option<Polled<'static>> {
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

    fn take_error(&mut self, event: &Event) -> Option<Error> {
        let code = event.error()?;
        let place = event.place();
        if code == RDKafkaErrorCode::PartitionEOF {
            self.take_end(place?);
            return None;
        }
        let consumer = self.consumer.as_ref()?;
        let cause = consumer.context().absorb(event)?;
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

    fn take_end(&mut self, (topic, partition, end): (String, i32, i64)) {
        let same =
            |h: &&mut Held| h.partition.partition == partition && *h.partition.topic == *topic;
        if let Some(held) = self.held.iter_mut().find(same) {
            held.caught_up = held.next.map(|next| (end, next));
        }
    }

    fn seek(
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

    fn commit_outcome(&self, event: &Event) -> Result<(), Error> {
        let one = || event.partitions().into_iter().find_map(|entry| entry.error);
        match event.error().or_else(one) {
            None => Ok(()),
            Some(code) => Err(self.commit_failed(Cause::of(code))),
        }
    }

    fn commit_failed(&self, cause: Cause) -> Error {
        Error::Commit { group: self.group.clone(), cause }
    }

    fn explain(&self, task: &'static str, waited: Duration, cause: Cause) -> Error {
        match &self.consumer {
            Some(_) if cause.class() == Class::GroupAuthorization => {
                Error::BrokerAuthorization { resource: format!("group `{}`", self.group), cause }
            }
            Some(consumer) => consumer.context().explain(task, &consumer.servers, waited, cause),
            None => Error::Client { task, cause },
        }
    }

    fn place(&self, partition: &SourcePartition) -> Result<usize, Error> {
        self.held.iter().position(|held| held.partition == *partition).ok_or_else(|| {
            Error::Client {
                task: "begin a partition",
                cause: Cause::text(format!("{partition} was not accepted")),
            }
        })
    }

    fn consumer(&self) -> Result<&Consuming, Error> {
        self.consumer.as_ref().ok_or_else(|| Error::Client {
            task: "use the consumer",
            cause: Cause::text("it is closed"),
        })
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        const LIMIT: Duration = Duration::from_secs(10);
        if self.close_within(LIMIT) == Closed::Abandoned {
            tracing::warn!(target: "firstseen::kafka", "the consumer did not close in time");
        }
    }
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Source").field("group", &self.group).finish_non_exhaustive()
    }
}

/// Answers what was left unanswered: closing waits for it.
fn answer_now(consumer: &Consuming, pending: Option<Pending>) {
    let client = &consumer.client;
    let cooperative = matches!(client.rebalance_protocol(), RebalanceProtocol::Cooperative);
    let result = match pending {
        None => return,
        Some(Pending::Assign(partitions) | Pending::Revoke(partitions)) if cooperative => {
            let names = partitions.iter().map(|p| (&*p.topic, p.partition, Offset::End));
            let Ok(named) = list(names) else { return };
            // An assignment is taken, to be given up by the close.
            client.incremental_assign(&named).or_else(|_| client.incremental_unassign(&named))
        }
        Some(_) => client.unassign(),
    };
    if let Err(error) = result {
        tracing::debug!(target: "firstseen::kafka", %error, "answering a rebalance while closing");
    }
}

/// What a consumer error means; `None` for what the client gets over by itself.
fn source_error(
    code: RDKafkaErrorCode,
    cause: Cause,
    place: Option<(String, i32, i64)>,
    group: &str,
    servers: &str,
) -> Option<Error> {
    let at = |place: Option<(String, i32, i64)>| {
        let (topic, partition, offset) = place.unwrap_or_else(|| ("(unknown)".to_owned(), -1, -1));
        (SourcePartition::new(topic, partition), offset)
    };
    Some(match class(code) {
        Class::OffsetReset => {
            let (partition, offset) = at(place);
            Error::OffsetOutOfRange { partition, offset, cause }
        }
        Class::Corrupt => {
            let (partition, offset) = at(place);
            Error::RecordCorrupt { partition, offset, cause }
        }
        Class::Codec => {
            let (partition, offset) = at(place);
            Error::RecordCodec { partition, offset, cause }
        }
        Class::TopicMissing | Class::PartitionMissing => {
            Error::TopicMissing { topic: topic_of(place, &cause) }
        }
        Class::TopicAuthorization => Error::BrokerAuthorization {
            resource: format!("topic `{}`", topic_of(place, &cause)),
            cause,
        },
        Class::GroupAuthorization => {
            Error::BrokerAuthorization { resource: format!("group `{group}`"), cause }
        }
        Class::ClusterAuthorization => {
            Error::BrokerAuthorization { resource: "the cluster".to_owned(), cause }
        }
        Class::Authentication => Error::Authentication { servers: servers.to_owned(), cause },
        Class::PollExceeded => Error::PollExceeded { group: group.to_owned(), cause },
        Class::Fenced => Error::InstanceFenced { group: group.to_owned(), cause },
        Class::Fatal => Error::Client { task: "read from the group", cause },
        Class::Tls | Class::Transient | Class::Timeout | Class::Purged | Class::Record => {
            return None;
        }
    })
}

/// The topic an error is about. The client names it only in the text of a subscription error:
/// "Subscribed topic not available: NAME: reason".
fn topic_of(place: Option<(String, i32, i64)>, cause: &Cause) -> String {
    place
        .map(|(topic, ..)| topic)
        .unwrap_or_else(|| cause.to_string().split(": ").nth(1).unwrap_or("(unknown)").to_owned())
}

pub(super) fn with_metadata(
    offsets: &[(SourcePartition, ResumeOffset, String)],
) -> Result<rdkafka::TopicPartitionList, Error> {
    let places = offsets.iter().map(|(p, at, _)| (&*p.topic, p.partition, Offset::Offset(at.0)));
    let list = list(places)?;
    for (mut element, (_, _, metadata)) in list.elements().into_iter().zip(offsets) {
        if !metadata.is_empty() {
            element.set_metadata(metadata);
        }
    }
    Ok(list)
}

fn failed(task: &'static str, error: rdkafka::error::KafkaError) -> Error {
    Error::Client { task, cause: error.into() }
}

/// How a member keeps its place in the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timings {
    /// How often it tells the group that it lives.
    pub heartbeat: Duration,
    /// How long the group waits for it in a rebalance.
    pub poll: Duration,
}

impl Timings {
    /// The timings of a source with this config: ours, or those passed through.
    pub fn of(config: &Config) -> Self {
        let session = config.source.session_timeout;
        let reach = Reach::source(config);
        let passed = |name, ours: Duration| {
            let given = reach.property(name).and_then(|value| value.trim().parse().ok());
            given.map_or(ours, Duration::from_millis)
        };
        let heartbeat = (session / 3).clamp(Duration::from_millis(1), Duration::from_secs(3));
        Self {
            heartbeat: passed("heartbeat.interval.ms", heartbeat),
            poll: passed("max.poll.interval.ms", session.max(Duration::from_secs(300))),
        }
    }
}

fn settings(config: &Config, reach: &Reach) -> ClientConfig {
    let session_ms = config.source.session_timeout.as_millis().to_string();
    let timings = Timings::of(config);
    let heartbeat_ms = timings.heartbeat.as_millis().to_string();
    let poll_ms = timings.poll.as_millis().to_string();
    let mut defaults = vec![
        // At the default of 1000 a full queue stalls fetching for a second: a fifth of the speed.
        ("fetch.queue.backoff.ms", "5"),
        // Read ahead, over all partitions, in kilobytes: a bound on memory.
        ("queued.max.messages.kbytes", "65536"),
        ("max.poll.interval.ms", poll_ms.as_str()),
    ];
    let mut owned = vec![
        ("group.id", config.source.group.as_str()),
        // Offsets are committed by us, after they are durable.
        ("enable.auto.commit", "false"),
        ("enable.auto.offset.store", "false"),
        // A resume offset that is gone is an error, never a jump.
        ("auto.offset.reset", "error"),
        // Aborted records are not records.
        ("isolation.level", "read_committed"),
        // Tells where records end although offsets go on.
        ("enable.partition.eof", "true"),
        // A flipped bit is an error, not a record.
        ("check.crcs", "true"),
    ];
    // With the broker-side protocol these belong to the broker and are refused by the client.
    if reach.property("group.protocol") != Some("consumer") {
        // A rebalance leaves the partitions that stay alone.
        defaults.push(("partition.assignment.strategy", "cooperative-sticky"));
        defaults.push(("heartbeat.interval.ms", heartbeat_ms.as_str()));
        owned.push(("session.timeout.ms", session_ms.as_str()));
    }
    if let Some(instance) = &config.source.instance_id {
        owned.push(("group.instance.id", instance));
    }
    reach.config(&defaults, &owned)
}
