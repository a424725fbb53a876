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
//! - What was taken from the client of a partition is gone once it is moved or given up.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use rdkafka::Offset;
use rdkafka::consumer::{Consumer, RebalanceProtocol};
use rdkafka::types::RDKafkaErrorCode;

mod failure;
mod intake;
mod positions;
mod settings;

use super::client::{Consuming, Reach, list};
use super::error::{Cause, Class, Error, class};
use super::ffi::{self, Event, PartitionQueue, Queue, Taken};
use super::record::SourceRecord;
use crate::config::{Config, Membership, TopicSelection};
use crate::words::{ResumeOffset, SourcePartition};
pub use settings::Timings;
use settings::settings;

/// Reads source records. Owned by one thread.
pub struct Source {
    /// Gone only while closing.
    consumer: Option<Consuming>,
    group: String,
    membership: Membership,
    topics: TopicSelection,
    held: Vec<Held>,
    /// Records that were taken from the client and not handed out yet. Gone before the client.
    taken: Taken,
    /// Which partition is looked at next.
    turn: usize,
    /// Records handed out since events were looked for.
    since_events: u32,
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
    /// Where its records arrive.
    queue: PartitionQueue,
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
            taken: Taken::default(),
            turn: 0,
            since_events: 0,
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
        // The client waits for what it handed out.
        self.taken = Taken::default();
        self.held.clear();
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

    fn commit_outcome(&self, event: &Event) -> Result<(), Error> {
        let refused = event
            .partitions()
            .into_iter()
            .find_map(|entry| entry.error.map(|code| (code, entry.topic)));
        let one = refused.as_ref().map(|(code, _)| *code);
        let Some(code) = event.error().or(one) else { return Ok(()) };
        let cause = Cause::of(code);
        let resource = match (class(code), refused) {
            (Class::TopicAuthorization, Some((_, topic))) => format!("topic `{topic}`"),
            (Class::GroupAuthorization, _) => format!("group `{}`", self.group),
            _ => return Err(self.commit_failed(cause)),
        };
        Err(Error::BrokerAuthorization { resource, cause })
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
