//! Reading a topic from its beginning, as any read_committed reader would.

use std::time::Duration;

use rdkafka::Offset;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Headers, Message};

use super::super::client::{Consuming, Reach, list, setting};
use super::super::error::{Cause, Class, Error, class};
use super::super::ffi;
use super::{Heard, reading};
use crate::config::Config;
use crate::ledger;
use crate::words::{RecordOffset, Timestamp};

/// How long one question to the broker may take.
const ANSWER: Duration = Duration::from_secs(10);

/// Follows all partitions of one topic. Owned by one thread.
pub struct Follower {
    consumer: BaseConsumer<Heard>,
    ends: Consuming,
    topic: String,
    partitions: i32,
}

/// What a follower meets.
#[derive(Debug)]
pub enum Next<'a> {
    /// A record.
    Record(Followed<'a>),
    /// The present end of this partition, as a read_committed reader sees it.
    End(i32),
    /// Nothing yet, or a passing client event.
    Nothing,
}

/// A record that was read, borrowed.
#[derive(Debug)]
pub struct Followed<'a>(BorrowedMessage<'a>);

impl Followed<'_> {
    /// The partition it was read from.
    pub fn partition(&self) -> i32 {
        self.0.partition()
    }

    /// Its value; `None` is null.
    pub fn value(&self) -> Option<&[u8]> {
        self.0.payload()
    }

    /// Returns it as the ledger wants it.
    pub fn record(&self) -> ledger::Record {
        let message = &self.0;
        let headers = message.headers().into_iter().flat_map(Headers::iter);
        ledger::Record {
            offset: RecordOffset(message.offset()),
            key: message.key().map(<[u8]>::to_vec),
            value: message.payload().map(<[u8]>::to_vec),
            headers: headers
                .map(|header| (header.key.as_bytes().to_vec(), header.value.map(<[u8]>::to_vec)))
                .collect(),
            timestamp: message.timestamp().to_millis().map(Timestamp),
        }
    }
}

impl Follower {
    /// Opens a reader of all of `topic`, from its first record on.
    ///
    /// # Errors
    /// [`Error::Setting`] where the client refuses a property.
    pub fn open(config: &Config, topic: &str, partitions: i32) -> Result<Self, Error> {
        let follower = Self::watch(config, topic, partitions)?;
        let start = follower.places(Offset::Offset(0))?;
        follower.consumer.assign(&start).map_err(failed("start reading"))?;
        Ok(follower)
    }

    /// Opens one that hands out no records: it only asks how far the topic and the group are.
    ///
    /// # Errors
    /// As [`Follower::open`].
    pub fn watch(config: &Config, topic: &str, partitions: i32) -> Result<Self, Error> {
        let mut settings = reading(config);
        // A mock broker answers an empty fetch only after the whole wait.
        settings.set("fetch.wait.max.ms", "20");
        // The last offsets may be markers, which no reader is handed.
        settings.set("enable.partition.eof", "true");
        let consumer: BaseConsumer<Heard> =
            settings.create_with_context(Heard::default()).map_err(setting)?;
        Ok(Self {
            consumer,
            ends: Consuming::lookup(&Reach::source(config))?,
            topic: topic.to_owned(),
            partitions,
        })
    }

    fn places(&self, at: Offset) -> Result<rdkafka::TopicPartitionList, Error> {
        list((0..self.partitions).map(|partition| (self.topic.as_str(), partition, at)))
    }

    /// Waits up to `wait` for what comes next.
    ///
    /// # Errors
    /// The broker refuses to hand records out.
    pub fn next(&self, wait: Duration) -> Result<Next<'_>, Error> {
        match self.consumer.poll(wait) {
            None => Ok(Next::Nothing),
            Some(Ok(record)) => Ok(Next::Record(Followed(record))),
            Some(Err(KafkaError::PartitionEOF(partition))) => Ok(Next::End(partition)),
            Some(Err(error)) if passes(&error) => Ok(Next::Nothing),
            Some(Err(error)) => Err(failed("read a topic back")(error)),
        }
    }

    /// Returns the high watermark of each partition, open transactions included.
    ///
    /// # Errors
    /// [`Error::Unreachable`] where the brokers do not answer.
    pub fn ends(&self) -> Result<Vec<i64>, Error> {
        // To the broker the "time" -1 stands for the end, so one request asks for all partitions.
        let asked = self.places(Offset::End)?;
        let client = &self.ends.client;
        let found = self.ends.ask("ask for a topic's end", ANSWER, |slice| {
            client.offsets_for_times(asked.clone(), slice)
        })?;
        ffi::list_entries(&found)
            .into_iter()
            .map(|entry| match entry.error {
                Some(code) => {
                    Err(Error::Client { task: "ask for a topic's end", cause: Cause::of(code) })
                }
                None => Ok(entry.offset.max(0)),
            })
            .collect()
    }

    /// Returns what the config's group has committed for this topic, summed over its partitions.
    ///
    /// # Errors
    /// The group coordinator does not answer or refuses.
    pub fn committed(&self) -> Result<i64, Error> {
        let asked = self.places(Offset::Invalid)?;
        let committed = self
            .consumer
            .committed_offsets(asked, ANSWER)
            .map_err(failed("ask for committed offsets"))?;
        Ok(ffi::list_entries(&committed).into_iter().map(|entry| entry.offset.max(0)).sum())
    }
}

impl std::fmt::Debug for Follower {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Follower").field("topic", &self.topic).finish_non_exhaustive()
    }
}

fn passes(error: &KafkaError) -> bool {
    let code = error.rdkafka_error_code();
    code.is_some_and(|code| matches!(class(code), Class::Transient | Class::Timeout))
}

fn failed(task: &'static str) -> impl Fn(KafkaError) -> Error {
    move |error| Error::Client { task, cause: error.into() }
}
