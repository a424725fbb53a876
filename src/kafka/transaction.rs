//! Transactions of a producer: fencing earlier ones, beginning, committing, aborting.
//!
//! The client has no second version of the protocol's transactions: where an answer to a commit
//! does not come, it sends the commit again, and the first copy may reach the coordinator while
//! the *next* transaction is open, and end that one. So a producer is used only as long as every
//! one of its commits was answered at once, and thrown away after the first that was not.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};
use rdkafka::client::Client;
use rdkafka::types::RDKafkaErrorCode as K;

use super::client::Context;
use super::error::{Cause, Class, Error};
use super::ffi::{self, TransactionError};
use super::sink::{Sink, Writes, socket_timeout};
use super::source::{GroupMember, with_metadata};
use crate::words::{Anew, ResumeOffset, SourcePartition};

/// How long the client may think about one slice of a longer wait: bounds how late a stop is seen.
const SLICE: Duration = Duration::from_millis(500);

/// Offsets that are committed with a transaction.
#[derive(Debug)]
pub struct Offsets {
    /// Which partition.
    pub partition: SourcePartition,
    /// The next offset to read.
    pub resume: ResumeOffset,
    /// What is stored beside it.
    pub note: String,
    /// Who commits it.
    pub member: GroupMember,
}

/// How a transaction ended.
#[derive(Debug)]
pub enum Ended {
    /// It is committed.
    Committed {
        /// When the commit was begun: the group knew us at some time after this.
        begun: Instant,
        /// How long it took.
        took: Duration,
        /// Why the producer must not be used for another one, if so.
        suspicion: Option<Anew>,
    },
    /// It is not committed, or not known to be.
    Undone {
        /// What kind of failure.
        why: Undone,
        /// The failure.
        error: Error,
    },
}

/// Why a transaction is not known to be committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undone {
    /// It certainly is not: the coordinator or a record refused it.
    Refused,
    /// Another producer took the id.
    Fenced,
    /// The group does not know us as the owner any more.
    Membership,
    /// No answer: it may be either.
    Unknown,
}

impl Sink {
    /// Returns the transactional id; empty where there is none.
    pub(super) fn transactional_id(&self) -> &str {
        match &self.writes {
            Writes::Transactional { id, .. } => id,
            _ => "",
        }
    }

    /// Takes the transactional id over: whatever an earlier producer left open under it is aborted
    /// when this returns, and nothing it sends is taken any more.
    ///
    /// Waits up to `limit`, less where `stop` is set.
    ///
    /// # Errors
    /// [`Error::TransactionsRefused`], [`Error::TransactionTimeout`] and
    /// [`Error::TransactionFenced`] do not pass by themselves; [`Error::Unreachable`] may.
    pub fn take_over(&self, limit: Duration, stop: &AtomicBool) -> Result<(), Error> {
        let native = self.producer.client.native_client();
        let begun = Instant::now();
        loop {
            let left = limit.saturating_sub(begun.elapsed()).min(SLICE);
            let failed = match ffi::init_transactions(native, left) {
                Ok(()) => return Ok(()),
                Err(failed) => failed,
            };
            self.absorb();
            let over = begun.elapsed() >= limit || stop.load(Ordering::Relaxed);
            if !failed.retriable || over || self.producer.context().hopeless() {
                return Err(self.explain(failed, begun.elapsed()));
            }
            // Failing at once must not become a busy loop.
            if let Some(event) = self.producer.queue.poll(Duration::from_millis(20)) {
                self.producer.context().absorb(&event);
            }
        }
    }

    /// Begins a transaction; every record sent from now on belongs to it.
    ///
    /// # Errors
    /// [`Error::TransactionFenced`] or [`Error::Transaction`]: the producer is of no use any more.
    pub fn begin(&mut self) -> Result<(), Error> {
        ffi::begin_transaction(self.producer.client.native_client())
            .map_err(|failed| self.explain(failed, Duration::ZERO))
    }

    /// Throws away what is held and aborts the open transaction, so that no reader waits for it.
    ///
    /// # Errors
    /// The coordinator's; it then aborts it by itself when its time is up.
    pub fn abort(&mut self, limit: Duration) -> Result<(), Error> {
        self.purge();
        ffi::abort_transaction(self.producer.client.native_client(), limit)
            .map_err(|failed| self.explain(failed, limit))
    }

    /// Returns what kind of failure makes a transaction with this record void.
    pub fn undone_by(&self, error: &Error) -> Undone {
        match error {
            Error::TransactionFenced { .. } => Undone::Fenced,
            Error::ProducerFatal { cause, .. } | Error::Delivery(cause) => undone(cause.code()),
            _ => Undone::Refused,
        }
    }

    /// Starts the thread that ends this producer's transactions.
    ///
    /// # Errors
    /// [`Error::Client`] where the system makes no thread.
    pub fn committer(&self) -> Result<Committer, Error> {
        let Writes::Transactional { id, timeout } = &self.writes else {
            return Err(Error::Client {
                task: "end a transaction",
                cause: Cause::text("the producer has none"),
            });
        };
        Committer::start(Arc::clone(&self.producer.client), id.clone(), *timeout)
    }

    fn absorb(&self) {
        while let Some(event) = self.producer.queue.poll(Duration::ZERO) {
            self.producer.context().absorb(&event);
        }
    }

    pub(super) fn explain(&self, failed: TransactionError, waited: Duration) -> Error {
        let (id, servers) = (self.transactional_id().to_owned(), self.producer.servers.clone());
        let timeout = match &self.writes {
            Writes::Transactional { timeout, .. } => *timeout,
            _ => Duration::ZERO,
        };
        let cause = Cause::new(failed.code, failed.text);
        match failed.code {
            K::TransactionalIdAuthorizationFailed
            | K::ClusterAuthorizationFailed
            | K::UnsupportedFeature => Error::TransactionsRefused { servers, id, cause },
            K::InvalidTransactionTimeout => Error::TransactionTimeout { servers, timeout, cause },
            code if undone(Some(code)) == Undone::Fenced => Error::TransactionFenced { id, cause },
            K::GroupAuthorizationFailed => {
                Error::BrokerAuthorization { resource: "group `source.group`".to_owned(), cause }
            }
            K::TopicAuthorizationFailed => {
                Error::BrokerAuthorization { resource: "the topic".to_owned(), cause }
            }
            _ if failed.retriable || passes(&cause) => {
                let task = "reach the transaction coordinator";
                self.producer.context().explain(task, &servers, waited, cause)
            }
            _ => Error::Transaction { id, cause },
        }
    }
}

fn passes(cause: &Cause) -> bool {
    matches!(cause.class(), Class::Timeout | Class::Tls | Class::Authentication)
}

/// What an error code says about a transaction.
fn undone(code: Option<K>) -> Undone {
    match code {
        Some(K::Fenced | K::ProducerFenced | K::InvalidProducerEpoch) => Undone::Fenced,
        // The coordinator ended it when its time was up, or lost it.
        Some(K::InvalidTransactionalState | K::InvalidProducerIdMapping) => Undone::Fenced,
        Some(K::IllegalGeneration | K::UnknownMemberId | K::FencedInstanceId) => Undone::Membership,
        Some(K::OperationTimedOut | K::RequestTimedOut | K::TimedOutQueue) => Undone::Unknown,
        _ => Undone::Refused,
    }
}

/// Ends the transactions of one producer on a thread of its own, so that waiting for the
/// coordinator blocks nobody. The thread ends soon after this is dropped.
#[derive(Debug)]
pub struct Committer {
    jobs: Sender<Job>,
    ended: Receiver<Ended>,
}

enum Job {
    Flush,
    Commit(Box<Offsets>),
}

impl Committer {
    fn start(client: Arc<Client<Context>>, id: String, timeout: Duration) -> Result<Self, Error> {
        let (jobs, inbox) = bounded(4);
        let (outbox, ended) = bounded(4);
        let work = move || {
            for job in inbox {
                match job {
                    // Ends early where all is sent; what is not shows as missing reports.
                    Job::Flush => ffi::flush(client.native_client(), SLICE),
                    Job::Commit(offsets) => {
                        let commit = Commit { client: &client, id: &id, timeout };
                        if outbox.send(commit.perform(&offsets)).is_err() {
                            return;
                        }
                    }
                }
            }
        };
        std::thread::Builder::new().name("commit".into()).spawn(work).map_err(|error| {
            Error::Client { task: "start a thread", cause: Cause::text(error.to_string()) }
        })?;
        Ok(Self { jobs, ended })
    }

    /// Has everything that waits for more records to come sent at once.
    pub fn flush(&self) {
        // A full queue means that one is under way.
        drop(self.jobs.try_send(Job::Flush));
    }

    /// Adds the offsets to the open transaction and commits it. The outcome comes out of
    /// [`Committer::ended`].
    ///
    /// Every record of the transaction must be reported, and the report taken.
    ///
    /// # Errors
    /// [`Error::Client`] where the thread has ended.
    pub fn commit(&self, offsets: Offsets) -> Result<(), Error> {
        self.jobs.send(Job::Commit(Box::new(offsets))).map_err(|_job| Error::Client {
            task: "end a transaction",
            cause: Cause::text("the thread that does has ended"),
        })
    }

    /// Returns how the transaction ended, once it has.
    pub fn ended(&self) -> Option<Ended> {
        self.ended.try_recv().ok()
    }
}

/// One commit.
struct Commit<'a> {
    client: &'a Client<Context>,
    id: &'a str,
    timeout: Duration,
}

impl Commit<'_> {
    fn perform(&self, offsets: &Offsets) -> Ended {
        let (begun, sent) = (Instant::now(), self.client.context().requests.sent());
        let mut again = false;
        match self.send_offsets(offsets, begun, &mut again).and_then(|()| {
            self.repeat(begun, &mut again, |left| {
                ffi::commit_transaction(self.client.native_client(), left)
            })
        }) {
            Ok(()) => {
                let took = begun.elapsed();
                let (ends, offsets) = self.client.context().requests.sent();
                let twice = ends.saturating_sub(sent.0) > 1 || offsets.saturating_sub(sent.1) > 1;
                let suspicion = suspicion(took, socket_timeout(self.timeout), again || twice);
                Ended::Committed { begun, took, suspicion }
            }
            Err(failed) => {
                let why =
                    if failed.retriable { Undone::Unknown } else { undone(Some(failed.code)) };
                let (id, cause) = (self.id.to_owned(), Cause::new(failed.code, failed.text));
                let error = match why {
                    Undone::Fenced => Error::TransactionFenced { id, cause },
                    _ => Error::Transaction { id, cause },
                };
                Ended::Undone { why, error }
            }
        }
    }

    fn send_offsets(
        &self,
        offsets: &Offsets,
        begun: Instant,
        again: &mut bool,
    ) -> Result<(), TransactionError> {
        let entry = [(offsets.partition.clone(), offsets.resume, offsets.note.clone())];
        let list = with_metadata(&entry).map_err(|error| TransactionError {
            code: K::InvalidArgument,
            text: error.to_string(),
            retriable: false,
        })?;
        self.repeat(begun, again, |left| {
            ffi::send_offsets(self.client.native_client(), &list, &offsets.member.0, left)
        })
    }

    /// Makes the same call until it is answered or the transaction's time is up.
    fn repeat(
        &self,
        begun: Instant,
        again: &mut bool,
        call: impl Fn(Duration) -> Result<(), TransactionError>,
    ) -> Result<(), TransactionError> {
        loop {
            let left = self.timeout.saturating_sub(begun.elapsed());
            match call(left.max(Duration::from_millis(1))) {
                Err(failed) if failed.retriable && !left.is_zero() => *again = true,
                ended => return ended,
            }
        }
    }
}

/// Says why a producer whose commit succeeded must not be used again, if so: a copy of one of its
/// requests may still be under way.
fn suspicion(took: Duration, request: Duration, again: bool) -> Option<Anew> {
    if again {
        return Some(Anew::Repeated);
    }
    (took >= request / 2).then_some(Anew::Slow)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_producer_is_used_again_only_after_a_commit_that_was_answered_at_once() {
        let (quick, request) = (Duration::from_millis(5), Duration::from_secs(20));
        assert_eq!(suspicion(quick, request, false), None);
        assert_eq!(suspicion(quick, request, true), Some(Anew::Repeated));
        assert_eq!(suspicion(request / 2, request, false), Some(Anew::Slow));
    }

    #[test]
    fn a_failed_commit_is_told_apart_by_what_it_means() {
        let cases = [
            (K::ProducerFenced, Undone::Fenced),
            (K::InvalidProducerEpoch, Undone::Fenced),
            (K::Fenced, Undone::Fenced),
            (K::IllegalGeneration, Undone::Membership),
            (K::UnknownMemberId, Undone::Membership),
            (K::FencedInstanceId, Undone::Membership),
            (K::OperationTimedOut, Undone::Unknown),
            (K::MessageSizeTooLarge, Undone::Refused),
        ];
        for (code, expected) in cases {
            assert_eq!(undone(Some(code)), expected, "{code:?}");
        }
    }

    #[test]
    fn one_request_ends_before_the_transaction_does() {
        for seconds in [1, 10, 60, 600] {
            let transaction = Duration::from_secs(seconds);
            assert!(socket_timeout(transaction) < transaction);
        }
    }
}
