//! Leaving partitions: drain what is in flight, checkpoint, commit, close.

use std::time::{Duration, Instant};

use crate::kafka::{self, Source};
use crate::words::{Aborted, PartitionState, SourcePartition};

use super::Error;
use super::flow::Flow;
use super::lane::{Lane, Phase};

/// How long the group may take to answer the last commit.
const COMMIT_LIMIT: Duration = Duration::from_secs(5);

/// How long a cancelled take may need to notice.
const CANCEL_LIMIT: Duration = Duration::from_secs(15);

impl Flow {
    /// Leaves these partitions. Their work up to the resume offset is durable afterwards.
    ///
    /// `lost` says that the group gave them away already: nothing is committed then, and nothing
    /// waited for.
    ///
    /// # Errors
    /// The first thing that did not work. Every partition is left all the same.
    pub(super) fn leave(
        &mut self,
        source: &mut Source,
        partitions: &[SourcePartition],
        lost: bool,
    ) -> Result<(), Error> {
        let slots = self.begin_leaving(source, partitions);
        let limit = if lost { Duration::ZERO } else { self.drain_limit() };
        let drained = self.drain(&slots, limit);
        let transactional = self.context.delivery.is_transactional();
        if transactional {
            self.give_up_unfinished(&slots, lost);
        }
        let checkpointed = self.last_checkpoints(source, &slots);
        if transactional {
            self.abort_open(&slots);
        } else if !lost {
            self.last_commit(source, &slots);
        }
        let unfinished = |lane: &Lane| {
            slots.contains(&lane.slot) && lane.outstanding > 0 && lane.writer.is_none()
        };
        if self.lanes.iter().any(unfinished) {
            // This producer must not write them any more: somebody else is about to.
            self.trouble.get_or_insert_with(|| kafka::Error::given_up().into());
        }
        self.close(&slots);
        // What the disk said weighs more: a drain cut short costs only a catch-up.
        checkpointed.and(drained).and(self.left_undone.take().map_or(Ok(()), Err))
    }

    fn drain_limit(&self) -> Duration {
        // Every report is in by then: the client gives up after the delivery timeout.
        self.context.config.sink.delivery_timeout + Duration::from_secs(2)
    }

    fn begin_leaving(&mut self, source: &mut Source, partitions: &[SourcePartition]) -> Vec<u16> {
        let mut slots = Vec::new();
        for lane in self.lanes.iter_mut().filter(|lane| partitions.contains(&lane.partition)) {
            super::phase("drain", &lane.partition);
            lane.board.set_state(PartitionState::Closing);
            lane.cancel();
            if matches!(lane.phase, Phase::Running)
                && let Err(error) = source.pause(&lane.partition)
            {
                // It is given up anyway; no record of it is taken any more.
                tracing::debug!(partition = %lane.partition, %error, "failed to pause");
            }
            lane.phase = Phase::Leaving;
            if let Some(writer) = &mut lane.writer {
                writer.drop_held();
            }
            slots.push(lane.slot);
        }
        slots
    }

    fn drain(&mut self, slots: &[u16], limit: Duration) -> Result<(), Error> {
        let deadline = Instant::now() + limit;
        loop {
            self.serve_reports(Duration::from_millis(2))?;
            self.serve_store()?;
            self.serve_watch()?;
            self.context.board.beat();
            let records = self.outstanding(slots);
            if records == 0 {
                return Ok(());
            }
            if self.trouble.is_some() || Instant::now() >= deadline {
                return Err(Error::DrainTimeout { records, limit });
            }
        }
    }

    /// Ends the transactions that cannot be committed: what is not reported is not known to be in
    /// them, and what the group gave away is not ours to commit.
    fn give_up_unfinished(&mut self, slots: &[u16], lost: bool) {
        let unfinished = |lane: &Lane| lost || lane.outstanding > 0;
        let given_up: Vec<_> = self
            .lanes
            .iter()
            .filter(|lane| slots.contains(&lane.slot) && unfinished(lane))
            .map(|lane| lane.slot)
            .collect();
        if !lost {
            // Where it is lost, the next owner ends it.
            self.abort_open(&given_up);
        }
        for slot in given_up {
            let undone = self.undo(slot, Aborted::Left, kafka::Error::given_up());
            debug_assert!(undone.is_ok(), "leaving in the middle is no failure of its own");
        }
    }

    fn outstanding(&mut self, slots: &[u16]) -> usize {
        let lanes = self.lanes.iter().filter(|lane| slots.contains(&lane.slot));
        lanes.map(|lane| lane.outstanding + lane.holes_open).sum()
    }

    /// Makes all that is settled durable.
    fn last_checkpoints(&mut self, source: &Source, slots: &[u16]) -> Result<(), Error> {
        let mut first = self.wait_for_store(source, slots);
        for slot in slots {
            first = first.and(self.begin_last_checkpoint(*slot));
        }
        first.and(self.wait_for_store(source, slots))
    }

    fn wait_for_store(&mut self, source: &Source, slots: &[u16]) -> Result<(), Error> {
        // A commit's end is not announced by the store.
        let slice = if self.context.delivery.is_transactional() { 2 } else { 50 };
        let limit = self.context.config.checkpoint.timeout.max(Duration::from_secs(30));
        let deadline = Instant::now() + limit;
        loop {
            self.serve_store()?;
            self.serve_transactions(source, false)?;
            let busy = |lane: &Lane| {
                lane.schedule.is_open() || lane.writer.as_ref().is_some_and(|w| !w.is_open())
            };
            let open = |lane: &&Lane| slots.contains(&lane.slot) && busy(lane);
            let open = self.lanes.iter().find(open).map(|lane| lane.partition.clone());
            let Some(partition) = open else { return Ok(()) };
            if Instant::now() >= deadline {
                return Err(Error::CheckpointTimeout { partition, limit });
            }
            self.context.board.beat();
            if let Some(done) = self.store.wait(Duration::from_millis(slice)) {
                self.durable(done)?;
            }
        }
    }

    fn last_commit(&mut self, source: &mut Source, slots: &[u16]) {
        let lanes = self.lanes.iter().filter(|lane| slots.contains(&lane.slot));
        let offsets: Vec<_> = lanes.filter_map(Lane::commit).collect();
        if offsets.is_empty() || source.assignment_lost() {
            return;
        }
        if let Err(error) = source.commit_now(&offsets, COMMIT_LIMIT) {
            // The state is the authority; the next owner catches up from what it finds.
            let error = crate::error::render(&error);
            tracing::warn!(error, "the group did not take the last commit");
        }
    }

    fn close(&mut self, slots: &[u16]) {
        if !self.taker.wait_for(slots, Instant::now() + CANCEL_LIMIT) {
            tracing::warn!("a partition is left while it is still being taken");
        }
        for slot in slots {
            if let Some(lane) = self.lanes.remove(*slot) {
                lane.publish();
                self.context.board.revoke(&lane.partition);
                super::phase("close", &lane.partition);
                tracing::info!(partition = %lane.partition, "left");
            }
        }
    }
}
