//! Every metric: its name, unit, type, labels and help, in one place.
//!
//! Labels are bounded: `topic`, and fixed lists of words. `partition` is a label of the two gauges
//! whose sum or maximum would hide what matters, and only while few partitions are held. No label
//! ever comes from a record.
//!
//! All values of one scrape come from one snapshot of the board, so in each of them, per topic,
//! `read = forwarded + suppressed + replayed + left_out + dead_lettered + given_back + in flight`.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeLabelSet, EncodeMetric, NoLabelSet, text,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

use crate::words::{
    Aborted, Anew, Board, BoardSnapshot, Failure, Histogram, PartitionSnapshot, PartitionState,
    Tally, Transactions,
};

/// The content type of [`Metrics::render`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// With more partitions than this, gauges by partition are left out; those by topic stay.
const PARTITION_SERIES_MAX: usize = 256;

/// Renders the board as Prometheus text.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
}

impl Metrics {
    /// Metrics of everything on `board`.
    pub fn new(board: Arc<Board>) -> Self {
        let mut registry = Registry::with_prefix("firstseen");
        registry.register_collector(Box::new(BoardCollector { board }));
        Self { registry }
    }

    /// Returns the metrics as they are now, in the OpenMetrics text format.
    ///
    /// # Errors
    /// Never in practice: writing to a string does not fail.
    pub fn render(&self) -> Result<String, fmt::Error> {
        let mut page = String::new();
        text::encode(&mut page, &self.registry)?;
        Ok(page)
    }
}

/// A counter of one topic: its name, its help, and where it stands.
type TopicCounter = (&'static str, &'static str, fn(&Tally) -> u64);

/// A gauge of one topic.
type TopicGauge = (&'static str, &'static str, Option<Unit>, fn(&Topic<'_>) -> Option<f64>);

const TOPIC_COUNTERS: &[TopicCounter] = &[
    ("records_read", "Records read from the source, those read again included", |t| t.counts.read),
    ("records_forwarded", "First occurrences confirmed on the output", |t| t.counts.forwarded),
    ("records_suppressed", "Duplicates not forwarded", |t| t.counts.suppressed),
    ("records_replayed", "Records read again that were on the output already", |t| {
        t.counts.replayed
    }),
    ("records_left_out", "Records left out on purpose by a drop rule", |t| t.counts.left_out),
    ("records_dead_lettered", "Records confirmed on the dead-letter topic", |t| {
        t.counts.dead_lettered
    }),
    ("records_given_back", "Records given up in flight, to be read again; none is lost", |t| {
        t.given_back
    }),
    ("records_missing_key", "Of the forwarded: records without a dedup key", |t| {
        t.counts.missing_key
    }),
    ("records_future", "Records whose time was clamped because it lies too far ahead", |t| {
        t.counts.future
    }),
    (
        "records_too_old",
        "Of the forwarded: records too old for the whole window to be known",
        |t| t.counts.too_old,
    ),
    ("records_without_timestamp", "Records judged by arrival because they carry no time", |t| {
        t.counts.no_timestamp
    }),
    ("late_writes", "Output records somebody else wrote after the partition was taken", |t| {
        t.counts.late_writes
    }),
    ("late_writes_repeated", "Of the late writes: those that repeat a forwarded key", |t| {
        t.counts.repeated
    }),
    ("slow_checkpoints", "Checkpoints that took longer than checkpoint.timeout", |t| {
        t.slow_checkpoints
    }),
];

const TOPIC_GAUGES: &[TopicGauge] = &[
    ("in_flight_records", "Records read whose outcome is not known yet", None, |t| {
        t.sum(|p| p.in_flight_records)
    }),
    ("in_flight", "Bytes of records on their way to the output", Some(Unit::Bytes), |t| {
        t.sum(|p| p.in_flight_bytes)
    }),
    ("checkpoint_age", "Time since the oldest checkpoint", Some(Unit::Seconds), |t| {
        t.max(|p| Some(p.checkpoint_age.as_secs_f64()))
    }),
    ("catch_up_records", "Output records left to read before partitions run", None, |t| {
        t.sum(|p| p.catch_up_total.saturating_sub(p.catch_up_read))
    }),
    ("catch_up_read_records", "Output records read by the last catch-up", None, |t| {
        t.sum(|p| p.catch_up_read)
    }),
    ("store", "Disk space the seen-set takes", Some(Unit::Bytes), |t| t.sum(|p| p.store_bytes)),
    ("store_keys", "Keys in the seen-set", None, |t| t.sum(|p| p.store_keys)),
    ("store_segments", "Segments in the seen-set", None, |t| t.sum(|p| p.store_segments)),
    ("lag_max_records", "The largest lag of a partition, where known", None, |t| {
        t.max(|p| p.lag.map(approximate))
    }),
    ("lease_remaining", "The least time left to send", Some(Unit::Seconds), |t| {
        t.min(|p| p.lease_remaining.map(|left| left.as_secs_f64()))
    }),
    ("transaction_age", "How long the oldest transaction is open", Some(Unit::Seconds), |t| {
        t.max(|p| Some(p.transaction_age.unwrap_or_default().as_secs_f64()))
    }),
];

/// The partitions of one topic.
struct Topic<'s>(Vec<&'s PartitionSnapshot>);

impl Topic<'_> {
    fn sum(&self, of: impl Fn(&PartitionSnapshot) -> u64) -> Option<f64> {
        let sum = self.0.iter().fold(0_u64, |sum, partition| sum.saturating_add(of(partition)));
        Some(approximate(sum))
    }

    fn max(&self, of: impl Fn(&PartitionSnapshot) -> Option<f64>) -> Option<f64> {
        self.0.iter().filter_map(|partition| of(partition)).reduce(f64::max)
    }

    fn min(&self, of: impl Fn(&PartitionSnapshot) -> Option<f64>) -> Option<f64> {
        self.0.iter().filter_map(|partition| of(partition)).reduce(f64::min)
    }
}

/// Prometheus has no other numbers; exact up to 2^53.
#[expect(clippy::cast_precision_loss, reason = "a gauge beyond 2^53 may be rounded")]
fn approximate(number: u64) -> f64 {
    number as f64
}

#[derive(Debug)]
struct BoardCollector {
    board: Arc<Board>,
}

impl Collector for BoardCollector {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let snapshot = self.board.snapshot();
        let mut page = Page { encoder };
        page.process(&snapshot)?;
        page.topic_counters(&snapshot)?;
        let topics = by_topic(&snapshot);
        page.topic_gauges(&topics)?;
        page.states(&topics)?;
        if snapshot.partitions.len() <= PARTITION_SERIES_MAX {
            page.partition_gauges(&snapshot.partitions)?;
        }
        Ok(())
    }
}

/// Groups the partitions held by topic.
fn by_topic(snapshot: &BoardSnapshot) -> BTreeMap<&str, Topic<'_>> {
    let mut topics = BTreeMap::new();
    for partition in &snapshot.partitions {
        let topic = topics.entry(&*partition.partition.topic).or_insert_with(|| Topic(Vec::new()));
        topic.0.push(partition);
    }
    topics
}

struct Page<'e> {
    encoder: DescriptorEncoder<'e>,
}

impl Page<'_> {
    fn process(&mut self, snapshot: &BoardSnapshot) -> fmt::Result {
        let failures = Failure::ALL.into_iter().zip(snapshot.failures);
        let failures = failures.map(|(kind, count)| ([("kind", kind.as_str())], count));
        self.counters("failures", "Failures by kind", failures)?;
        let restarts = [(NO_LABELS, snapshot.producer_restarts)];
        self.counters("producer_restarts", "Producers thrown away and made anew", restarts)?;
        self.gauge("uptime", "Time since the process started", Unit::Seconds, snapshot.uptime)?;
        let beat = "Time since the poll loop last went round";
        self.gauge("poll_age", beat, Unit::Seconds, snapshot.beat_age)?;
        let flags = [
            ("stopping", "1 while draining to stop", snapshot.stopping),
            ("assigned", "1 once the group's assignment was received", snapshot.assigned),
        ];
        for (name, help, flag) in flags {
            self.gauges(name, help, None, [(NO_LABELS, f64::from(u8::from(flag)))])?;
        }
        self.histogram(
            "checkpoint_duration",
            "How long checkpoints took to become durable",
            &snapshot.checkpoints,
        )?;
        self.transactions(&snapshot.transactions)?;
        self.mode(snapshot)
    }

    fn mode(&mut self, snapshot: &BoardSnapshot) -> fmt::Result {
        let Some(mode) = &snapshot.mode else { return Ok(()) };
        let help = "1 for how records are delivered, and why so";
        let labels = [("mode", mode.name), ("reason", mode.reason.as_str())];
        self.gauges("delivery_mode", help, None, [(labels, 1.0)])
    }

    fn transactions(&mut self, done: &Transactions) -> fmt::Result {
        let help = "How long transactions took to commit, by the broker's answer";
        self.histogram("transaction_commit_duration", help, &done.commits)?;
        let committed = [(NO_LABELS, done.commits.counts.iter().sum())];
        self.counters("transactions_committed", "Transactions committed", committed)?;
        let aborted = Aborted::ALL.into_iter().zip(done.aborted);
        let aborted = aborted.map(|(why, count)| ([("reason", why.as_str())], count));
        let help = "Transactions not committed, or not known to be, by reason";
        self.counters("transactions_aborted", help, aborted)?;
        let anew = Anew::ALL.into_iter().zip(done.anew);
        let anew = anew.map(|(why, count)| ([("reason", why.as_str())], count));
        let help = "Transactional producers thrown away and made anew, by reason";
        self.counters("transactions_reinitialised", help, anew)
    }

    fn histogram(&mut self, name: &str, help: &str, took: &Histogram) -> fmt::Result {
        let bounds = Histogram::BOUNDS_MS.into_iter().map(Duration::from_millis);
        let bounds = bounds.map(|bound| bound.as_secs_f64()).chain([f64::INFINITY]);
        let buckets: Vec<_> = bounds.zip(took.counts).collect();
        let sum = took.sum.as_secs_f64();
        let count = took.counts.iter().sum();
        self.encoder
            .encode_descriptor(name, help, Some(&Unit::Seconds), MetricType::Histogram)?
            .encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
    }

    fn topic_counters(&mut self, snapshot: &BoardSnapshot) -> fmt::Result {
        for (name, help, value) in TOPIC_COUNTERS {
            let series = snapshot.totals.iter();
            let series = series.map(|(topic, tally)| ([("topic", &**topic)], value(tally)));
            self.counters(name, help, series)?;
        }
        let reasons = snapshot.totals.iter().flat_map(|(topic, tally)| {
            let reasons = tally.missing.iter();
            reasons.map(move |(reason, count)| ([("topic", &**topic), ("reason", reason)], *count))
        });
        self.counters("missing_keys", "Records without a dedup key by reason", reasons)
    }

    fn topic_gauges(&mut self, topics: &BTreeMap<&str, Topic<'_>>) -> fmt::Result {
        for (name, help, unit, value) in TOPIC_GAUGES {
            let series = topics.iter();
            let series =
                series.filter_map(|(topic, held)| Some(([("topic", *topic)], value(held)?)));
            self.gauges(name, help, unit.as_ref(), series)?;
        }
        Ok(())
    }

    fn states(&mut self, topics: &BTreeMap<&str, Topic<'_>>) -> fmt::Result {
        let series = topics.iter().flat_map(|(topic, held)| {
            PartitionState::ALL.into_iter().map(move |state| {
                let count = held.sum(|partition| u64::from(partition.state == state));
                ([("topic", *topic), ("state", state.as_str())], count.unwrap_or(0.0))
            })
        });
        self.gauges("partitions", "Partitions held, by state", None, series)
    }

    fn partition_gauges(&mut self, partitions: &[PartitionSnapshot]) -> fmt::Result {
        let lag = partitions.iter().filter_map(|p| Some((labels(p), approximate(p.lag?))));
        self.gauges("lag_records", "Records in the source that were not read yet", None, lag)?;
        let running = partitions.iter().map(|p| {
            let running = p.state == PartitionState::Running;
            (labels(p), f64::from(u8::from(running)))
        });
        self.gauges("partition_running", "1 where records are forwarded", None, running)
    }

    fn counters<L: EncodeLabelSet>(
        &mut self,
        name: &str,
        help: &str,
        series: impl IntoIterator<Item = (L, u64)>,
    ) -> fmt::Result {
        let mut family = self.encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (labels, value) in series {
            ConstCounter::new(value).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }

    fn gauges<L: EncodeLabelSet>(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<&Unit>,
        series: impl IntoIterator<Item = (L, f64)>,
    ) -> fmt::Result {
        let mut family = self.encoder.encode_descriptor(name, help, unit, MetricType::Gauge)?;
        for (labels, value) in series {
            ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }

    fn gauge(&mut self, name: &str, help: &str, unit: Unit, value: Duration) -> fmt::Result {
        self.gauges(name, help, Some(&unit), [(NO_LABELS, value.as_secs_f64())])
    }
}

/// The labels of a metric that has one series only.
const NO_LABELS: [(&str, &str); 0] = [];

fn labels(partition: &PartitionSnapshot) -> impl EncodeLabelSet + use<'_> {
    let partition = &partition.partition;
    ([("topic", &*partition.topic)], [("partition", partition.partition)])
}

#[cfg(test)]
#[path = "metrics_tests.rs"]
pub(super) mod tests;
