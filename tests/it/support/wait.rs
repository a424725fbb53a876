//! Waiting for a condition, never for a time.

use std::time::{Duration, Instant};

/// How often a condition is looked at that nobody announces.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Looks until `look` finds something.
///
/// # Panics
/// When `limit` has passed; `what` says what was waited for.
pub(crate) fn until<T>(what: &str, limit: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    try_until(limit, &mut look).unwrap_or_else(|| panic!("waited {limit:?} for {what}"))
}

/// Looks until `look` finds something or `limit` has passed.
pub(crate) fn try_until<T>(limit: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let started = Instant::now();
    loop {
        if let Some(found) = look() {
            return Some(found);
        }
        if started.elapsed() >= limit {
            return None;
        }
        std::thread::sleep(LOOK_EVERY);
    }
}
