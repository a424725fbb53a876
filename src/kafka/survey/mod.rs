//! What brokers tell about themselves, their topics and this user's rights, for whoever judges it.
//!
//! Plain facts, and nothing lasting is changed to get them. An answer that was not given is an
//! `Err` or a `None`: the judge must say "unknown", never assume a default.

mod ask;
mod probe;
mod versions;

use std::collections::BTreeMap;
use std::str::FromStr;

use super::cluster::TopicFacts;
use super::error::Cause;
use crate::words::Timestamp;

pub use probe::{Clock, Idempotence, Producing, Transactions, idempotence, transactions};
pub use versions::Apis;

/// An answer, or why there is none.
pub type Asked<T> = Result<T, Cause>;

/// Settings by name, as the broker writes them. One that is not there was not told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings(BTreeMap<String, String>);

/// Something a user may do with a topic or a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// Fetch records, or commit offsets.
    Read,
    /// Produce records.
    Write,
    /// See that it is there.
    Describe,
    /// See its settings.
    DescribeConfigs,
}

/// One partition of a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionFacts {
    /// Its number.
    pub partition: i32,
    /// The broker that leads it; `None` while there is none.
    pub leader: Option<i32>,
    /// How many brokers are to keep it.
    pub replicas: usize,
    /// How many of them have all of it.
    pub in_sync: usize,
}

/// How far one partition goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetFacts {
    /// The partition's number.
    pub partition: i32,
    /// The first offset that is there.
    pub start: i64,
    /// The offset behind the last record: the high watermark.
    pub end: i64,
    /// The offset behind the last record no open transaction precedes: the last stable offset.
    pub stable: i64,
    /// Offset and time of the first record within the window asked for.
    pub window: Option<(i64, Timestamp)>,
    /// The same within the last hour, or the window where that is shorter.
    pub recent: Option<(i64, Timestamp)>,
}

/// A topic that was found.
#[derive(Clone, Debug)]
pub struct Described {
    /// What `run` looks at.
    pub facts: TopicFacts,
    /// Its settings.
    pub settings: Asked<Settings>,
    /// Its partitions.
    pub partitions: Vec<PartitionFacts>,
    /// What this user may do with it; `None` where the broker does not tell.
    pub operations: Option<Vec<Operation>>,
    /// How far its partitions go.
    pub offsets: Asked<Vec<OffsetFacts>>,
}

/// A topic that was asked about.
#[derive(Clone, Debug)]
pub struct TopicSurvey {
    /// Its name.
    pub name: String,
    /// What was found; `Ok(None)` where it does not exist.
    pub found: Asked<Option<Described>>,
}

/// A broker and its settings.
#[derive(Clone, Debug)]
pub struct BrokerSurvey {
    /// Its id.
    pub id: i32,
    /// Its settings.
    pub settings: Asked<Settings>,
}

/// A cluster.
#[derive(Clone, Debug)]
pub struct ClusterSurvey {
    /// Its id, where it has one.
    pub id: Option<String>,
    /// Its brokers.
    pub brokers: Vec<BrokerSurvey>,
}

/// A member of a consumer group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// What the client calls itself.
    pub client_id: String,
    /// Its static id, where it has one.
    pub instance_id: Option<String>,
    /// Where it is, as the broker sees it.
    pub host: String,
}

/// A consumer group.
#[derive(Clone, Debug)]
pub struct GroupSurvey {
    /// How its members share partitions; empty while it has none.
    pub assignor: String,
    /// Who is in it now.
    pub members: Vec<Member>,
    /// What this user may do with it; `None` where the broker does not tell.
    pub operations: Option<Vec<Operation>>,
}

impl Settings {
    /// Takes names and values.
    pub fn new(pairs: impl IntoIterator<Item = (String, String)>) -> Self {
        Self(pairs.into_iter().collect())
    }

    /// Returns a setting as the broker writes it.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Returns a setting that is a number, or `true` or `false`; `None` also where it is not.
    pub fn number<T: FromStr>(&self, name: &str) -> Option<T> {
        self.text(name)?.parse().ok()
    }
}
