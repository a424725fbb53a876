//! Transactional delivery: a lane's own producer, and the life of its transactions.
//!
//! ```text
//!  open ──due──▶ sealed ──every report in──▶ committing ──answered──▶ open
//!   │ records       │ records are held          │ offsets, then the commit
//!   ▼               ▼                           ▼
//!  sent            nothing is sent             then the checkpoint goes to the store
//! ```
//!
//! A checkpoint is a transaction: its records, and the resume offset behind them. Only once it is
//! committed does the state learn of it, so the state is never ahead of the group's committed
//! offset. Whatever goes wrong in between, the producer is thrown away, the state is opened anew,
//! and the partition is taken as after a start: taking the transactional id over ends what is
//! open, the committed offset tells whether it counts, and the output is caught up on.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::checkpoint::{CommitNote, Job};
use crate::engine::{Broken, Draft, Hole};
use crate::kafka::{
    self, Committer, Ended, Offsets, Refused, Sink, Source, SourceRecord, Target, Undone,
};
use crate::words::{Aborted, Anew, Checkpoint, OutputPosition, Timestamp};

use super::Error;
use super::context::Context;
use super::flow::Flow;
use super::lane::{Lane, Phase, Route};
use super::plan::Committed;

/// How long to leave the group time to take the partition away, after somebody else took it over.
const AFTER_FENCE: Duration = Duration::from_secs(5);

/// Two producers that fence each other more often than this have one id.
const FENCED_AGAIN_WITHIN: Duration = Duration::from_secs(60);

/// How long aborting what is open may take while leaving.
pub(super) const ABORT_LIMIT: Duration = Duration::from_secs(5);

/// A lane's own producer.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) sink: Sink,
    committer: Committer,
    target: Target,
    dead_letter: Option<Target>,
    stage: Stage,
    /// Since when a transaction is open.
    open_since: Option<Instant>,
    /// Holes among the reports of the open transaction; read once it is committed, since until
    /// then nobody can read past its first record.
    holes: Vec<Hole>,
    /// Records read while nothing may be sent, each with when it was read.
    held: VecDeque<(SourceRecord<'static>, Timestamp)>,
    held_bytes: u64,
}

#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one a partition, in a box of its own")]
enum Stage {
    /// Records are sent.
    Open,
    /// Reports are waited for. `saves` says that the state goes along; without it only the
    /// transaction ends, since an earlier checkpoint is not durable yet.
    Sealed { last: bool, saves: bool },
    /// The coordinator is waited for.
    Committing { draft: Option<Draft>, checkpoint: Checkpoint },
}

impl Writer {
    /// Makes a writer of a producer that has taken its id over.
    pub(super) fn new(mut sink: Sink, route: &Route, context: &Context) -> Result<Self, Error> {
        let target = sink.target(&route.output_topic)?;
        if let Some(bytes) = route.limit_bytes {
            sink.limit_target(target, bytes);
        }
        let dead_letter = context.config.sink.dead_letter_topic.as_ref();
        let dead_letter = dead_letter.map(|topic| sink.target(topic)).transpose()?;
        Ok(Self {
            committer: sink.committer()?,
            sink,
            target,
            dead_letter,
            stage: Stage::Open,
            open_since: None,
            holes: Vec::new(),
            held: VecDeque::new(),
            held_bytes: 0,
        })
    }

    /// Takes a record to be written; begins a transaction where none is open.
    pub(super) fn send(
        &mut self,
        record: &SourceRecord<'_>,
        dead: bool,
        token: u64,
    ) -> Result<(), Refused> {
        if self.open_since.is_none() {
            self.sink.begin().map_err(Refused::Fatal)?;
            self.open_since = Some(Instant::now());
        }
        let (target, partition) = match self.dead_letter.filter(|_| dead) {
            Some(target) => (target, 0),
            None => (self.target, record.partition()),
        };
        self.sink.send(record, target, partition, token)
    }

    /// Whether records may be sent; otherwise they are to be held.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.stage, Stage::Open)
    }

    /// Whether nothing of a transaction is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.is_open() && self.open_since.is_none()
    }

    pub(super) fn has_begun(&self) -> bool {
        self.open_since.is_some()
    }

    pub(super) fn hold(&mut self, record: SourceRecord<'static>, arrival: Timestamp) {
        self.held_bytes += u64::try_from(record.size_bytes()).unwrap_or(u64::MAX);
        self.held.push_back((record, arrival));
    }

    /// Forgets the records held: they are read again.
    pub(super) fn drop_held(&mut self) {
        self.held.clear();
        self.held_bytes = 0;
    }

    pub(super) fn held(&self) -> (usize, u64) {
        (self.held.len(), self.held_bytes)
    }

    /// Keeps a hole until it can be read.
    pub(super) fn add_hole(&mut self, hole: Hole) {
        self.holes.push(hole);
    }

    /// Ends taking records, and hurries those on their way.
    pub(super) fn seal(&mut self, last: bool, saves: bool) {
        self.stage = Stage::Sealed { last, saves };
        self.committer.flush();
    }

    /// Whether the lane's schedule waits for what this writer is doing.
    fn keeps_schedule_open(&self) -> bool {
        matches!(
            self.stage,
            Stage::Sealed { saves: true, .. } | Stage::Committing { draft: Some(_), .. }
        )
    }

    /// Ends it on a thread of its own: the client may take its time.
    fn reap(self: Box<Self>) {
        let reaper = std::thread::Builder::new().name("reap".into());
        if let Err(error) = reaper.spawn(move || drop(self)) {
            tracing::debug!(%error, "a producer is closed in place");
        }
    }
}

impl Flow {
    /// Moves every lane's transaction on, as far as nothing has to be waited for.
    ///
    /// `committing` says that offsets of another kind are on their way to the group: those that
    /// are older must not arrive after those of a transaction.
    pub(super) fn serve_transactions(
        &mut self,
        source: &Source,
        committing: bool,
    ) -> Result<(), Error> {
        if !self.context.delivery.is_transactional() {
            return Ok(());
        }
        for slot in 0..self.lanes.slots() {
            self.move_on(slot, source, committing)?;
        }
        Ok(())
    }

    fn move_on(&mut self, slot: u16, source: &Source, committing: bool) -> Result<(), Error> {
        let Some(lane) = self.lanes.get_mut(slot) else { return Ok(()) };
        let Some(writer) = &mut lane.writer else { return Ok(()) };
        match &writer.stage {
            Stage::Open => {
                let longest = self.context.config.delivery.transaction_timeout / 3;
                // The state is slow: the transaction must end before the brokers end it.
                if writer.open_since.is_some_and(|since| since.elapsed() >= longest)
                    && lane.is_running()
                {
                    lane.seal(false, false);
                }
                Ok(())
            }
            Stage::Sealed { .. } if lane.outstanding > 0 || committing => Ok(()),
            Stage::Sealed { last, saves } => {
                let (last, saves) = (*last, *saves);
                match self.commit_transaction(slot, source, last, saves) {
                    Ok(()) => Ok(()),
                    Err(Error::Kafka(error)) => self.undo(slot, Aborted::Refused, error),
                    Err(error) => Err(error),
                }
            }
            Stage::Committing { .. } => match writer.committer.ended() {
                Some(ended) => self.transaction_ended(slot, ended),
                None => Ok(()),
            },
        }
    }

    /// Hands the transaction to the thread that commits it.
    fn commit_transaction(
        &mut self,
        slot: u16,
        source: &Source,
        last: bool,
        saves: bool,
    ) -> Result<(), Error> {
        let wall = self.context.clock.now();
        let Some(lane) = self.lanes.get_mut(slot) else { return Ok(()) };
        let (Some(core), Some(writer)) = (&mut lane.core, &mut lane.writer) else { return Ok(()) };
        if writer.open_since.is_none() {
            // Nothing but duplicates: the offset moves on all the same.
            writer.sink.begin()?;
            writer.open_since = Some(Instant::now());
        }
        let mut draft = if saves { core.begin_checkpoint(wall, last) } else { None };
        let mut checkpoint = match &draft {
            Some(draft) => draft.checkpoint.clone(),
            None => core.snapshot(wall, false),
        };
        if let Some(hole) = writer.holes.iter().map(|hole| hole.from).min() {
            // What lies there is not known yet: whoever resumes must read it.
            checkpoint.output = checkpoint.output.map(|output: OutputPosition| output.min(hole));
        }
        if let Some(draft) = &mut draft {
            draft.checkpoint.output = checkpoint.output;
        }
        let note = CommitNote { transactional: true, ..CommitNote::from(&checkpoint) };
        writer.committer.commit(Offsets {
            partition: lane.partition.clone(),
            resume: checkpoint.resume,
            note: note.to_string(),
            member: source.member()?,
        })?;
        writer.stage = Stage::Committing { draft, checkpoint };
        super::phase("transaction-commit", &lane.partition);
        Ok(())
    }

    fn transaction_ended(&mut self, slot: u16, ended: Ended) -> Result<(), Error> {
        match ended {
            Ended::Committed { begun, took, suspicion } => {
                self.lease.renew(begun);
                self.context.board.transaction_committed(took);
                self.committed_transaction(slot)?;
                match suspicion {
                    None => self.release_held(slot),
                    Some(why) => {
                        self.throw_away(slot, why, took);
                        Ok(())
                    }
                }
            }
            Ended::Undone { why, error } => self.undo(slot, aborted(why), error),
        }
    }

    /// The group has the offset, readers have the records: now the state may know.
    fn committed_transaction(&mut self, slot: u16) -> Result<(), Error> {
        let Some(lane) = self.lanes.get_mut(slot) else { return Ok(()) };
        let Some(writer) = &mut lane.writer else { return Ok(()) };
        let stage = std::mem::replace(&mut writer.stage, Stage::Open);
        writer.open_since = None;
        lane.board.transaction_ended();
        let holes = std::mem::take(&mut writer.holes);
        let Stage::Committing { draft, checkpoint } = stage else {
            return Err(Broken("a transaction was committed that nobody ended").into());
        };
        let note = CommitNote { transactional: true, ..CommitNote::from(&checkpoint) };
        lane.committed = Some(Committed { offset: checkpoint.resume, note: Some(note) });
        super::phase("commit", &lane.partition);
        if let Some(core) = &mut lane.core {
            core.transaction_ended();
        }
        for hole in holes {
            self.watch.read_hole(lane, hole)?;
        }
        let (Some(draft), Some(core), Some(seen)) = (draft, &lane.core, &lane.seen) else {
            return Ok(());
        };
        let expire_before = lane.window.keep_from(core.high_mark());
        let job = Job { ticket: lane.birth, seen: Arc::clone(seen), draft, expire_before };
        self.store.submit(job).map_err(|_job| Broken("the store thread has ended"))?;
        Ok(())
    }

    /// Handles the records that came while nothing could be sent.
    fn release_held(&mut self, slot: u16) -> Result<(), Error> {
        let Some(writer) = self.lanes.get_mut(slot).and_then(|lane| lane.writer.as_mut()) else {
            return Ok(());
        };
        let held = std::mem::take(&mut writer.held);
        writer.held_bytes = 0;
        for (record, arrival) in held {
            self.record(record, arrival)?;
        }
        Ok(())
    }

    /// Throws away a producer whose last commit may still be under way a second time. Nothing of
    /// the lane is lost by it: all that it sent is committed.
    fn throw_away(&mut self, slot: u16, why: Anew, took: Duration) {
        let Some(lane) = self.lanes.get_mut(slot) else { return };
        let Some(writer) = lane.writer.take() else { return };
        let (partition, reason) = (&lane.partition, why.as_str());
        tracing::warn!(%partition, reason, ?took, "making a new producer after an unsure commit");
        self.context.board.transactions_anew(why);
        lane.start_anew();
        if !matches!(lane.phase, Phase::Leaving) {
            lane.phase = Phase::Rewinding;
        }
        writer.reap();
    }

    /// Gives up a lane's transaction with all that is settled in it: nothing of it counts, unless
    /// the group says otherwise when the partition is taken anew.
    ///
    /// # Errors
    /// Where taking it anew would not help.
    pub(super) fn undo(
        &mut self,
        slot: u16,
        why: Aborted,
        error: kafka::Error,
    ) -> Result<(), Error> {
        let Some(lane) = self.lanes.get_mut(slot) else { return Ok(()) };
        let Some(writer) = lane.writer.take() else { return Ok(()) };
        let partition = &lane.partition;
        let shown = crate::error::render(&error);
        tracing::warn!(%partition, reason = why.as_str(), error = shown, "a transaction is undone");
        if writer.has_begun() {
            self.context.board.transaction_aborted(why);
        }
        self.context.board.transactions_anew(Anew::Aborted);
        lane.board.transaction_ended();
        if writer.keeps_schedule_open() {
            lane.schedule.ended(Instant::now());
        }
        lane.publish();
        if let Some(core) = lane.core.take() {
            lane.refused = core.poisoned();
        }
        lane.seen = None;
        lane.reopen = true;
        lane.start_anew();
        writer.reap();
        if matches!(lane.phase, Phase::Leaving) {
            // Where the group gave it to somebody else, that is who goes on from here.
            if !matches!(why, Aborted::Left | Aborted::Membership | Aborted::Fenced) {
                self.left_undone.get_or_insert(error.into());
            }
            return Ok(());
        }
        lane.phase = Phase::Rewinding;
        let gone = matches!(why, Aborted::Fenced | Aborted::Membership);
        lane.pause = if gone { AFTER_FENCE } else { Duration::ZERO };
        if why == Aborted::Fenced {
            let now = Instant::now();
            let before = lane.fenced_at.replace(now);
            if before.is_some_and(|at| now.duration_since(at) < FENCED_AGAIN_WITHIN) {
                return Err(error.into());
            }
        }
        Ok(())
    }

    /// Undoes the transactions of lanes that have to go back for another reason.
    pub(super) fn undo_strays(&mut self) -> Result<(), Error> {
        for slot in 0..self.lanes.slots() {
            let stray =
                |lane: &mut Lane| matches!(lane.phase, Phase::Rewinding) && lane.writer.is_some();
            if self.lanes.get_mut(slot).is_some_and(stray) {
                self.undo(slot, Aborted::State, kafka::Error::going_back())?;
            }
        }
        Ok(())
    }

    /// Ends what leaving lanes have open, so that no reader waits for it.
    pub(super) fn abort_open(&mut self, slots: &[u16]) {
        for slot in slots {
            let Some(lane) = self.lanes.get_mut(*slot) else { continue };
            let Some(writer) = &mut lane.writer else { continue };
            if writer.has_begun()
                && let Err(error) = writer.sink.abort(ABORT_LIMIT)
            {
                let (partition, error) = (&lane.partition, crate::error::render(&error));
                tracing::warn!(%partition, error, "the brokers end the open transaction later");
            }
        }
    }
}

impl Lane {
    /// Ends taking records for this transaction. `saves` says that the state goes along.
    pub(super) fn seal(&mut self, last: bool, saves: bool) {
        super::phase("checkpoint-begin", &self.partition);
        if let Some(writer) = &mut self.writer {
            writer.seal(last, saves);
        }
    }
}

pub(super) fn aborted(why: Undone) -> Aborted {
    match why {
        Undone::Refused => Aborted::Refused,
        Undone::Fenced => Aborted::Fenced,
        Undone::Membership => Aborted::Membership,
        Undone::Unknown => Aborted::Unknown,
    }
}
