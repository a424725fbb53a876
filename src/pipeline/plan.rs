//! Taking a partition, decided: from what was found, where to resume and what to read back.
//!
//! Pure: facts in, plan out. The carrying out is in [`super::take`].

use crate::checkpoint::CommitNote;
use crate::config::{OnMissingState, StartAt, WindowClock};
use crate::kafka;
use crate::words::{Checkpoint, Counts, OutputPosition, ResumeOffset, Timestamp, TopicId};

/// How many output records are held in memory as replays to be met, at most: 64 bytes each.
const REPLAYS_IN_MEMORY: i64 = 2_000_000;

/// An offset committed to the group, with our note beside it, if it is ours.
#[derive(Clone, Debug)]
pub(crate) struct Committed {
    pub(crate) offset: ResumeOffset,
    pub(crate) note: Option<CommitNote>,
}

impl From<kafka::Committed> for Committed {
    fn from(found: kafka::Committed) -> Self {
        let note = found.metadata.as_deref().and_then(CommitNote::parse);
        Self { offset: found.offset, note }
    }
}

/// The lowest offset there, and the next one to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) low: i64,
    pub(crate) high: i64,
}

/// What local state there is.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one at a time, and never for long")]
pub(crate) enum Local {
    /// A checkpoint.
    Found(Checkpoint),
    /// None, and no trace of one.
    Nothing,
    /// One that could not be used; it was set aside.
    Damaged,
}

/// Everything that the decision depends on.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) local: Local,
    pub(crate) committed: Option<Committed>,
    pub(crate) source: Bounds,
    pub(crate) output: Bounds,
    pub(crate) source_id: Option<TopicId>,
    pub(crate) output_id: Option<TopicId>,
    pub(crate) on_missing_state: OnMissingState,
    pub(crate) start: StartAt,
    pub(crate) clock: WindowClock,
}

/// Which records of the output are read straight into the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    /// None.
    Nothing,
    /// From this position.
    From(OutputPosition),
    /// One window back from the time of the record at the resume offset.
    Window,
    /// From the start of the log.
    Everything,
}

/// What to do.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Plan {
    /// The local state must be set aside first: it does not fit the output.
    pub(crate) set_aside: bool,
    /// The next source offset to read.
    pub(crate) resume: ResumeOffset,
    /// Read into the store, up to `recover`.
    pub(crate) load: Load,
    /// From here to the end, what is found is a replay to be met. `None` is the end: nothing is.
    pub(crate) recover: Option<OutputPosition>,
    /// Up to where the last writer has accounted for the output: copies behind it are told.
    pub(crate) accounted: Option<OutputPosition>,
    pub(crate) counts: Counts,
    pub(crate) high_mark: Timestamp,
    /// What the operator must know, if the answer is weaker than they may think.
    pub(crate) warning: Option<Warning>,
}

impl Plan {
    /// Returns the latest time so far, once records up to time `loaded` were read back.
    ///
    /// Where everything was, records of any age may follow, and none of it is too old for them.
    pub(crate) fn high_mark_after(&self, loaded: Timestamp) -> Timestamp {
        match self.load {
            Load::Everything => self.high_mark,
            _ => self.high_mark.max(loaded),
        }
    }
}

/// Why a plan gives less than the whole promise, or did something unexpected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Warning {
    /// Local state was lost; the output is read back.
    Rebuilding,
    /// Local state was lost and the config says to start empty.
    StartingEmpty,
    /// The output was deleted and made again.
    OutputRecreated,
    /// The output ends before what was confirmed on it.
    OutputTruncated,
    /// Retention removed what catch-up should have read.
    OutputTrimmed,
    /// The group is ahead of the state, and not by our doing; the state decides.
    GroupAhead,
    /// The group is behind the state, and not by our doing; the state decides.
    GroupBehind,
}

/// Why a partition cannot be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The source topic was deleted and made again.
    SourceRecreated,
    /// The output topic was, and the config says to stop.
    OutputRecreated,
    /// The resume offset is not in the source.
    OutOfRange { resume: ResumeOffset },
    /// The output ends before what was confirmed on it, and the config says to stop.
    OutputTruncated { position: OutputPosition },
    /// State is missing although there is a committed offset, and the config says to stop.
    Missing,
    /// State is damaged, and the config says to stop.
    Damaged,
    /// Neither state nor committed offset, and `start` says to stop.
    NoStart,
}

/// Decides how to take a partition.
pub(crate) fn decide(facts: &Facts) -> Result<Plan, Refusal> {
    let mut plan = match &facts.local {
        Local::Found(checkpoint) => with_checkpoint(facts, checkpoint)?,
        Local::Nothing => without_state(facts, Refusal::Missing)?,
        Local::Damaged => without_state(facts, Refusal::Damaged)?,
    };
    let resume = plan.resume;
    if resume.0 < facts.source.low || resume.0 > facts.source.high {
        return Err(Refusal::OutOfRange { resume });
    }
    if plan.load == Load::Window && facts.clock == WindowClock::Arrival {
        // When a record arrived is not on the output, so no look-up by time finds the window.
        plan.load = Load::Everything;
    }
    Ok(plan)
}

fn with_checkpoint(facts: &Facts, checkpoint: &Checkpoint) -> Result<Plan, Refusal> {
    if differ(checkpoint.source_topic_id, facts.source_id) {
        return Err(Refusal::SourceRecreated);
    }
    if differ(checkpoint.output_topic_id, facts.output_id) {
        return misfit(facts, checkpoint, Refusal::OutputRecreated, Warning::OutputRecreated);
    }
    let Some(position) = checkpoint.output else {
        return Ok(load_again(facts, checkpoint));
    };
    if position.0 > facts.output.high {
        let refusal = Refusal::OutputTruncated { position };
        return misfit(facts, checkpoint, refusal, Warning::OutputTruncated);
    }
    let mut plan = Plan { recover: Some(position), ..continue_from(checkpoint) };
    if position.0 < facts.output.low {
        plan.recover = Some(OutputPosition(facts.output.low));
        plan.warning = Some(Warning::OutputTrimmed);
    }
    if let Some(committed) = &facts.committed
        && committed.offset > checkpoint.resume
    {
        // Somebody else owned the partition in between; their work is on the output, too.
        match replays_from(facts, committed) {
            Some(theirs) => {
                plan.resume = committed.offset;
                plan.load = plan.recover.map_or(Load::Everything, Load::From);
                plan.recover = Some(theirs);
                plan.accounted = accounted(facts, committed);
            }
            None => plan.warning = Some(Warning::GroupAhead),
        }
    }
    // Our own commits carry a note; after a crash one of them may be behind.
    let moved_back =
        |committed: &&Committed| committed.note.is_none() && committed.offset < checkpoint.resume;
    if facts.committed.as_ref().filter(moved_back).is_some() {
        plan.warning.get_or_insert(Warning::GroupBehind);
    }
    Ok(plan)
}

/// Reading the output back was cut short: all of it is done again, from the facts of now.
fn load_again(facts: &Facts, checkpoint: &Checkpoint) -> Plan {
    let committed = facts.committed.as_ref().filter(|c| c.offset >= checkpoint.resume);
    let Some(committed) = committed else {
        return Plan { load: Load::Everything, ..continue_from(checkpoint) };
    };
    Plan {
        resume: committed.offset,
        load: Load::Window,
        recover: replays_from(facts, committed),
        accounted: accounted(facts, committed),
        ..continue_from(checkpoint)
    }
}

/// Returns where on the output the replays of records above a committed offset start, if known.
fn replays_from(facts: &Facts, committed: &Committed) -> Option<OutputPosition> {
    let position = committed.note.as_ref()?.output?;
    let within = position.0 <= facts.output.high;
    within.then(|| position.max(OutputPosition(facts.output.low)))
}

/// Returns up to where whoever committed has accounted for the output, if known.
fn accounted(facts: &Facts, committed: &Committed) -> Option<OutputPosition> {
    let position = committed.note.as_ref()?.accounted?;
    (position.0 <= facts.output.high).then_some(position)
}

fn continue_from(checkpoint: &Checkpoint) -> Plan {
    Plan {
        set_aside: false,
        resume: checkpoint.resume,
        load: Load::Nothing,
        recover: None,
        accounted: checkpoint.accounted,
        counts: checkpoint.counts,
        high_mark: checkpoint.high_mark,
        warning: None,
    }
}

/// The state speaks of an output that is not there any more.
fn misfit(
    facts: &Facts,
    checkpoint: &Checkpoint,
    refusal: Refusal,
    warning: Warning,
) -> Result<Plan, Refusal> {
    if facts.on_missing_state == OnMissingState::Stop {
        return Err(refusal);
    }
    let load = match facts.on_missing_state {
        OnMissingState::Empty => Load::Nothing,
        _ => Load::Window,
    };
    let set_aside = true;
    let warning = Some(warning);
    Ok(Plan { set_aside, load, warning, accounted: None, ..continue_from(checkpoint) })
}

fn without_state(facts: &Facts, refusal: Refusal) -> Result<Plan, Refusal> {
    let lost = facts.committed.is_some() || matches!(facts.local, Local::Damaged);
    if lost && facts.on_missing_state == OnMissingState::Stop {
        return Err(refusal);
    }
    // Damage is a trace of earlier work: where that ended is not known, so "latest" would skip.
    if matches!(facts.local, Local::Damaged)
        && facts.committed.is_none()
        && facts.start == StartAt::Latest
    {
        return Err(refusal);
    }
    let resume = match (&facts.committed, facts.start) {
        (Some(committed), _) => committed.offset,
        (None, StartAt::Earliest) => ResumeOffset(facts.source.low),
        (None, StartAt::Latest) => ResumeOffset(facts.source.high),
        (None, StartAt::Stop) => return Err(Refusal::NoStart),
    };
    // Where nothing was ever committed and the source is read from its start, all that is on the
    // output is the replay of something; a longer output than fits in memory is only loaded.
    let all_replays = facts.committed.is_none()
        && facts.start == StartAt::Earliest
        && facts.output.high.saturating_sub(facts.output.low) <= REPLAYS_IN_MEMORY;
    let recover = match &facts.committed {
        Some(committed) => replays_from(facts, committed),
        None => all_replays.then_some(OutputPosition(facts.output.low)),
    };
    let load = match facts.on_missing_state {
        OnMissingState::Empty => Load::Nothing,
        _ if all_replays => Load::Nothing,
        // The first record to be read may be of any age, so nothing on the output is too old.
        _ if facts.committed.is_none() && facts.start != StartAt::Latest => Load::Everything,
        _ => Load::Window,
    };
    let warning = match facts.on_missing_state {
        OnMissingState::Empty if lost => Some(Warning::StartingEmpty),
        _ if lost => Some(Warning::Rebuilding),
        _ => None,
    };
    Ok(Plan {
        set_aside: false,
        resume,
        load,
        recover,
        accounted: facts.committed.as_ref().and_then(|committed| accounted(facts, committed)),
        counts: Counts::default(),
        high_mark: Timestamp::MIN,
        warning,
    })
}

/// Returns whether two ids are both known and not the same.
fn differ(a: Option<TopicId>, b: Option<TopicId>) -> bool {
    matches!((a, b), (Some(a), Some(b)) if a != b)
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
