//! The plain passthrough: what anybody would write first. Poll, send, nothing else.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Message};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::types::RDKafkaErrorCode;

use super::super::client::setting;
use super::super::error::{Class, Error, class};
use super::{Heard, Passed, reader, refused, unreadable, writing};
use crate::config::Config;

const TURN: Duration = Duration::from_millis(20);
const LEAVING: Duration = Duration::from_secs(20);

/// Copies every record of topic `from` to topic `to` until `stop` is set; returns how many.
///
/// Key, value and timestamp go along, headers do not. The partition is the one the key hashes to.
///
/// # Errors
/// Whatever the client or the broker refuses.
pub fn plain(
    config: &Config,
    (from, to): (&str, &str),
    partitions: i32,
    stop: &AtomicBool,
) -> Passed {
    let producer: BaseProducer<Heard> =
        writing(config).create_with_context(Heard::default()).map_err(setting)?;
    let consumer = reader(config, from, partitions)?;
    let mut sent: u64 = 0;
    while !stop.load(Ordering::Relaxed) {
        match consumer.poll(TURN) {
            None => {
                producer.poll(Duration::ZERO);
            }
            Some(Ok(record)) => {
                send(&producer, &record, to)?;
                sent += 1;
                if sent.is_multiple_of(200) {
                    producer.poll(Duration::ZERO);
                }
            }
            Some(Err(error)) => must_pass(from, error)?,
        }
    }
    producer.flush(LEAVING).map_err(|error| refused(to, error.into()))?;
    producer.client().context().must_not_have_failed(to)?;
    Ok(sent)
}

fn send(
    producer: &BaseProducer<Heard>,
    record: &BorrowedMessage<'_>,
    to: &str,
) -> Result<(), Error> {
    let mut outgoing: BaseRecord<'_, [u8], [u8]> = BaseRecord::to(to);
    outgoing.key = record.key();
    outgoing.payload = record.payload();
    outgoing.timestamp = record.timestamp().to_millis();
    loop {
        match producer.send(outgoing) {
            Ok(()) => return Ok(()),
            Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back)) => {
                outgoing = back;
                producer.poll(TURN);
                producer.client().context().must_not_have_failed(to)?;
            }
            Err((error, _)) => return Err(refused(to, error.into())),
        }
    }
}

fn must_pass(topic: &str, error: KafkaError) -> Result<(), Error> {
    let passing = error
        .rdkafka_error_code()
        .is_some_and(|code| matches!(class(code), Class::Transient | Class::Timeout));
    if passing { Ok(()) } else { Err(unreadable(topic, error.into())) }
}
