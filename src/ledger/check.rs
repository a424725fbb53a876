//! Matching the two logs as they come in, whichever comes first.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::fmt;

use super::due::{Due, Occurrence, judge};
use super::settle::Settlement;
use super::{Ledger, Record};
use crate::words::{RecordOffset, Span, Timestamp};

/// Makes the dedup key of a record; `None` means that it has none.
type KeyOf = Box<dyn Fn(&Record) -> Option<Vec<u8>> + Send>;

/// What makes two records the same, and for how long. Windows are counted in event time.
pub struct Rules {
    key_of: KeyOf,
    window: Span,
}

impl Rules {
    /// Two records are the same if their record keys are; a null key is no key.
    pub fn by_record_key(window: Span) -> Self {
        Self::by(window, |record| record.key.clone())
    }

    /// Two records are the same if `key_of` says so; where it says `None` there is no key, and the
    /// record must be forwarded always. `key_of` must not look at the offset.
    pub fn by(window: Span, key_of: impl Fn(&Record) -> Option<Vec<u8>> + Send + 'static) -> Self {
        Self { key_of: Box::new(key_of), window }
    }
}

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rules").field("window", &self.window).finish_non_exhaustive()
    }
}

/// The check of one source partition against its output partition.
///
/// Holds every key it met, and the content of records only while their counterpart is missing: fed
/// both logs side by side it stays small.
#[derive(Debug)]
pub struct Check {
    partition: i32,
    rules: Rules,
    ledger: Ledger,
    newest: Timestamp,
    /// Every record that must or may be on the output, in the order of the source.
    due: Vec<Occurrence>,
    /// Places in `due`, by key; records without a key are not here.
    keys: HashMap<Vec<u8>, Vec<usize>>,
    /// Records whose counterpart has not come, by content.
    waiting: HashMap<Vec<u8>, Waiting>,
    /// Every output record, in order.
    outputs: Vec<Output>,
}

/// Records of one content, and so of one key. At most one of the queues holds anything.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) key: Option<Vec<u8>>,
    /// Places in [`Check::due`].
    pub(super) due: VecDeque<usize>,
    /// Places in [`Check::outputs`].
    pub(super) outputs: VecDeque<usize>,
}

/// A record of the output.
#[derive(Debug)]
pub(super) struct Output {
    pub(super) offset: RecordOffset,
    /// The place in [`Check::due`] of the record it was taken for.
    pub(super) due: Option<usize>,
    /// Hash of the content.
    pub(super) hash: u128,
}

impl Check {
    /// Starts a check; `partition` only names the place of faults.
    pub fn new(partition: i32, rules: Rules) -> Self {
        Self {
            partition,
            rules,
            ledger: Ledger::default(),
            newest: Timestamp::MIN,
            due: Vec::new(),
            keys: HashMap::new(),
            waiting: HashMap::new(),
            outputs: Vec::new(),
        }
    }

    /// Takes the next record of the source partition.
    pub fn input(&mut self, record: &Record) {
        let content = record.content();
        let hash = self.ledger.input.add(&content);
        self.ledger.read += 1;
        let key = (self.rules.key_of)(record);
        let due = self.judge(key.as_ref(), record.timestamp);
        self.newest = self.newest.max(record.timestamp.unwrap_or(Timestamp::MIN));
        if due == Due::Not {
            self.ledger.suppressed += 1;
            return;
        }
        let place = self.due.len();
        if let Some(key) = &key {
            self.keys.entry(key.clone()).or_default().push(place);
        }
        let (source, time) = (record.offset, record.timestamp);
        self.due.push(Occurrence { source, time, due, output: None, hash });
        self.match_up(content, key, |waiting| waiting.due.push_back(place));
    }

    fn judge(&self, key: Option<&Vec<u8>>, time: Option<Timestamp>) -> Due {
        let places = key.and_then(|key| self.keys.get(key)).map_or(&[][..], Vec::as_slice);
        let known = places.iter().filter_map(|place| self.due.get(*place));
        judge(known, time, self.newest, self.rules.window)
    }

    /// Takes the next record of the output partition.
    pub fn output(&mut self, record: &Record) {
        let content = record.content();
        let hash = self.ledger.output.add(&content);
        let key = (self.rules.key_of)(record);
        let place = self.outputs.len();
        self.outputs.push(Output { offset: record.offset, due: None, hash });
        self.match_up(content, key, |waiting| waiting.outputs.push_back(place));
    }

    /// Adds a record to those of its content, and pairs it if a counterpart waits.
    fn match_up(&mut self, content: Vec<u8>, key: Option<Vec<u8>>, add: impl FnOnce(&mut Waiting)) {
        let mut entry = match self.waiting.entry(content) {
            Entry::Occupied(there) => there,
            Entry::Vacant(free) => free.insert_entry(Waiting::of(key)),
        };
        add(entry.get_mut());
        if let Some((due, output)) = entry.get_mut().take_pair() {
            pair(&mut self.due, &mut self.outputs, due, output);
        }
        if entry.get().is_empty() {
            entry.remove();
        }
    }

    /// Ends the check.
    pub fn finish(self) -> Ledger {
        Settlement {
            partition: self.partition,
            ledger: self.ledger,
            due: self.due,
            keys: self.keys,
            outputs: self.outputs,
            faults: Vec::new(),
        }
        .settle(self.waiting.into_values())
    }
}

/// Notes that the output record at `output` is the due record at `due`.
pub(super) fn pair(all_due: &mut [Occurrence], outputs: &mut [Output], due: usize, output: usize) {
    if let (Some(occurrence), Some(there)) = (all_due.get_mut(due), outputs.get_mut(output)) {
        occurrence.output = Some(there.offset);
        there.due = Some(due);
    }
}

impl Waiting {
    fn of(key: Option<Vec<u8>>) -> Self {
        Self { key, due: VecDeque::new(), outputs: VecDeque::new() }
    }

    fn take_pair(&mut self) -> Option<(usize, usize)> {
        if self.due.is_empty() || self.outputs.is_empty() {
            return None;
        }
        self.due.pop_front().zip(self.outputs.pop_front())
    }

    fn is_empty(&self) -> bool {
        self.due.is_empty() && self.outputs.is_empty()
    }
}
