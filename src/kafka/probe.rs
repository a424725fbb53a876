//! Whether the brokers have transactions for us, asked with a real one.
//!
//! The probe takes a transactional id of its own, puts an offset of the group into a transaction,
//! and aborts it: the calls that delivery depends on, and nothing of it lasts. To take the id over
//! alone would not do: some systems do that and know no more.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use rdkafka::types::RDKafkaErrorCode as K;

use super::client::no_queue;
use super::error::Error;
use super::ffi;
use super::sink::{RecordLimits, Sink, Writes};
use super::source::with_metadata;
use crate::config::Config;
use crate::words::{ResumeOffset, SourcePartition};

/// How long one step of the probe that works may take.
const ABORT_LIMIT: Duration = Duration::from_secs(10);

/// What the brokers say.
#[derive(Debug)]
pub enum Answer {
    /// There are transactions.
    Allowed,
    /// There are none for us, and asking again would not help.
    Refused {
        /// In which way.
        why: Refusal,
        /// The broker's words.
        cause: Error,
    },
    /// It cannot be said now.
    NotNow {
        /// What was waited for, and for how long.
        cause: Error,
    },
}

/// Why there are no transactions for us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The brokers do not know the requests.
    NoSuchRequest,
    /// The transactional id may not be used.
    IdDenied,
    /// The cluster may not be written to in this way.
    ClusterDenied,
}

/// Asks with a transaction under `id`; `partition` is one that the group reads.
///
/// Takes as long as `limit` where there is no answer, less where `stop` is set.
///
/// # Errors
/// [`Error::TransactionTimeout`], [`Error::TransactionFenced`], a missing permission of another
/// kind, or a connection that will never work: none of these says that there are no transactions.
pub fn probe(
    config: &Config,
    id: &str,
    partition: &SourcePartition,
    limit: Duration,
    stop: &AtomicBool,
) -> Result<Answer, Error> {
    let begun = Instant::now();
    let timeout = config.delivery.transaction_timeout;
    let writes = Writes::Transactional { id: id.to_owned(), timeout };
    let mut sink = Sink::connect_as(config, RecordLimits::default(), &writes)?;
    match sink.take_over(limit, stop).and_then(|()| touch(&mut sink, config, partition, limit)) {
        Ok(()) => Ok(Answer::Allowed),
        Err(Error::TransactionsRefused { servers, id, cause }) => {
            let why = refusal(cause.code());
            Ok(Answer::Refused { why, cause: Error::TransactionsRefused { servers, id, cause } })
        }
        Err(Error::Unreachable { servers, cause, .. }) => {
            let waited = begun.elapsed();
            Ok(Answer::NotNow { cause: Error::TransactionsUnanswered { servers, waited, cause } })
        }
        Err(error) => Err(error),
    }
}

/// Takes a transaction through its life, short of its end.
fn touch(
    sink: &mut Sink,
    config: &Config,
    partition: &SourcePartition,
    limit: Duration,
) -> Result<(), Error> {
    sink.begin()?;
    let member = ffi::Member::outside(&config.source.group).ok_or_else(no_queue)?;
    let offsets = with_metadata(&[(partition.clone(), ResumeOffset(0), String::new())])?;
    let native = sink.producer.client.native_client();
    let begun = Instant::now();
    loop {
        let left = limit.saturating_sub(begun.elapsed()).max(Duration::from_millis(1));
        match ffi::send_offsets(native, &offsets, &member, left) {
            Ok(()) => break,
            Err(failed) if failed.retriable && begun.elapsed() < limit => {}
            Err(failed) => {
                let error = sink.explain(failed, begun.elapsed());
                // It may not be left open where the answer is only late.
                drop(sink.abort(ABORT_LIMIT.min(limit)));
                return Err(error);
            }
        }
    }
    sink.abort(ABORT_LIMIT.max(limit))
}

fn refusal(code: Option<K>) -> Refusal {
    match code {
        Some(K::TransactionalIdAuthorizationFailed) => Refusal::IdDenied,
        Some(K::ClusterAuthorizationFailed) => Refusal::ClusterDenied,
        _ => Refusal::NoSuchRequest,
    }
}
