//! The tests that run the real program, most against real Kafka, in one binary so that it links
//! once and the tests share one broker.
//!
//! - `check`: what `check` finds on brokers that are set up well and badly, and that it leaves no trace.
//! - `bench`: what it measures, refuses and leaves behind. Brings its own broker, and uses the real
//!   one.
//! - `cli`: exit codes, and what goes to which stream. Needs no broker.
//! - `config`: every fault by its golden text, the example file, secrets. Needs no broker.
//! - `demo`: that the demo sees what a bad sink does. Brings its own broker.
//! - `demo_real`: the demo of the real sink. Brings its own broker.
//! - `sim`: the core against a simulated broker and disk, through thousands of seeds. Needs no
//!   broker.
//! - `golden`: the line a user sees for every error. Needs no broker.
//! - `state`: the commands that look into the state, move it and mend it.
//! - `store`: the state under kills and damage. Needs no broker.
//! - `harness`: that the broker, the writer, the reader and the checker can be trusted.
//! - `kafka_edge`: the Kafka room against a real broker.
//! - `run`: starting, stopping, forwarding, checkpoints, loss of the state.
//! - `faults`: what happens to disks, topics, groups and brokers in production.
//! - `damaged`: source records that cannot be read.
//! - `security`: certificates, passwords and permissions that brokers refuse.
//! - `kill_loop`: SIGKILL over and over, under load, with broker faults.
//! - `growth`: partitions that are added, and an instance that is alone.
//! - `rebalance`: partitions that move between two instances.
//! - `transactional`: delivery in transactions, zombies, and how `auto` chooses.
//! - `late`: bytes that reach the output late or twice, through a proxy that knows Kafka's frames.
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

mod bench;
mod check;
mod cli;
mod config;
mod damaged;
mod demo;
mod demo_real;
mod faults;
mod golden;
mod growth;
mod harness;
mod kafka_edge;
mod kill_loop;
mod late;
mod rebalance;
mod run;
mod security;
mod sim;
mod state;
mod store;
mod topics;
mod transactional;

#[cfg(feature = "bugs")]
mod bugs;
