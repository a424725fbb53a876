//! The gate: whether records are let in, and why not.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::kafka::{self, Source};
use crate::words::Code;

use super::Error;
use super::flow::Flow;
use super::lane::Phase;

/// How long to wait for room before partitions are paused: pausing throws away what the client
/// has read ahead.
const PATIENCE: Duration = Duration::from_millis(300);

/// How often the free space of the state's disk is looked at.
const SPACE_EVERY: Duration = Duration::from_secs(1);

/// Why no records are let in. It passes by itself: nothing stops, nothing is lost.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Closed {
    /// As much is in flight as may be.
    #[error("as much is in flight as `sink.in_flight_max` allows")]
    Full,
    /// The group did not prove lately that we are a member.
    #[error(
        "the coordinator of group `{group}` has not taken a commit lately, so another instance \
         may own these partitions soon"
    )]
    NoLease {
        /// The group.
        group: String,
    },
    /// The disk of the state is nearly full.
    #[error(
        "the disk of `{}` has less space than the {min_free} bytes of `state.min_free`",
        dir.display()
    )]
    NoSpace {
        /// The state's directory.
        dir: PathBuf,
        /// What has to stay free.
        min_free: u64,
    },
}

impl Closed {
    /// Returns the code that a change to this is logged with; none while all is well.
    pub fn code(&self) -> Option<Code> {
        match self {
            Self::Full => None,
            Self::NoLease { .. } => Some(Code::LeaseLost),
            Self::NoSpace { .. } => Some(Code::StateNoSpace),
        }
    }

    /// Returns the line that is logged when it begins.
    pub fn line(&self) -> String {
        let fix = match self {
            Self::Full => "none is needed",
            Self::NoLease { .. } => {
                "check the brokers, and the network to them; it goes on when a commit is taken"
            }
            Self::NoSpace { .. } => "free some; it goes on by itself then",
        };
        format!("no records are taken in: {self}; fix: {fix}")
    }
}

/// Lets records in, or not.
#[derive(Debug)]
pub(super) struct Gate {
    /// Whether the running partitions are paused in the client.
    paused: bool,
    full_since: Option<Instant>,
    closed: Option<Closed>,
    space_looked_at: Option<Instant>,
    space_short: bool,
}

impl Gate {
    pub(super) fn new() -> Self {
        Self {
            paused: false,
            full_since: None,
            closed: None,
            space_looked_at: None,
            space_short: false,
        }
    }

    /// Returns whether partitions may run in the client.
    pub(super) fn is_open(&self) -> bool {
        !self.paused
    }

    /// Looks at everything that the gate depends on; returns whether records are let in now.
    pub(super) fn look(
        &mut self,
        flow: &mut Flow,
        source: &mut Source,
        now: Instant,
    ) -> Result<bool, Error> {
        let why = self.why(flow, now)?;
        if why != self.closed {
            tell(self.closed.as_ref(), why.as_ref());
            self.closed = why;
        }
        let Some(why) = &self.closed else {
            self.full_since = None;
            self.set_paused(false, flow, source)?;
            return Ok(true);
        };
        let since = *self.full_since.get_or_insert(now);
        if *why != Closed::Full || now.duration_since(since) >= PATIENCE {
            self.set_paused(true, flow, source)?;
        }
        Ok(false)
    }

    fn why(&mut self, flow: &Flow, now: Instant) -> Result<Option<Closed>, Error> {
        // With nothing to send there is no need of a lease, and nothing to renew it by.
        let running = flow.lanes.iter().any(|lane| lane.is_running());
        if running && !flow.lease.holds(now) {
            let group = flow.context.config.source.group.clone();
            return Ok(Some(Closed::NoLease { group }));
        }
        if self.is_space_short(flow, now)? {
            let state = &flow.context.config.state;
            let (dir, min_free) = (state.dir.clone(), state.min_free_bytes);
            return Ok(Some(Closed::NoSpace { dir, min_free }));
        }
        Ok((!flow.has_room()).then_some(Closed::Full))
    }

    fn is_space_short(&mut self, flow: &Flow, now: Instant) -> Result<bool, Error> {
        if self.space_looked_at.is_none_or(|at| now.duration_since(at) >= SPACE_EVERY) {
            self.space_looked_at = Some(now);
            // A disk that does not tell is gone, and so is what is durable.
            let free = flow.context.state.free_bytes()?;
            self.space_short = free < flow.context.config.state.min_free_bytes;
        }
        Ok(self.space_short)
    }

    fn set_paused(
        &mut self,
        paused: bool,
        flow: &Flow,
        source: &mut Source,
    ) -> Result<(), kafka::Error> {
        if std::mem::replace(&mut self.paused, paused) == paused {
            return Ok(());
        }
        for lane in flow.lanes.iter().filter(|lane| matches!(lane.phase, Phase::Running)) {
            if paused {
                source.pause(&lane.partition)?;
            } else {
                source.resume(&lane.partition)?;
            }
        }
        Ok(())
    }

    /// Returns why no records are let in, for people; `None` while they are.
    pub(super) fn reason(&self) -> Option<String> {
        self.closed.as_ref().filter(|why| **why != Closed::Full).map(ToString::to_string)
    }
}

/// Says a change aloud, once.
fn tell(before: Option<&Closed>, now: Option<&Closed>) {
    match (before, now) {
        // Back-pressure is the normal state of a fast source.
        (_, Some(Closed::Full)) | (Some(Closed::Full), None) => {}
        (_, Some(why)) => tracing::warn!(code = why.code().map(Code::as_str), "{}", why.line()),
        (Some(why), None) => tracing::info!("records are taken in again; it was: {why}"),
        (None, None) => {}
    }
}
