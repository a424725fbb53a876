//! Reading partitions back, outside any group: the output's tail, a hole in it, or one record.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rdkafka::Offset;
use rdkafka::consumer::Consumer;
use rdkafka::types::RDKafkaErrorCode;

use super::client::{Consuming, Reach, list};
use super::error::{Cause, Class, Error, class};
use super::ffi::{self, EventKind};
use super::record::SourceRecord;
use super::source::Committed;
use crate::config::Config;
use crate::words::{OutputPosition, RecordOffset, ResumeOffset, SourcePartition, Timestamp};

/// Reads partitions it is told to. Owned by one thread.
pub struct OutputReader {
    reader: Consuming,
    lookup: Consuming,
    timeout: Duration,
}

/// Where a point in time lies in a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeLookup {
    /// The first record at or after that time.
    At(OutputPosition),
    /// Every record is older.
    AfterEnd,
}

impl OutputReader {
    /// Makes a reader of the output's cluster. Does not wait for a broker.
    ///
    /// Takes how long one question to the broker may take.
    ///
    /// # Errors
    /// [`Error::Setting`] where the client refuses a property.
    pub fn connect(config: &Config, timeout: Duration) -> Result<Self, Error> {
        Self::at(config, &Reach::output(config), timeout)
    }

    /// Makes a reader of the source's cluster, to read single source records again.
    ///
    /// # Errors
    /// As [`OutputReader::connect`].
    pub fn connect_to_source(config: &Config, timeout: Duration) -> Result<Self, Error> {
        Self::at(config, &Reach::source(config), timeout)
    }

    fn at(config: &Config, reach: &Reach, timeout: Duration) -> Result<Self, Error> {
        let defaults = [
            // As for the source; reading back should be as fast as the broker.
            ("fetch.queue.backoff.ms", "5"),
            ("queued.max.messages.kbytes", "32768"),
            ("max.partition.fetch.bytes", "4194304"),
            // The end of the log is told only by an empty answer: do not wait long for it.
            ("fetch.wait.max.ms", "50"),
        ];
        let owned = [
            // Asked for by the client, never joined or committed to.
            ("group.id", config.source.group.as_str()),
            ("enable.auto.commit", "false"),
            ("enable.auto.offset.store", "false"),
            ("auto.offset.reset", "error"),
            // Aborted records were never forwarded.
            ("isolation.level", "read_committed"),
            ("enable.partition.eof", "true"),
            ("check.crcs", "true"),
        ];
        let mut settings = reach.config(&defaults, &owned);
        // Only for members, and refused or misleading here.
        for name in ["group.protocol", "group.instance.id", "group.remote.assignor"] {
            settings.remove(name);
        }
        Ok(Self {
            reader: Consuming::consumer(reach, &settings)?,
            lookup: Consuming::lookup(reach)?,
            timeout,
        })
    }

    /// Asks for the first offset and the high watermark.
    ///
    /// Records below the high watermark may belong to a transaction that is still open.
    ///
    /// # Errors
    /// [`Error::Unreachable`] where no leader answers in time, or another connection error.
    pub fn bounds(
        &self,
        topic: &str,
        partition: i32,
    ) -> Result<(OutputPosition, OutputPosition), Error> {
        let client = &self.lookup.client;
        let (low, high) = self
            .lookup
            .ask("read a partition's bounds", self.timeout, |slice| {
                client.fetch_watermarks(topic, partition, slice)
            })
            .map_err(|error| about_topic(error, topic, partition))?;
        Ok((OutputPosition(low), OutputPosition(high)))
    }

    /// Asks the group for the offset it has committed for a source partition.
    ///
    /// While a transaction with an offset of it is open, there is no answer.
    ///
    /// # Errors
    /// [`Error::Unreachable`] where none comes in time, or another connection error.
    pub fn committed(&self, partition: &SourcePartition) -> Result<Option<Committed>, Error> {
        let wanted = list([(&*partition.topic, partition.partition, Offset::Invalid)])?;
        let client = &self.reader.client;
        let found = self.reader.ask("read committed offsets", self.timeout, |slice| {
            client.committed_offsets(wanted.clone(), slice)
        })?;
        let Some(entry) = ffi::list_entries(&found).into_iter().next() else { return Ok(None) };
        if let Some(code) = entry.error {
            let cause = Cause::of(code);
            let (servers, waited) = (&self.reader.servers, self.timeout);
            return Err(self.reader.context().explain(
                "read committed offsets",
                servers,
                waited,
                cause,
            ));
        }
        let metadata = String::from_utf8(entry.metadata).ok().filter(|text| !text.is_empty());
        Ok((entry.offset >= 0)
            .then_some(Committed { offset: ResumeOffset(entry.offset), metadata }))
    }

    /// Asks where the first record at or after `time` lies.
    ///
    /// # Errors
    /// As [`OutputReader::bounds`].
    pub fn offset_for_time(
        &self,
        topic: &str,
        partition: i32,
        time: Timestamp,
    ) -> Result<TimeLookup, Error> {
        // Negative numbers are orders to the broker, not times.
        let asked = Offset::Offset(time.0.max(0));
        let client = &self.lookup.client;
        let wanted = list([(topic, partition, asked)])?;
        let found = self
            .lookup
            .ask("look up a time", self.timeout, |slice| {
                client.offsets_for_times(wanted.clone(), slice)
            })
            .map_err(|error| about_topic(error, topic, partition))?;
        match ffi::list_entries(&found).first() {
            Some(ffi::Entry { error: Some(code), .. }) => Err(about_topic(
                Error::Client { task: "look up a time", cause: Cause::of(*code) },
                topic,
                partition,
            )),
            Some(entry) if entry.offset >= 0 => Ok(TimeLookup::At(OutputPosition(entry.offset))),
            _ => Ok(TimeLookup::AfterEnd),
        }
    }

    /// Reads every committed record at or above `from` and below `to`.
    ///
    /// Ends when the position reaches `to`, not when a certain record is seen: the last offsets may
    /// be markers, aborted or compacted away. `each` returns whether to go on.
    ///
    /// # Errors
    /// [`Error::CatchUpStuck`] where nothing comes for `idle_limit` before `to`,
    /// [`Error::OutputOutOfRange`] where `from` is not in the log, [`Error::Stopped`] where `stop`
    /// was set, or whatever the broker refuses.
    #[expect(clippy::too_many_arguments, reason = "a range, its bounds in time, and what to do")]
    pub fn read(
        &self,
        topic: &str,
        partition: i32,
        from: OutputPosition,
        to: OutputPosition,
        stop: &AtomicBool,
        idle_limit: Duration,
        each: &mut dyn FnMut(&SourceRecord<'_>) -> bool,
    ) -> Result<(), Error> {
        if from >= to {
            return Ok(());
        }
        let start = list([(topic, partition, Offset::Offset(from.0))])?;
        self.reader.client.assign(&start).map_err(|error| failed("start reading", error))?;
        drop(start);
        let mut run = Run { topic, partition, at: from, to, stable: None };
        let result = self.run(&mut run, stop, idle_limit, each);
        self.reader.client.unassign().map_err(|error| failed("stop reading", error))?;
        result
    }

    /// Returns offset and timestamp of the first committed record at or above `offset`; `None`
    /// where there is none.
    ///
    /// # Errors
    /// As [`OutputReader::read`].
    pub fn timestamp_at(
        &self,
        topic: &str,
        partition: i32,
        offset: OutputPosition,
        stop: &AtomicBool,
        idle_limit: Duration,
    ) -> Result<Option<(RecordOffset, Option<Timestamp>)>, Error> {
        let (_, high) = self.bounds(topic, partition)?;
        let mut found = None;
        self.read(topic, partition, offset, high, stop, idle_limit, &mut |record| {
            found = Some((record.offset(), record.timestamp()));
            false
        })?;
        Ok(found)
    }

    fn run(
        &self,
        run: &mut Run<'_>,
        stop: &AtomicBool,
        idle_limit: Duration,
        each: &mut dyn FnMut(&SourceRecord<'_>) -> bool,
    ) -> Result<(), Error> {
        // Also how soon `stop` is seen.
        const SLICE: Duration = Duration::from_millis(100);
        let mut last_news = Instant::now();
        let mut since_stop_check = 0_u32;
        loop {
            let event = self.reader.queue.poll(SLICE);
            since_stop_check += 1;
            if event.is_none() || since_stop_check >= 1024 {
                since_stop_check = 0;
                if stop.load(Ordering::Relaxed) {
                    return Err(Error::Stopped {
                        topic: run.topic.to_owned(),
                        partition: run.partition,
                    });
                }
                if last_news.elapsed() >= idle_limit {
                    return Err(self.stuck(run, last_news.elapsed()));
                }
            }
            let Some(event) = event else { continue };
            let before = run.at;
            let done = match event.kind() {
                EventKind::Fetch => match event.into_message() {
                    Some(message) => run.record(SourceRecord::new(message), each),
                    None => false,
                },
                EventKind::Error => self.error(run, &event)?,
                _ => {
                    self.reader.context().absorb(&event);
                    false
                }
            };
            if done {
                return Ok(());
            }
            if run.at > before {
                last_news = Instant::now();
            }
        }
    }

    /// Takes an error event; returns whether it is the end that was wanted.
    fn error(&self, run: &mut Run<'_>, event: &ffi::Event) -> Result<bool, Error> {
        let Some(code) = event.error() else { return Ok(false) };
        let place = event.place();
        let ours = place
            .as_ref()
            .is_some_and(|(topic, partition, _)| topic == run.topic && *partition == run.partition);
        if code == RDKafkaErrorCode::PartitionEOF {
            return Ok(ours && run.end(place.map_or(-1, |(.., offset)| offset)));
        }
        let Some(cause) = self.reader.context().absorb(event) else { return Ok(false) };
        let offset = place.as_ref().map_or(run.at.0, |(.., offset)| *offset);
        let partition = || SourcePartition::new(run.topic, run.partition);
        Err(match class(code) {
            // Of a partition read earlier.
            _ if place.is_some() && !ours => return Ok(false),
            Class::OffsetReset => Error::OutputOutOfRange {
                topic: run.topic.to_owned(),
                partition: run.partition,
                offset: run.at.0,
                cause,
            },
            Class::Corrupt => Error::RecordCorrupt { partition: partition(), offset, cause },
            Class::Codec => Error::RecordCodec { partition: partition(), offset, cause },
            Class::TopicMissing | Class::PartitionMissing => {
                Error::TopicMissing { topic: run.topic.to_owned() }
            }
            Class::TopicAuthorization => {
                Error::BrokerAuthorization { resource: format!("topic `{}`", run.topic), cause }
            }
            Class::Authentication => {
                Error::Authentication { servers: self.reader.servers.clone(), cause }
            }
            // No group is used, so its refusals do not matter.
            _ => return Ok(false),
        })
    }

    fn stuck(&self, run: &Run<'_>, waited: Duration) -> Error {
        Error::CatchUpStuck {
            topic: run.topic.to_owned(),
            partition: run.partition,
            reached: run.at,
            target: run.to,
            stable: run.stable,
            waited,
            cause: match (run.stable, self.reader.context().last()) {
                (Some(_), _) => Cause::text("a transaction is open there, or is not yet decided"),
                (None, Some(cause)) => cause,
                (None, None) => Cause::text("no answer from the broker"),
            },
        }
    }
}

impl std::fmt::Debug for OutputReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OutputReader").finish_non_exhaustive()
    }
}

/// One range that is being read.
struct Run<'a> {
    topic: &'a str,
    partition: i32,
    at: OutputPosition,
    to: OutputPosition,
    /// Where the broker had no more records to hand out.
    stable: Option<OutputPosition>,
}

impl Run<'_> {
    /// Hands a record on; returns whether the range is done.
    fn record(
        &mut self,
        record: SourceRecord<'_>,
        each: &mut dyn FnMut(&SourceRecord<'_>) -> bool,
    ) -> bool {
        let offset = record.offset();
        let ours = record.partition() == self.partition && record.topic() == self.topic;
        if !ours || offset.0 < self.at.0 {
            return false;
        }
        if offset.0 >= self.to.0 {
            return true;
        }
        self.at = offset.next_output();
        self.stable = None;
        !each(&record) || self.at >= self.to
    }

    /// Takes the position at which records ran out; returns whether the range is done.
    fn end(&mut self, offset: i64) -> bool {
        self.at = self.at.max(OutputPosition(offset));
        self.stable = Some(OutputPosition(offset));
        self.at >= self.to
    }
}

/// Names the topic in an error that came without one.
fn about_topic(error: Error, topic: &str, partition: i32) -> Error {
    let Error::Client { task, cause } = error else { return error };
    match cause.class() {
        Class::TopicMissing => Error::TopicMissing { topic: topic.to_owned() },
        Class::PartitionMissing => Error::PartitionMissing { topic: topic.to_owned(), partition },
        Class::TopicAuthorization => {
            Error::BrokerAuthorization { resource: format!("topic `{topic}`"), cause }
        }
        _ => Error::Client { task, cause },
    }
}

fn failed(task: &'static str, error: rdkafka::error::KafkaError) -> Error {
    Error::Client { task, cause: error.into() }
}
