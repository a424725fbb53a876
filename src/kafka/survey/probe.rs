//! What only trying shows: whether a producer gets an id, and whether transactions can begin.
//!
//! Both write no record into any topic of a user's. A transactional id that begins leaves an entry
//! in the broker's own log, which the broker removes by itself (`transactional.id.expiration.ms`).

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use rdkafka::config::RDKafkaLogLevel;
use rdkafka::types::RDKafkaErrorCode as K;

use super::versions::Apis;
use super::{Asked, Cause};
use crate::config::Config;
use crate::kafka::client::Reach;
use crate::kafka::cluster::Cluster;
use crate::kafka::error::Error;
use crate::kafka::ffi::EventKind;
use crate::kafka::probe::{Answer, probe};
use crate::kafka::sink::producer;
use crate::words::{SourcePartition, Timestamp, WallClock};

/// What came of asking for a producer's id.
#[derive(Clone, Debug)]
pub enum Idempotence {
    /// The broker gave one.
    Works,
    /// It never will: not to this user, or not at all.
    Refused(Cause),
    /// No answer that says either.
    Unknown(Cause),
}

/// What a producer without transactions found.
#[derive(Clone, Debug)]
pub struct Producing {
    /// Whether it may write idempotently.
    pub idempotence: Idempotence,
    /// What the brokers can, where the client told.
    pub apis: Option<Apis>,
}

/// What came of beginning transactions, in the classes that decide about a fallback.
#[derive(Clone, Debug)]
pub enum Transactions {
    /// The coordinator gave an id.
    Work {
        /// What time the coordinator had meanwhile.
        clock: Asked<Clock>,
    },
    /// They are not there, or not for this user: no later try will differ.
    Cannot(Cause),
    /// The broker refuses what we ask for, and would take something else.
    Misconfigured(Cause),
    /// Somebody else uses the probe's id at this moment.
    Fenced(Cause),
    /// No answer that says either.
    NotNow(Cause),
    /// Nobody asked.
    NotAsked,
}

/// A time the broker noted between two of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// Our time before it was noted.
    pub before: Timestamp,
    /// What the broker noted.
    pub broker: Timestamp,
    /// Our time when it was surely noted.
    pub after: Timestamp,
}

/// Asks for a producer's id the way [`crate::kafka::Sink`] does, and writes nothing.
///
/// # Errors
/// [`Error::Setting`] where the client refuses a property.
pub fn idempotence(config: &Config, timeout: Duration) -> Result<Producing, Error> {
    let owned = [
        ("enable.idempotence", "true"),
        // The client tells in its statistics, and nowhere else, that it got an id.
        ("statistics.interval.ms", "50"),
        // The client tells in its log, and nowhere else, what a broker can.
        ("debug", "feature"),
    ];
    let mut settings = Reach::output(config).config(&[], &owned);
    settings.set_log_level(RDKafkaLogLevel::Debug);
    let producer = producer(&settings, config.sink_bootstrap_servers())?;
    let start = Instant::now();
    let mut apis = Apis::default();
    let mut idempotence = None;
    while idempotence.is_none() && start.elapsed() < timeout {
        let Some(event) = producer.queue.poll(Duration::from_millis(50)) else { continue };
        match event.kind() {
            EventKind::Log => match event.log() {
                Some((7, _, line)) => apis.absorb(&line),
                _ => drop(producer.context().absorb(&event)),
            },
            EventKind::Statistics if has_id(&event.statistics()) => {
                idempotence = Some(Idempotence::Works);
            }
            _ => drop(producer.context().absorb(&event)),
        }
        if let Some((code, text)) = producer.client.fatal_error() {
            idempotence = Some(Idempotence::Refused(Cause::new(code, text)));
        }
    }
    let idempotence = idempotence.unwrap_or_else(|| {
        let heard = producer.context().last();
        Idempotence::Unknown(heard.unwrap_or_else(|| Cause::of(K::OperationTimedOut)))
    });
    Ok(Producing { idempotence, apis: (!apis.is_empty()).then_some(apis) })
}

/// Takes a transaction under `id`, which must be nobody else's, through its life short of its end,
/// as `run` does to decide.
///
/// `cluster` is the output's; it is asked for the time that the coordinator noted. `partition` is
/// one that the group reads.
///
/// # Errors
/// [`Error::Setting`] where the client refuses a property, or a connection that will never work.
pub fn transactions(
    config: &Config,
    cluster: &Cluster,
    id: &str,
    partition: &SourcePartition,
    timeout: Duration,
) -> Result<Transactions, Error> {
    let wall = WallClock::system();
    let before = wall.now();
    match probe(config, id, partition, timeout, &AtomicBool::new(false)) {
        Ok(Answer::Allowed) => {
            let broker = cluster.newest(TRANSACTION_LOG);
            let clock = broker.map(|broker| Clock { before, broker, after: wall.now() });
            Ok(Transactions::Work { clock })
        }
        Ok(Answer::Refused { cause, .. }) => Ok(Transactions::Cannot(of(&cause))),
        Ok(Answer::NotNow { cause }) => Ok(Transactions::NotNow(of(&cause))),
        Err(error) => match error {
            Error::TransactionTimeout { .. } => Ok(Transactions::Misconfigured(of(&error))),
            Error::TransactionFenced { .. } => Ok(Transactions::Fenced(of(&error))),
            // Such as a right on the group, which has a finding of its own.
            Error::BrokerAuthorization { .. } | Error::Transaction { .. } => {
                Ok(Transactions::NotNow(of(&error)))
            }
            other => Err(other),
        },
    }
}

/// Where the coordinator notes, with its own time, who began.
const TRANSACTION_LOG: &str = "__transaction_state";

/// Returns what is at the bottom of an error: the broker's own words, with their code.
fn of(error: &Error) -> Cause {
    let mut deepest: &dyn std::error::Error = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    match deepest.downcast_ref::<Cause>() {
        Some(cause) => cause.clone(),
        None => Cause::text(deepest.to_string()),
    }
}

/// Returns whether the client's figures show a producer id.
fn has_id(statistics: &str) -> bool {
    serde_json::from_str::<serde_json::Value>(statistics)
        .ok()
        .and_then(|all| all.get("eos")?.get("producer_id")?.as_i64())
        .is_some_and(|id| id >= 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_producer_id_is_read_from_the_clients_figures() {
        assert!(has_id(r#"{"eos":{"idemp_state":"Assigned","producer_id":0}}"#));
        assert!(!has_id(r#"{"eos":{"idemp_state":"WaitPID","producer_id":-1}}"#));
        assert!(!has_id("{}"));
        assert!(!has_id("not JSON"));
    }
}
