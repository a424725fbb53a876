//! The end of a check: what found no equal counterpart is told apart.
//!
//! A stray output record is, in this order: a second copy of a record that is there already
//! (repeated); what became of a first occurrence of its key that is missing (altered); another
//! record of a key that has had its due (repeated); or from nowhere (phantom).

use std::collections::{BTreeMap, HashMap};

use super::check::{Output, Waiting, pair};
use super::due::{Due, Occurrence};
use super::{Fault, FaultKind, Ledger};

/// A check whose logs have ended.
pub(super) struct Settlement {
    pub(super) partition: i32,
    pub(super) ledger: Ledger,
    pub(super) due: Vec<Occurrence>,
    pub(super) keys: HashMap<Vec<u8>, Vec<usize>>,
    pub(super) outputs: Vec<Output>,
    pub(super) faults: Vec<Fault>,
}

/// What is left of one key: places in the lists of the settlement, in order.
#[derive(Default)]
struct Left {
    due: Vec<usize>,
    outputs: Vec<usize>,
}

impl Settlement {
    pub(super) fn settle(mut self, waiting: impl Iterator<Item = Waiting>) -> Ledger {
        for (key, left) in by_key(waiting) {
            self.settle_key(key.as_deref(), left);
        }
        self.count_due();
        self.check_order();
        self.faults.sort_by_key(|fault| (fault.output, fault.source));
        for fault in self.faults {
            self.ledger.fault(fault);
        }
        self.ledger
    }

    fn settle_key(&mut self, key: Option<&[u8]>, left: Left) {
        let (must, may): (Vec<_>, Vec<_>) = left.due.into_iter().partition(|place| {
            self.due.get(*place).is_some_and(|occurrence| occurrence.due == Due::Must)
        });
        let mut missing = must.into_iter().chain(may);
        let there = self.there(key);
        for output in left.outputs {
            let hash = self.outputs.get(output).map(|output| output.hash);
            if let Some(copied) = hash.and_then(|hash| there.get(&hash)) {
                self.stray(FaultKind::Repeated, output, Some(*copied));
            } else if let Some(due) = missing.next() {
                pair(&mut self.due, &mut self.outputs, due, output);
                self.stray(FaultKind::Altered, output, Some(due));
            } else if key.is_some_and(|key| self.keys.contains_key(key)) {
                let first = key.and_then(|key| self.keys.get(key)?.first().copied());
                self.stray(FaultKind::Repeated, output, first);
            } else {
                self.stray(FaultKind::Phantom, output, None);
            }
        }
    }

    /// Returns the key's records that are on the output unharmed: content hash to first place.
    fn there(&self, key: Option<&[u8]>) -> HashMap<u128, usize> {
        let all: Vec<usize> = match key {
            Some(key) => self.keys.get(key).cloned().unwrap_or_default(),
            None => (0..self.due.len()).collect(),
        };
        let mut there = HashMap::new();
        for place in all {
            if let Some(occurrence) = self.due.get(place).filter(|d| d.output.is_some()) {
                there.entry(occurrence.hash).or_insert(place);
            }
        }
        there
    }

    fn stray(&mut self, kind: FaultKind, output: usize, due: Option<usize>) {
        let occurrence = due.and_then(|due| self.due.get(due));
        self.faults.push(Fault {
            kind,
            partition: self.partition,
            source: occurrence.map(|occurrence| occurrence.source),
            output: self.outputs.get(output).map(|output| output.offset),
            first: occurrence
                .filter(|_| kind == FaultKind::Repeated)
                .and_then(|occurrence| occurrence.output),
        });
    }

    /// Counts what became of the records that were due.
    fn count_due(&mut self) {
        for occurrence in &self.due {
            self.ledger.undecided += u64::from(occurrence.due == Due::May);
            match (occurrence.output, occurrence.due) {
                (Some(_), _) => self.ledger.forwarded += 1,
                (None, Due::Must) => self.faults.push(Fault {
                    kind: FaultKind::Lost,
                    partition: self.partition,
                    source: Some(occurrence.source),
                    output: None,
                    first: None,
                }),
                (None, _) => self.ledger.suppressed += 1,
            }
        }
    }

    /// Finds output records that come after one that was read later. Only the copy that was taken
    /// for the first occurrence has a place in the order.
    fn check_order(&mut self) {
        let mut latest = 0;
        for output in &self.outputs {
            let Some(due) = output.due else { continue };
            if due < latest {
                self.faults.push(Fault {
                    kind: FaultKind::Reordered,
                    partition: self.partition,
                    source: self.due.get(due).map(|occurrence| occurrence.source),
                    output: Some(output.offset),
                    first: None,
                });
            }
            latest = latest.max(due);
        }
    }
}

/// Gathers what is left by key, in order of the keys and, within one, of the logs.
fn by_key(waiting: impl Iterator<Item = Waiting>) -> BTreeMap<Option<Vec<u8>>, Left> {
    let mut keys: BTreeMap<_, Left> = BTreeMap::new();
    for waiting in waiting {
        let left = keys.entry(waiting.key).or_default();
        left.due.extend(waiting.due);
        left.outputs.extend(waiting.outputs);
    }
    for left in keys.values_mut() {
        left.due.sort_unstable();
        left.outputs.sort_unstable();
    }
    keys
}
