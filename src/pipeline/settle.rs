//! Waiting out a predecessor: whatever a dead or frozen writer still has under way must be on the
//! output before its end is taken.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::config::{Membership, SourceConfig};
use crate::kafka;
use crate::words::{Checkpoint, OutputPosition, Timestamp};

use super::plan::Committed;

/// How often the output's end is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// What is known of the last writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Predecessor {
    /// There was none, or it left with nothing in flight.
    Gone,
    /// It was a process on this state, and is dead: we hold its lock. Only bytes that its kernel
    /// had taken can still arrive.
    Dead,
    /// It ran elsewhere. The group took the partition from it, so its lease is over.
    Elsewhere,
    /// It ran elsewhere under our instance id, so the group may have moved the partition at once:
    /// its lease can last this much longer.
    MayLive(Duration),
    /// It is our own producer, whose last requests had no answer.
    Uncertain,
}

impl Predecessor {
    /// Tells what is known from the newest local checkpoint and the group's commit.
    pub(super) fn of(
        local: Option<&Checkpoint>,
        committed: Option<&Committed>,
        source: &SourceConfig,
        now: Timestamp,
    ) -> Self {
        let note = committed.and_then(|committed| committed.note.as_ref());
        match (local, note) {
            (None, None) if committed.is_none() => Self::Gone,
            (Some(local), None) if local.clean => Self::Gone,
            (Some(_), None) => Self::Dead,
            (Some(local), Some(note)) if local.incarnation == note.incarnation => {
                if local.clean {
                    Self::Gone
                } else {
                    Self::Dead
                }
            }
            // A local checkpoint whose commit never arrived: we held the partition last.
            (Some(local), Some(note)) if local.written_at > note.written_at => Self::Dead,
            (_, Some(note)) if note.clean => Self::Gone,
            (_, Some(note)) if source.instance_id.is_some() => {
                let age = u64::try_from(now.0.saturating_sub(note.written_at.0)).unwrap_or(0);
                Self::MayLive(source.session_timeout.saturating_sub(Duration::from_millis(age)))
            }
            _ if source.membership == Membership::Alone => Self::Dead,
            _ => Self::Elsewhere,
        }
    }

    /// Returns how long to wait in any case, and how long the end must then stand still.
    fn patience(self) -> (Duration, Duration) {
        match self {
            Self::Gone => (Duration::ZERO, Duration::ZERO),
            Self::Dead => (Duration::ZERO, Duration::from_millis(150)),
            Self::Elsewhere => (Duration::ZERO, Duration::from_secs(1)),
            Self::MayLive(left) => (left, Duration::from_secs(1)),
            Self::Uncertain => (Duration::from_secs(1), Duration::from_secs(1)),
        }
    }
}

/// Waits until nothing of the predecessor's can be expected any more; returns the output's end.
///
/// Takes `end`, which asks the broker. Ends early when cancelled, with whatever the end is then.
pub(super) fn settle(
    predecessor: Predecessor,
    cancel: &AtomicBool,
    mut end: impl FnMut() -> Result<OutputPosition, kafka::Error>,
) -> Result<OutputPosition, kafka::Error> {
    let (wait, quiet) = predecessor.patience();
    let begun = Instant::now();
    let mut last = end()?;
    let mut since = Instant::now();
    while !cancel.load(Ordering::Relaxed) && (begun.elapsed() < wait || since.elapsed() < quiet) {
        std::thread::sleep(LOOK);
        let now = end()?;
        if now != last {
            (last, since) = (now, Instant::now());
        }
    }
    Ok(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::CommitNote;
    use crate::config::{StartAt, TopicSelection};
    use crate::words::{Counts, ResumeOffset};

    fn source(instance_id: Option<&str>) -> SourceConfig {
        SourceConfig {
            group: "g".into(),
            instance_id: instance_id.map(str::to_owned),
            topics: TopicSelection::List(vec!["t".into()]),
            membership: Membership::Group,
            start: StartAt::Earliest,
            session_timeout: Duration::from_secs(45),
        }
    }

    fn local(incarnation: u128, clean: bool) -> Checkpoint {
        Checkpoint {
            resume: ResumeOffset(1),
            output: None,
            high_mark: Timestamp(0),
            counts: Counts::default(),
            clean,
            incarnation,
            written_at: Timestamp(1_000),
            source_topic_id: None,
            output_topic_id: None,
        }
    }

    fn committed(incarnation: u128, clean: bool) -> Committed {
        let written_at = Timestamp(5_000);
        let transactional = false;
        let note = CommitNote { incarnation, output: None, clean, written_at, transactional };
        Committed { offset: ResumeOffset(1), note: Some(note) }
    }

    #[test]
    fn our_own_dead_process_is_told_from_one_that_ran_elsewhere() {
        let (now, source) = (Timestamp(6_000), source(None));
        let of = |local: Option<&Checkpoint>, committed: Option<&Committed>| {
            Predecessor::of(local, committed, &source, now)
        };
        assert_eq!(of(None, None), Predecessor::Gone);
        assert_eq!(of(Some(&local(1, false)), Some(&committed(1, false))), Predecessor::Dead);
        assert_eq!(of(Some(&local(1, true)), Some(&committed(1, true))), Predecessor::Gone);
        assert_eq!(of(Some(&local(1, false)), Some(&committed(2, false))), Predecessor::Elsewhere);
        assert_eq!(of(Some(&local(1, false)), Some(&committed(2, true))), Predecessor::Gone);
        assert_eq!(of(None, Some(&committed(2, false))), Predecessor::Elsewhere);
    }

    #[test]
    fn another_holder_of_our_instance_id_is_waited_for_until_its_lease_must_be_over() {
        let now = Timestamp(15_000);
        let of = Predecessor::of(None, Some(&committed(2, false)), &source(Some("a")), now);
        assert_eq!(of, Predecessor::MayLive(Duration::from_secs(35)));
    }

    #[test]
    fn the_end_is_taken_only_after_it_stood_still() {
        let mut ends = [5, 6, 7, 7, 7, 7, 7, 7, 7, 7].iter().copied();
        let end = || Ok(OutputPosition(ends.next().unwrap_or(7)));
        let settled = settle(Predecessor::Dead, &AtomicBool::new(false), end);
        assert_eq!(settled.expect("no broker was asked"), OutputPosition(7));
    }
}
