//! All integration tests in one binary, which links once.

/// The config: every fault by its golden text, the example file, secrets.
mod config;
