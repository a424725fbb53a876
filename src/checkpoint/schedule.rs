//! When a partition's next checkpoint is due. Pure: time is an argument.

use std::time::{Duration, Instant};

use crate::config::CheckpointConfig;

/// One partition's checkpoint timing.
#[derive(Debug)]
pub struct Schedule {
    interval: Duration,
    max_records: usize,
    timeout: Duration,
    /// When the last one was begun.
    begun_at: Instant,
    /// When the open one was begun.
    open_since: Option<Instant>,
    reported_slow: bool,
    asked: bool,
}

impl Schedule {
    /// Starts timing at `now`; the first checkpoint is due one interval later.
    pub fn new(config: &CheckpointConfig, now: Instant) -> Self {
        Self {
            interval: config.interval,
            max_records: config.max_records,
            timeout: config.timeout,
            begun_at: now,
            open_since: None,
            reported_slow: false,
            asked: false,
        }
    }

    /// Asks for a checkpoint as soon as none is open.
    pub fn ask(&mut self) {
        self.asked = true;
    }

    /// Returns whether to begin one, with `unsaved` first occurrences waiting for it.
    pub fn due(&self, now: Instant, unsaved: usize) -> bool {
        self.open_since.is_none()
            && (self.asked
                || unsaved >= self.max_records
                || now.duration_since(self.begun_at) >= self.interval)
    }

    /// Notes that one was begun.
    pub fn begun(&mut self, now: Instant) {
        self.begun_at = now;
        self.open_since = Some(now);
        self.reported_slow = false;
        self.asked = false;
    }

    /// Notes that there was nothing to write.
    pub fn skipped(&mut self, now: Instant) {
        self.begun_at = now;
        self.asked = false;
    }

    /// Returns whether the open one has outlasted the timeout.
    pub fn is_slow(&self) -> bool {
        self.reported_slow
    }

    /// Notes that the open one has ended, well or not; returns how long it took.
    pub fn ended(&mut self, now: Instant) -> Duration {
        self.open_since.take().map_or(Duration::ZERO, |since| now.duration_since(since))
    }

    /// Returns whether one is open.
    pub fn is_open(&self) -> bool {
        self.open_since.is_some()
    }

    /// Returns how long the open one has taken, once, when it has outlasted the timeout.
    pub fn slow(&mut self, now: Instant) -> Option<Duration> {
        let taken = now.duration_since(self.open_since?);
        if taken < self.timeout || self.reported_slow {
            return None;
        }
        self.reported_slow = true;
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(now: Instant) -> Schedule {
        let config = CheckpointConfig {
            interval: Duration::from_secs(1),
            max_records: 10,
            timeout: Duration::from_secs(5),
        };
        Schedule::new(&config, now)
    }

    #[test]
    fn it_is_due_after_the_interval_the_record_limit_or_on_request() {
        let start = Instant::now();
        let mut schedule = schedule(start);
        assert!(!schedule.due(start, 9));
        assert!(schedule.due(start, 10));
        assert!(schedule.due(start + Duration::from_secs(1), 0));
        schedule.ask();
        assert!(schedule.due(start, 0));
    }

    #[test]
    fn while_one_is_open_no_other_is_due() {
        let start = Instant::now();
        let mut schedule = schedule(start);
        schedule.begun(start);
        schedule.ask();
        assert!(!schedule.due(start + Duration::from_secs(9), 99));
        assert_eq!(schedule.ended(start + Duration::from_secs(9)), Duration::from_secs(9));
        assert!(schedule.due(start + Duration::from_secs(9), 0), "the request is still open");
    }

    #[test]
    fn a_slow_one_is_reported_once() {
        let start = Instant::now();
        let mut schedule = schedule(start);
        schedule.begun(start);
        assert_eq!(schedule.slow(start + Duration::from_secs(4)), None);
        assert!(schedule.slow(start + Duration::from_secs(6)).is_some());
        assert_eq!(schedule.slow(start + Duration::from_secs(7)), None);
    }
}
