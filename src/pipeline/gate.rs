//! The gate: whether records are let in, and why not.

use std::fmt;
use std::time::{Duration, Instant};

use crate::kafka::{self, Source};

use super::flow::Flow;
use super::lane::Phase;

/// How long to wait for room before partitions are paused: pausing throws away what the client
/// has read ahead.
const PATIENCE: Duration = Duration::from_millis(300);

/// How often the free space of the state's disk is looked at.
const SPACE_EVERY: Duration = Duration::from_secs(1);

/// Why no records are let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    /// As much is in flight as may be.
    Full,
    /// The group did not prove lately that we are a member.
    NoLease,
    /// The disk of the state is nearly full.
    NoSpace,
}

/// Lets records in, or not.
#[derive(Debug)]
pub(super) struct Gate {
    /// Whether the running partitions are paused in the client.
    paused: bool,
    full_since: Option<Instant>,
    closed: Option<Why>,
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
    ) -> Result<bool, kafka::Error> {
        let why = self.why(flow, now);
        if why != self.closed {
            tell(self.closed, why);
            self.closed = why;
        }
        let Some(why) = why else {
            self.full_since = None;
            self.set_paused(false, flow, source)?;
            return Ok(true);
        };
        let since = *self.full_since.get_or_insert(now);
        if why != Why::Full || now.duration_since(since) >= PATIENCE {
            self.set_paused(true, flow, source)?;
        }
        Ok(false)
    }

    fn why(&mut self, flow: &Flow, now: Instant) -> Option<Why> {
        if !flow.lease.holds(now) {
            return Some(Why::NoLease);
        }
        if self.is_space_short(flow, now) {
            return Some(Why::NoSpace);
        }
        (!flow.has_room()).then_some(Why::Full)
    }

    fn is_space_short(&mut self, flow: &Flow, now: Instant) -> bool {
        if self.space_looked_at.is_some_and(|at| now.duration_since(at) < SPACE_EVERY) {
            return self.space_short;
        }
        self.space_looked_at = Some(now);
        self.space_short = match flow.context.state.free_bytes() {
            Ok(free) => free < flow.context.config.state.min_free_bytes,
            Err(error) => {
                tracing::warn!(%error, "failed to read the free space of the state's disk");
                true
            }
        };
        self.space_short
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
        self.closed.filter(|why| *why != Why::Full).map(|why| why.to_string())
    }
}

/// Says a change aloud, once.
fn tell(before: Option<Why>, now: Option<Why>) {
    match (before, now) {
        // Back-pressure is the normal state of a fast source.
        (_, Some(Why::Full)) | (Some(Why::Full), None) => {}
        (_, Some(why)) => tracing::warn!(code = why.code(), "no records are taken in: {why}"),
        (Some(why), None) => tracing::info!("records are taken in again; it was: {why}"),
        (None, None) => {}
    }
}

impl Why {
    fn code(self) -> &'static str {
        match self {
            Self::Full => "",
            Self::NoLease => crate::words::Code::LeaseLost.as_str(),
            Self::NoSpace => crate::words::Code::StateNoSpace.as_str(),
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "as much is in flight as `sink.in_flight_max` allows",
            Self::NoLease => {
                "the group coordinator has not taken a commit lately, so another instance may own \
                 these partitions soon"
            }
            Self::NoSpace => {
                "the disk of `state.dir` has less space than `state.min_free`: free some"
            }
        })
    }
}
