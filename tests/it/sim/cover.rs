//! How often each fault happened: a fault that never fires proves nothing.

use std::fmt;

macro_rules! kinds {
    ($($kind:ident = $text:literal,)*) => {
        /// Something that the simulator does to the core.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Kind { $($kind,)* }
        const KINDS: &[(Kind, &str)] = &[$((Kind::$kind, $text),)*];
    };
}

kinds! {
    NearDuplicate = "duplicate planned near its first",
    FarDuplicate = "duplicate planned anywhere",
    WindowEdge = "duplicate within a millisecond of the window's edge",
    Keyless = "record without a key",
    KeylessTwin = "record without a key, same bytes twice",
    AbsurdTime = "absurd or no timestamp",
    FutureTime = "timestamp ahead of the clock",
    SourceHole = "hole in the source offsets",
    ControlRecord = "control record on the output",
    Lost = "send lost, report says not written",
    Gap = "later batch written though an earlier one was lost",
    AckLost = "written, report lost",
    TimedOut = "reported as unknown, written later or never",
    Placeless = "report without an offset",
    Refused = "record refused by the broker",
    RefusedAtOnce = "record refused by the client",
    Crash = "crash",
    CrashInCatchUp = "crash while catching up",
    CrashInRebuild = "crash while rebuilding",
    CrashInCheckpoint = "crash with a checkpoint in progress",
    CrashBeforeCommit = "crash between durable and committed",
    CrashInFlight = "crash with records in flight",
    Leave = "graceful leave",
    LateInside = "dead bytes written before the successor read the end",
    LateAfter = "dead bytes written after the successor read the end",
    HoleRead = "hole of foreign records read",
    QuietHole = "foreign records found while quiet",
    Rewind = "rewind after an unknown outcome",
    RewindRefused = "rewind after a refusal",
    Replay = "record read again, already on the output",
    DiskLost = "local disk lost",
    DiskStale = "older local state restored",
    ClockBack = "wall clock steps back",
    ClockAhead = "wall clock leaps ahead",
    Expired = "occurrences expired",
}

/// How often each kind happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Coverage([u64; KINDS.len()]);

impl Default for Coverage {
    fn default() -> Self {
        Self([0; KINDS.len()])
    }
}

impl Coverage {
    pub(crate) fn hit(&mut self, kind: Kind) {
        self.0[kind as usize] += 1;
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (sum, more) in self.0.iter_mut().zip(other.0) {
            *sum += more;
        }
    }

    /// The kinds that happened less than `least` times.
    pub(crate) fn below(&self, least: u64) -> Vec<&'static str> {
        let kinds = KINDS.iter().filter(|(kind, _)| self.0[*kind as usize] < least);
        kinds.map(|(_, text)| *text).collect()
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (kind, text) in KINDS {
            writeln!(f, "{:>9}  {text}", self.0[*kind as usize])?;
        }
        Ok(())
    }
}
