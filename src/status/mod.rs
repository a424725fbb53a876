//! What the process shows to the outside: metrics, health, and the server that answers for them.
//!
//! Reads the [`Board`](crate::words::Board) and nothing else. No endpoint writes; nothing shown
//! comes from a record.

mod health;
mod metrics;
mod server;

pub use health::{Report, live, ready};
pub use metrics::{CONTENT_TYPE, Metrics};
pub use server::{Error, Limits, StatusServer, serve, serve_with};
