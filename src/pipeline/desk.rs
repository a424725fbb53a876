//! A desk where other threads ask about the partitions that are held.
//!
//! The polling thread answers between two turns, and only with what it has at hand: whoever asks does
//! the reading of the disk.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::engine::Why;
use crate::key::{Fingerprint, Secret};
use crate::seen::Seen;
use crate::words::{SourcePartition, Timestamp};

use super::flow::Flow;

/// How many questions may wait.
const QUEUE: usize = 16;

/// Where to ask. Clones are the same desk.
#[derive(Clone, Debug)]
pub struct Desk {
    ask: Sender<Question>,
    asked: Receiver<Question>,
}

/// A key that may be in memory.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// The hash of the key.
    pub fingerprint: Fingerprint,
    /// The time at which it is judged.
    pub at: Timestamp,
}

#[derive(Debug)]
struct Question {
    wanted: Option<Wanted>,
    reply: Sender<Reply>,
}

/// What the polling thread knows.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The secret that keys the fingerprints.
    pub secret: Secret,
    /// The partitions that are held.
    pub lanes: Vec<LaneView>,
}

/// A partition that is held.
#[derive(Clone, Debug)]
pub struct LaneView {
    /// Which partition.
    pub partition: SourcePartition,
    /// Its seen-set; none while it is being taken. Let go of it soon: while it is held, the
    /// partition's state cannot be opened anew.
    pub seen: Option<Arc<Seen>>,
    /// What memory says of the key that was asked for: when it occurred, and how it stands.
    pub recent: Option<(Timestamp, Why)>,
}

impl Default for Desk {
    fn default() -> Self {
        let (ask, asked) = bounded(QUEUE);
        Self { ask, asked }
    }
}

impl Desk {
    /// Asks for the partitions that are held; `None` where nobody answers within `limit`.
    pub fn ask(&self, wanted: Option<Wanted>, limit: Duration) -> Option<Reply> {
        let deadline = Instant::now() + limit;
        let (reply, answer) = bounded(1);
        self.ask.send_deadline(Question { wanted, reply }, deadline).ok()?;
        answer.recv_deadline(deadline).ok()
    }
}

impl Flow {
    /// Answers who asks.
    pub(super) fn serve_desk(&mut self) {
        let context = Arc::clone(&self.context);
        while let Ok(Question { wanted, reply }) = context.control.desk.asked.try_recv() {
            let lanes = self.lanes.iter_mut().map(|lane| LaneView {
                partition: lane.partition.clone(),
                seen: lane.seen.clone(),
                recent: wanted.and_then(|Wanted { fingerprint, at }| {
                    lane.core.as_mut().and_then(|core| core.recent(fingerprint, at))
                }),
            });
            let secret = context.state.secret().clone();
            // Who asked may have given up.
            drop(reply.try_send(Reply { secret, lanes: lanes.collect() }));
        }
    }
}
