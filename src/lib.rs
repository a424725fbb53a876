//! firstseen

pub mod config;
pub mod key;
pub mod ledger;
pub mod words;
