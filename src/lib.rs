//! firstseen

pub mod bugs;
pub mod config;
pub mod engine;
pub mod key;
pub mod seen;
mod store;
pub mod window;
pub mod words;
