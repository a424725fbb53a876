//! Where it is measured: the embedded broker or the user's, and the topics made there.

use std::time::Duration;

use super::Error;
use crate::config::Config;
use crate::kafka::bench::{Embedded, Follower, Loader, Made, Next, Topics};
use crate::kafka::{self, Cluster};
use crate::words::{Timestamp, WallClock};

const ANSWER: Duration = Duration::from_secs(15);

/// The brokers, and what was made on them. Call [`Place::sweep`] at the end.
#[derive(Debug)]
pub(super) struct Place {
    brokers: Brokers,
    /// What all names made here start with.
    prefix: String,
    replication: Option<i32>,
    keep: bool,
    made: u64,
    /// Topics that are there, in the order they were made.
    there: Vec<String>,
    groups: Vec<String>,
}

#[derive(Debug)]
enum Brokers {
    Embedded(Embedded),
    Users(Topics),
}

/// What became of the topics that were made.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub(super) struct TopicCount {
    /// How many were made.
    pub made: u64,
    /// Those that are still there: kept on request, or because they could not be removed.
    pub left: Vec<String>,
}

impl Place {
    /// Starts the embedded broker.
    pub(super) fn embedded(prefix: String) -> Result<Self, Error> {
        Ok(Self::new(Brokers::Embedded(Embedded::start()?), prefix, None, false))
    }

    /// Takes the brokers of `config`, once they answer and let us make, write and read a topic.
    pub(super) fn users(
        config: &Config,
        prefix: String,
        replication: Option<i32>,
        keep: bool,
    ) -> Result<Self, Error> {
        drop(Cluster::connect(config, ANSWER)?);
        let brokers = Brokers::Users(Topics::connect(config, ANSWER)?);
        let mut place = Self::new(brokers, prefix, replication, keep);
        let checked = place.check(config);
        if checked.is_err() {
            place.sweep();
        }
        checked.map(|()| place)
    }

    fn new(brokers: Brokers, prefix: String, replication: Option<i32>, keep: bool) -> Self {
        let (there, groups) = (Vec::new(), Vec::new());
        Self { brokers, prefix, replication, keep, made: 0, there, groups }
    }

    /// Makes a topic, writes a record, reads it back, and removes the topic.
    fn check(&mut self, config: &Config) -> Result<(), Error> {
        let topic = self.make("check", 1)?;
        let mut loader = Loader::connect(config, &topic, Duration::ZERO)?;
        loader.send(b"check", b"check", now())?;
        loader.finish(ANSWER)?;
        let follower = Follower::open(config, &topic, 1)?;
        let deadline = std::time::Instant::now() + ANSWER;
        while !matches!(follower.next(Duration::from_millis(100))?, Next::Record(_)) {
            if std::time::Instant::now() > deadline {
                return Err(stalled(ANSWER, 0, 1));
            }
        }
        drop(follower);
        self.remove(&topic);
        Ok(())
    }

    /// Returns what clients connect to, where it is the embedded broker.
    pub(super) fn embedded_address(&self) -> Option<String> {
        match &self.brokers {
            Brokers::Embedded(broker) => Some(broker.address()),
            Brokers::Users(_) => None,
        }
    }

    /// Makes a topic and returns its name.
    pub(super) fn make(&mut self, suffix: &str, partitions: i32) -> Result<String, Error> {
        let topic = format!("{}-{suffix}", self.prefix);
        match &self.brokers {
            Brokers::Embedded(broker) => broker.make(&topic, partitions)?,
            Brokers::Users(topics) => match topics.make(&topic, partitions, self.replication)? {
                Made::Yes => {}
                Made::There => return Err(Error::TopicThere { topic }),
                Made::Refused(cause) => return Err(Error::TopicRefused { topic, cause }),
            },
        }
        self.made += 1;
        self.there.push(topic.clone());
        Ok(topic)
    }

    /// Returns the name of a consumer group, which is forgotten at the end.
    pub(super) fn group(&mut self, suffix: &str) -> String {
        let group = format!("{}-{suffix}", self.prefix);
        self.groups.push(group.clone());
        group
    }

    /// Removes a topic, unless all are kept. What cannot be removed now is tried again at the end.
    pub(super) fn remove(&mut self, topic: &str) {
        if self.keep {
            return;
        }
        if self.removed(&[topic]) {
            self.there.retain(|there| there != topic);
        }
    }

    fn removed(&self, names: &[&str]) -> bool {
        let Brokers::Users(topics) = &self.brokers else { return true };
        let removed = topics.remove(names);
        if let Err(error) = &removed {
            tracing::debug!(%error, "topics not removed");
        }
        removed.is_ok()
    }

    /// Removes what is left, and returns what became of all topics. The second time, nothing is
    /// left to do.
    pub(super) fn sweep(&mut self) -> TopicCount {
        if !self.keep && !self.there.is_empty() {
            let names: Vec<&str> = self.there.iter().map(String::as_str).collect();
            if self.removed(&names) {
                self.there.clear();
            }
        }
        if let Brokers::Users(topics) = &self.brokers
            && !self.groups.is_empty()
        {
            let names: Vec<&str> = self.groups.iter().map(String::as_str).collect();
            topics.forget_groups(&names);
            self.groups.clear();
        }
        TopicCount { made: self.made, left: self.there.clone() }
    }
}

pub(super) fn stalled(waited: Duration, reached: i64, wanted: i64) -> Error {
    Error::Stalled { seconds: waited.as_secs(), reached, wanted }
}

pub(super) fn now() -> Timestamp {
    WallClock::system().now()
}

/// Asks for the end of a topic, over all partitions.
pub(super) fn end(follower: &Follower) -> Result<i64, kafka::Error> {
    follower.ends().map(|ends| ends.iter().sum())
}
