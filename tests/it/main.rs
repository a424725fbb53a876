//! The tests that run the real program, most against real Kafka, in one binary so that it links
//! once and the tests share one broker.
//!
//! - `check`: what `check` finds on brokers that are set up well and badly, and that it leaves no trace.
//! - `cli`: exit codes, and what goes to which stream. Needs no broker.
//! - `config`: every fault by its golden text, the example file, secrets. Needs no broker.
//! - `demo`: that the demo sees what a bad sink does. Brings its own broker.
//! - `demo_real`: the demo of the real sink. Brings its own broker.
//! - `sim`: the core against a simulated broker and disk, through thousands of seeds. Needs no
//!   broker.
//! - `golden`: the line a user sees for every error. Needs no broker.
//! - `store`: the state under kills and damage. Needs no broker.
//! - `harness`: that the broker, the writer, the reader and the checker can be trusted.
//! - `kafka_edge`: the Kafka room against a real broker.
//! - `run`: starting, stopping, forwarding, checkpoints, loss of the state.
//! - `faults`: what happens to disks, topics, groups and brokers in production.
//! - `kill_loop`: SIGKILL over and over, under load, with broker faults.
//! - `rebalance`: partitions that move between two instances.
//! - `transactional`: delivery in transactions, zombies, and how `auto` chooses.
//! - `topics`: topics that are missing, made again, too small or too few.
//! - `bugs`: seeded bugs that the tests above must catch (feature `bugs` only).
//!
//! The rest need JDK 17 and Maven, and fail where these are missing. `FIRSTSEEN_TEST_BROKER=skip`
//! leaves them out on purpose and says so. `FIRSTSEEN_SEED` sets the seed of what is random;
//! `FIRSTSEEN_KILLS` the number of kills in the kill loop; `FIRSTSEEN_TEST_KAFKA` the version.
#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot go on says why and stops"
)]

mod support;

mod check;
mod cli;
mod config;
mod demo;
mod demo_real;
mod faults;
mod golden;
mod harness;
mod kafka_edge;
mod kill_loop;
mod rebalance;
mod run;
mod sim;
mod store;
mod topics;
mod transactional;

#[cfg(feature = "bugs")]
mod bugs;
