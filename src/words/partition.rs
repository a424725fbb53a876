//! One partition of a source topic: the unit that owns a state and a core.

use std::fmt;
use std::sync::Arc;

/// A topic and a partition number. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourcePartition {
    /// The topic's name, as the broker spells it.
    pub topic: Arc<str>,
    /// The partition number, from 0.
    pub partition: i32,
}

impl SourcePartition {
    /// Names partition `partition` of `topic`.
    pub fn new(topic: impl Into<Arc<str>>, partition: i32) -> Self {
        Self { topic: topic.into(), partition }
    }
}

impl fmt::Display for SourcePartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.topic, self.partition)
    }
}
