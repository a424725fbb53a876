//! The config: what was typed becomes what is meant, or a list of every fault at once.

mod model;

pub use model::{
    CheckpointConfig, ClientProperties, Config, DedupRule, DropRule, KafkaConfig, Membership,
    OnMissingKey, OnMissingState, OnUndeliverable, SinkConfig, SourceConfig, StartAt, StateConfig,
    StatusConfig, TopicSelection, WindowClock,
};
