//! firstseen

pub mod bugs;
pub mod checkpoint;
pub mod config;
pub mod engine;
pub mod error;
pub mod kafka;
pub mod key;
pub mod status;
pub mod window;
pub mod words;
