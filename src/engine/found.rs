//! Defects that the simulator and the model found, each as the shortest story that shows it.

use std::collections::BTreeMap;
use std::convert::Infallible;

use super::*;
use crate::config::{DedupRule, WindowClock};
use crate::window::Window;
use crate::words::{Checkpoint, Counts, OutputPosition, ResumeOffset};

const K: Identity = Identity::Key(Fingerprint(7));
const L: Identity = Identity::Key(Fingerprint(8));
const NONE: Identity = Identity::Content(Fingerprint(9));
const NOW: i64 = 10_000;

#[derive(Default)]
struct Store(BTreeMap<Fingerprint, Timestamp>);

impl Remembered for Store {
    type Error = Infallible;

    fn nearest(
        &self,
        fingerprint: Fingerprint,
        at: Timestamp,
        window: Span,
    ) -> Result<Option<Timestamp>, Infallible> {
        let known = self.0.get(&fingerprint).copied();
        Ok(known.filter(|known| known.distance(at) <= window))
    }

    fn rule_out(&self, asked: &[(Fingerprint, Timestamp)], _: Span, absent: &mut Vec<bool>) {
        absent.extend(asked.iter().map(|(fingerprint, _)| !self.0.contains_key(fingerprint)));
    }

    fn floor(&self) -> Timestamp {
        Timestamp::MIN
    }
}

/// A core, its store, and a source that counts up.
struct Case {
    core: Core,
    store: Store,
    next: i64,
}

fn setup(clock: WindowClock, refresh: bool) -> Setup {
    let window = Window::new(&DedupRule {
        clock,
        max_future: Span::from_ms(1_000),
        refresh,
        ..DedupRule::with_window(Span::from_ms(100))
    });
    Setup {
        window,
        resume: ResumeOffset(0),
        output: None,
        accounted: None,
        high_mark: Timestamp::MIN,
        counts: Counts::default(),
        incarnation: 1,
        source_topic_id: None,
        output_topic_id: None,
    }
}

fn case(clock: WindowClock, refresh: bool) -> Case {
    let mut core = Core::new(setup(clock, refresh));
    core.caught_up(OutputPosition(0));
    Case { core, store: Store::default(), next: 0 }
}

fn event() -> Case {
    case(WindowClock::Event, false)
}

impl Case {
    fn record(offset: i64, identity: Identity, timestamp: Option<i64>, arrival: i64) -> Incoming {
        Incoming {
            offset: RecordOffset(offset),
            identity,
            timestamp: timestamp.map(Timestamp),
            arrival: Timestamp(arrival),
            bytes: 1,
        }
    }

    fn read(&mut self, identity: Identity, timestamp: Option<i64>, arrival: i64) -> Verdict {
        let record = Self::record(self.next, identity, timestamp, arrival);
        self.next += 1;
        let Ok(verdict) = self.core.record(record, &self.store);
        verdict
    }

    fn deliver(&mut self, identity: Identity, at: i64) -> Sequence {
        match self.read(identity, Some(at), NOW) {
            Verdict::Deliver(sequence) => sequence,
            other => panic!("{other:?}"),
        }
    }

    fn confirm(&mut self, sequence: Sequence, output: Option<i64>) -> Option<Hole> {
        self.core.confirm(sequence, output.map(RecordOffset)).expect("in flight")
    }

    fn written(identity: Identity, output: i64, at: i64, arrival: i64) -> Written {
        Written {
            offset: RecordOffset(output),
            identity,
            timestamp: Some(Timestamp(at)),
            arrival: Timestamp(arrival),
        }
    }

    fn recover(&mut self, identity: Identity, output: i64, at: i64) -> Option<Repeat> {
        let written = Self::written(identity, output, at, NOW);
        let Ok(repeat) = self.core.recover(written, &self.store);
        repeat
    }

    fn rewind(&mut self) {
        self.next = self.core.rewind().0;
    }

    fn checkpoint(&mut self) -> Draft {
        let draft = self.core.begin_checkpoint(Timestamp(NOW), false).expect("none is open");
        self.store.0.extend(draft.entries.iter().copied());
        self.core.checkpoint_durable(draft.entries.clone());
        draft
    }

    fn high_mark(&mut self) -> Timestamp {
        self.checkpoint().checkpoint.high_mark
    }
}

#[test]
fn a_record_from_the_future_does_not_make_a_backlog_look_old() {
    let mut case = event();
    let first = case.deliver(K, 50);
    case.confirm(first, Some(0));
    let Verdict::Deliver(future) = case.read(L, Some(i64::MAX), NOW) else { panic!() };
    case.confirm(future, Some(1));
    assert_eq!(case.high_mark(), Timestamp(50));
}

#[test]
fn a_record_ahead_of_the_clock_moves_the_mark_no_further_than_the_clock() {
    let mut case = event();
    let ahead = case.deliver(K, NOW + 900);
    case.confirm(ahead, Some(0));
    assert_eq!(case.high_mark(), Timestamp(NOW));
}

#[test]
fn a_topic_without_usable_times_expires_by_the_clock() {
    let mut case = event();
    for nth in 0..1_100_i64 {
        let id = Identity::Key(Fingerprint(u128::from(nth.unsigned_abs()) + 100));
        let Verdict::Deliver(sequence) = case.read(id, None, NOW + nth) else { panic!() };
        case.confirm(sequence, Some(nth));
    }
    assert_eq!(case.high_mark(), Timestamp(NOW + 1_099));
}

#[test]
fn what_is_read_ahead_expires_nothing_that_its_replay_needs() {
    let mut case = event();
    case.deliver(K, 50);
    let ahead = case.deliver(L, 5_000);
    case.confirm(ahead, Some(1));
    assert_eq!(case.high_mark(), Timestamp::MIN, "nothing is settled");
}

#[test]
fn a_rewind_reads_again_from_what_still_waits_for_its_replay() {
    let mut case = event();
    // Dead bytes left the second record's copy before the first one's.
    case.recover(L, 0, 2);
    case.recover(K, 1, 1);
    case.core.caught_up(OutputPosition(2));
    assert_eq!(case.read(K, Some(1), NOW), Verdict::Suppress(Why::Replay));
    case.deliver(Identity::Key(Fingerprint(1)), 3);
    case.rewind();
    assert_eq!(case.core.output_position(), Some(OutputPosition(0)));
}

#[test]
fn counts_add_up_after_a_rewind() {
    let mut case = event();
    let first = case.deliver(K, 1);
    case.confirm(first, Some(0));
    case.read(K, Some(2), NOW);
    case.rewind();
    let counts = case.core.live();
    assert_eq!((counts.read, counts.forwarded, counts.suppressed), (2, 1, 1));
}

#[test]
fn a_duplicate_that_renews_the_window_is_durable_only_in_its_turn() {
    let mut case = case(WindowClock::Event, true);
    let first = case.deliver(K, 0);
    case.confirm(first, Some(0));
    // Not within the window of the first, and on its way.
    case.deliver(K, 101);
    // Within the window of both. Durable now, it would swallow the replay of the one before.
    case.read(K, Some(50), NOW);
    let draft = case.checkpoint();
    assert_eq!(draft.checkpoint.resume, ResumeOffset(1));
    assert_eq!(draft.entries, [(Fingerprint(7), Timestamp(0))]);
}

#[test]
fn renewing_the_window_of_a_key_in_flight_does_not_forget_when_it_began() {
    let mut case = case(WindowClock::Event, true);
    case.deliver(K, 200);
    case.read(K, Some(300), NOW);
    assert_eq!(case.read(K, Some(100), NOW), Verdict::Suppress(Why::InFlight));
}

#[test]
fn our_own_record_without_an_offset_is_no_late_write_though_it_is_not_settled() {
    let mut case = event();
    let Some(dead) = case.core.dead_letter(Incoming {
        offset: RecordOffset(0),
        identity: NONE,
        timestamp: None,
        arrival: Timestamp(NOW),
        bytes: 1,
    }) else {
        panic!()
    };
    case.next = 1;
    let (first, second) = (case.deliver(K, 1), case.deliver(L, 2));
    assert_eq!(case.confirm(first, None), None);
    // A control record lies between.
    let mut hole = case.confirm(second, Some(2)).expect("a hole");
    let ours = Case::written(K, 0, 1, NOW);
    assert_eq!(case.core.late(ours, &mut hole, &case.store), Ok(None));
    case.confirm(dead, None);
    let counts = case.core.live();
    assert_eq!((counts.late_writes, counts.repeated), (0, 0));
}

#[test]
fn our_own_record_is_no_repeat_once_only_the_store_knows_it() {
    let mut case = event();
    let first = case.deliver(K, 1);
    case.confirm(first, None);
    case.checkpoint();
    let second = case.deliver(L, 2);
    let mut hole = case.confirm(second, Some(2)).expect("a hole");
    let ours = Case::written(K, 0, 1, NOW);
    assert_eq!(case.core.late(ours, &mut hole, &case.store), Ok(None));
    assert_eq!(case.core.live().repeated, 0);
}

#[test]
fn a_copy_that_arrives_after_our_report_is_told_when_catch_up_reads_it() {
    let mut case = event();
    let first = case.deliver(K, 1);
    case.confirm(first, Some(0));
    case.checkpoint();
    case.read(L, Some(1), NOW);
    case.rewind();
    let repeat = case.recover(K, 1, 1).expect("told");
    assert_eq!(repeat.late, RecordOffset(1));
}

#[test]
fn of_two_copies_only_the_one_we_reported_is_ours() {
    let mut case = event();
    let first = case.deliver(K, 1);
    case.confirm(first, None);
    case.rewind();
    assert_eq!(case.recover(K, 0, 1), None);
    assert!(case.recover(K, 1, 1).is_some());
}

#[test]
fn a_late_copy_of_a_key_in_flight_is_found_again_if_that_delivery_fails() {
    let mut case = event();
    let first = case.deliver(K, 1);
    let second = case.deliver(L, 2);
    let mut hole = case.confirm(second, Some(1)).expect("a hole");
    let copy = Case::written(K, 0, 1, NOW);
    assert!(case.core.late(copy, &mut hole, &case.store).expect("no error").is_some());
    assert_eq!(case.core.output_position(), Some(OutputPosition(0)));
    case.confirm(first, Some(2));
    assert_eq!(case.core.output_position(), Some(OutputPosition(3)));
}

#[test]
fn a_replay_is_known_by_its_own_timestamp_however_late_it_is_read() {
    let mut case = case(WindowClock::Arrival, false);
    case.recover(K, 0, 1);
    case.core.caught_up(OutputPosition(1));
    assert_eq!(case.read(K, Some(1), NOW + 5_000), Verdict::Suppress(Why::Replay));
}

#[test]
fn two_records_of_a_key_that_arrived_a_window_apart_are_both_met() {
    let mut case = case(WindowClock::Arrival, false);
    assert_eq!(case.recover(K, 0, 1), None);
    assert_eq!(case.recover(K, 1, 2), None, "when it was written is not known any more");
    case.core.caught_up(OutputPosition(2));
    assert_eq!(case.read(K, Some(1), NOW), Verdict::Suppress(Why::Replay));
    assert_eq!(case.read(K, Some(2), NOW + 5_000), Verdict::Suppress(Why::Replay));
}

#[test]
fn a_record_without_a_key_that_is_settled_does_not_swallow_its_twin() {
    let mut case = event();
    let first = case.deliver(NONE, 1);
    case.confirm(first, None);
    case.checkpoint();
    case.rewind();
    case.recover(NONE, 0, 1);
    case.core.caught_up(OutputPosition(1));
    case.deliver(NONE, 1);
}

#[test]
fn what_lies_near_a_record_that_is_judged_anew_is_remembered_by_its_own_time() {
    let mut case = event();
    // Without a usable time of its own, a rebuild put it later than it was when K at 60 was judged.
    case.store.0.insert(Fingerprint(7), Timestamp(130));
    case.core = Core::new(setup(WindowClock::Event, false));
    assert_eq!(case.recover(K, 5, 60), None);
    case.core.caught_up(OutputPosition(6));
    assert_eq!(case.read(K, Some(0), NOW), Verdict::Suppress(Why::Seen));
    assert_eq!(case.read(K, Some(60), NOW), Verdict::Suppress(Why::Replay));
}

#[test]
fn a_copy_that_is_told_is_remembered_by_its_own_time() {
    let mut case = event();
    case.core = Core::new(setup(WindowClock::Event, false));
    case.recover(K, 0, 1);
    assert!(case.recover(K, 1, 90).is_some());
    case.core.caught_up(OutputPosition(2));
    assert_eq!(case.read(K, Some(150), NOW), Verdict::Suppress(Why::Seen));
}

#[test]
fn a_duplicate_does_not_take_the_copy_that_waits_for_the_replay_of_another_record() {
    let mut case = event();
    case.recover(K, 0, 50);
    case.core.caught_up(OutputPosition(1));
    assert_eq!(case.read(K, Some(10), NOW), Verdict::Suppress(Why::Seen));
    assert_eq!(case.read(K, Some(50), NOW), Verdict::Suppress(Why::Replay));
}

#[test]
fn a_duplicate_that_renewed_the_window_is_not_taken_for_the_copy_on_the_output() {
    let mut case = case(WindowClock::Event, true);
    case.recover(K, 0, 50);
    case.core.caught_up(OutputPosition(1));
    assert_eq!(case.read(K, Some(10), NOW), Verdict::Suppress(Why::Seen));
    case.rewind();
    case.recover(K, 0, 50);
    case.core.caught_up(OutputPosition(1));
    assert_eq!(case.read(K, Some(50), NOW), Verdict::Suppress(Why::Replay));
}

#[test]
fn a_copy_behind_all_that_is_ours_is_told_though_arrival_is_what_counts() {
    let mut case = case(WindowClock::Arrival, false);
    let first = case.deliver(K, 1);
    case.confirm(first, Some(0));
    case.checkpoint();
    case.read(L, Some(1), NOW);
    case.rewind();
    assert!(case.recover(K, 1, 1).is_some());
}

#[test]
fn a_copy_that_landed_while_nobody_watched_is_told_by_the_successor() {
    let mut case = event();
    let first = case.deliver(K, 1);
    case.confirm(first, Some(0));
    let Checkpoint { resume, output, accounted, .. } = case.checkpoint().checkpoint;
    assert_eq!(accounted, Some(OutputPosition(1)));
    let setup = Setup { resume, output, accounted, ..setup(WindowClock::Event, false) };
    case.core = Core::new(setup.clone());
    assert_eq!(case.recover(K, 1, 1).map(|repeat| repeat.late), Some(RecordOffset(1)));
    // One whose position lags reads its own records again.
    let lagging = Setup { output: None, accounted: Some(OutputPosition(2)), ..setup };
    case.core = Core::new(lagging);
    assert_eq!((case.recover(K, 0, 1), case.core.live().repeated), (None, 0));
}

#[test]
fn where_ours_lie_is_not_accounted_for_while_a_report_lacks_its_offset() {
    let mut case = event();
    let first = case.deliver(K, 1);
    case.confirm(first, None);
    assert_eq!(case.checkpoint().checkpoint.accounted, None);
}

#[test]
fn a_record_accepted_before_one_that_precedes_it_is_told_with_its_place() {
    let mut case = event();
    let (_, second) = (case.deliver(K, 1), case.deliver(L, 2));
    case.confirm(second, Some(0));
    // The first one's delivery failed.
    case.rewind();
    case.recover(L, 0, 2);
    case.core.caught_up(OutputPosition(1));
    let again = case.deliver(K, 1);
    case.confirm(again, Some(1));
    assert_eq!(case.read(L, Some(2), NOW), Verdict::Suppress(Why::Replay));
    let (source, output) = (RecordOffset(1), RecordOffset(0));
    let told = Reordered { source, output, behind: OutputPosition(2) };
    assert_eq!(case.core.take_reordered(), [told]);
    assert_eq!(case.core.take_reordered(), []);
}

#[test]
fn what_was_looked_up_ahead_is_forgotten_when_a_checkpoint_becomes_durable() {
    let mut case = event();
    let first = case.deliver(K, 1);
    case.confirm(first, Some(0));
    let batch = [Case::record(1, L, Some(2), NOW), Case::record(2, K, Some(3), NOW)];
    case.core.look_ahead(&batch, &case.store);
    // From here on the store alone knows K.
    case.checkpoint();
    case.deliver(L, 2);
    assert_eq!(case.read(K, Some(3), NOW), Verdict::Suppress(Why::Seen));
}

#[test]
fn looking_ahead_changes_no_verdict() {
    let mut case = event();
    case.store.0.insert(Fingerprint(7), Timestamp(0));
    let record = |offset, identity| Case::record(offset, identity, Some(1), NOW);
    let batch = [record(0, K), record(1, NONE), record(2, L), record(3, L)];
    case.core.look_ahead(&batch, &case.store);
    assert_eq!(case.read(K, Some(1), NOW), Verdict::Suppress(Why::Seen));
    case.deliver(NONE, 1);
    case.deliver(L, 1);
    assert_eq!(case.read(L, Some(1), NOW), Verdict::Suppress(Why::InFlight));
}
