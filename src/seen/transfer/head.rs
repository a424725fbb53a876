//! What an export says of itself and of each partition, as JSON.

use serde::{Deserialize, Serialize};

use crate::seen::Identity;
use crate::seen::identity::{clock_name, clock_of};
use crate::words::{
    Checkpoint, Counts, OutputPosition, ResumeOffset, SourcePartition, Timestamp, TopicId,
};

/// What an export says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// The build that wrote it.
    pub build: String,
    /// When it was written, in ms since 1970.
    pub created_at_ms: i64,
    /// How many partitions are in it.
    pub partitions: u32,
    /// How many entries are in it, over all partitions.
    pub entries: u64,
    /// The id of the secret that is in it, in hexadecimal.
    pub secret_id: String,
}

/// A partition: whose it is, and how far it has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Partition {
    topic: String,
    partition: i32,
    rule: String,
    hash: String,
    clock: String,
    output_topic: String,
    floor_ms: i64,
    resume: i64,
    output_position: Option<i64>,
    accounted: Option<i64>,
    high_mark_ms: i64,
    counts: [u64; 12],
    clean: bool,
    incarnation: String,
    written_at_ms: i64,
    source_topic_id: Option<String>,
    output_topic_id: Option<String>,
}

impl Partition {
    pub(super) fn of(identity: &Identity, checkpoint: &Checkpoint, floor: Timestamp) -> Self {
        let id = |id: TopicId| format!("{:032x}", u128::from_be_bytes(id.0));
        Self {
            topic: identity.source.topic.to_string(),
            partition: identity.source.partition,
            rule: identity.rule.clone(),
            hash: identity.hash.clone(),
            clock: clock_name(identity.clock).to_owned(),
            output_topic: identity.output_topic.clone(),
            floor_ms: floor.0,
            resume: checkpoint.resume.0,
            output_position: checkpoint.output.map(|position| position.0),
            accounted: checkpoint.accounted.map(|position| position.0),
            high_mark_ms: checkpoint.high_mark.0,
            counts: counts_to_array(checkpoint.counts),
            clean: checkpoint.clean,
            incarnation: format!("{:032x}", checkpoint.incarnation),
            written_at_ms: checkpoint.written_at.0,
            source_topic_id: checkpoint.source_topic_id.map(id),
            output_topic_id: checkpoint.output_topic_id.map(id),
        }
    }

    /// Returns what it stands for; `None` where a value is none of ours.
    pub(super) fn take(self, secret_id: [u8; 8]) -> Option<(Identity, Checkpoint, Timestamp)> {
        let id = |text: Option<String>| match text {
            None => Some(None),
            Some(text) => Some(Some(TopicId(u128::from_str_radix(&text, 16).ok()?.to_be_bytes()))),
        };
        let identity = Identity {
            source: SourcePartition::new(self.topic, self.partition),
            rule: self.rule,
            hash: self.hash,
            clock: clock_of(&self.clock)?,
            output_topic: self.output_topic,
            secret_id,
        };
        let checkpoint = Checkpoint {
            resume: ResumeOffset(self.resume),
            output: self.output_position.map(OutputPosition),
            accounted: self.accounted.map(OutputPosition),
            high_mark: Timestamp(self.high_mark_ms),
            counts: counts_of_array(self.counts),
            clean: self.clean,
            incarnation: u128::from_str_radix(&self.incarnation, 16).ok()?,
            written_at: Timestamp(self.written_at_ms),
            source_topic_id: id(self.source_topic_id)?,
            output_topic_id: id(self.output_topic_id)?,
        };
        Some((identity, checkpoint, Timestamp(self.floor_ms)))
    }
}

/// The order is part of the format: never change it, only add with a new version.
fn counts_to_array(counts: Counts) -> [u64; 12] {
    [
        counts.read,
        counts.forwarded,
        counts.suppressed,
        counts.replayed,
        counts.left_out,
        counts.dead_lettered,
        counts.missing_key,
        counts.future,
        counts.too_old,
        counts.no_timestamp,
        counts.late_writes,
        counts.repeated,
    ]
}

fn counts_of_array(counts: [u64; 12]) -> Counts {
    let [
        read,
        forwarded,
        suppressed,
        replayed,
        left_out,
        dead_lettered,
        missing_key,
        future,
        too_old,
        no_timestamp,
        late_writes,
        repeated,
    ] = counts;
    Counts {
        read,
        forwarded,
        suppressed,
        replayed,
        left_out,
        dead_lettered,
        missing_key,
        future,
        too_old,
        no_timestamp,
        late_writes,
        repeated,
    }
}
