//! Checkpoints: when one is due, and the thread that makes them durable.
//!
//! The polling thread hands over a [`Job`] and goes on; the store thread writes, flushes and
//! syncs it, then expires old segments, and reports back. One checkpoint a partition is open at a
//! time, so a slow disk delays the next checkpoint and not the flow, until the bound on what is
//! in flight is reached.

mod decision;
mod note;
mod schedule;
mod thread;

pub use decision::{Chosen, Decision, Reason};
pub use note::CommitNote;
pub use schedule::Schedule;
pub use thread::{Done, Job, StoreThread};
