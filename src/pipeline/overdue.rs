//! Deliveries that take too long, told before the client gives them up.
//!
//! The client gives records up one by one as their time is over, and goes on to send those behind
//! them; what is sent anew then comes out of order. So the whole producer is thrown away a little
//! earlier: what it has written until then is in order, and the rest is sent anew behind that. The
//! client's own limit remains for the case that this thread comes too late.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::kafka;
use crate::words::{Failure, RecordOffset};

use super::flow::{Flow, undeliverable};

/// How many times are noted at most until a delivery is overdue.
const MARKS: u32 = 32;

/// Follows how long the deliveries of one lane have been under way.
#[derive(Debug)]
pub(super) struct Overdue {
    limit: Duration,
    /// How much had been sent by when, the oldest first; only what is not all done.
    marks: VecDeque<Mark>,
}

#[derive(Clone, Copy, Debug)]
struct Mark {
    sent: u64,
    at: Instant,
}

impl Overdue {
    /// Takes how long the client keeps trying.
    pub(super) fn new(delivery_timeout: Duration) -> Self {
        // Marks come up to a thirty-second later than the records they stand for.
        Self { limit: delivery_timeout - delivery_timeout / 8, marks: VecDeque::new() }
    }

    /// Takes how many deliveries were ever sent and how many of these are not reported; returns
    /// whether one of them is overdue.
    pub(super) fn look(&mut self, sent: u64, outstanding: usize, now: Instant) -> bool {
        let done = sent.saturating_sub(u64::try_from(outstanding).unwrap_or(u64::MAX));
        while self.marks.pop_front_if(|mark| mark.sent <= done).is_some() {}
        let due = |last: &Mark| now.duration_since(last.at) >= self.limit / MARKS;
        if sent > done && self.marks.back().is_none_or(|last| last.sent < sent && due(last)) {
            self.marks.push_back(Mark { sent, at: now });
        }
        self.marks.front().is_some_and(|first| now.duration_since(first.at) >= self.limit)
    }
}

impl Flow {
    /// Calls deliveries uncertain that will soon be given up by the client.
    pub(super) fn look_for_overdue(&mut self, now: Instant) {
        if self.trouble.is_some() {
            return;
        }
        // A transaction that fails is undone as a whole, so nothing of it comes out of order.
        for lane in self.lanes.iter_mut().filter(|lane| lane.writer.is_none()) {
            if !lane.overdue.look(lane.sent, lane.outstanding, now) {
                continue;
            }
            self.context.board.count_failure(Failure::DeliveryUnknown);
            let lowest = lane.core.as_ref().map_or(-1, |core| core.resume().0);
            let error = kafka::Error::unanswered();
            self.trouble = Some(undeliverable(lane, RecordOffset(lowest), None, error));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_millis(7_000);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_delivery_is_overdue_before_the_client_gives_it_up_and_not_long_before() {
        let mut overdue = Overdue::new(ms(8_000));
        let start = Instant::now();
        // One record a millisecond; the one at 1,000 is never reported.
        let at = |t: u64| (t, usize::try_from(t.saturating_sub(1_000)).expect("few"));
        let late = (0..9_000).step_by(20).find(|t| {
            let (sent, outstanding) = at(*t);
            overdue.look(sent, outstanding, start + ms(*t))
        });
        let late = late.expect("it is overdue");
        assert!((8_000..=8_300).contains(&late), "{late}, sent at 1,000 with a limit of {LIMIT:?}");
        assert!(overdue.marks.len() <= 33, "{}", overdue.marks.len());
    }

    #[test]
    fn deliveries_that_are_reported_in_time_are_never_overdue() {
        let mut overdue = Overdue::new(ms(8_000));
        let start = Instant::now();
        for t in (0..100_000).step_by(20) {
            // Each takes six seconds.
            let outstanding = usize::try_from(t.min(6_000)).expect("few");
            assert!(!overdue.look(t, outstanding, start + ms(t)), "at {t}");
        }
        assert!(!overdue.look(100_000, 0, start + ms(200_000)));
        assert!(overdue.marks.is_empty());
    }
}
