//! Writing records and learning, for each, what came of it.
//!
//! # Invariants
//! - Every record taken by [`Sink::send`] gets exactly one [`Report`], except those still unreported
//!   when [`Sink::replace`] or the drop gives up waiting; those belong to an epoch that is over.
//! - Within an output partition records are written in the order they were sent, or a failure is
//!   reported: records behind a failed one may be written.
//! - A report of failure is no proof of absence: see [`Written`].

use std::sync::Arc;
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::client::Client;
use rdkafka::types::{RDKafkaErrorCode, RDKafkaType};

use super::client::{Context, Handle, Producing, Reach, no_queue, setting};
use super::error::{Cause, Class, Error, class};
use super::ffi::{self, Delivery, EventKind, Outgoing, Queue, Topic};
use super::record::{NO_TIMESTAMP, SourceRecord};
use crate::config::Config;
use crate::words::RecordOffset;

/// Writes records. Owned by one thread, which must call [`Sink::reports`] often.
pub struct Sink {
    /// Before the producer, since they must be dropped first.
    topics: Vec<Resolved>,
    pub(super) producer: Producing,
    config: ClientConfig,
    pub(super) writes: Writes,
    limits: RecordLimits,
    limit: usize,
    epoch: u32,
    /// Records taken by this producer and not reported.
    unreported: usize,
    left_over: Vec<Report>,
}

/// An output topic, resolved once.
struct Resolved {
    name: String,
    handle: Topic,
    /// The largest record it takes, in bytes.
    limit: usize,
}

/// An output topic, resolved once. Stays good over [`Sink::replace`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target(usize);

/// How the producer writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Writes {
    /// A retry by the client is not written twice, and order is kept.
    Idempotent,
    /// For brokers that refuse the above: one request at a time keeps the order, and what a retry
    /// writes twice is found by reading back.
    Plain,
    /// In transactions under this id, each of which ends within this time or is ended by the
    /// brokers.
    Transactional {
        /// The transactional id.
        id: String,
        /// The brokers' limit on one transaction.
        timeout: Duration,
    },
}

/// What topics take: no batch may exceed the one, and no record the other.
#[derive(Clone, Copy, Debug, Default)]
pub struct RecordLimits {
    /// The smallest `max.message.bytes` of all topics to be written, where known.
    pub smallest: Option<u64>,
    /// The largest.
    pub largest: Option<u64>,
}

/// Why [`Sink::send`] did not take a record.
#[derive(Debug)]
pub enum Refused {
    /// No room: take reports, then send it again.
    Full,
    /// This record can never be sent.
    Record(Error),
    /// Nothing can be sent.
    Fatal(Error),
}

/// What came of one record.
#[derive(Debug)]
pub struct Report {
    /// Which producer it was sent by: see [`Sink::epoch`].
    pub epoch: u32,
    /// What [`Sink::send`] was given.
    pub token: u64,
    /// What came of it.
    pub outcome: Outcome,
}

/// What came of one record.
#[derive(Debug)]
pub enum Outcome {
    /// It is in the log.
    Confirmed {
        /// Where; `None` where the broker only said that it had it already.
        offset: Option<RecordOffset>,
    },
    /// It is not known to be in the log.
    Failed {
        /// Whether it may be there all the same.
        written: Written,
        /// What kind of failure.
        kind: FailureKind,
        /// The failure.
        error: Error,
    },
}

/// Whether a failed record is in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// Certainly not: it was never sent, or the broker refused it.
    No,
    /// It was sent and not answered. It can be appended even after this report.
    Maybe,
}

/// Whose fault a failed delivery is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// This record's: no retry cures it.
    Record,
    /// The output topic's: it is missing, lacks the partition, or may not be written.
    Output,
    /// The time was up, or the broker failed.
    Transient,
    /// The producer's: it must be replaced.
    Fatal,
    /// It was thrown away by [`Sink::replace`].
    Purged,
}

impl Sink {
    /// Makes an idempotent producer. Does not wait for a broker.
    ///
    /// Takes the smallest and the largest `max.message.bytes` of all topics to be written, where
    /// known: no batch may exceed the one, and no record the other.
    ///
    /// # Errors
    /// [`Error::Setting`] where the client refuses a property.
    pub fn connect(
        config: &Config,
        smallest: Option<u64>,
        largest: Option<u64>,
    ) -> Result<Self, Error> {
        Self::connect_as(config, RecordLimits { smallest, largest }, &Writes::Idempotent)
    }

    /// Makes a producer of any kind. Does not wait for a broker.
    ///
    /// # Errors
    /// [`Error::Setting`] where the client refuses a property.
    pub fn connect_as(
        config: &Config,
        limits: RecordLimits,
        writes: &Writes,
    ) -> Result<Self, Error> {
        let reach = Reach::output(config);
        let (config, limit) = settings(config, &reach, limits, writes);
        let producer = producer(&config, &reach.servers)?;
        Ok(Self {
            topics: Vec::new(),
            producer,
            config,
            writes: writes.clone(),
            limits,
            limit,
            epoch: 0,
            unreported: 0,
            left_over: Vec::new(),
        })
    }

    /// Resolves an output topic. Does not ask the broker: see [`super::Cluster::topic`].
    ///
    /// # Errors
    /// [`Error::TopicMissing`] where no topic can have that name.
    pub fn target(&mut self, topic: &str) -> Result<Target, Error> {
        if let Some(place) = self.topics.iter().position(|resolved| resolved.name == topic) {
            return Ok(Target(place));
        }
        let handle = self.resolve(topic)?;
        self.topics.push(Resolved { name: topic.to_owned(), handle, limit: self.limit });
        Ok(Target(self.topics.len() - 1))
    }

    /// Sets the largest record that `target` takes, in bytes, where it is less than the sink's
    /// own limit: a record over it is refused at once, and takes no others with it.
    pub fn limit_target(&mut self, target: Target, bytes: u64) {
        // Where records are compressed the broker decides.
        if self.limit == usize::MAX {
            return;
        }
        if let Some(resolved) = self.topics.get_mut(target.0) {
            resolved.limit = usize::try_from(bytes).unwrap_or(usize::MAX);
        }
    }

    /// Takes a record to be written to `partition`, key, value, headers and timestamp byte for
    /// byte. Never waits.
    ///
    /// A timestamp of exactly 0 is written as 1: the client takes 0 for "now".
    ///
    /// # Errors
    /// See [`Refused`]; a refused record gets no report.
    pub fn send(
        &mut self,
        record: &SourceRecord<'_>,
        target: Target,
        partition: i32,
        token: u64,
    ) -> Result<(), Refused> {
        let Some(Resolved { name, handle: topic, limit }) = self.topics.get(target.0) else {
            return Err(Refused::Fatal(Error::Client {
                task: "find the output topic",
                cause: Cause::text("the target belongs to another sink"),
            }));
        };
        if record.size_bytes() > *limit {
            return Err(too_large(record, *limit, name));
        }
        let headers = record.message().headers().map_err(|code| corrupt(record, code))?;
        let outgoing = Outgoing {
            partition,
            key: record.key(),
            value: record.value(),
            timestamp: match record.timestamp() {
                None => NO_TIMESTAMP,
                Some(time) if time.0 == 0 => 1,
                Some(time) => time.0,
            },
            headers,
            token,
        };
        match ffi::produce(self.producer.client.native_client(), topic, outgoing) {
            Ok(()) => {
                self.unreported += 1;
                Ok(())
            }
            Err(code) => Err(self.refused(code, record, target, partition)),
        }
    }

    /// Takes reports that are there, waiting up to `wait` for the first, into `into`.
    ///
    /// Returns how many were taken. Stops after about `most`; a report batch is never cut.
    pub fn reports(&mut self, most: usize, wait: Duration, into: &mut Vec<Report>) -> usize {
        let before = into.len();
        into.append(&mut self.left_over);
        let mut wait = if into.len() > before { Duration::ZERO } else { wait };
        let start = Instant::now();
        while into.len() - before < most {
            let Some(event) = self.producer.queue.poll(wait) else { break };
            if event.kind() == EventKind::Delivery {
                let already = into.len();
                event.each_delivery(&mut |delivery| into.push(self.report(delivery)));
                self.unreported = self.unreported.saturating_sub(into.len() - already);
                wait = Duration::ZERO;
            } else {
                self.producer.context().absorb(&event);
                wait = wait.saturating_sub(start.elapsed());
            }
        }
        into.len() - before
    }

    /// Returns why nothing can be sent any more, where that is so.
    pub fn fatal(&self) -> Option<Error> {
        let (code, text) = self.producer.client.fatal_error()?;
        Some(self.fatal_error(code, text))
    }

    /// Returns how many records were taken and are not reported yet.
    pub fn in_flight(&self) -> usize {
        self.unreported + self.left_over.len()
    }

    /// Returns the number of the present producer. Reports carry the one they were sent by.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Throws the producer away with all it holds and makes a new one.
    ///
    /// The next [`Sink::reports`] hands out the old one's last reports, as purged. What was given
    /// to the network may still be appended.
    ///
    /// # Errors
    /// [`Error::Setting`] where the client cannot be made again; the sink is then unusable.
    pub fn replace(&mut self) -> Result<(), Error> {
        self.purge();
        let fresh = producer(&self.config, &self.producer.servers.clone())?;
        let old = std::mem::take(&mut self.topics);
        self.producer = fresh;
        self.epoch = self.epoch.wrapping_add(1);
        for resolved in old {
            let handle = self.resolve(&resolved.name)?;
            self.topics.push(Resolved { handle, ..resolved });
        }
        Ok(())
    }

    /// Throws the producer away as [`Sink::replace`] does; the new one is of this kind.
    ///
    /// # Errors
    /// As [`Sink::replace`].
    pub fn replace_by(&mut self, config: &Config, writes: &Writes) -> Result<(), Error> {
        let reach = Reach::output(config);
        let limits = self.limits;
        self.config = settings(config, &reach, limits, writes).0;
        self.writes = writes.clone();
        self.replace()
    }

    /// Waits until nothing is in flight, or until `deadline`. Returns whether nothing is.
    ///
    /// That is no confirmation: only reports are.
    pub fn flush(&mut self, deadline: Instant, into: &mut Vec<Report>) -> bool {
        const SLICE: Duration = Duration::from_millis(20);
        while self.in_flight() > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            self.reports(usize::MAX, left.min(SLICE), into);
            if left.is_zero() {
                return self.in_flight() == 0;
            }
        }
        true
    }

    /// Fails all that is held, and collects the reports.
    pub(super) fn purge(&mut self) {
        const LIMIT: Duration = Duration::from_secs(5);
        ffi::purge(self.producer.client.native_client());
        let mut reports = Vec::new();
        self.flush(Instant::now() + LIMIT, &mut reports);
        self.left_over = reports;
        self.unreported = 0;
    }

    fn resolve(&self, topic: &str) -> Result<Topic, Error> {
        Topic::new(self.producer.client.native_client(), topic)
            .ok_or_else(|| Error::TopicMissing { topic: topic.to_owned() })
    }

    fn report(&self, delivery: Delivery) -> Report {
        let outcome = match delivery.error {
            None => Outcome::Confirmed {
                offset: (delivery.offset >= 0).then_some(RecordOffset(delivery.offset)),
            },
            Some(code) => Outcome::Failed {
                written: if delivery.never_written { Written::No } else { Written::Maybe },
                kind: fault(code),
                error: self.delivery_error(code),
            },
        };
        Report { epoch: self.epoch, token: delivery.token, outcome }
    }

    fn delivery_error(&self, code: RDKafkaErrorCode) -> Error {
        match fault(code) {
            FailureKind::Fatal => {
                self.fatal().unwrap_or_else(|| self.failed_for_good(Cause::of(code)))
            }
            FailureKind::Record => Error::RecordRefused(Cause::of(code)),
            FailureKind::Output if class(code) == Class::TopicAuthorization => {
                Error::BrokerAuthorization {
                    resource: "the topic".to_owned(),
                    cause: Cause::of(code),
                }
            }
            _ => Error::Delivery(Cause::of(code)),
        }
    }

    fn fatal_error(&self, code: RDKafkaErrorCode, text: String) -> Error {
        if matches!(self.writes, Writes::Transactional { .. }) {
            let failed = ffi::TransactionError { code, text, retriable: false };
            return self.explain(failed, Duration::ZERO);
        }
        let cause = Cause::new(code, text);
        match class(code) {
            // Both come only when the producer asks for its id.
            Class::ClusterAuthorization => {
                Error::IdempotenceRefused { servers: self.producer.servers.clone(), cause }
            }
            _ if code == RDKafkaErrorCode::UnsupportedFeature => {
                Error::IdempotenceRefused { servers: self.producer.servers.clone(), cause }
            }
            _ => self.failed_for_good(cause),
        }
    }

    fn failed_for_good(&self, cause: Cause) -> Error {
        Error::ProducerFatal { servers: self.producer.servers.clone(), cause }
    }

    #[cold]
    fn refused(
        &self,
        code: RDKafkaErrorCode,
        record: &SourceRecord<'_>,
        target: Target,
        partition: i32,
    ) -> Refused {
        let resolved = self.topics.get(target.0);
        let (output, limit) = resolved.map_or(("", 0), |r| (r.name.as_str(), r.limit));
        match class(code) {
            _ if code == RDKafkaErrorCode::QueueFull => Refused::Full,
            Class::Record => too_large(record, limit.min(self.limit), output),
            Class::PartitionMissing => {
                Refused::Fatal(Error::PartitionMissing { topic: output.to_owned(), partition })
            }
            Class::TopicMissing => Refused::Fatal(Error::TopicMissing { topic: output.to_owned() }),
            Class::TopicAuthorization => Refused::Fatal(Error::BrokerAuthorization {
                resource: format!("topic `{output}`"),
                cause: Cause::of(code),
            }),
            _ => Refused::Fatal(
                self.fatal().unwrap_or_else(|| self.failed_for_good(Cause::of(code))),
            ),
        }
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        // Records the client still holds would be thrown away without a word.
        if self.in_flight() > 0 {
            tracing::debug!(
                target: "firstseen::kafka",
                in_flight = self.in_flight(),
                "dropping records that are not confirmed"
            );
            ffi::purge(self.producer.client.native_client());
        }
    }
}

impl std::fmt::Debug for Sink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sink").field("epoch", &self.epoch).finish_non_exhaustive()
    }
}

/// Whose fault a failed delivery is.
fn fault(code: RDKafkaErrorCode) -> FailureKind {
    match class(code) {
        Class::Record | Class::Corrupt | Class::Codec => FailureKind::Record,
        Class::TopicMissing | Class::PartitionMissing | Class::TopicAuthorization => {
            FailureKind::Output
        }
        Class::Purged => FailureKind::Purged,
        Class::Fatal | Class::ClusterAuthorization | Class::Fenced => FailureKind::Fatal,
        _ => FailureKind::Transient,
    }
}

#[cold]
fn too_large(record: &SourceRecord<'_>, limit: usize, output: &str) -> Refused {
    Refused::Record(Error::RecordTooLarge {
        size: record.size_bytes(),
        limit,
        output: output.to_owned(),
    })
}

#[cold]
fn corrupt(record: &SourceRecord<'_>, code: RDKafkaErrorCode) -> Refused {
    Refused::Record(Error::RecordCorrupt {
        partition: record.source_partition(),
        offset: record.offset().0,
        cause: Cause::of(code),
    })
}

pub(super) fn producer(config: &ClientConfig, servers: &str) -> Result<Producing, Error> {
    let native = config.create_native_config().map_err(setting)?;
    ffi::enable_producer_events(&native);
    let context = Context::default();
    if config.get("transactional.id").is_some() {
        ffi::count_requests(&native, &context.requests);
    }
    let client =
        Client::new(config, native, RDKafkaType::RD_KAFKA_PRODUCER, context).map_err(setting)?;
    let queue = Queue::main(client.native_client()).ok_or_else(no_queue)?;
    Ok(Handle { queue, client: Arc::new(client), servers: servers.to_owned() })
}

/// What a broker takes unless its topic says otherwise, less than the client's own default.
const DEFAULT_LIMIT: usize = 1_048_588;

fn settings(
    config: &Config,
    reach: &Reach,
    limits: RecordLimits,
    writes: &Writes,
) -> (ClientConfig, usize) {
    let limit = |bytes: Option<u64>| {
        bytes.map_or(DEFAULT_LIMIT, |bytes| {
            usize::try_from(bytes).unwrap_or(usize::MAX).clamp(1_000, 1_000_000_000)
        })
    };
    let (smallest, largest) = (limit(limits.smallest), limit(limits.largest));
    // A compressed record may fit although its plain bytes do not; then the broker decides, and
    // a batch below keeps it from taking others with it.
    let plain = ["compression.type", "compression.codec"]
        .into_iter()
        .find_map(|name| reach.property(name))
        .is_none_or(|codec| codec == "none");
    let record_limit = if plain { largest } else { largest.max(100_000_000) };
    let batch = smallest.min(1_000_000).to_string();
    let message = record_limit.to_string();
    let record_limit = if plain { record_limit } else { usize::MAX };
    let timeout = config.sink.delivery_timeout.as_millis().to_string();
    let kilobytes = (config.sink.in_flight_max_bytes / 1024).clamp(1, 2_097_151).to_string();
    let mut defaults = vec![
        // Lets records gather into batches; a fraction of the latency anybody notices.
        ("linger.ms", "5"),
        ("batch.num.messages", "10000"),
    ];
    let mut owned = vec![
        ("acks", "all"),
        // Must end before the group can give our partitions away.
        ("message.timeout.ms", timeout.as_str()),
        ("batch.size", batch.as_str()),
        ("message.max.bytes", message.as_str()),
        // The bound in bytes is what the user set; the one in records only caps the overhead.
        ("queue.buffering.max.kbytes", kilobytes.as_str()),
        ("queue.buffering.max.messages", "1000000"),
    ];
    let (requests, idempotent) = match writes {
        Writes::Plain => ("1", "false"),
        _ => ("5", "true"),
    };
    owned.push(("max.in.flight.requests.per.connection", requests));
    owned.push(("enable.idempotence", idempotent));
    let mut texts = (String::new(), String::new());
    if let Writes::Transactional { id, timeout } = writes {
        texts = (timeout.as_millis().to_string(), socket_timeout(*timeout).as_millis().to_string());
        owned.push(("transactional.id", id));
        owned.push(("transaction.timeout.ms", texts.0.as_str()));
        defaults.push(("socket.timeout.ms", texts.1.as_str()));
    }
    let config = reach.config(&defaults, &owned);
    drop(texts);
    (config, record_limit)
}

/// How long one request of a transactional producer may take: the client wants it below the
/// transaction's own limit.
pub(super) fn socket_timeout(transaction: Duration) -> Duration {
    const MOST: Duration = Duration::from_secs(20);
    transaction.saturating_sub(Duration::from_millis(100)).min(MOST)
}
