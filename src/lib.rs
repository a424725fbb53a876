//! firstseen

pub mod bugs;
pub mod checkpoint;
pub mod cli;
pub mod commands;
pub mod config;
pub mod engine;
pub mod error;
pub mod kafka;
pub mod key;
pub mod ledger;
pub mod logging;
pub mod pipeline;
pub mod seen;
pub mod status;
pub mod store;
pub mod window;
pub mod words;
