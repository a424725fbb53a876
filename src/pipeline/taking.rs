//! Lanes on their way to running: a few threads take partitions, others wait for their turn.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::engine::Broken;
use crate::kafka::{self, Source, Writes};
use crate::words::{Code, Coded, PartitionState};

use super::Error;
use super::context::Context;
use super::flow::Flow;
use super::lane::{Lane, Phase};
use super::take::{TakeJob, Taken};
use super::transact::Writer;

/// How many partitions are taken at the same time: reading back is bounded by the broker.
const THREADS: usize = 4;

/// How long the client may take to move to an offset; it answers at once, as a rule.
const SEEK_TIMEOUT: Duration = Duration::from_secs(10);

/// The longest pause between two tries.
const BACKOFF_MAX: Duration = Duration::from_secs(15);

/// How long a state that found no room is left alone.
const REOPEN_AFTER: Duration = Duration::from_secs(1);

/// What came of a take.
#[derive(Debug)]
struct Finished {
    slot: u16,
    life: u8,
    result: Result<Option<Taken>, Error>,
}

/// The threads that take partitions.
#[derive(Debug)]
pub(super) struct Taker {
    /// Slot and life of every lane that a thread takes.
    running: Vec<(u16, u8)>,
    /// What came in while others were waited for.
    early: VecDeque<Finished>,
    outbox: Sender<Finished>,
    done: Receiver<Finished>,
}

impl Taker {
    pub(super) fn new() -> Self {
        let (outbox, done) = bounded(THREADS);
        Self { running: Vec::new(), early: VecDeque::new(), outbox, done }
    }

    fn has_room(&self) -> bool {
        self.running.len() < THREADS
    }

    fn start(&mut self, slot: u16, life: u8, job: TakeJob) -> Result<(), Error> {
        self.spawn(slot, life, move || job.perform())
    }

    fn spawn(
        &mut self,
        slot: u16,
        life: u8,
        perform: impl FnOnce() -> Result<Option<Taken>, Error> + Send + 'static,
    ) -> Result<(), Error> {
        let outbox = self.outbox.clone();
        let work = move || {
            let result = catch_unwind(AssertUnwindSafe(perform))
                .unwrap_or(Err(Error::Broken(Broken("taking a partition panicked"))));
            // The pipeline is gone where nobody listens; then nobody waits for it either.
            drop(outbox.send(Finished { slot, life, result }));
        };
        std::thread::Builder::new().name("take".into()).spawn(work).map_err(Error::Thread)?;
        self.running.push((slot, life));
        Ok(())
    }

    fn finished(&mut self) -> Option<Finished> {
        if let Some(early) = self.early.pop_front() {
            return Some(early);
        }
        let finished = self.done.try_recv().ok()?;
        self.ended(&finished);
        Some(finished)
    }

    fn ended(&mut self, finished: &Finished) {
        self.running.retain(|lane| *lane != (finished.slot, finished.life));
    }

    /// Waits up to `deadline` for the threads that take these lanes; what they took is put away,
    /// and what others took is kept. Returns whether none of theirs is left.
    pub(super) fn wait_for(&mut self, slots: &[u16], deadline: Instant) -> bool {
        self.early.retain(|finished| !slots.contains(&finished.slot));
        while self.running.iter().any(|(slot, _)| slots.contains(slot)) {
            let Ok(finished) = self.done.recv_deadline(deadline) else { return false };
            self.ended(&finished);
            if !slots.contains(&finished.slot) {
                self.early.push_back(finished);
            }
        }
        true
    }
}

impl Flow {
    /// Starts taking lanes whose turn has come, and lets those that are taken run.
    pub(super) fn serve_takes(
        &mut self,
        source: &mut Source,
        gate_open: bool,
    ) -> Result<(), Error> {
        while let Some(Finished { slot, life, result }) = self.taker.finished() {
            let Some(lane) = self.lanes.get_mut(slot).filter(|lane| lane.life == life) else {
                continue;
            };
            match result {
                Ok(Some(taken)) => run(lane, taken, source, gate_open, &self.context)?,
                Ok(None) => {}
                Err(error) if is_passing(&error, lane.tries) => try_again(lane, &error),
                Err(error) => return Err(error),
            }
        }
        let now = Instant::now();
        let memory = self.memory_each();
        for lane in self.lanes.iter_mut() {
            if !self.taker.has_room() {
                break;
            }
            if matches!(lane.phase, Phase::Waiting { until } if now >= until) {
                let cancel = Arc::new(AtomicBool::new(false));
                let job = job(lane, &self.context, memory, Arc::clone(&cancel));
                self.taker.start(lane.slot, lane.life, job)?;
                lane.phase = Phase::Taking { cancel };
            }
        }
        Ok(())
    }

    /// Returns the bytes of memory that each partition's caches and filters may take.
    fn memory_each(&self) -> u64 {
        let lanes = u64::try_from(self.lanes.iter().count()).unwrap_or(u64::MAX).max(1);
        self.context.config.state.memory / lanes
    }

    /// Sends lanes back to their last settled record whose reports are all in.
    pub(super) fn serve_rewinds(&mut self, source: &mut Source) -> Result<(), Error> {
        self.undo_strays()?;
        for lane in self.lanes.iter_mut() {
            // While a checkpoint is open, the store thread still uses the state.
            if matches!(lane.phase, Phase::Rewinding)
                && lane.outstanding == 0
                && lane.holes_open == 0
                && !lane.schedule.is_open()
            {
                rewind(lane, source)?;
            }
        }
        Ok(())
    }

    /// Throws an uncertain producer away; every lane goes back and catches up.
    pub(super) fn serve_trouble(&mut self, source: &mut Source) -> Result<(), Error> {
        let Some(error) = self.trouble.take() else { return Ok(()) };
        tracing::warn!(
            error = crate::error::render(&error),
            "deliveries are uncertain: making a new producer, then reading the output back"
        );
        if is_idempotence_refused(&error) && self.context.delivery.shared() != Writes::Plain {
            let Context { config, state, board, delivery, .. } = &*self.context;
            delivery.set_plain(config, state, board)?;
            self.sink.replace_by(config, &Writes::Plain)?;
        } else {
            self.sink.replace()?;
        }
        self.context.board.count_producer_restart();
        // A lane that is being taken has nothing under way with this producer.
        for lane in self.lanes.iter_mut() {
            if matches!(lane.phase, Phase::Running | Phase::Rewinding) && lane.writer.is_none() {
                source.pause(&lane.partition)?;
                lane.start_anew();
                lane.uncertain = true;
                lane.phase = Phase::Rewinding;
            }
        }
        // The old producer's last reports are stale now.
        self.serve_reports(Duration::ZERO)
    }
}

fn job(lane: &mut Lane, context: &Arc<Context>, memory: u64, cancel: Arc<AtomicBool>) -> TakeJob {
    TakeJob {
        context: Arc::clone(context),
        partition: lane.partition.clone(),
        output_topic: lane.route.output_topic.clone(),
        ids: (lane.route.source_id, lane.route.output_id),
        keys: lane.keys.clone(),
        window: lane.window,
        start: lane.start,
        committed: lane.committed.clone(),
        memory_bytes: memory,
        held: lane.core.take().zip(lane.seen.take()),
        uncertain: lane.uncertain,
        ask: lane.ask || context.delivery.is_transactional(),
        refused: std::mem::take(&mut lane.refused),
        board: Arc::clone(&lane.board),
        cancel,
    }
}

/// Lets a lane's records flow.
fn run(
    lane: &mut Lane,
    taken: Taken,
    source: &mut Source,
    gate_open: bool,
    context: &Context,
) -> Result<(), Error> {
    let Taken { core, seen, checkpoint, committed, sink } = taken;
    lane.ask = false;
    let writer = sink.map(|sink| Writer::new(sink, &lane.route, context)).transpose()?;
    lane.writer = writer.map(Box::new);
    let resume = core.next_read();
    lane.board.begin(core.live());
    lane.core = Some(core);
    lane.seen = Some(seen);
    if lane.writer.is_some() {
        lane.committed = committed;
        lane.followed(checkpoint);
    } else {
        lane.made_durable(checkpoint);
    }
    lane.tries = 0;
    lane.uncertain = false;
    lane.phase = Phase::Running;
    source.begin(&lane.partition, resume, SEEK_TIMEOUT)?;
    if !gate_open {
        source.pause(&lane.partition)?;
    }
    lane.board.set_state(PartitionState::Running);
    super::phase("steady", &lane.partition);
    tracing::info!(partition = %lane.partition, resume = resume.0, "running");
    Ok(())
}

fn rewind(lane: &mut Lane, source: &mut Source) -> Result<(), Error> {
    source.pause(&lane.partition)?;
    lane.start_anew();
    let pause = std::mem::take(&mut lane.pause);
    if std::mem::take(&mut lane.reopen) {
        // The state takes no more calls; what is durable is read from the disk again.
        (lane.core, lane.seen) = (None, None);
        lane.phase = Phase::Waiting { until: Instant::now() + REOPEN_AFTER.max(pause) };
        return Ok(());
    }
    if let Some(core) = &mut lane.core {
        let resume = core.rewind();
        tracing::info!(partition = %lane.partition, resume = resume.0, "going back to catch up");
    }
    lane.phase = Phase::Waiting { until: Instant::now() };
    Ok(())
}

/// Returns whether a failure to take a partition may pass by itself.
///
/// A partition that was just made is unknown to the client for a while.
fn is_passing(error: &Error, tries: u32) -> bool {
    const UNKNOWN_MAX: u32 = 4;
    if error.code() == Code::PartitionCount {
        return tries < UNKNOWN_MAX;
    }
    matches!(
        error.code(),
        Code::BrokerUnreachable
            | Code::CatchUpStuck
            | Code::StateNoSpace
            | Code::TransactionFenced
            | Code::TransactionFailed
    )
}

/// Returns whether the brokers refuse idempotent writing altogether.
fn is_idempotence_refused(error: &Error) -> bool {
    let kafka = match error {
        Error::Kafka(error) => error,
        Error::Undeliverable { source, .. } => source,
        _ => return false,
    };
    matches!(kafka, kafka::Error::IdempotenceRefused { .. })
}

fn try_again(lane: &mut Lane, error: &Error) {
    lane.tries += 1;
    let pause = Duration::from_millis(500 << lane.tries.min(5)).min(BACKOFF_MAX);
    let partition = &lane.partition;
    tracing::warn!(%partition, error = %crate::error::render(error), ?pause, "will try again");
    lane.board.set_stuck(crate::error::render(error));
    lane.start_anew();
    lane.phase = Phase::Waiting { until: Instant::now() + pause };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait_until_taken(taker: &Taker) {
        let deadline = Instant::now() + Duration::from_secs(10);
        while taker.done.is_empty() {
            assert!(Instant::now() < deadline, "the thread did not finish");
            std::thread::yield_now();
        }
    }

    #[test]
    fn waiting_for_a_lane_that_is_left_keeps_what_came_of_the_others() {
        let mut taker = Taker::new();
        taker.spawn(1, 1, || Ok(None)).expect("a thread");
        wait_until_taken(&taker);
        taker.spawn(2, 1, || Ok(None)).expect("a thread");
        assert!(taker.wait_for(&[2], Instant::now() + Duration::from_secs(10)));
        assert_eq!(taker.finished().map(|finished| finished.slot), Some(1));
        assert!(taker.finished().is_none());
        assert!(taker.running.is_empty());
    }

    #[test]
    fn leaving_a_lane_does_not_wait_for_the_take_of_another() {
        let mut taker = Taker::new();
        let (go, wait) = bounded::<()>(1);
        let held = move || {
            assert!(wait.recv().is_err(), "the other end is dropped");
            Ok(None)
        };
        taker.spawn(1, 1, held).expect("a thread");
        assert!(taker.wait_for(&[2], Instant::now()));
        assert!(!taker.wait_for(&[1], Instant::now()));
        drop(go);
        assert!(taker.wait_for(&[1], Instant::now() + Duration::from_secs(10)));
    }
}
