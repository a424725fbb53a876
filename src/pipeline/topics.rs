//! The topics, checked against the brokers before a record is read.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::config::{Config, TopicSelection};
use crate::kafka::{Cluster, RecordLimits, Sink, TimestampType, TopicFacts};
use crate::words::SourcePartition;

use super::lane::Route;
use super::{Error, fit};

/// How long the brokers may take to answer at all.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(8);

/// Asks the brokers about topics.
#[derive(Debug)]
pub(super) struct Topics {
    source: Cluster,
    /// The output's cluster, where it is another one.
    output: Option<Cluster>,
    /// Which source topic writes to each output topic.
    writers: BTreeMap<String, String>,
}

impl Topics {
    pub(super) fn connect(config: &Config) -> Result<Self, Error> {
        let source = Cluster::connect(config, CONNECT_TIMEOUT)?;
        let output = match config.sink.bootstrap_servers {
            Some(_) => Some(Cluster::connect_to_output(config, CONNECT_TIMEOUT)?),
            None => None,
        };
        Ok(Self { source, output, writers: BTreeMap::new() })
    }

    fn output(&self) -> &Cluster {
        self.output.as_ref().unwrap_or(&self.source)
    }

    /// Returns the source topics as they are now.
    pub(super) fn sources(&self, config: &Config) -> Result<Vec<String>, Error> {
        let found = self.source.selected(&config.source.topics)?;
        match &config.source.topics {
            TopicSelection::Pattern(pattern) if found.is_empty() => {
                Err(Error::NoTopics { pattern: pattern.trim_start_matches('^').to_owned() })
            }
            _ => Ok(found),
        }
    }

    /// Returns every partition of these topics.
    pub(super) fn partitions(&self, topics: &[String]) -> Result<Vec<SourcePartition>, Error> {
        let mut partitions = Vec::new();
        for topic in topics {
            let facts = described(&self.source, "source", topic)?;
            let name: std::sync::Arc<str> = topic.as_str().into();
            partitions.extend((0..facts.partitions).map(|n| SourcePartition::new(name.clone(), n)));
        }
        Ok(partitions)
    }

    /// Returns the smallest and the largest record limit of all topics to be written, in bytes,
    /// where the brokers tell.
    pub(super) fn record_limits(
        &self,
        config: &Config,
        sources: &[String],
    ) -> Result<RecordLimits, Error> {
        let outputs = sources.iter().map(|topic| ("output", config.output_topic(topic)));
        let dead = config.sink.dead_letter_topic.iter().map(|t| ("dead-letter", t.clone()));
        let mut limits = Vec::new();
        for (role, topic) in outputs.chain(dead) {
            limits.extend(described(self.output(), role, &topic)?.max_message_bytes);
        }
        let (smallest, largest) = (limits.iter().min().copied(), limits.iter().max().copied());
        Ok(RecordLimits { smallest, largest })
    }

    /// Warns where a lost state could not be rebuilt from the output in full.
    pub(super) fn warn_of_short_memory(&self, config: &Config, topic: &str) -> Result<(), Error> {
        let output = config.output_topic(topic);
        let facts = described(self.output(), "output", &output)?;
        if let Some(why) = fit::short_memory(&facts, config.rule(topic).window) {
            tracing::warn!(output, "after a loss of the state, keys may be forwarded again: {why}");
        }
        Ok(())
    }

    /// Checks that a source topic can be forwarded, and says where to.
    pub(super) fn route(
        &mut self,
        config: &Config,
        sink: &mut Sink,
        topic: &str,
    ) -> Result<Route, Error> {
        let output_topic = config.output_topic(topic);
        let same_cluster = self.output.is_none();
        if output_topic == topic && same_cluster {
            return Err(Error::SameTopic { topic: topic.to_owned() });
        }
        let writer = self.writers.entry(output_topic.clone()).or_insert_with(|| topic.to_owned());
        if writer != topic {
            let (first, second) = (writer.clone(), topic.to_owned());
            return Err(Error::SharedOutput { first, second, output: output_topic });
        }
        let source = described(&self.source, "source", topic)?;
        let output = described(self.output(), "output", &output_topic)?;
        if fit::lacks_partitions(&source, &output) {
            return Err(Error::PartitionCount {
                source_topic: topic.to_owned(),
                source_partitions: source.partitions,
                output_topic,
                output_partitions: output.partitions,
            });
        }
        if output.timestamp_type == Some(TimestampType::LogAppend) {
            return Err(Error::TimestampType { topic: output_topic });
        }
        let target = sink.target(&output_topic)?;
        if let Some(bytes) = output.max_message_bytes {
            sink.limit_target(target, bytes);
        }
        let (source_id, output_id) = (source.id, output.id);
        let limit_bytes = output.max_message_bytes;
        Ok(Route { output_topic, target, source_id, output_id, limit_bytes })
    }
}

fn described(cluster: &Cluster, role: &'static str, topic: &str) -> Result<TopicFacts, Error> {
    cluster.topic(topic)?.ok_or_else(|| Error::TopicMissing { role, topic: topic.to_owned() })
}
