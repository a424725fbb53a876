//! firstseen

pub mod bugs;
pub mod checkpoint;
pub mod config;
pub mod engine;
pub mod error;
pub mod kafka;
pub mod key;
pub mod ledger;
pub mod pipeline;
pub mod seen;
pub mod status;
pub mod store;
pub mod window;
pub mod words;
