//! The only place that knows every stage: one thread polls, decides and sends.
//!
//! ```text
//!  source ──▶ keys ──▶ core ──▶ sink        polling thread
//!               ▲       │ ▲      │
//!               │       ▼ └──────┘ reports
//!             take ◀─ store                  take threads, store thread, watch thread
//! ```
//!
//! Other threads do what may take long: `take` opens a state and reads the output back,
//! [`crate::checkpoint::StoreThread`] writes and syncs, `watch` reads what others wrote. They
//! hand their results over and never touch a core that runs. In transactional delivery each lane
//! has a producer of its own, and a thread that waits for its commits: see `transact`.

mod context;
mod error;
pub(crate) mod fit;
mod flow;
mod gate;
mod keys;
mod lane;
mod lease;
mod leave;
mod mode;
mod plan;
mod progress;
mod settle;
mod take;
mod taking;
mod token;
mod topics;
mod transact;
mod turn;
mod watch;

pub use context::Control;
pub use error::Error;
pub use gate::Closed;
pub use turn::run;

use crate::words::SourcePartition;

/// Marks a phase of a partition's life, for whoever follows the log closely.
fn phase(phase: &'static str, partition: &SourcePartition) {
    tracing::debug!(
        target: "firstseen::phase",
        phase,
        topic = %partition.topic,
        partition = partition.partition
    );
}
