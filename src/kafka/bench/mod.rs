//! What measuring needs of Kafka and nothing else does: topics made and removed, a loader, a
//! follower of the output, and two passthroughs to measure against.
//!
//! The follower is the bench's own eye: it shares nothing with the path that is measured.

mod embedded;
mod fast;
mod follow;
mod load;
mod plain;
mod topics;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rdkafka::ClientConfig;
use rdkafka::Offset;
use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::KafkaError;
use rdkafka::message::DeliveryResult;
use rdkafka::producer::ProducerContext;

pub use embedded::Embedded;
pub use fast::fast;
pub use follow::{Followed, Follower, Next};
pub use load::Loader;
pub use plain::plain;
pub use topics::{Made, Topics};

use super::client::{Reach, list, setting};
use super::error::{Cause, Error};
use super::sink::{self, RecordLimits, Writes};
use crate::config::Config;

/// Whether every record goes on, with how many.
pub type Passed = Result<u64, Error>;

/// Counts delivery reports and keeps the client's last complaint.
#[derive(Debug, Default)]
struct Heard {
    /// Not behind the lock: it is counted for every record of the plain passthrough.
    confirmed: AtomicU64,
    said: Mutex<Said>,
}

#[derive(Debug, Default)]
struct Said {
    failed: u64,
    why: Option<KafkaError>,
    complaint: Option<KafkaError>,
}

impl Heard {
    fn with<T>(&self, act: impl FnOnce(&mut Said) -> T) -> T {
        act(&mut self.said.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    /// Returns an error once a record was refused.
    fn must_not_have_failed(&self, topic: &str) -> Result<(), Error> {
        let failed = self.with(|said| (said.failed > 0).then(|| said.why.clone()));
        match failed {
            None => Ok(()),
            Some(why) => Err(refused(topic, why.map_or_else(unknown, Cause::from))),
        }
    }
}

fn unknown() -> Cause {
    Cause::text("the client did not say why")
}

/// A write that a topic refused: for want of permission, or for another reason.
fn refused(topic: &str, cause: Cause) -> Error {
    use super::error::Class;
    match cause.class() {
        Class::TopicAuthorization => {
            Error::BrokerAuthorization { resource: format!("topic `{topic}`"), cause }
        }
        Class::TopicMissing => Error::TopicMissing { topic: topic.to_owned() },
        _ => Error::Delivery(cause),
    }
}

/// A record that could not be read, and will not be by waiting.
fn unreadable(topic: &str, cause: Cause) -> Error {
    use super::error::Class;
    match cause.class() {
        Class::TopicAuthorization => {
            Error::BrokerAuthorization { resource: format!("topic `{topic}`"), cause }
        }
        Class::TopicMissing => Error::TopicMissing { topic: topic.to_owned() },
        _ => Error::Client { task: "read the records", cause },
    }
}

impl ClientContext for Heard {
    fn log(&self, _level: RDKafkaLogLevel, facility: &str, text: &str) {
        tracing::trace!(target: "firstseen::kafka", facility, text, "client log");
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(target: "firstseen::kafka", %error, reason, "client error");
        self.with(|said| said.complaint = Some(error));
    }
}

impl ConsumerContext for Heard {}

impl ProducerContext for Heard {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        match result {
            Ok(_) => {
                self.confirmed.fetch_add(1, Relaxed);
            }
            Err((error, _)) => self.with(|said| {
                said.failed += 1;
                said.why = Some(error.clone());
            }),
        }
    }
}

/// How the passthroughs read: the client's defaults, but for the one that costs four fifths of
/// the speed. They do not check checksums, which `run` does.
fn reading(config: &Config) -> ClientConfig {
    let defaults = [("fetch.queue.backoff.ms", "5")];
    let owned = [
        // Asked for by the client, never joined or committed to.
        ("group.id", config.source.group.as_str()),
        ("enable.auto.commit", "false"),
        ("enable.auto.offset.store", "false"),
        ("auto.offset.reset", "error"),
        ("isolation.level", "read_committed"),
    ];
    let mut settings = Reach::source(config).config(&defaults, &owned);
    for name in ["group.protocol", "group.instance.id", "group.remote.assignor"] {
        settings.remove(name);
    }
    settings
}

/// Makes the consumer of a passthrough, which reads every partition of `topic` from its start.
fn reader(config: &Config, topic: &str, partitions: i32) -> Result<BaseConsumer<Heard>, Error> {
    let consumer: BaseConsumer<Heard> =
        reading(config).create_with_context(Heard::default()).map_err(setting)?;
    let all = list((0..partitions).map(|partition| (topic, partition, Offset::Offset(0))))?;
    consumer
        .assign(&all)
        .map_err(|error| Error::Client { task: "start reading", cause: error.into() })?;
    Ok(consumer)
}

/// How the passthroughs and the loader write: exactly as `run` does, so that a delivery is worth
/// the same.
fn writing(config: &Config) -> ClientConfig {
    let (reach, limits) = (Reach::output(config), RecordLimits::default());
    sink::settings(config, &reach, limits, &Writes::Idempotent).0
}
