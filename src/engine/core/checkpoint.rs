//! What a checkpoint holds, and when its entries may be forgotten here.

use super::{
    Checkpoint, Core, Counts, Draft, Fingerprint, OutputPosition, ResumeOffset, Timestamp, total,
};

impl Core {
    /// Starts a checkpoint of everything settled so far; `None` while another one is open.
    ///
    /// `clean` says that this instance leaves with nothing in flight.
    pub fn begin_checkpoint(&mut self, now: Timestamp, clean: bool) -> Option<Draft> {
        if self.checkpoint_open {
            return None;
        }
        self.checkpoint_open = true;
        let checkpoint = self.snapshot(now, clean && self.flights.len() == 0);
        let spare = std::mem::take(&mut self.spare);
        Some(Draft { entries: std::mem::replace(&mut self.delta, spare), checkpoint })
    }

    /// Returns the prefix as it is now, without beginning a checkpoint.
    pub fn snapshot(&self, now: Timestamp, clean: bool) -> Checkpoint {
        Checkpoint {
            resume: self.resume(),
            output: self.output_position(),
            accounted: self.output.accounted(),
            high_mark: self.high_mark(),
            counts: Counts { read: total(&self.settled), ..self.settled },
            clean,
            incarnation: self.setup.incarnation,
            written_at: now,
            source_topic_id: self.setup.source_topic_id,
            output_topic_id: self.setup.output_topic_id,
        }
    }

    /// Takes back the entries of a checkpoint that is durable: the store answers for them now.
    ///
    /// Their buffer is used again: fresh pages for each checkpoint cost a tenth of the path.
    pub fn checkpoint_durable(&mut self, mut entries: Vec<(Fingerprint, Timestamp)>) {
        self.checkpoint_open = false;
        // Asked before these entries were in the store's care alone.
        self.ahead.clear();
        self.recent.durable(&entries);
        entries.clear();
        self.spare = entries;
    }

    /// Returns the next source offset to read after a restart.
    pub fn resume(&self) -> ResumeOffset {
        if crate::bugs::active("resume-past-flights") {
            return self.next_read;
        }
        match self.flights.front_offset() {
            Some(offset) => ResumeOffset(offset.0),
            None => self.next_read,
        }
    }

    /// Returns where catch-up must start reading the output after a restart.
    pub fn output_position(&self) -> Option<OutputPosition> {
        let settled = self.output.settled();
        if crate::bugs::active("position-after-unmet") {
            return settled;
        }
        let unmet = self.recovered.keys().next().map(|offset| OutputPosition(offset.0));
        match (settled, unmet) {
            (Some(settled), Some(unmet)) => Some(settled.min(unmet)),
            (settled, unmet) => settled.or(unmet),
        }
    }
}
