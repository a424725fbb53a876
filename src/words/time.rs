//! Points in time and lengths of time, both in milliseconds, as Kafka counts them.
//!
//! All arithmetic saturates: a record may carry any 64-bit number, and none of them may panic.

use std::fmt;
use std::time::Duration;

/// Milliseconds since 1970-01-01 UTC. May be negative or absurd: producers choose it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

/// A length of time in milliseconds, never negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(i64);

impl Timestamp {
    /// The earliest representable time; the high mark of a partition that has seen nothing.
    pub const MIN: Self = Self(i64::MIN);

    /// Returns this time moved forward by `span`.
    pub fn after(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }

    /// Returns this time moved back by `span`.
    pub fn before(self, span: Span) -> Self {
        Self(self.0.saturating_sub(span.0))
    }

    /// Returns how far apart two times are, in either direction.
    pub fn distance(self, other: Self) -> Span {
        Span(i64::try_from(self.0.abs_diff(other.0)).unwrap_or(i64::MAX))
    }
}

impl Span {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// Makes a span of `ms` milliseconds; a negative count becomes zero.
    pub const fn from_ms(ms: i64) -> Self {
        Self(if ms < 0 { 0 } else { ms })
    }

    /// Returns the length in milliseconds, at least 0.
    pub const fn as_ms(self) -> i64 {
        self.0
    }

    /// Returns the length as a [`Duration`].
    pub fn to_duration(self) -> Duration {
        Duration::from_millis(self.0.unsigned_abs())
    }
}

/// Returns `at` for people, in UTC; one beyond the calendar as its number.
pub fn instant_text(at: Timestamp) -> String {
    // The end of the year 9999, past which there is no such text.
    const LAST: i64 = 253_402_300_799_999;
    match u64::try_from(at.0) {
        Ok(ms) if at.0 <= LAST => {
            let time = std::time::UNIX_EPOCH + Duration::from_millis(ms);
            humantime::format_rfc3339_millis(time).to_string()
        }
        _ => format!("{} ms", at.0),
    }
}

/// Returns how long the rest will take if it goes on as it went; `None` where nothing was done yet.
pub fn time_left(done: u64, total: u64, took: Duration) -> Option<Duration> {
    let millis = u64::try_from(took.as_millis()).ok()?;
    let left = u128::from(total.saturating_sub(done)) * u128::from(millis);
    let left = left.checked_div(u128::from(done))?;
    Some(Duration::from_millis(u64::try_from(left).unwrap_or(u64::MAX)))
}

impl From<Duration> for Span {
    fn from(duration: Duration) -> Self {
        Self(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        humantime::format_duration(self.to_duration()).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_estimated_from_what_was_done() {
        let took = Duration::from_secs(3);
        assert_eq!(time_left(0, 10, took), None);
        assert_eq!(time_left(3, 9, took), Some(Duration::from_secs(6)));
        assert_eq!(time_left(9, 9, took), Some(Duration::ZERO));
        assert_eq!(
            time_left(1, u64::MAX, Duration::from_secs(1 << 40)),
            Some(Duration::from_millis(u64::MAX))
        );
    }

    #[test]
    fn a_time_is_shown_as_utc_and_an_absurd_one_as_its_number() {
        assert_eq!(instant_text(Timestamp(1_700_000_000_123)), "2023-11-14T22:13:20.123Z");
        assert_eq!(instant_text(Timestamp(-1)), "-1 ms");
        assert_eq!(instant_text(Timestamp(i64::MAX)), format!("{} ms", i64::MAX));
    }

    #[test]
    fn arithmetic_on_absurd_times_saturates() {
        assert_eq!(Timestamp(i64::MAX).after(Span::from_ms(1)), Timestamp(i64::MAX));
        assert_eq!(Timestamp(i64::MIN).before(Span::from_ms(1)), Timestamp(i64::MIN));
        assert_eq!(Timestamp(i64::MIN).distance(Timestamp(i64::MAX)), Span::from_ms(i64::MAX));
        assert_eq!(Span::from_ms(-5), Span::ZERO);
    }
}
