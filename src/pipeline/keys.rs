//! From a record to what the core recognises it by, under a topic's rule.

use crate::config::{DedupRule, OnMissingKey};
use crate::engine::Identity;
use crate::kafka::SourceRecord;
use crate::key::{Hasher, Missing, RecordView, Secret};

/// What the rule says of a record before anybody asks whether it is a duplicate.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// Judge it by this.
    Judge(Identity),
    /// It has no key for this reason, and is forwarded all the same.
    Keyless(Identity, Missing),
    /// It has no key for this reason, and goes to the dead-letter topic.
    DeadLetter(Identity, Missing),
    /// It has no key for this reason, and the rule says to stop.
    Stop(Missing),
    /// It is left out on purpose.
    LeaveOut,
}

/// One topic's rule, with the hasher that goes with it.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    rule: DedupRule,
    hasher: Hasher,
}

impl Keys {
    pub(super) fn new(rule: &DedupRule, secret: &Secret) -> Self {
        Self { rule: rule.clone(), hasher: Hasher::new(rule.hash, secret.clone()) }
    }

    /// Returns what the rule says of a record read from the source.
    pub(super) fn classify(&mut self, record: &SourceRecord<'_>) -> Kind {
        let drop = self.rule.drop;
        match record.value() {
            None if drop.null_value => return Kind::LeaveOut,
            Some([]) if drop.empty_value => return Kind::LeaveOut,
            _ => {}
        }
        match self.hasher.fingerprint(&self.rule.key, view(record)) {
            Ok(fingerprint) => Kind::Judge(Identity::Key(fingerprint)),
            Err(missing) => match self.rule.on_missing_key {
                OnMissingKey::Forward => Kind::Keyless(self.content(record), missing),
                OnMissingKey::DeadLetter => Kind::DeadLetter(self.content(record), missing),
                OnMissingKey::Stop => Kind::Stop(missing),
            },
        }
    }

    /// Returns what a record found on the output is recognised by.
    pub(super) fn identify(&mut self, record: &SourceRecord<'_>) -> Identity {
        match self.hasher.fingerprint(&self.rule.key, view(record)) {
            Ok(fingerprint) => Identity::Key(fingerprint),
            Err(_missing) => self.content(record),
        }
    }

    fn content(&mut self, record: &SourceRecord<'_>) -> Identity {
        // The sink writes 0 as 1, and a record must be known again by what was written.
        let timestamp_ms = record.timestamp().map_or(-1, |at| if at.0 == 0 { 1 } else { at.0 });
        Identity::Content(self.hasher.content(view(record), timestamp_ms))
    }
}

fn view<'a>(record: &'a SourceRecord<'_>) -> RecordView<'a, SourceRecord<'a>> {
    RecordView { key: record.key(), value: record.value(), headers: record }
}
