//! firstseen

pub mod bugs;
pub mod config;
pub mod engine;
pub mod kafka;
pub mod key;
pub mod window;
pub mod words;
