//! One source partition while this instance holds it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::checkpoint::{CommitNote, Schedule};
use crate::config::OnUndeliverable;
use crate::engine::Core;
use crate::kafka::Target;
use crate::seen::Seen;
use crate::window::Window;
use crate::words::{
    Checkpoint, PartitionBoard, RecordOffset, ResumeOffset, SourcePartition, TopicId,
};

use super::keys::Keys;
use super::plan::Committed;
use super::token::Token;
use super::transact::Writer;

/// What a lane is doing.
#[derive(Debug)]
pub(super) enum Phase {
    /// It waits for its turn to be taken, or for another try.
    Waiting { until: Instant },
    /// A thread takes it. Set the flag to make that end early.
    Taking { cancel: Arc<AtomicBool> },
    /// Records flow.
    Running,
    /// Nothing is sent; once every report is in, it goes back to its last settled record.
    Rewinding,
    /// Nothing is sent; it is being left.
    Leaving,
}

/// Where a source topic goes, checked against the brokers.
#[derive(Clone, Debug)]
pub(super) struct Route {
    pub(super) output_topic: String,
    pub(super) target: Target,
    pub(super) source_id: Option<TopicId>,
    pub(super) output_id: Option<TopicId>,
    /// The largest batch the output takes, where the brokers tell.
    pub(super) limit_bytes: Option<u64>,
}

/// One source partition.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) partition: SourcePartition,
    pub(super) slot: u16,
    /// Counts up whenever the lane starts anew, so that old reports are told apart.
    pub(super) life: u8,
    /// Which lane this is among all there ever were; unlike `life` it never changes.
    pub(super) birth: u64,
    /// Holes in the output that are being read.
    pub(super) holes_open: usize,
    pub(super) phase: Phase,
    pub(super) core: Option<Core>,
    pub(super) seen: Option<Arc<Seen>>,
    pub(super) keys: Keys,
    pub(super) window: Window,
    pub(super) route: Route,
    pub(super) on_undeliverable: OnUndeliverable,
    pub(super) schedule: Schedule,
    /// Deliveries handed to the client whose report is not in.
    pub(super) outstanding: usize,
    /// Deliveries ever handed to the client: tells whether the lane was quiet.
    pub(super) sent: u64,
    /// What the group or our own last checkpoint says of progress.
    pub(super) committed: Option<Committed>,
    /// The newest durable checkpoint is not committed to the group yet.
    pub(super) uncommitted: bool,
    /// What was last made durable, to spare writes that change nothing.
    pub(super) durable: Option<Checkpoint>,
    pub(super) board: Arc<PartitionBoard>,
    /// Failed tries to take it, in a row.
    pub(super) tries: u32,
    /// Our producer's last requests for it had no answer.
    pub(super) uncertain: bool,
    /// A write of its state failed for want of space: it must be opened anew.
    pub(super) reopen: bool,
    /// Its own producer, in transactional delivery and while it runs.
    pub(super) writer: Option<Box<Writer>>,
    /// What the group committed is not known yet: it is asked while the lane is taken.
    pub(super) ask: bool,
    /// Records that the output refused for good, of a core that is gone.
    pub(super) refused: Vec<RecordOffset>,
    /// How long to wait before it is taken again.
    pub(super) pause: Duration,
    /// When another producer last took its transactional id.
    pub(super) fenced_at: Option<Instant>,
}

impl Lane {
    pub(super) fn is_running(&self) -> bool {
        matches!(self.phase, Phase::Running)
    }

    /// Makes every report under way stale.
    pub(super) fn start_anew(&mut self) {
        self.life = self.life.wrapping_add(1);
        self.outstanding = 0;
    }

    /// Tells the thread that takes it to stop, if there is one.
    pub(super) fn cancel(&self) {
        if let Phase::Taking { cancel } = &self.phase {
            cancel.store(true, Ordering::Relaxed);
        }
    }

    /// Notes a durable checkpoint, which is to be committed.
    pub(super) fn made_durable(&mut self, checkpoint: Checkpoint) {
        let note = Some(CommitNote::from(&checkpoint));
        self.committed = Some(Committed { offset: checkpoint.resume, note });
        self.durable = Some(checkpoint);
        self.uncommitted = true;
    }

    /// Notes a durable checkpoint that was committed before.
    pub(super) fn followed(&mut self, checkpoint: Checkpoint) {
        self.durable = Some(checkpoint);
    }

    /// Returns what to commit merely to show that we are alive: what is committed already, never
    /// less. Not while a transaction is on its way, which would come second and count less.
    pub(super) fn renewal(&self) -> Option<(SourcePartition, ResumeOffset, String)> {
        if !self.writer.as_ref().is_some_and(|writer| writer.is_open()) {
            return None;
        }
        let Some(Committed { offset, note: Some(note) }) = &self.committed else {
            return self.commit();
        };
        Some((self.partition.clone(), *offset, note.to_string()))
    }

    /// Returns what to commit to the group.
    pub(super) fn commit(&self) -> Option<(SourcePartition, ResumeOffset, String)> {
        let checkpoint = self.durable.as_ref()?;
        let note = CommitNote::from(checkpoint).to_string();
        Some((self.partition.clone(), checkpoint.resume, note))
    }

    /// Publishes what the core has done.
    pub(super) fn publish(&self) {
        if let Some(core) = &self.core {
            self.board.publish(core.live(), core.in_flight_bytes());
        }
    }
}

/// Every lane, by slot.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    slots: Vec<Option<Lane>>,
    /// The lives that slots have used up.
    lives: Vec<u8>,
    last: usize,
    births: u64,
}

impl Lanes {
    /// Adds a lane; `make` gets its slot, life and birth. `None` where there are too many.
    pub(super) fn add(&mut self, make: impl FnOnce(u16, u8, u64) -> Lane) -> Option<&mut Lane> {
        self.births += 1;
        let birth = self.births;
        let free = self.slots.iter().position(Option::is_none).unwrap_or_else(|| {
            self.slots.push(None);
            self.lives.push(0);
            self.slots.len() - 1
        });
        let slot = u16::try_from(free).ok()?;
        let life = self.lives.get_mut(free)?;
        *life = life.wrapping_add(1);
        let lane = make(slot, *life, birth);
        Some(self.slots.get_mut(free)?.insert(lane))
    }

    pub(super) fn remove(&mut self, slot: u16) -> Option<Lane> {
        let lane = self.slots.get_mut(usize::from(slot))?.take()?;
        if let Some(life) = self.lives.get_mut(usize::from(slot)) {
            *life = lane.life;
        }
        Some(lane)
    }

    pub(super) fn get_mut(&mut self, slot: u16) -> Option<&mut Lane> {
        self.slots.get_mut(usize::from(slot))?.as_mut()
    }

    /// Returns the lane that a token names, unless the lane has started anew since.
    pub(super) fn of_token(&mut self, token: Token) -> Option<&mut Lane> {
        self.get_mut(token.slot).filter(|lane| lane.life == token.life)
    }

    /// Returns the lane that a checkpoint was begun for, if it is still held.
    pub(super) fn of_birth(&mut self, birth: u64) -> Option<&mut Lane> {
        self.iter_mut().find(|lane| lane.birth == birth)
    }

    /// Returns the lane of a topic and partition. Quick where it is the one asked for last.
    pub(super) fn of(&mut self, topic: &str, partition: i32) -> Option<&mut Lane> {
        let is = |lane: &Option<Lane>| {
            lane.as_ref().is_some_and(|lane| {
                lane.partition.partition == partition && *lane.partition.topic == *topic
            })
        };
        if !self.slots.get(self.last).is_some_and(is) {
            self.last = self.slots.iter().position(is)?;
        }
        self.slots.get_mut(self.last)?.as_mut()
    }

    /// Returns the slot behind the last one in use.
    pub(super) fn slots(&self) -> u16 {
        u16::try_from(self.slots.len()).unwrap_or(u16::MAX)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Lane> {
        self.slots.iter().flatten()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Lane> {
        self.slots.iter_mut().flatten()
    }
}
