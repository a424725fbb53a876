//! Looking into the core's memory, for people who ask.

use super::{Core, Fingerprint, Timestamp};
use crate::engine::Why;
use crate::engine::recent::State;

impl Core {
    /// Returns what the memory of this core says of a record with this key at time `at`: when the
    /// occurrence was that makes it a copy, and how that one stands. What is durable is not here.
    pub fn recent(&mut self, fingerprint: Fingerprint, at: Timestamp) -> Option<(Timestamp, Why)> {
        let window = self.setup.window;
        let known = self.recent.find(fingerprint, |other| window.joins(at, other))?;
        let why = match known.state() {
            State::InFlight(_) => Why::InFlight,
            State::Done(_) => Why::Seen,
            State::Recovered(_) => Why::Replay,
        };
        Some((known.at, why))
    }
}
