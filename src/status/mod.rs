//! What the process shows to the outside: metrics, health, and the server that answers for them.
//!
//! Reads the [`Board`](crate::words::Board); whoever answers about the state is given to it. Nothing
//! shown comes from a record.

mod health;
mod metrics;
mod server;
mod state;

pub use health::{Report, live, ready};
pub use metrics::{CONTENT_TYPE, Metrics};
pub use server::{Error, Limits, StatusServer, serve, serve_all, serve_with};
pub use state::{StateAnswer, StateDesk, StateQuestion, StateRoutes};
