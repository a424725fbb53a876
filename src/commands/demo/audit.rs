//! The audit: both topics, read back whole and handed to the checker.

use std::time::{Duration, Instant};

use rdkafka::message::{BorrowedMessage, Headers, Message};
use serde::Serialize;

use super::Error;
use super::broker::{Broker, OUTPUT, Reader, SOURCE};
use crate::ledger::{self, Check, Record, Rules};
use crate::words::{RecordOffset, Span, Timestamp};

/// The window of the demo's config.
const WINDOW: Span = Span::from_ms(24 * 60 * 60 * 1_000);
const READ_TIMEOUT: Duration = Duration::from_secs(20);
const TURN: Duration = Duration::from_millis(50);

/// What the demo ends with. These names are what `--json` prints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Ledger {
    /// Records in the source topic.
    pub read: u64,
    /// First occurrences that are on the output topic.
    pub forwarded: u64,
    /// Duplicates that are not.
    pub suppressed: u64,
    /// Of the forwarded: those a restarted sink read again, found on the output already, and did
    /// not write again. The sink's own count, kept in its checkpoints from life to life, so a
    /// record that is replayed by one sink after the other counts once.
    pub replayed: u64,
    /// First occurrences that are not on the output.
    pub lost: u64,
    /// Records on the output beyond the one that each first occurrence is due.
    pub repeated: u64,
    /// How often the sink was killed.
    pub kills: u64,
}

impl Ledger {
    /// Joins what the audit found with what only the stage knows.
    pub(super) fn new(found: &ledger::Ledger, replayed: u64, kills: u64) -> Self {
        Self {
            read: found.read,
            forwarded: found.forwarded,
            suppressed: found.suppressed,
            replayed,
            lost: found.lost,
            repeated: found.repeated,
            kills,
        }
    }
}

/// Reads both topics to their ends and compares them, partition by partition.
pub(super) fn audit(broker: &Broker) -> Result<ledger::Ledger, Error> {
    let mut checks: Vec<_> = (0..broker.partitions())
        .map(|partition| Check::new(partition, Rules::by_record_key(WINDOW)))
        .collect();
    read_all(&broker.read(SOURCE)?, &mut checks, Check::input)?;
    read_all(&broker.read(OUTPUT)?, &mut checks, Check::output)?;
    let mut found = ledger::Ledger::default();
    for check in checks {
        found.merge(&check.finish());
    }
    Ok(found)
}

fn read_all(
    reader: &Reader,
    checks: &mut [Check],
    feed: impl Fn(&mut Check, &Record),
) -> Result<(), Error> {
    let mut left: i64 = reader.ends()?.iter().sum();
    let deadline = Instant::now() + READ_TIMEOUT;
    while left > 0 {
        if let Some(message) = reader.next(TURN)? {
            let partition = usize::try_from(message.partition()).unwrap_or(usize::MAX);
            if let Some(check) = checks.get_mut(partition) {
                feed(check, &record(&message));
            }
            left -= 1;
        } else if Instant::now() > deadline {
            return Err(Error::Unreadable { left });
        }
    }
    Ok(())
}

fn record(message: &BorrowedMessage<'_>) -> Record {
    let headers = message.headers().into_iter().flat_map(Headers::iter);
    Record {
        offset: RecordOffset(message.offset()),
        key: message.key().map(<[u8]>::to_vec),
        value: message.payload().map(<[u8]>::to_vec),
        headers: headers
            .map(|header| (header.key.as_bytes().to_vec(), header.value.map(<[u8]>::to_vec)))
            .collect(),
        timestamp: message.timestamp().to_millis().map(Timestamp),
    }
}
