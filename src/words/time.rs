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
    fn arithmetic_on_absurd_times_saturates() {
        assert_eq!(Timestamp(i64::MAX).after(Span::from_ms(1)), Timestamp(i64::MAX));
        assert_eq!(Timestamp(i64::MIN).before(Span::from_ms(1)), Timestamp(i64::MIN));
        assert_eq!(Timestamp(i64::MIN).distance(Timestamp(i64::MAX)), Span::from_ms(i64::MAX));
        assert_eq!(Span::from_ms(-5), Span::ZERO);
    }
}
