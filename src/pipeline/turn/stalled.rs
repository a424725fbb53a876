//! Partitions whose topic has no output that fits it: they wait, and the others flow.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::pipeline::Error;
use crate::pipeline::lane::Route;
use crate::pipeline::plan::Committed;
use crate::pipeline::topics::may_wait;
use crate::words::{Code, Coded, Failure, PartitionBoard, SourcePartition};

use super::Pipeline;

/// How often it is looked whether outputs are there by now.
pub(super) const STALLED_EVERY: Duration = Duration::from_secs(5);

/// A partition that was given to us and has no lane.
#[derive(Debug)]
pub(super) struct Stalled {
    pub(super) partition: SourcePartition,
    pub(super) committed: Option<Committed>,
    /// Whether the group was asked what it has committed, and said so.
    pub(super) known: bool,
    pub(super) board: Arc<PartitionBoard>,
}

impl Pipeline {
    /// Returns where a topic goes; `None` where it has to wait for that.
    ///
    /// Where no broker answers, what was found before will do: the watch compares it later.
    pub(super) fn route(&mut self, topic: &Arc<str>) -> Result<Option<Route>, Error> {
        let config = &self.flow.context.config;
        match self.topics.route(config, &mut self.flow.sink, topic) {
            Ok(route) => {
                self.routes.insert(Arc::clone(topic), route.clone());
                Ok(Some(route))
            }
            Err(error) if error.code() == Code::BrokerUnreachable => {
                let known = self.routes.get(topic).cloned();
                let line = crate::error::render(&error);
                tracing::warn!(%topic, error = line, "the topics are not checked anew");
                known.ok_or(error).map(Some)
            }
            Err(error) if may_wait(config, &error) => {
                self.flow.context.board.count_failure(Failure::Output);
                let error = crate::error::render(&error);
                tracing::warn!(%topic, error, "this topic waits for its output; the others flow");
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Lets a partition wait: it is never begun, so no record of it is handed out.
    pub(super) fn stall(&mut self, given: Stalled) {
        let config = &self.flow.context.config;
        let output = config.output_topic(&given.partition.topic);
        given.board.set_stuck(format!("output topic `{output}` is missing or does not fit"));
        self.stalled.push(given);
    }

    /// Looks whether partitions need not wait any more.
    pub(super) fn serve_stalled(&mut self, now: Instant) -> Result<(), Error> {
        let topics: BTreeSet<_> =
            self.stalled.iter().map(|given| Arc::clone(&given.partition.topic)).collect();
        for topic in topics {
            let route = match self.route(&topic) {
                Ok(route) => route,
                // The brokers do not answer; the others' lanes say what comes of that.
                Err(Error::Kafka(error)) => {
                    tracing::debug!(%topic, %error, "cannot look for its output");
                    None
                }
                Err(error) => return Err(error),
            };
            let Some(route) = route else { continue };
            tracing::info!(%topic, output = route.output_topic, "its output is there");
            let ready: Vec<_> =
                self.stalled.extract_if(.., |given| given.partition.topic == topic).collect();
            for given in ready {
                self.add_lane(given, route.clone(), now)?;
            }
        }
        Ok(())
    }

    /// Gives up partitions that wait.
    pub(super) fn leave_stalled(&mut self, partitions: &[SourcePartition]) {
        let left = self.stalled.extract_if(.., |given| partitions.contains(&given.partition));
        for given in left {
            self.flow.context.board.revoke(&given.partition);
        }
    }
}
