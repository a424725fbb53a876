//! Writing made records.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rdkafka::error::KafkaError;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::types::RDKafkaErrorCode;

use super::super::client::setting;
use super::super::error::{Cause, Error};
use super::{Heard, refused, unknown, writing};
use crate::config::Config;
use crate::words::Timestamp;

/// Writes records to one topic, each to the partition its key hashes to. Owned by one thread.
pub struct Loader {
    producer: BaseProducer<Heard>,
    topic: String,
    sent: u64,
}

impl Loader {
    /// Makes a producer. Does not wait for a broker.
    ///
    /// Takes how long it lets records gather into a batch.
    ///
    /// # Errors
    /// [`Error::Setting`] where the client refuses a property.
    pub fn connect(config: &Config, topic: &str, linger: Duration) -> Result<Self, Error> {
        let mut settings = writing(config);
        settings.set("linger.ms", linger.as_millis().to_string());
        let producer = settings.create_with_context(Heard::default()).map_err(setting)?;
        Ok(Self { producer, topic: topic.to_owned(), sent: 0 })
    }

    /// Hands a record over; waits only while the producer is full.
    ///
    /// # Errors
    /// The broker refused an earlier record, or the client refuses this one.
    pub fn send(&mut self, key: &[u8], value: &[u8], at: Timestamp) -> Result<(), Error> {
        const TURN: Duration = Duration::from_millis(5);
        let mut record = BaseRecord::to(&self.topic).key(key).payload(value).timestamp(at.0);
        loop {
            match self.producer.send(record) {
                Ok(()) => break,
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back)) => {
                    record = back;
                    self.producer.poll(TURN);
                    self.alive()?;
                }
                Err((error, _)) => return Err(refused(&self.topic, error.into())),
            }
        }
        self.sent += 1;
        if self.sent.is_multiple_of(1_000) {
            self.serve(Duration::ZERO)?;
        }
        Ok(())
    }

    /// Takes delivery reports, waiting up to `wait` for one.
    ///
    /// # Errors
    /// The broker refused a record.
    pub fn serve(&self, wait: Duration) -> Result<(), Error> {
        self.producer.poll(wait);
        self.alive()
    }

    /// Waits until every record is confirmed, and returns how many there are.
    ///
    /// # Errors
    /// Not all were within `limit`, or one was refused.
    pub fn finish(self, limit: Duration) -> Result<u64, Error> {
        let begun = Instant::now();
        let flushed = self.producer.flush(limit);
        self.alive()?;
        let heard = self.producer.client().context();
        let confirmed = heard.confirmed.load(Ordering::Relaxed);
        let complaint = heard.with(|said| said.complaint.clone());
        match flushed {
            Ok(()) if confirmed == self.sent => Ok(confirmed),
            _ => Err(Error::Unreachable {
                task: "write the records",
                servers: "the brokers".to_owned(),
                waited: begun.elapsed(),
                cause: complaint.map_or_else(unknown, Cause::from),
            }),
        }
    }

    fn alive(&self) -> Result<(), Error> {
        self.producer.client().context().must_not_have_failed(&self.topic)
    }
}

impl std::fmt::Debug for Loader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Loader").field("topic", &self.topic).finish_non_exhaustive()
    }
}
