//! Progress made durable: checkpoints to the store thread, commits to the group.

use std::time::{Duration, Instant};

use crate::checkpoint::{Done, Job};
use crate::engine::Broken;
use crate::kafka::{self, Source};
use crate::words::{Code, Coded, Failure, Timestamp};

use super::Error;
use super::flow::Flow;
use super::lane::{Lane, Phase};

/// A commit without an answer is given up after this long, and sent again.
const COMMIT_TIMEOUT: Duration = Duration::from_secs(10);

/// The shortest time between two commits.
const COMMIT_EVERY: Duration = Duration::from_millis(200);

/// Offsets on their way to the group.
#[derive(Debug)]
pub(super) struct Commits {
    sent_at: Option<Instant>,
    last: Instant,
    failing: bool,
}

impl Commits {
    pub(super) fn new(now: Instant) -> Self {
        Self { sent_at: None, last: now, failing: false }
    }

    /// Returns whether offsets are on their way.
    pub(super) fn is_open(&self, now: Instant) -> bool {
        self.sent_at.is_some_and(|sent| now.duration_since(sent) < COMMIT_TIMEOUT)
    }

    fn may_send(&self, now: Instant) -> bool {
        !self.is_open(now) && now.duration_since(self.last) >= COMMIT_EVERY
    }
}

impl Flow {
    // ---- checkpoints -------------------------------------------------------------------------

    /// Begins the checkpoints that are due.
    pub(super) fn begin_checkpoints(&mut self, now: Instant) -> Result<(), Error> {
        let asked = self.context.control.take_checkpoint_request();
        let wall = self.context.clock.now();
        for lane in self.lanes.iter_mut() {
            if asked {
                lane.schedule.ask();
            }
            if let Some(taken) = lane.schedule.slow(now) {
                tracing::warn!(partition = %lane.partition, ?taken, "a checkpoint is slow");
            }
            let unsaved = lane.core.as_ref().map_or(0, crate::engine::Core::unsaved);
            if lane.is_running() && lane.schedule.due(now, unsaved) {
                begin(
                    lane,
                    &self.store,
                    now,
                    wall,
                    (false, self.context.delivery.is_transactional()),
                )?;
            }
        }
        Ok(())
    }

    /// Takes in what the store thread has made durable.
    pub(super) fn serve_store(&mut self) -> Result<(), Error> {
        while let Some(done) = self.store.finished() {
            self.durable(done)?;
        }
        Ok(())
    }

    pub(super) fn durable(&mut self, done: Done) -> Result<(), Error> {
        let Done { ticket, draft, took, result } = done;
        // A lane that was left while the disk was slow: its slot may be another partition's now.
        let Some(lane) = self.lanes.of_birth(ticket) else { return Ok(()) };
        let slow = lane.schedule.is_slow();
        lane.schedule.ended(Instant::now());
        let stats = match result {
            Ok(stats) => stats,
            Err(source) => {
                self.context.board.count_failure(Failure::Store);
                let source = Error::PartitionState { partition: lane.partition.clone(), source };
                return open_again(lane, source);
            }
        };
        if let Some(core) = &mut lane.core {
            core.checkpoint_durable(draft.entries);
        }
        self.context.board.checkpointed(&lane.board, took, slow);
        let segments = u64::try_from(stats.segments).unwrap_or(u64::MAX);
        lane.board.set_store(stats.keys, stats.bytes_on_disk, segments);
        super::phase("checkpoint-durable", &lane.partition);
        if self.context.delivery.is_transactional() {
            lane.followed(draft.checkpoint);
        } else {
            lane.made_durable(draft.checkpoint);
        }
        Ok(())
    }

    /// Begins the last checkpoint of a lane that is left.
    pub(super) fn begin_last_checkpoint(&mut self, slot: u16) -> Result<(), Error> {
        let wall = self.context.clock.now();
        let transactional = self.context.delivery.is_transactional();
        match self.lanes.get_mut(slot) {
            Some(lane) => begin(lane, &self.store, Instant::now(), wall, (true, transactional)),
            None => Ok(()),
        }
    }

    // ---- commits -----------------------------------------------------------------------------

    /// Commits what became durable, or merely proves that we are alive.
    pub(super) fn commit(&mut self, source: &mut Source, commits: &mut Commits, now: Instant) {
        let wanted =
            self.lease.wants_renewal(now) || self.lanes.iter().any(|lane| lane.uncommitted);
        if !wanted || !commits.may_send(now) {
            return;
        }
        // In transactional delivery offsets travel in transactions; this only renews the lease.
        let of_lane = match self.context.delivery.is_transactional() {
            true => Lane::renewal,
            false => Lane::commit,
        };
        let offsets: Vec<_> = self.lanes.iter().filter_map(of_lane).collect();
        if offsets.is_empty() {
            return;
        }
        commits.last = now;
        match source.commit(&offsets) {
            Ok(()) => {
                commits.sent_at = Some(now);
                for lane in self.lanes.iter_mut().filter(|lane| lane.uncommitted) {
                    lane.uncommitted = false;
                    super::phase("commit", &lane.partition);
                }
            }
            Err(error) => self.commit_failed(commits, &error),
        }
    }

    /// Takes in what came of a commit.
    pub(super) fn committed(
        &mut self,
        commits: &mut Commits,
        result: Result<(), kafka::Error>,
        sent_at: Instant,
    ) {
        commits.sent_at = None;
        match result {
            Ok(()) => {
                self.lease.renew(sent_at);
                if std::mem::take(&mut commits.failing) {
                    tracing::info!("the group takes commits again");
                }
            }
            Err(error) => self.commit_failed(commits, &error),
        }
    }

    fn commit_failed(&mut self, commits: &mut Commits, error: &kafka::Error) {
        self.context.board.count_failure(Failure::Commit);
        if !std::mem::replace(&mut commits.failing, true) {
            let error = crate::error::render(error);
            tracing::warn!(error, "the group did not take a commit; the state is the authority");
        }
        for lane in self.lanes.iter_mut() {
            lane.uncommitted = lane.durable.is_some();
        }
    }
}

/// A full disk can be cleared while we run: the partition goes back to what is durable, and on
/// once there is room. Any other failure is final.
fn open_again(lane: &mut Lane, error: Error) -> Result<(), Error> {
    let held = matches!(lane.phase, Phase::Running | Phase::Rewinding);
    if !held || error.code() != Code::StateNoSpace {
        return Err(error);
    }
    let partition = &lane.partition;
    tracing::warn!(%partition, error = crate::error::render(&error), "waiting for room");
    lane.board.set_stuck(crate::error::render(&error));
    lane.phase = Phase::Rewinding;
    lane.reopen = true;
    Ok(())
}

/// Begins a checkpoint, unless nothing has changed since the last one. In transactional delivery
/// that begins the end of its transaction.
fn begin(
    lane: &mut Lane,
    store: &crate::checkpoint::StoreThread,
    now: Instant,
    wall: Timestamp,
    (last, transactional): (bool, bool),
) -> Result<(), Error> {
    if lane.holes_open > 0 {
        return Ok(());
    }
    let (Some(core), Some(seen)) = (&mut lane.core, &lane.seen) else { return Ok(()) };
    let same = lane.durable.as_ref().is_some_and(|durable| {
        core.unsaved() == 0
            && durable.resume == core.resume()
            && durable.output == core.output_position()
            && durable.counts == core.snapshot(wall, false).counts
    });
    let quiet = lane.writer.as_ref().is_none_or(|writer| writer.is_idle());
    if same && quiet && !last {
        lane.schedule.skipped(now);
        return Ok(());
    }
    if transactional {
        // Without a producer there is nothing that is not committed; one that is busy comes again.
        if lane.writer.as_ref().is_some_and(|writer| writer.is_open()) {
            lane.schedule.begun(now);
            lane.seal(last, true);
        }
        return Ok(());
    }
    let Some(draft) = core.begin_checkpoint(wall, last) else { return Ok(()) };
    super::phase("checkpoint-begin", &lane.partition);
    lane.schedule.begun(now);
    let expire_before = lane.window.keep_from(core.high_mark());
    let seen = std::sync::Arc::clone(seen);
    let job = Job { ticket: lane.birth, seen, draft, expire_before };
    store.submit(job).map_err(|_job| Broken("the store thread has ended"))?;
    Ok(())
}
