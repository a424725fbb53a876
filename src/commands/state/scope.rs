//! Which partitions a command is about, and opening them.

use regex::Regex;

use super::{Context, Error};
use crate::config::{Config, TopicSelection};
use crate::seen::{Identity, Options, Seen, StateDir};
use crate::window::Window;
use crate::words::SourcePartition;

/// The partitions a command is about.
#[derive(Clone, Debug)]
pub(super) struct Scope {
    pub(super) topic: Option<String>,
    pub(super) partition: Option<i32>,
}

impl Scope {
    pub(super) fn covers(&self, source: &SourcePartition) -> bool {
        self.topic.as_ref().is_none_or(|topic| **topic == *source.topic)
            && self.partition.is_none_or(|partition| partition == source.partition)
    }

    fn text(&self) -> String {
        match (&self.topic, self.partition) {
            (None, None) => "any partition".to_owned(),
            (Some(topic), None) => format!("topic `{topic}`"),
            (None, Some(partition)) => format!("partition {partition}"),
            (Some(topic), Some(partition)) => format!("{topic}/{partition}"),
        }
    }
}

impl Context {
    /// Opens the state directory, which must be there and free.
    pub(super) fn open(&self) -> Result<StateDir, crate::error::Error> {
        crate::seen::ignore_file_size_signal()
            .map_err(|source| Error::File { path: self.config.state.dir.clone(), source })?;
        Ok(StateDir::open_existing(&self.config.state.dir)?)
    }

    /// Returns the partitions in scope that have a state; at least one.
    pub(super) fn targets(&self, dir: &StateDir) -> Result<Vec<Identity>, crate::error::Error> {
        let all = dir.identities()?;
        let known: Vec<_> = all.iter().map(|identity| identity.source.to_string()).collect();
        let targets: Vec<_> =
            all.into_iter().filter(|identity| self.scope.covers(&identity.source)).collect();
        if targets.is_empty() {
            let dir = self.config.state.dir.display();
            let what = format!("no state of {} in `{dir}`", self.scope.text());
            let fix = if known.is_empty() {
                "let `firstseen run` take a partition first".to_owned()
            } else {
                format!("choose with `--topic` and `--partition` from: {}", known.join(", "))
            };
            return Err(Error::arguments(what, fix).into());
        }
        Ok(targets)
    }

    /// Returns the one topic that the command is about.
    pub(super) fn topic(&self, dir: Option<&StateDir>) -> Result<String, crate::error::Error> {
        if let Some(topic) = &self.scope.topic {
            return Ok(topic.clone());
        }
        if let TopicSelection::List(topics) = &self.config.source.topics
            && let [only] = topics.as_slice()
        {
            return Ok(only.clone());
        }
        let mut topics = match dir {
            Some(dir) => self.targets(dir)?.into_iter().map(|id| id.source.topic).collect(),
            None => Vec::new(),
        };
        topics.dedup();
        match topics.as_slice() {
            [only] => Ok(only.to_string()),
            _ => Err(Error::arguments(
                "the key rule depends on the topic, and there are several",
                "name the source topic with `--topic`",
            )
            .into()),
        }
    }

    /// Returns how a partition of `topic` is opened.
    pub(super) fn options(&self, topic: &str) -> Options {
        let window = Window::new(self.config.rule(topic));
        Options::new(window.segment(), self.config.state.memory)
    }

    /// Returns whose state this config expects for `source`.
    pub(super) fn expected(&self, source: &SourcePartition, secret_id: [u8; 8]) -> Identity {
        let rule = self.config.rule(&source.topic);
        Identity {
            source: source.clone(),
            rule: rule.key.canonical(),
            hash: rule.hash.as_str().to_owned(),
            clock: rule.clock,
            output_topic: self.config.output_topic(&source.topic),
            secret_id,
        }
    }

    /// Opens the seen-set of `identity` as it was written, whatever this config says of it.
    pub(super) fn open_seen(
        &self,
        dir: &StateDir,
        identity: &Identity,
    ) -> Result<Seen, crate::seen::Error> {
        Ok(Seen::open_existing(dir, identity, &self.options(&identity.source.topic))?.seen)
    }
}

/// Returns whether `config` reads source topic `topic`.
pub(super) fn reads(config: &Config, topic: &str) -> bool {
    match &config.source.topics {
        TopicSelection::List(topics) => topics.iter().any(|one| one == topic),
        TopicSelection::Pattern(pattern) => {
            // The config was checked, so it compiles.
            Regex::new(pattern).is_ok_and(|pattern| pattern.is_match(topic))
        }
    }
}
