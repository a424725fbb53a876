//! The fastest passthrough we know how to write: records by the batch from the partitions' own
//! queues, and a kept topic handle with a fixed partition to write to. The yardstick for `run`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rdkafka::consumer::Consumer;
use rdkafka::types::RDKafkaErrorCode;

use super::super::client::Producing;
use super::super::error::{Cause, Class, Error, class};
use super::super::ffi::{Batch, EventKind, Outgoing, Stream, Topic, produce};
use super::super::sink::producer;
use super::{Passed, reader, refused, unreadable, writing};
use crate::config::Config;

const BATCH: usize = 2_000;
const TURN: Duration = Duration::from_millis(5);
const LEAVING: Duration = Duration::from_secs(20);

/// Copies every record of topic `from` to the same partition of topic `to` until `stop` is set;
/// returns how many.
///
/// Key, value and timestamp go along, headers do not.
///
/// # Errors
/// Whatever the client or the broker refuses.
pub fn fast(
    config: &Config,
    (from, to): (&str, &str),
    partitions: i32,
    stop: &AtomicBool,
) -> Passed {
    let consumer = reader(config, from, partitions)?;
    let stream = Stream::of(consumer.client().native_client(), from, partitions);
    let stream = stream.ok_or_else(|| missing(from))?;
    let mut writer = Writer::connect(config, to)?;
    let mut batch = Batch::of(BATCH);
    while !stop.load(Ordering::Relaxed) {
        let failed = |code| unreadable(from, Cause::of(code));
        if batch.fill(&stream).map_err(failed)? == 0 {
            writer.serve(Duration::ZERO)?;
            // With nothing there, one record is waited for: a larger wish would wait for all.
            batch.wait(&stream, TURN).map_err(failed)?;
            // Serves the consumer's own events; no record comes this way.
            drop(consumer.poll(Duration::ZERO));
        }
        for record in batch.iter() {
            if let Some(code) = record.error() {
                match class(code) {
                    Class::Transient | Class::Timeout => continue,
                    _ => return Err(failed(code)),
                }
            }
            writer.send(Outgoing {
                partition: record.partition(),
                key: record.key(),
                value: record.value(),
                timestamp: record.timestamp(),
                headers: None,
                token: 0,
            })?;
        }
        writer.serve(Duration::ZERO)?;
    }
    drop(batch);
    drop(stream);
    writer.finish()
}

fn missing(topic: &str) -> Error {
    Error::TopicMissing { topic: topic.to_owned() }
}

/// A producer whose reports come as events, many at a time.
struct Writer {
    /// Before the producer it belongs to.
    topic: Topic,
    producer: Producing,
    name: String,
    sent: u64,
    confirmed: u64,
}

impl Writer {
    fn connect(config: &Config, to: &str) -> Result<Self, Error> {
        let producer = producer(&writing(config), &config.kafka.bootstrap_servers)?;
        let topic = Topic::new(producer.client.native_client(), to).ok_or_else(|| missing(to))?;
        Ok(Self { topic, producer, name: to.to_owned(), sent: 0, confirmed: 0 })
    }

    fn send(&mut self, record: Outgoing<'_>) -> Result<(), Error> {
        loop {
            match produce(self.producer.client.native_client(), &self.topic, record) {
                Ok(()) => {
                    self.sent += 1;
                    return Ok(());
                }
                Err(RDKafkaErrorCode::QueueFull) => self.serve(TURN)?,
                Err(code) => return Err(refused(&self.name, Cause::of(code))),
            }
        }
    }

    /// Takes the reports that are there, waiting up to `wait` for the first.
    fn serve(&mut self, wait: Duration) -> Result<(), Error> {
        let mut wait = wait;
        while let Some(event) = self.producer.queue.poll(wait) {
            wait = Duration::ZERO;
            if event.kind() != EventKind::Delivery {
                self.producer.context().absorb(&event);
                continue;
            }
            let mut failed = None;
            event.each_delivery(&mut |delivery| match delivery.error {
                None => self.confirmed += 1,
                Some(code) => failed = Some(code),
            });
            if let Some(code) = failed {
                return Err(refused(&self.name, Cause::of(code)));
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Passed {
        let begun = Instant::now();
        while self.confirmed < self.sent {
            if begun.elapsed() > LEAVING {
                let left = self.sent - self.confirmed;
                let cause = Cause::text(format!("{left} records were not confirmed in time"));
                return Err(Error::Delivery(cause));
            }
            self.serve(TURN)?;
        }
        Ok(self.confirmed)
    }
}
