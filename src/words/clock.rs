//! Wall clocks. The core takes times as arguments; only the shells own a clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use super::Timestamp;

/// The machine's clock, or a test's.
#[derive(Clone, Debug, Default)]
pub struct WallClock {
    manual: Option<ManualClock>,
}

impl WallClock {
    /// The machine's clock.
    pub fn system() -> Self {
        Self::default()
    }

    /// Returns the time now. A machine clock set before 1970 reads as 1970.
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the machine's clock")]
    pub fn now(&self) -> Timestamp {
        if let Some(manual) = &self.manual {
            return manual.now();
        }
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }
}

/// A clock that moves only when told to.
#[derive(Clone, Debug, Default)]
pub struct ManualClock {
    now_ms: Arc<AtomicI64>,
}

impl ManualClock {
    /// A clock that stands at `now`.
    pub fn at(now: Timestamp) -> Self {
        let clock = Self::default();
        clock.set(now);
        clock
    }

    /// Sets the time, forwards or backwards.
    pub fn set(&self, now: Timestamp) {
        self.now_ms.store(now.0, Ordering::SeqCst);
    }

    /// Returns the time it was last set to.
    pub fn now(&self) -> Timestamp {
        Timestamp(self.now_ms.load(Ordering::SeqCst))
    }
}

impl From<ManualClock> for WallClock {
    fn from(manual: ManualClock) -> Self {
        Self { manual: Some(manual) }
    }
}
