//! Writes made records to a source topic. Only what the broker acknowledged counts as written, and
//! what the input log holds when it is read back is the truth.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, DeliveryResult, Producer, ProducerContext};
use rdkafka::{ClientContext, Message};

use super::admin::client;
use super::records::{Made, Maker, Plan};

/// How long outstanding acknowledgements may take, broker faults included.
const ACKNOWLEDGED_WITHIN: Duration = Duration::from_secs(120);

/// Writes to one topic, in order.
pub(crate) struct Writer {
    topic: String,
    producer: BaseProducer<Acks>,
    maker: Maker,
}

/// Counts acknowledgements and keeps the first failure.
#[derive(Clone, Default)]
struct Acks {
    acknowledged: Arc<AtomicU64>,
    failure: Arc<Mutex<Option<String>>>,
}

impl ClientContext for Acks {
    fn error(&self, _: KafkaError, _: &str) {
        // Broker faults are part of the tests; a record that fails for good is told elsewhere.
    }
}

impl ProducerContext for Acks {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        match result {
            Ok(_) => drop(self.acknowledged.fetch_add(1, Ordering::SeqCst)),
            Err((error, message)) => {
                let place = format!("{}/{}", message.topic(), message.partition());
                let mut failure = self.failure.lock().expect("no holder panics");
                failure.get_or_insert_with(|| format!("writing to {place}: {error}"));
            }
        }
    }
}

impl Writer {
    /// Makes a writer for `topic`.
    pub(crate) fn new(address: &str, topic: &str, plan: Plan, seed: u64) -> Self {
        let mut config = client(address);
        config
            .set("enable.idempotence", "true")
            .set("message.timeout.ms", "0")
            .set("linger.ms", "5")
            .set("message.max.bytes", "20000000");
        let producer: BaseProducer<Acks> =
            config.create_with_context(Acks::default()).expect("a plain producer");
        // Without this the client learns the partitions' leaders only at its next timer tick.
        producer.client().fetch_metadata(Some(topic), ACKNOWLEDGED_WITHIN).expect("it answers");
        Self { topic: topic.to_owned(), producer, maker: Maker::new(plan, seed) }
    }

    /// Writes the next `count` records of the plan and waits until all are acknowledged.
    pub(crate) fn write(&mut self, count: usize) {
        self.queue(count);
        self.flush();
    }

    /// Writes these records and waits until all are acknowledged.
    pub(crate) fn write_these(&self, records: &[Made]) {
        records.iter().for_each(|record| self.send(record));
        self.flush();
    }

    /// Returns how many records were acknowledged.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.producer.context().acknowledged.load(Ordering::SeqCst)
    }

    fn queue(&mut self, count: usize) {
        for _ in 0..count {
            let record = self.maker.next();
            self.send(&record);
        }
        self.producer.poll(Duration::ZERO);
    }

    fn send(&self, made: &Made) {
        let mut record = self.record(made);
        while let Err((error, back)) = self.producer.send(record) {
            let full = error.rdkafka_error_code() == Some(RDKafkaErrorCode::QueueFull);
            assert!(full, "cannot write to {}: {error}", self.topic);
            self.producer.poll(Duration::from_millis(50));
            record = back;
        }
    }

    fn record<'a>(&'a self, made: &'a Made) -> BaseRecord<'a, [u8], [u8]> {
        let mut record = BaseRecord::to(&self.topic)
            .partition(made.partition)
            .timestamp(made.timestamp)
            .headers(headers(made));
        record.key = made.key.as_deref();
        record.payload = made.value.as_deref();
        record
    }

    fn flush(&self) {
        self.producer.flush(ACKNOWLEDGED_WITHIN).expect("the broker acknowledges in time");
        let failure = self.producer.context().failure.lock().expect("no holder panics").take();
        assert_eq!(failure, None, "a record was not written");
    }
}

fn headers(made: &Made) -> OwnedHeaders {
    made.headers.iter().fold(OwnedHeaders::new(), |headers, (key, value)| {
        headers.insert(Header { key, value: value.as_ref() })
    })
}

/// A writer on a thread of its own that keeps a steady rate until told to finish.
pub(crate) struct SteadyWriter {
    finish: Arc<AtomicBool>,
    thread: JoinHandle<Writer>,
}

impl SteadyWriter {
    /// Lets `writer` write `total` records, `per_second` at a time while it is not told to finish.
    pub(crate) fn start(mut writer: Writer, total: usize, per_second: usize) -> Self {
        const TURN: Duration = Duration::from_millis(20);
        let finish = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&finish);
        let per_turn = (per_second / 50).max(1);
        let thread = std::thread::spawn(move || {
            let mut left = total;
            while left > 0 && !told.load(Ordering::SeqCst) {
                let now = per_turn.min(left);
                writer.queue(now);
                left -= now;
                std::thread::sleep(TURN);
            }
            writer.write(left);
            writer
        });
        Self { finish, thread }
    }

    /// Writes what is left at once and waits until everything is acknowledged.
    pub(crate) fn finish(self) -> Writer {
        self.finish.store(true, Ordering::SeqCst);
        self.thread.join().expect("the writer does not fail")
    }
}
