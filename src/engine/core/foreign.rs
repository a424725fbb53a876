//! Somebody else's writes: records in holes between our own.

use super::catch_up::Stored;
use super::{Core, OutputPosition, Unmet};
use crate::engine::output::Hole;
use crate::engine::recent::State;
use crate::engine::{Identity, Remembered, Repeat, Written};

impl Core {
    /// Takes a record found in `hole`, in output order. Returns the repeat, if we had forwarded
    /// its key, too.
    ///
    /// # Errors
    /// Those of the store.
    pub fn late<S: Remembered>(
        &mut self,
        written: Written,
        hole: &mut Hole,
        seen: &S,
    ) -> Result<Option<Repeat>, S::Error> {
        if hole.claim(written.identity) {
            // Our own record, whose report carried no offset: now we know it.
            return Ok(None);
        }
        self.live.late_writes += 1;
        self.settled.late_writes += 1;
        let Identity::Key(fingerprint) = written.identity else { return Ok(None) };
        let window = self.setup.window;
        let at = window.time_of(written.timestamp, written.arrival).at;
        let ours = match self.recent.find(fingerprint, |other| window.joins(at, other)) {
            Some(known) => Some(match known.state() {
                State::Done(ours) => ours,
                State::Recovered(ours) => Some(ours),
                State::InFlight(_) => {
                    let Written { offset, identity, timestamp, .. } = written;
                    self.shadows.entry(fingerprint).or_insert(offset);
                    self.recovered.entry(offset).or_insert(Unmet { identity, at, timestamp });
                    None
                }
            }),
            None => match self.stored(fingerprint, at, seen)? {
                Stored::Nothing => None,
                Stored::Itself => return Ok(Some(self.repeated(written.offset, None))),
                Stored::Near => Some(None),
            },
        };
        self.keep(fingerprint, at, written.offset);
        Ok(ours.map(|ours| self.repeated(written.offset, ours)))
    }

    /// Takes the output's end while nothing of ours is in flight; returns what somebody else
    /// wrote since our last report, if anything.
    pub fn quiet_end(&mut self, end: OutputPosition) -> Option<Hole> {
        if self.flights.len() > 0 {
            return None;
        }
        self.output.quiet_hole(end)
    }
}
