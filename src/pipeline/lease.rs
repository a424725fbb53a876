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
        Self { span: Some(span.max(Duration::from_millis(500))), renewed_at: now }
    }

    /// The lease of the only instance there is: it never ends.
    pub(super) fn endless(now: Instant) -> Self {
        Self { span: None, renewed_at: now }
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

    /// Returns whether to commit now merely to renew it.
    pub(super) fn wants_renewal(&self, now: Instant) -> bool {
        self.span.is_some_and(|span| now.duration_since(self.renewed_at) >= span / 4)
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
    fn an_older_answer_does_not_shorten_it() {
        let start = Instant::now();
        let mut lease = Lease::of_group(10 * SECOND, 4 * SECOND, start);
        lease.renew(start + 2 * SECOND);
        lease.renew(start + SECOND);
        assert!(lease.holds(start + 5 * SECOND));
    }
}
