//! Writing at a steady rate, on a thread of its own.
//!
//! Each record carries the moment it was *due*, not the one it was sent: a load that falls behind
//! makes latencies longer, never shorter.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::Error;
use super::place::now;
use super::plan::{Plan, Purpose};
use crate::kafka::bench::Loader;

/// The pace settles in this time, which is not measured.
pub(super) const WARM_UP: Duration = Duration::from_secs(1);
const TURN: Duration = Duration::from_millis(1);
const PROBE_EVERY: Duration = Duration::from_millis(50);
const LEAVING: Duration = Duration::from_secs(30);

/// What is to be written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wish {
    /// Records a second.
    pub(super) rate: u64,
    /// How long records are timed, after the warm-up.
    pub(super) timed: Duration,
}

impl Wish {
    /// Returns when the record is due, after the start of the steady pace.
    fn due(self, record: u64) -> Duration {
        Duration::from_nanos(record.saturating_mul(1_000_000_000) / self.rate.max(1))
    }

    fn purpose(self, due: Duration) -> Purpose {
        if due >= WARM_UP && due < WARM_UP + self.timed { Purpose::Timed } else { Purpose::Load }
    }
}

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Written {
    /// All records.
    pub(super) records: u64,
    /// Records a second while they were timed.
    pub(super) rate: f64,
}

/// A thread that writes until it is told to stop.
#[derive(Debug)]
pub(super) struct Pen {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Result<Written, Error>>>,
}

#[derive(Debug, Default)]
struct Shared {
    /// From now on at the steady rate; until then a probe now and then.
    go: AtomicBool,
    stop: AtomicBool,
    /// Records that are timed and whose key is new, so far.
    timed_keys: AtomicU64,
}

impl Pen {
    /// Starts writing probes. Moments are counted from `epoch`.
    pub(super) fn start(
        loader: Loader,
        plan: Plan,
        wish: Wish,
        epoch: Instant,
    ) -> Result<Self, Error> {
        let shared = Arc::new(Shared::default());
        let mut hand = Hand { loader, plan, wish, epoch, shared: Arc::clone(&shared), records: 0 };
        let thread = std::thread::Builder::new()
            .name("bench-writer".to_owned())
            .spawn(move || {
                hand.probe()?;
                let rate = hand.pace()?;
                let records = hand.loader.finish(LEAVING)?;
                Ok(Written { records, rate })
            })
            .map_err(|source| crate::commands::DemoError::Process {
                attempt: "start a thread beside",
                source,
            })?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Begins the steady pace.
    pub(super) fn go(&self) {
        self.shared.go.store(true, Ordering::Relaxed);
    }

    /// Returns how many new keys were timed so far.
    pub(super) fn timed_keys(&self) -> u64 {
        self.shared.timed_keys.load(Ordering::Relaxed)
    }

    /// Fails if it has ended, which it does by itself only where the broker refuses.
    pub(super) fn must_write(&mut self) -> Result<(), Error> {
        let ended = self.thread.as_ref().is_none_or(JoinHandle::is_finished);
        if ended { self.end().map(drop) } else { Ok(()) }
    }

    /// Stops it and waits until all is confirmed.
    pub(super) fn finish(mut self) -> Result<Written, Error> {
        self.end()
    }

    fn end(&mut self) -> Result<Written, Error> {
        self.shared.stop.store(true, Ordering::Relaxed);
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(written)) => written,
            None => Ok(Written::default()),
            Some(Err(_panic)) => Err(Error::Options("the writer of the bench panicked".to_owned())),
        }
    }
}

impl Drop for Pen {
    fn drop(&mut self) {
        if self.thread.is_some()
            && let Err(error) = self.end()
        {
            tracing::debug!(%error, "writer of a turn that failed ended");
        }
    }
}

/// What the thread owns.
struct Hand {
    loader: Loader,
    plan: Plan,
    wish: Wish,
    epoch: Instant,
    shared: Arc<Shared>,
    records: u64,
}

impl Hand {
    fn stopped(&self) -> bool {
        self.shared.stop.load(Ordering::Relaxed)
    }

    fn probe(&mut self) -> Result<(), Error> {
        while !self.stopped() && !self.shared.go.load(Ordering::Relaxed) {
            self.write(self.epoch.elapsed(), Purpose::Probe)?;
            self.loader.serve(PROBE_EVERY)?;
        }
        Ok(())
    }

    /// Writes at the steady rate; returns the rate while records were timed.
    fn pace(&mut self) -> Result<f64, Error> {
        let start = self.epoch.elapsed();
        let mut timed = Timed::default();
        let mut record = 0;
        while !self.stopped() {
            let due = self.wish.due(record);
            let now = self.epoch.elapsed().saturating_sub(start);
            if due > now {
                self.loader.serve(TURN.min(due - now))?;
                continue;
            }
            let purpose = self.wish.purpose(due);
            let fresh = self.write(start + due, purpose)?;
            if purpose == Purpose::Timed {
                timed.count(now);
                self.shared.timed_keys.fetch_add(u64::from(fresh), Ordering::Relaxed);
            }
            record += 1;
        }
        Ok(timed.rate())
    }

    fn write(&mut self, due: Duration, purpose: Purpose) -> Result<bool, Error> {
        let due_ns = u64::try_from(due.as_nanos()).unwrap_or(u64::MAX);
        let (key, value, fresh) = self.plan.next(due_ns, purpose);
        self.loader.send(key, value, now())?;
        self.records += 1;
        Ok(fresh)
    }
}

/// How fast the timed records really went out.
#[derive(Clone, Copy, Debug, Default)]
struct Timed {
    count: u64,
    first: Duration,
    last: Duration,
}

impl Timed {
    fn count(&mut self, at: Duration) {
        if self.count == 0 {
            self.first = at;
        }
        self.count += 1;
        self.last = at;
    }

    fn rate(self) -> f64 {
        let took = self.last.saturating_sub(self.first).as_secs_f64();
        if took > 0.0 { super::figures::float(self.count - 1) / took } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_due_evenly_and_timed_after_the_warm_up_for_as_long_as_asked() {
        let wish = Wish { rate: 1_000, timed: Duration::from_secs(2) };
        assert_eq!(wish.due(0), Duration::ZERO);
        assert_eq!(wish.due(1_500), Duration::from_millis(1_500));
        let timed = (0..10_000).filter(|n| wish.purpose(wish.due(*n)) == Purpose::Timed);
        assert_eq!(timed.count(), 2_000);
    }

    #[test]
    fn the_rate_is_that_of_what_went_out() {
        let mut timed = Timed::default();
        for n in 0..=100 {
            timed.count(Duration::from_millis(n * 20));
        }
        assert!((timed.rate() - 50.0).abs() < 1e-9, "{}", timed.rate());
        assert!(Timed::default().rate().abs() < 1e-9);
    }
}
