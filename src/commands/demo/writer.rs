//! Writes the made records at a steady pace, never further than it was let.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, TryRecvError};
use rdkafka::ClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::DeliveryResult;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer, ProducerContext};

use super::Error;
use super::broker::{SOURCE, failed};
use super::plan::Plan;

/// Records a second if nobody waits: slow enough that a sink is always killed while more is coming.
const RECORDS_A_SECOND: u64 = 12_000;
/// No demo writes for longer than this, however many records it was asked for.
const WRITING_SECONDS_MAX: u64 = 10;
const FLUSH_TIMEOUT: Duration = Duration::from_secs(10);
/// How long one turn waits for delivery reports.
const TURN: Duration = Duration::from_millis(5);

/// A thread that writes. It stops, with what it has, when this is dropped.
#[derive(Debug)]
pub(super) struct Writer {
    allow: Option<Sender<u64>>,
    thread: Option<JoinHandle<Result<(), Error>>>,
    written: Arc<AtomicU64>,
}

impl Writer {
    /// Starts writing `plan`, which makes `records` records, to the broker at `address`.
    pub(super) fn start(address: &str, plan: Plan, records: u64) -> Result<Self, Error> {
        let reports = Arc::new(Reports::default());
        let producer: BaseProducer<Shared> = ClientConfig::new()
            .set("bootstrap.servers", address)
            .set("enable.idempotence", "true")
            .set("linger.ms", "2")
            .create_with_context(Shared(Arc::clone(&reports)))
            .map_err(failed("make a producer for"))?;
        let written = Arc::new(AtomicU64::new(0));
        // One message per kill at most, and each is taken within a turn.
        let (allow, allowed) = crossbeam_channel::bounded(128);
        let pen = Pen { producer, plan, allowed, limit: 0, written: Arc::clone(&written), reports };
        let thread = std::thread::Builder::new()
            .name("demo-writer".to_owned())
            .spawn(move || pen.write_all(records))
            .map_err(|source| Error::Process { attempt: "start a thread beside", source })?;
        Ok(Self { allow: Some(allow), thread: Some(thread), written })
    }

    /// Lets it write until `limit` records are written in all.
    pub(super) fn allow(&self, limit: u64) {
        if let Some(allow) = &self.allow {
            // A writer that failed has hung up; `finish` tells why.
            allow.send(limit).unwrap_or_default();
        }
    }

    /// Returns how many records were handed to the broker so far.
    pub(super) fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Returns whether it has come to its end, well or not.
    pub(super) fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits for the end and returns how it went.
    pub(super) fn finish(&mut self) -> Result<(), Error> {
        self.allow = None;
        let Some(thread) = self.thread.take() else { return Ok(()) };
        thread.join().unwrap_or(Err(Error::Writer { failed: 0 }))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if let Err(error) = self.finish() {
            tracing::debug!(%error, "writer of a demo that failed ended");
        }
    }
}

#[derive(Debug, Default)]
struct Reports {
    failed: AtomicU64,
}

struct Shared(Arc<Reports>);

impl ClientContext for Shared {
    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(%error, reason, "client error");
    }
}

impl ProducerContext for Shared {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        if result.is_err() {
            self.0.failed.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// What the thread owns.
struct Pen {
    producer: BaseProducer<Shared>,
    plan: Plan,
    allowed: Receiver<u64>,
    limit: u64,
    written: Arc<AtomicU64>,
    reports: Arc<Reports>,
}

impl Pen {
    fn write_all(mut self, records: u64) -> Result<(), Error> {
        let mut pace = Pace::new(records);
        let mut written = 0;
        while written < records {
            if !self.take_limit(written) {
                return Ok(());
            }
            let due = pace.due().min(self.limit);
            while written < due {
                self.write_one()?;
                written += 1;
            }
            self.written.store(written, Ordering::Relaxed);
            self.producer.poll(TURN);
        }
        self.producer.flush(FLUSH_TIMEOUT).map_err(failed("write to"))?;
        match self.reports.failed.load(Ordering::Relaxed) {
            0 => Ok(()),
            failed => Err(Error::Writer { failed }),
        }
    }

    /// Takes a new limit, waiting for one when the last is used up. False: nobody wants more.
    fn take_limit(&mut self, written: u64) -> bool {
        loop {
            match self.allowed.try_recv() {
                Ok(limit) => self.limit = limit,
                Err(TryRecvError::Disconnected) => return false,
                Err(TryRecvError::Empty) if written < self.limit => return true,
                Err(TryRecvError::Empty) => {
                    // What was handed over must still go out while we wait.
                    self.producer.poll(TURN);
                }
            }
        }
    }

    fn write_one(&mut self) -> Result<(), Error> {
        let Some(planned) = self.plan.next() else { return Ok(()) };
        let mut record = BaseRecord::to(SOURCE)
            .partition(planned.partition)
            .key(&planned.key)
            .payload(&planned.value);
        loop {
            match self.producer.send(record) {
                Ok(()) => return Ok(()),
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back)) => {
                    record = back;
                    self.producer.poll(TURN);
                }
                Err((error, _)) => return Err(failed("write to")(error)),
            }
        }
    }
}

/// A steady pace. Time spent waiting for leave to go on is not made up for, so that records keep
/// coming all through each part instead of in one burst.
struct Pace {
    records: u64,
    a_second: u64,
    going: Duration,
    last: Instant,
}

impl Pace {
    /// The longest time between two looks that counts as going.
    const STRIDE: Duration = Duration::from_millis(50);

    fn new(records: u64) -> Self {
        let a_second = RECORDS_A_SECOND.max(records / WRITING_SECONDS_MAX);
        Self { records, a_second, going: Duration::ZERO, last: Instant::now() }
    }

    /// Returns how many records should be written by now.
    fn due(&mut self) -> u64 {
        let now = Instant::now();
        self.going += now.duration_since(self.last).min(Self::STRIDE);
        self.last = now;
        let due = u128::from(self.a_second) * self.going.as_millis() / 1_000;
        u64::try_from(due).unwrap_or(u64::MAX).min(self.records)
    }
}
