//! The config: what was typed becomes what is meant, or a list of every fault at once.
//!
//! Two stages. The first holds what was typed: `tree` parses the file, `expand` puts secrets in,
//! `environment` lays overriding variables over it. The second checks: `walk` each value by
//! itself, `cross` and `security` the values against each other; only then `build` makes a
//! [`Config`]. What settings there are is known to `settings` alone, and what client properties
//! there are to `client`.
//!
//! Values of client properties are secret unless known to be harmless: no fault, no `Debug` and
//! no printed config shows them. Text from variables and secret files is never shown in a fault
//! either; there, the reference stands as typed.

mod build;
mod client;
mod cross;
mod environment;
mod expand;
mod fault;
mod kind;
mod load;
mod loops;
mod model;
mod print;
mod read;
mod reference;
mod security;
mod settings;
mod tree;
mod units;
mod walk;
mod warning;

pub use environment::Environment;
pub use fault::{Fault, Faults, Origin};
pub use load::{load, load_text};
pub use model::{
    CheckpointConfig, ClientProperties, Config, DedupRule, DeliveryConfig, DeliveryMode, DropRule,
    KafkaConfig, Membership, OnMissingKey, OnMissingState, OnUndeliverable, SinkConfig,
    SourceConfig, StartAt, StateAccess, StateConfig, StatusConfig, TopicSelection, WindowClock,
};
pub use print::print;
pub use reference::{example, reference};
pub use warning::warnings;

/// What stands in the place of a secret.
const MASK: &str = "***";
