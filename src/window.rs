//! Windows: when two occurrences of a key count as the same, and what may be forgotten.
//!
//! A window is a promised minimum: an occurrence is remembered for at least its length, measured
//! from its own time, and never less because of where a segment ends.

use crate::config::{DedupRule, WindowClock};
use crate::words::{Span, Timestamp};

/// How many segments one window is cut into. More means finer expiry and more probes a lookup.
const SEGMENTS_PER_WINDOW: i64 = 8;

/// The shortest segment: below it, directories would come and go faster than checkpoints.
const SEGMENT_MIN: Span = Span::from_ms(1_000);

/// The rule by which a topic's times are judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    length: Span,
    clock: WindowClock,
    max_future: Span,
    refresh: bool,
}

/// The time a record is judged by, and what had to be done to get it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EffectiveTime {
    /// The time.
    pub at: Timestamp,
    /// The event time lay more than `max_future` ahead of the wall clock and was cut back.
    pub clamped: bool,
    /// The record has no timestamp, so its arrival stands in.
    pub no_timestamp: bool,
}

impl Window {
    /// Takes the window part of a topic's rule.
    pub fn new(rule: &DedupRule) -> Self {
        Self {
            length: rule.window,
            clock: rule.clock,
            max_future: rule.max_future,
            refresh: rule.refresh,
        }
    }

    /// Returns how long a key is remembered, at least.
    pub fn length(&self) -> Span {
        self.length
    }

    /// Returns whether a duplicate starts the window anew.
    pub fn refresh(&self) -> bool {
        self.refresh
    }

    /// Returns whether records are judged by when they arrive.
    pub fn by_arrival(&self) -> bool {
        self.clock == WindowClock::Arrival
    }

    /// Returns the time that a record is judged by.
    ///
    /// Takes the record's own timestamp and the wall clock at its arrival. One record from the
    /// future must not make the rest look old, so event time is cut to `arrival + max_future`.
    pub fn time_of(&self, timestamp: Option<Timestamp>, arrival: Timestamp) -> EffectiveTime {
        let plain = EffectiveTime { at: arrival, clamped: false, no_timestamp: false };
        match (self.clock, timestamp) {
            (WindowClock::Arrival, _) => plain,
            (WindowClock::Event, None) => EffectiveTime { no_timestamp: true, ..plain },
            (WindowClock::Event, Some(at)) => {
                let limit = arrival.after(self.max_future);
                EffectiveTime { at: at.min(limit), clamped: at > limit, ..plain }
            }
        }
    }

    /// Returns whether occurrences at `a` and `b` are the same one: within the window, either way.
    pub fn joins(&self, a: Timestamp, b: Timestamp) -> bool {
        if crate::bugs::active("window-exclusive") {
            return a.distance(b) < self.length;
        }
        a.distance(b) <= self.length
    }

    /// Returns whether a record at `at` cannot be judged by its whole window, because what lay
    /// below `floor` is forgotten.
    pub fn too_old(&self, at: Timestamp, floor: Timestamp) -> bool {
        at.before(self.length) < floor
    }

    /// Returns the time from which on records are judged by their whole window again, where those at
    /// `high_mark` are not, because what lay below `floor` is forgotten.
    pub fn whole_from(&self, floor: Timestamp, high_mark: Timestamp) -> Option<Timestamp> {
        let known = floor > Timestamp::MIN && high_mark > Timestamp::MIN;
        (known && self.too_old(high_mark, floor)).then(|| floor.after(self.length))
    }

    /// Returns the length of a segment: an eighth of the window, at least a second.
    pub fn segment(&self) -> Span {
        Span::from_ms(self.length.as_ms() / SEGMENTS_PER_WINDOW).max(SEGMENT_MIN)
    }

    /// Returns the time below which occurrences may be forgotten.
    ///
    /// One segment is kept beyond the window, so that a record up to that much out of order is
    /// still judged by its whole window.
    pub fn keep_from(&self, high_mark: Timestamp) -> Timestamp {
        high_mark.before(self.length).before(self.segment())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(clock: WindowClock) -> Window {
        Window {
            length: Span::from_ms(60_000),
            clock,
            max_future: Span::from_ms(1_000),
            refresh: false,
        }
    }

    #[test]
    fn a_record_from_the_future_is_cut_back_to_the_limit() {
        let now = Timestamp(1_000_000);
        let time = window(WindowClock::Event).time_of(Some(Timestamp(i64::MAX)), now);
        assert_eq!(time.at, Timestamp(1_001_000));
        assert!(time.clamped);
        let edge = window(WindowClock::Event).time_of(Some(Timestamp(1_001_000)), now);
        assert!(!edge.clamped);
    }

    #[test]
    fn a_record_without_a_timestamp_is_judged_by_its_arrival() {
        let time = window(WindowClock::Event).time_of(None, Timestamp(7));
        assert_eq!(time, EffectiveTime { at: Timestamp(7), clamped: false, no_timestamp: true });
    }

    #[test]
    fn the_arrival_clock_ignores_timestamps() {
        let time = window(WindowClock::Arrival).time_of(Some(Timestamp(99)), Timestamp(7));
        assert_eq!(time, EffectiveTime { at: Timestamp(7), clamped: false, no_timestamp: false });
    }

    #[test]
    fn the_window_includes_its_last_millisecond_in_both_directions() {
        let window = window(WindowClock::Event);
        assert!(window.joins(Timestamp(0), Timestamp(60_000)));
        assert!(window.joins(Timestamp(60_000), Timestamp(0)));
        assert!(!window.joins(Timestamp(0), Timestamp(60_001)));
    }

    #[test]
    fn a_record_one_segment_late_is_still_judged_whole() {
        let window = window(WindowClock::Event);
        let floor = window.keep_from(Timestamp(1_000_000));
        assert!(!window.too_old(Timestamp(1_000_000).before(window.segment()), floor));
        assert!(window.too_old(Timestamp(1_000_000 - 7_501), floor));
    }
}
