//! Looking ahead: a batch of records is asked about before the first of them is judged, so that the
//! memory's answers come at the same time and not one after the other.
//!
//! What is learnt is only ever that something is surely not remembered durably. It stays true until
//! the recent memory hands something over to the store, so it is forgotten then.

use super::{Core, Fingerprint, Timestamp};
use crate::engine::{Identity, Incoming, Remembered};

/// What is known of records that are about to be read.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    asked: Vec<(Fingerprint, Timestamp)>,
    absent: Vec<bool>,
    next: usize,
}

impl Ahead {
    /// Returns whether the store surely remembers nothing of this one. Asked in the order in which
    /// the batch was given; records may be left out.
    #[inline]
    pub(super) fn rules_out(&mut self, fingerprint: Fingerprint, at: Timestamp) -> bool {
        while let Some(asked) = self.asked.get(self.next) {
            let found = *asked == (fingerprint, at);
            self.next += 1;
            if found {
                return self.absent.get(self.next - 1).copied().unwrap_or(false);
            }
        }
        false
    }

    pub(super) fn clear(&mut self) {
        self.asked.clear();
        self.absent.clear();
        self.next = 0;
    }
}

impl Core {
    /// Prepares for these records, which are to be judged next and in this order. Changes nothing
    /// but the speed of that; a few dozen at a time do best.
    pub fn look_ahead<S: Remembered>(&mut self, records: &[Incoming], seen: &S) {
        self.ahead.clear();
        let window = self.setup.window;
        self.ahead.asked.extend(records.iter().filter_map(|record| match record.identity {
            Identity::Key(fingerprint) => {
                Some((fingerprint, window.time_of(record.timestamp, record.arrival).at))
            }
            Identity::Content(_) => None,
        }));
        seen.rule_out(&self.ahead.asked, window.length(), &mut self.ahead.absent);
        std::hint::black_box(self.recent.touch(&self.ahead.asked));
    }
}
