//! What every part of a running pipeline shares.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::config::Config;
use crate::seen::StateDir;
use crate::words::{Board, WallClock};

use super::mode::Delivery;

/// Asks a running pipeline to do something, from a signal handler or a test.
#[derive(Clone, Debug, Default)]
pub struct Control {
    /// Set to stop: drain, checkpoint, leave.
    pub stop: Arc<AtomicBool>,
    /// Set to ask for a checkpoint now; taken back when it is begun.
    pub checkpoint: Arc<AtomicBool>,
    /// Whether to ask the brokers anew how records can be delivered, whatever they said before.
    pub redecide: bool,
}

impl Control {
    pub(super) fn stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    pub(super) fn take_checkpoint_request(&self) -> bool {
        self.checkpoint.load(Ordering::Relaxed) && self.checkpoint.swap(false, Ordering::Relaxed)
    }
}

/// What is set once and read everywhere.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) config: Config,
    pub(super) state: StateDir,
    pub(super) clock: WallClock,
    /// Which run of the process this is.
    pub(super) incarnation: u128,
    pub(super) board: Arc<Board>,
    pub(super) control: Control,
    pub(super) delivery: Delivery,
}
