//! firstseen

pub mod bugs;
pub mod config;
pub mod engine;
pub mod error;
pub mod key;
pub mod window;
pub mod words;
