//! firstseen

pub mod bugs;
pub mod config;
pub mod engine;
pub mod key;
pub mod status;
pub mod window;
pub mod words;
