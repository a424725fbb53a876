//! The passthroughs as a child process: what a bench starts beside `run`.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::config::{self, Environment, TopicSelection};
use crate::error::Error;
use crate::kafka::bench::{fast, plain};
use crate::kafka::{Cluster, Error as Kafka};
use crate::logging::{self, Format};

const ANSWER: Duration = Duration::from_secs(15);

/// Which passthrough.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The config a bench wrote.
    pub config: PathBuf,
    /// The fast one.
    pub fast: bool,
}

pub(in crate::commands) fn run(options: &Options) -> Result<(), Error> {
    logging::init(Format::Human, "info")?;
    let config = config::load(&options.config, &Environment::of_process())?;
    let TopicSelection::List(topics) = &config.source.topics else {
        return Err(no_topic().into());
    };
    let from = topics.first().ok_or_else(no_topic)?;
    let to = config.sink.topic.as_str();
    let facts = Cluster::connect(&config, ANSWER)?.topic(from)?;
    let partitions = facts.ok_or_else(no_topic)?.partitions;
    let stop = stop_on_signals()?;
    let copied = if options.fast {
        fast(&config, (from, to), partitions, &stop)?
    } else {
        plain(&config, (from, to), partitions, &stop)?
    };
    tracing::info!(copied, "stopped");
    Ok(())
}

fn no_topic() -> Kafka {
    Kafka::TopicMissing { topic: "(the first of `source.topics`)".to_owned() }
}

fn stop_on_signals() -> Result<Arc<AtomicBool>, Error> {
    let control = crate::pipeline::Control::default();
    super::super::signals::install(&control)?;
    Ok(control.stop)
}
