//! How the consumer is set up.

use std::time::Duration;

use rdkafka::ClientConfig;

use crate::config::Config;
use crate::kafka::client::Reach;

/// How a member keeps its place in the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timings {
    /// How often it tells the group that it lives.
    pub heartbeat: Duration,
    /// How long the group waits for it in a rebalance.
    pub poll: Duration,
}

impl Timings {
    /// The timings of a source with this config: ours, or those passed through.
    pub fn of(config: &Config) -> Self {
        let session = config.source.session_timeout;
        let reach = Reach::source(config);
        let passed = |name, ours: Duration| {
            let given = reach.property(name).and_then(|value| value.trim().parse().ok());
            given.map_or(ours, Duration::from_millis)
        };
        let heartbeat = (session / 3).clamp(Duration::from_millis(1), Duration::from_secs(3));
        Self {
            heartbeat: passed("heartbeat.interval.ms", heartbeat),
            poll: passed("max.poll.interval.ms", session.max(Duration::from_secs(300))),
        }
    }
}

pub(super) fn settings(config: &Config, reach: &Reach) -> ClientConfig {
    let session_ms = config.source.session_timeout.as_millis().to_string();
    let timings = Timings::of(config);
    let heartbeat_ms = timings.heartbeat.as_millis().to_string();
    let poll_ms = timings.poll.as_millis().to_string();
    let mut defaults = vec![
        // At the default of 1000 a full queue stalls fetching for a second: a fifth of the speed.
        ("fetch.queue.backoff.ms", "5"),
        // Read ahead, over all partitions, in kilobytes: a bound on memory.
        ("queued.max.messages.kbytes", "65536"),
        ("max.poll.interval.ms", poll_ms.as_str()),
    ];
    let mut owned = vec![
        ("group.id", config.source.group.as_str()),
        // Offsets are committed by us, after they are durable.
        ("enable.auto.commit", "false"),
        ("enable.auto.offset.store", "false"),
        // A resume offset that is gone is an error, never a jump.
        ("auto.offset.reset", "error"),
        // Aborted records are not records.
        ("isolation.level", "read_committed"),
        // A batch would move the client's position past the end, and a pause goes on from there.
        ("enable.partition.eof", "false"),
        // A flipped bit is an error, not a record.
        ("check.crcs", "true"),
    ];
    // With the broker-side protocol these belong to the broker and are refused by the client.
    if reach.property("group.protocol") != Some("consumer") {
        // A rebalance leaves the partitions that stay alone.
        defaults.push(("partition.assignment.strategy", "cooperative-sticky"));
        defaults.push(("heartbeat.interval.ms", heartbeat_ms.as_str()));
        owned.push(("session.timeout.ms", session_ms.as_str()));
    }
    if let Some(instance) = &config.source.instance_id {
        owned.push(("group.instance.id", instance));
    }
    reach.config(&defaults, &owned)
}
