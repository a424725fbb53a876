//! firstseen

pub mod config;
pub mod key;
pub mod words;
