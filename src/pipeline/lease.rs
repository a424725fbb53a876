//! Our own lease: how long we may send after the group coordinator last accepted a commit.
//!
//! The client library does not always notice that its session is over. So nothing is sent later
//! than `session timeout - delivery timeout - margin` after the *sending* of the last commit that
//! was accepted: whatever we sent before is then over, one way or the other, before the group can
//! have given the partition to somebody else.

use std::time::{Duration, Instant};

/// Room for scheduling and clock granularity: the client checks delivery timeouts each second.
const MARGIN: Duration = Duration::from_secs(2);

/// The right to send.
#[derive(Debug)]
pub(super) struct Lease {
    span: Option<Duration>,
    /// For how long commits may find no answer before it is worth saying.
    quiet: Duration,
    renewed_at: Instant,
}

impl Lease {
    /// A lease of a group member, valid from `now`.
    pub(super) fn of_group(
        session_timeout: Duration,
        delivery_timeout: Duration,
        now: Instant,
    ) -> Self {
        let span = session_timeout.saturating_sub(delivery_timeout).saturating_sub(MARGIN);
        let span = Some(span.max(Duration::from_millis(500)));
        Self { span, quiet: session_timeout, renewed_at: now }
    }

    /// The lease of the only instance there is: it never ends.
    pub(super) fn endless(session_timeout: Duration, now: Instant) -> Self {
        Self { span: None, quiet: session_timeout, renewed_at: now }
    }

    /// Renews it: the coordinator proved at `sent_at` or later that we are a member.
    pub(super) fn renew(&mut self, sent_at: Instant) {
        self.renewed_at = self.renewed_at.max(sent_at);
    }

    /// Returns how long we may still send.
    pub(super) fn remaining(&self, now: Instant) -> Option<Duration> {
        self.span.map(|span| span.saturating_sub(now.duration_since(self.renewed_at)))
    }

    /// Returns whether we may send now.
    pub(super) fn holds(&self, now: Instant) -> bool {
        self.remaining(now).is_none_or(|remaining| !remaining.is_zero())
    }

    /// Returns whether to commit now merely to renew it, or to hear from the brokers.
    pub(super) fn wants_renewal(&self, now: Instant) -> bool {
        now.duration_since(self.renewed_at) >= self.span.unwrap_or(self.quiet) / 4
    }

    /// Returns for how long no commit was answered, where that is longer than it should be.
    pub(super) fn silence(&self, now: Instant) -> Option<Duration> {
        let silence = now.duration_since(self.renewed_at);
        (silence >= self.quiet).then_some(silence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_delivery_begun_under_the_lease_ends_before_the_session_does() {
        let start = Instant::now();
        let (session, delivery) = (45 * SECOND, 30 * SECOND);
        let lease = Lease::of_group(session, delivery, start);
        let last_send = start + lease.remaining(start).expect("a group member's lease ends");
        assert!(!lease.holds(last_send));
        assert!(last_send + delivery < start + session);
    }

    #[test]
    fn it_counts_from_when_the_accepted_commit_was_sent() {
        let start = Instant::now();
        let mut lease = Lease::of_group(10 * SECOND, 4 * SECOND, start);
        assert!(lease.holds(start + 3 * SECOND));
        assert!(!lease.holds(start + 4 * SECOND));
        lease.renew(start + 2 * SECOND);
        assert!(lease.holds(start + 5 * SECOND));
        assert!(!lease.holds(start + 6 * SECOND));
    }

    #[test]
    fn the_only_instance_may_always_send_and_yet_tells_that_nobody_answers() {
        let start = Instant::now();
        let mut lease = Lease::endless(8 * SECOND, start);
        assert!(!lease.wants_renewal(start + SECOND));
        assert!(lease.wants_renewal(start + 2 * SECOND));
        assert_eq!(lease.silence(start + 7 * SECOND), None);
        assert_eq!(lease.silence(start + 8 * SECOND), Some(8 * SECOND));
        assert!(lease.holds(start + 1_000 * SECOND));
        lease.renew(start + 9 * SECOND);
        assert_eq!(lease.silence(start + 9 * SECOND), None);
    }

    #[test]
    fn an_older_answer_does_not_shorten_it() {
        let start = Instant::now();
        let mut lease = Lease::of_group(10 * SECOND, 4 * SECOND, start);
        lease.renew(start + 2 * SECOND);
        lease.renew(start + SECOND);
        assert!(lease.holds(start + 5 * SECOND));
    }
}
