//! Taking a partition, carried out: open the state, wait out a predecessor, catch up.
//!
//! Runs on a thread of its own while the partition is paused, so that a long rebuild blocks
//! nobody else. What comes back is a core that may be fed records at its resume offset, and whose
//! first checkpoint is durable.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::engine::{Core, Repeat, Setup, Written};
use crate::kafka::{self, OutputReader, Sink, SourceRecord, TimeLookup};
use crate::key::Fingerprint;
use crate::seen::{Batch, Found, Identity, Opened, Options, Seen};
use crate::window::Window;
use crate::words::{
    Checkpoint, Failure, OutputPosition, PartitionBoard, PartitionState, RecordOffset,
    ResumeOffset, SourcePartition, Timestamp, TopicId,
};

use super::Error;
use super::context::Context;
use super::keys::Keys;
use super::plan::{self, Bounds, Committed, Facts, Load, Local, Plan, Refusal, Warning};
use super::settle::{Predecessor, settle};

/// How many records read back are written to the store at a time.
const LOAD_CHUNK: usize = 200_000;

/// How long a read of the output may stand still before it is an error.
pub(super) const IDLE_LIMIT: Duration = Duration::from_secs(30);

/// How long the coordinator may take to end an earlier transaction and to give an id.
const TAKE_OVER_LIMIT: Duration = Duration::from_secs(20);

/// How long one question to a broker may take.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// A partition to take.
#[derive(Debug)]
pub(super) struct TakeJob {
    pub(super) context: Arc<Context>,
    pub(super) partition: SourcePartition,
    pub(super) output_topic: String,
    pub(super) ids: (Option<TopicId>, Option<TopicId>),
    pub(super) keys: Keys,
    pub(super) window: Window,
    pub(super) committed: Option<Committed>,
    pub(super) memory_bytes: u64,
    /// What this process holds of it already, after a rewind.
    pub(super) held: Option<(Core, Arc<Seen>)>,
    /// Our own producer's last requests had no answer.
    pub(super) uncertain: bool,
    /// What the group committed has to be asked.
    pub(super) ask: bool,
    /// Records that the output is known to refuse.
    pub(super) refused: Vec<RecordOffset>,
    pub(super) board: Arc<PartitionBoard>,
    pub(super) cancel: Arc<AtomicBool>,
}

/// A partition that is ready to run.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) core: Core,
    pub(super) seen: Arc<Seen>,
    pub(super) checkpoint: Checkpoint,
    pub(super) committed: Option<Committed>,
    /// The producer of its transactions, where there are any.
    pub(super) sink: Option<Sink>,
}

impl TakeJob {
    /// Does it all. `Ok(None)` after a cancel.
    pub(super) fn perform(mut self) -> Result<Option<Taken>, Error> {
        let taken = match self.held.take() {
            Some((core, seen)) => self.again(core, seen),
            None => self.fresh(),
        };
        if self.cancelled() { Ok(None) } else { taken.map(Some) }
    }

    // ---- earlier transactions ----------------------------------------------------------------

    /// Makes the producer of this partition's transactions. From here on whatever an earlier one
    /// had open is aborted, and nothing that it sends is taken any more.
    fn take_over(&self) -> Result<Option<Sink>, Error> {
        let delivery = &self.context.delivery;
        if delivery.is_transactional() {
            return self.take_id_over().map(Some).map_err(|source| self.failed(source));
        }
        if !delivery.was_transactional() && !self.ask {
            return Ok(None);
        }
        // One may be open from before; until it ends, the output cannot be read to its end.
        match self.take_id_over() {
            Ok(_) => Ok(None),
            Err(error @ kafka::Error::Unreachable { .. }) => Err(self.failed(error)),
            Err(error) => {
                let (partition, error) = (&self.partition, crate::error::render(&error));
                tracing::warn!(%partition, error, "open transactions end when their time is up");
                Ok(None)
            }
        }
    }

    fn take_id_over(&self) -> Result<Sink, kafka::Error> {
        let Context { config, delivery, .. } = &*self.context;
        let writes = delivery.transactions_of(&self.partition);
        let sink = Sink::connect_as(config, delivery.limits, &writes)?;
        sink.take_over(TAKE_OVER_LIMIT, &self.cancel)?;
        Ok(sink)
    }

    /// Asks the group what it has committed, if that is not known.
    fn ask_group(&mut self) -> Result<(), Error> {
        if self.ask {
            let asked = self.source()?.committed(&self.partition);
            self.committed = asked.map_err(|source| self.failed(source))?.map(Committed::from);
        }
        Ok(())
    }

    /// Whether all that the last owner had under way ended with its transactional id.
    fn is_fenced(&self) -> bool {
        let note = self.committed.as_ref().and_then(|committed| committed.note.as_ref());
        self.context.delivery.is_transactional() && note.is_some_and(|note| note.transactional)
    }

    fn cancelled(&self) -> bool {
        self.cancel.load(Ordering::Relaxed)
    }

    /// Takes a partition that this process does not hold yet.
    fn fresh(&mut self) -> Result<Taken, Error> {
        self.mark("open", PartitionState::Opening);
        let sink = self.take_over()?;
        self.ask_group()?;
        let mut opened = self.open()?;
        let output = self.output()?;
        let last = match &opened.found {
            Found::Checkpoint(checkpoint) => Some(checkpoint),
            _ => None,
        };
        let predecessor = if self.is_fenced() {
            Predecessor::Gone
        } else if self.uncertain {
            Predecessor::Uncertain
        } else {
            let (source, now) = (&self.context.config.source, self.context.clock.now());
            Predecessor::of(last, self.committed.as_ref(), source, now)
        };
        self.mark("wait", PartitionState::Waiting);
        let end = self.settle(&output, predecessor)?;
        let facts = self.facts(&opened, &output, end)?;
        let plan = plan::decide(&facts).map_err(|why| self.refused(why, &facts, &mut opened))?;
        self.warn(&plan, &opened);
        if plan.set_aside {
            opened = self.set_aside(opened)?;
        }
        let seen = Arc::new(opened.seen);
        let setup = self.setup(&plan);
        let taken = self.catch_up(&output, &plan, setup, seen, end)?;
        Ok(Taken { sink, ..taken })
    }

    /// Takes a partition back whose deliveries became uncertain.
    fn again(&mut self, mut core: Core, seen: Arc<Seen>) -> Result<Taken, Error> {
        self.mark("wait", PartitionState::Waiting);
        let sink = self.take_over()?;
        self.ask_group()?;
        let output = self.output()?;
        let predecessor = if self.uncertain { Predecessor::Uncertain } else { Predecessor::Gone };
        let end = self.settle(&output, predecessor)?;
        self.mark("catch-up", PartitionState::CatchingUp);
        let from = core.output_position().unwrap_or(OutputPosition(0));
        self.recover(&output, &mut core, &seen, from, end)?;
        let taken = self.finish(core, seen, end)?;
        Ok(Taken { sink, ..taken })
    }

    fn output(&self) -> Result<OutputReader, Error> {
        OutputReader::connect(&self.context.config, REQUEST_TIMEOUT)
            .map_err(|source| self.failed(source))
    }

    fn source(&self) -> Result<OutputReader, Error> {
        OutputReader::connect_to_source(&self.context.config, REQUEST_TIMEOUT)
            .map_err(|source| self.failed(source))
    }

    fn failed(&self, source: crate::kafka::Error) -> Error {
        self.context.board.count_failure(Failure::CatchUp);
        Error::Take { partition: self.partition.clone(), source }
    }

    fn state_failed(&self, source: crate::seen::Error) -> Error {
        self.context.board.count_failure(Failure::Store);
        Error::PartitionState { partition: self.partition.clone(), source }
    }

    fn mark(&self, phase: &'static str, state: PartitionState) {
        self.board.set_state(state);
        super::phase(phase, &self.partition);
    }

    // ---- the state ---------------------------------------------------------------------------

    fn identity(&self) -> Identity {
        let rule = self.context.config.rule(&self.partition.topic);
        Identity {
            source: self.partition.clone(),
            rule: rule.key.canonical(),
            hash: rule.hash.as_str().to_owned(),
            clock: rule.clock,
            output_topic: self.output_topic.clone(),
            secret_id: self.context.state.secret().id(),
        }
    }

    fn open(&self) -> Result<Opened, Error> {
        let options = Options::new(self.window.segment(), self.memory_bytes);
        Seen::open(&self.context.state, &self.identity(), &options)
            .map_err(|source| self.state_failed(source))
    }

    fn set_aside(&self, opened: Opened) -> Result<Opened, Error> {
        drop(opened);
        let moved = self.context.state.set_aside(&self.partition);
        let moved = moved.map_err(|source| self.state_failed(source))?;
        tracing::warn!(partition = %self.partition, moved_to = %moved.display(), "state set aside");
        self.open()
    }

    // ---- facts and plan ----------------------------------------------------------------------

    fn settle(
        &self,
        output: &OutputReader,
        predecessor: Predecessor,
    ) -> Result<OutputPosition, Error> {
        let number = self.partition.partition;
        let end = || output.bounds(&self.output_topic, number).map(|bounds| bounds.1);
        settle(predecessor, &self.cancel, end).map_err(|source| self.failed(source))
    }

    fn facts(
        &self,
        opened: &Opened,
        output: &OutputReader,
        end: OutputPosition,
    ) -> Result<Facts, Error> {
        let number = self.partition.partition;
        let source = self.source()?;
        let bounds = |reader: &OutputReader, topic: &str| {
            reader.bounds(topic, number).map_err(|e| self.failed(e))
        };
        let (low, high) = bounds(&source, &self.partition.topic)?;
        let (output_low, _) = bounds(output, &self.output_topic)?;
        Ok(Facts {
            local: match &opened.found {
                Found::Checkpoint(checkpoint) => Local::Found(checkpoint.clone()),
                Found::Nothing => Local::Nothing,
                Found::Damaged { .. } => Local::Damaged,
            },
            committed: self.committed.clone(),
            source: Bounds { low: low.0, high: high.0 },
            output: Bounds { low: output_low.0, high: end.0 },
            source_id: self.ids.0,
            output_id: self.ids.1,
            on_missing_state: self.context.config.state.on_missing_state,
            start: self.context.config.source.start,
            clock: self.context.config.rule(&self.partition.topic).clock,
        })
    }

    fn refused(&self, why: Refusal, facts: &Facts, opened: &mut Opened) -> Error {
        let partition = self.partition.clone();
        let dir = self.context.state.partition_dir(&self.partition);
        let recreated = |which, topic: &str, dir| Error::Recreated {
            partition: self.partition.clone(),
            which,
            topic: topic.to_owned(),
            dir,
        };
        match why {
            Refusal::SourceRecreated => recreated("source", &self.partition.topic, dir),
            Refusal::OutputRecreated => recreated("output", &self.output_topic, dir),
            Refusal::OutOfRange { resume } => {
                let Bounds { low, high } = facts.source;
                Error::OutOfRange { partition, resume, low, high }
            }
            Refusal::OutputTruncated { position } => Error::OutputTruncated {
                partition,
                topic: self.output_topic.clone(),
                high: facts.output.high,
                position,
            },
            Refusal::NoStart => Error::NoStart { partition },
            Refusal::Missing | Refusal::Damaged => {
                match std::mem::replace(&mut opened.found, Found::Nothing) {
                    Found::Damaged { why, set_aside } => {
                        Error::Damaged { partition, set_aside, source: why }
                    }
                    _ => {
                        let committed = self.committed.as_ref().map(|committed| committed.offset);
                        let committed = committed.unwrap_or(ResumeOffset(0));
                        Error::Missing { partition, committed, dir }
                    }
                }
            }
        }
    }

    fn warn(&self, plan: &Plan, opened: &Opened) {
        if let Found::Damaged { why, set_aside } = &opened.found {
            let (partition, set_aside) = (&self.partition, set_aside.display());
            tracing::error!(%partition, error = %why, %set_aside, "the state is damaged");
        }
        let text = match plan.warning {
            None => return,
            Some(Warning::Rebuilding) => "state is missing: reading the output back",
            Some(Warning::StartingEmpty) => {
                "state is missing: starting with an empty seen-set as the config says; keys \
                 forwarded before may be forwarded again"
            }
            Some(Warning::OutputRecreated) => {
                "the output topic was made again: what it held before is forgotten"
            }
            Some(Warning::OutputTruncated) => {
                "the output lost confirmed records: its remaining keys are read back"
            }
            Some(Warning::OutputTrimmed) => {
                "retention removed output records that catch-up needs: a record from before the \
                 last stop may be repeated"
            }
            Some(Warning::GroupAhead) => {
                "the group's offset was moved ahead by others: resuming where the state says"
            }
            Some(Warning::GroupBehind) => {
                "the group's offset was moved back by others: resuming where the state says, since \
                 what lies below it was forwarded"
            }
        };
        let (partition, output) = (&self.partition, &self.output_topic);
        tracing::warn!(%partition, output, resume = plan.resume.0, "{text}");
    }

    fn setup(&self, plan: &Plan) -> Setup {
        Setup {
            window: self.window,
            resume: plan.resume,
            output: None,
            high_mark: plan.high_mark,
            counts: plan.counts,
            incarnation: self.context.incarnation,
            source_topic_id: self.ids.0,
            output_topic_id: self.ids.1,
        }
    }

    // ---- reading back ------------------------------------------------------------------------

    fn catch_up(
        &mut self,
        output: &OutputReader,
        plan: &Plan,
        setup: Setup,
        seen: Arc<Seen>,
        end: OutputPosition,
    ) -> Result<Taken, Error> {
        self.mark("catch-up", PartitionState::CatchingUp);
        let recover = plan.recover.unwrap_or(end);
        let mut high_mark = setup.high_mark;
        if let Some(from) = self.load_from(output, plan)? {
            high_mark = plan.high_mark_after(self.load(output, &setup, &seen, from, recover)?);
        }
        let mut core = Core::new(Setup { high_mark, output: Some(recover), ..setup });
        self.recover(output, &mut core, &seen, recover, end)?;
        self.finish(core, seen, end)
    }

    /// Returns where loading starts, if anything is to be loaded.
    fn load_from(
        &self,
        output: &OutputReader,
        plan: &Plan,
    ) -> Result<Option<OutputPosition>, Error> {
        let number = self.partition.partition;
        let failed = |source| self.failed(source);
        let (low, _) = output.bounds(&self.output_topic, number).map_err(failed)?;
        match plan.load {
            Load::Nothing => Ok(None),
            Load::From(position) => Ok(Some(position.max(low))),
            Load::Everything => Ok(Some(low)),
            Load::Window => {
                let since = self.window.keep_from(self.reference(plan.resume)?);
                let found = output.offset_for_time(&self.output_topic, number, since);
                let from = match found.map_err(failed)? {
                    TimeLookup::At(position) => position,
                    // Nothing that young, or a broker that cannot tell: read it all.
                    TimeLookup::AfterEnd => low,
                };
                if from <= low && low.0 > 0 {
                    let partition = &self.partition;
                    tracing::warn!(%partition, first = low.0, "the output may not reach back one \
                        whole window: keys from before its start are not known");
                }
                Ok(Some(from.max(low)))
            }
        }
    }

    /// Returns the time of the record at the resume offset, or now where there is none.
    fn reference(&self, resume: ResumeOffset) -> Result<Timestamp, Error> {
        let now = self.context.clock.now();
        let at = OutputPosition(resume.0);
        let number = self.partition.partition;
        let first = self
            .source()?
            .timestamp_at(&self.partition.topic, number, at, &self.cancel, IDLE_LIMIT)
            .map_err(|source| self.failed(source))?;
        Ok(match first {
            Some((_, timestamp)) => self.window.time_of(timestamp, now).at.min(now),
            None => now,
        })
    }

    /// Reads output records straight into the store. Returns the latest time among them.
    fn load(
        &mut self,
        output: &OutputReader,
        setup: &Setup,
        seen: &Seen,
        from: OutputPosition,
        to: OutputPosition,
    ) -> Result<Timestamp, Error> {
        let now = self.context.clock.now();
        // Until loading is complete, a restart must load again: no output position yet.
        let interim = Checkpoint { output: None, ..Core::new(setup.clone()).snapshot(now, false) };
        let (window, mut high_mark) = (self.window, Timestamp::MIN);
        let mut chunk: Vec<(Fingerprint, Timestamp)> = Vec::new();
        let mut failure = None;
        let mut keys = self.keys.clone();
        self.read(output, from, to, &mut |record| {
            if let crate::engine::Identity::Key(fingerprint) = keys.identify(record) {
                let at = window.time_of(record.timestamp(), now).at;
                high_mark = high_mark.max(at);
                chunk.push((fingerprint, at));
            }
            if chunk.len() < LOAD_CHUNK {
                return true;
            }
            let entries = std::mem::take(&mut chunk);
            let written = seen.write(Batch { entries, checkpoint: interim.clone() });
            failure = written.err();
            failure.is_none()
        })?;
        let last = match failure {
            Some(failure) => Err(failure),
            None if chunk.is_empty() => Ok(()),
            None => seen.write(Batch { entries: chunk, checkpoint: interim }).map(|_| ()),
        };
        last.map_err(|source| self.state_failed(source))?;
        Ok(high_mark)
    }

    /// Reads output records whose replays are to be met into the core.
    fn recover(
        &mut self,
        output: &OutputReader,
        core: &mut Core,
        seen: &Seen,
        from: OutputPosition,
        to: OutputPosition,
    ) -> Result<(), Error> {
        if crate::bugs::active("skip-catch-up") {
            return Ok(());
        }
        let arrival = self.context.clock.now();
        let mut keys = self.keys.clone();
        let mut failure = None;
        let mut repeats = Vec::new();
        self.read(output, from, to, &mut |record| {
            let written = Written {
                offset: record.offset(),
                identity: keys.identify(record),
                timestamp: record.timestamp(),
                arrival,
            };
            match core.recover(written, seen) {
                Ok(repeat) => repeats.extend(repeat),
                Err(error) => failure = Some(error),
            }
            failure.is_none()
        })?;
        for repeat in repeats {
            report_repeat(&self.partition, &self.output_topic, repeat);
        }
        failure.map_or(Ok(()), |source| Err(self.state_failed(source)))
    }

    fn read(
        &self,
        output: &OutputReader,
        from: OutputPosition,
        to: OutputPosition,
        each: &mut dyn FnMut(&SourceRecord<'_>) -> bool,
    ) -> Result<(), Error> {
        let begun = Instant::now();
        let total = u64::try_from(to.0.saturating_sub(from.0)).unwrap_or(0);
        self.board.set_catch_up(0, total);
        let (mut count, mut said) = (0_u64, begun);
        let number = self.partition.partition;
        let mut progress = |record: &SourceRecord<'_>| {
            count += 1;
            if count.is_multiple_of(10_000) {
                self.board.set_catch_up(count, total);
                if said.elapsed() >= Duration::from_secs(5) {
                    said = Instant::now();
                    let partition = &self.partition;
                    tracing::info!(%partition, read = count, of = total, "catching up");
                }
            }
            each(record)
        };
        output
            .read(&self.output_topic, number, from, to, &self.cancel, IDLE_LIMIT, &mut progress)
            .map_err(|source| self.failed(source))?;
        self.board.set_catch_up(count, total);
        if count > 0 {
            let took = begun.elapsed();
            tracing::info!(partition = %self.partition, records = count, ?took, "read the output");
        }
        Ok(())
    }

    /// Makes the first checkpoint durable, so that from now on a restart knows where we began.
    fn finish(&self, mut core: Core, seen: Arc<Seen>, end: OutputPosition) -> Result<Taken, Error> {
        core.caught_up(end);
        let draft = core.begin_checkpoint(self.context.clock.now(), false);
        let draft = draft.ok_or(crate::engine::Broken("a checkpoint is open during catch-up"))?;
        if !self.cancelled() {
            let batch =
                Batch { entries: draft.entries.clone(), checkpoint: draft.checkpoint.clone() };
            seen.write(batch).map_err(|source| self.state_failed(source))?;
            seen.expire(self.window.keep_from(core.high_mark()))
                .map_err(|source| self.state_failed(source))?;
        }
        core.checkpoint_durable(draft.entries);
        super::phase("catch-up-end", &self.partition);
        core.expect_refused(self.refused.iter().copied());
        let (checkpoint, committed) = (draft.checkpoint, self.committed.clone());
        Ok(Taken { core, seen, checkpoint, committed, sink: None })
    }
}

/// Says that the output holds a key twice, and where.
pub(super) fn report_repeat(partition: &SourcePartition, topic: &str, repeat: Repeat) {
    let ours = repeat.ours.map(|offset| offset.0);
    tracing::error!(
        %partition, output = topic, late = repeat.late.0, ours,
        "the output holds a key twice: another instance wrote it, too"
    );
}
