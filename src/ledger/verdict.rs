//! What the checker found.

use std::fmt;

use super::Digest;
use crate::words::RecordOffset;

/// What came of the records, and what went wrong.
///
/// `read = forwarded + suppressed + lost`, and the output holds
/// `forwarded + repeated + phantom` records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Records of the source.
    pub read: u64,
    /// First occurrences that are on the output.
    pub forwarded: u64,
    /// Duplicates within the window that are not on the output.
    pub suppressed: u64,
    /// First occurrences that are not on the output.
    pub lost: u64,
    /// Output records beyond the one that each first occurrence is due.
    pub repeated: u64,
    /// Output records that come after one that was read later.
    pub reordered: u64,
    /// Of the forwarded: those that differ from the first occurrence.
    pub altered: u64,
    /// Output records that no source record has the key of.
    pub phantom: u64,
    /// Records so far behind the newest that forwarding and suppressing them are both right.
    pub undecided: u64,
    /// Over the source records.
    pub input: Digest,
    /// Over the output records.
    pub output: Digest,
    /// The first few faults of each kind.
    pub faults: Vec<Fault>,
}

/// How many faults of each kind are told with coordinates.
const TOLD: usize = 8;

/// The ways in which an output can be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FaultKind {
    /// A first occurrence is missing.
    Lost,
    /// A record is there more than once.
    Repeated,
    /// A record comes after one that was read later.
    Reordered,
    /// A record differs from the first occurrence.
    Altered,
    /// A record comes from nowhere.
    Phantom,
}

/// One fault and where it is. Holds no keys or values, so it may be logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What is wrong.
    pub kind: FaultKind,
    /// The partition, of the source and of the output.
    pub partition: i32,
    /// The source record, where there is one.
    pub source: Option<RecordOffset>,
    /// The output record at fault, where there is one.
    pub output: Option<RecordOffset>,
    /// For a repeated record: where the first copy is.
    pub first: Option<RecordOffset>,
}

impl Ledger {
    /// Returns whether nothing is lost, repeated, reordered, altered or made up.
    pub fn is_clean(&self) -> bool {
        self.lost + self.repeated + self.reordered + self.altered + self.phantom == 0
    }

    /// Returns how many faults of `kind` there are.
    pub fn count(&self, kind: FaultKind) -> u64 {
        match kind {
            FaultKind::Lost => self.lost,
            FaultKind::Repeated => self.repeated,
            FaultKind::Reordered => self.reordered,
            FaultKind::Altered => self.altered,
            FaultKind::Phantom => self.phantom,
        }
    }

    /// Adds another partition's ledger to this one.
    pub fn merge(&mut self, other: &Self) {
        self.read += other.read;
        self.forwarded += other.forwarded;
        self.suppressed += other.suppressed;
        self.lost += other.lost;
        self.repeated += other.repeated;
        self.reordered += other.reordered;
        self.altered += other.altered;
        self.phantom += other.phantom;
        self.undecided += other.undecided;
        self.input.merge(other.input);
        self.output.merge(other.output);
        for fault in &other.faults {
            self.tell(fault.clone());
        }
    }

    /// Counts a fault, and keeps it if it is among the first of its kind.
    pub(super) fn fault(&mut self, fault: Fault) {
        let count = match fault.kind {
            FaultKind::Lost => &mut self.lost,
            FaultKind::Repeated => &mut self.repeated,
            FaultKind::Reordered => &mut self.reordered,
            FaultKind::Altered => &mut self.altered,
            FaultKind::Phantom => &mut self.phantom,
        };
        *count += 1;
        self.tell(fault);
    }

    fn tell(&mut self, fault: Fault) {
        if self.faults.iter().filter(|told| told.kind == fault.kind).count() < TOLD {
            self.faults.push(fault);
        }
    }
}

impl FaultKind {
    /// Returns the name used in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Repeated => "repeated",
            Self::Reordered => "reordered",
            Self::Altered => "altered",
            Self::Phantom => "phantom",
        }
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: partition {}", self.kind, self.partition)?;
        if let Some(source) = self.source {
            write!(f, ", source offset {source}")?;
        }
        if let Some(output) = self.output {
            write!(f, ", output offset {output}")?;
        }
        if let Some(first) = self.first {
            write!(f, ", first copy at output offset {first}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "read {} forwarded {} suppressed {} lost {} repeated {} reordered {} altered {} \
             phantom {} input {} output {}",
            self.read,
            self.forwarded,
            self.suppressed,
            self.lost,
            self.repeated,
            self.reordered,
            self.altered,
            self.phantom,
            self.input,
            self.output
        )?;
        self.faults.iter().try_for_each(|fault| write!(f, "\n  {fault}"))
    }
}
