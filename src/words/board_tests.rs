//! Counters that only go up and always add up, whatever happens to partitions.

use super::super::{Counts, PartitionState};
use super::*;

fn board() -> (Board, ManualClock) {
    let clock = ManualClock::at(Timestamp(1_000_000));
    (Board::manual(clock.clone()), clock)
}

fn part(topic: &str, partition: i32) -> SourcePartition {
    SourcePartition::new(topic, partition)
}

fn assign_one(board: &Board, partition: &SourcePartition) -> Arc<PartitionBoard> {
    board.assign(std::slice::from_ref(partition)).remove(0)
}

fn counts(read: u64, forwarded: u64, suppressed: u64) -> Counts {
    Counts { read, forwarded, suppressed, ..Counts::default() }
}

fn accounted(tally: &Tally) -> u64 {
    let c = &tally.counts;
    c.forwarded + c.suppressed + c.replayed + c.left_out + c.dead_lettered + tally.given_back
}

#[test]
fn a_stored_history_is_not_counted_as_work_of_this_process() {
    let (board, _) = board();
    let orders = assign_one(&board, &part("orders", 0));
    orders.begin(counts(1_000, 600, 400));
    orders.publish(counts(1_010, 604, 403), 77);
    let snapshot = board.snapshot();
    assert_eq!(snapshot.totals["orders"].counts, counts(10, 4, 3));
    assert_eq!(snapshot.partitions[0].in_flight_records, 3);
    assert_eq!(snapshot.partitions[0].in_flight_bytes, 77);
}

#[test]
fn totals_of_a_revoked_partition_stay_and_what_was_in_flight_is_given_back() {
    let (board, _) = board();
    let orders = part("orders", 0);
    let first = assign_one(&board, &orders);
    first.publish(counts(10, 6, 2), 50);
    first.count_missing("absent", 2);
    board.checkpointed(&first, Duration::from_millis(7), true);
    board.revoke(&orders);
    board.revoke(&orders);

    let left = board.snapshot();
    assert!(left.partitions.is_empty());
    let total = &left.totals["orders"];
    assert_eq!((total.counts, total.given_back), (counts(10, 6, 2), 2));
    assert_eq!((total.slow_checkpoints, total.missing["absent"]), (1, 2));

    let second = assign_one(&board, &orders);
    second.begin(counts(8, 6, 2));
    second.publish(counts(10, 7, 3), 0);
    first.publish(counts(99, 99, 0), 0);
    let total = &board.snapshot().totals["orders"];
    assert_eq!((total.counts, total.given_back), (counts(12, 7, 3), 2));
    assert_eq!(total.counts.read, accounted(total));
}

#[test]
fn a_core_that_is_set_up_anew_takes_nothing_back() {
    let (board, _) = board();
    let orders = assign_one(&board, &part("orders", 0));
    orders.begin(counts(100, 100, 0));
    orders.publish(counts(110, 103, 2), 500);
    // The producer failed: a new core starts from the checkpoint, which knew of one record.
    orders.begin(counts(101, 101, 0));
    let snapshot = board.snapshot();
    let total = &snapshot.totals["orders"];
    assert_eq!((total.counts, total.given_back), (counts(10, 3, 2), 5));
    assert_eq!(snapshot.partitions[0].in_flight_records, 0);
    assert_eq!(snapshot.partitions[0].in_flight_bytes, 0);
    orders.publish(counts(110, 110, 0), 0);
    assert_eq!(board.snapshot().totals["orders"].counts, counts(19, 12, 2));
}

#[test]
fn a_partition_assigned_again_without_a_revoke_is_not_counted_twice() {
    let (board, _) = board();
    let orders = part("orders", 0);
    assign_one(&board, &orders).publish(counts(4, 4, 0), 0);
    assign_one(&board, &orders).publish(counts(1, 1, 0), 0);
    let snapshot = board.snapshot();
    assert_eq!(snapshot.totals["orders"].counts, counts(5, 5, 0));
    assert_eq!(snapshot.partitions.len(), 1);
}

#[test]
fn ages_follow_the_clock_and_a_lease_runs_out() {
    let (board, clock) = board();
    let orders = assign_one(&board, &part("orders", 0));
    orders.set_lease(Some(Duration::from_secs(9)));
    assert_eq!(orders.snapshot().checkpoint_took, None);
    clock.set(Timestamp(1_004_000));
    board.beat();
    board.checkpointed(&orders, Duration::from_millis(12), false);
    clock.set(Timestamp(1_006_000));
    let snapshot = board.snapshot();
    assert_eq!(snapshot.uptime, Duration::from_secs(6));
    assert_eq!(snapshot.beat_age, Duration::from_secs(2));
    assert_eq!(snapshot.partitions[0].checkpoint_age, Duration::from_secs(2));
    assert_eq!(snapshot.partitions[0].checkpoint_took, Some(Duration::from_millis(12)));
    assert_eq!(snapshot.partitions[0].lease_remaining, Some(Duration::from_secs(3)));
    clock.set(Timestamp(1_060_000));
    assert_eq!(orders.snapshot().lease_remaining, Some(Duration::ZERO));
    orders.set_lease(None);
    assert_eq!(orders.snapshot().lease_remaining, None);
}

#[test]
fn a_checkpoint_falls_into_the_first_bucket_that_holds_it() {
    let mut histogram = Histogram::default();
    for ms in [0, 1, 2, 30_000, 30_001, 400_000] {
        histogram.observe(Duration::from_millis(ms));
    }
    assert_eq!(histogram.counts, [2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2]);
    assert_eq!(histogram.sum, Duration::from_millis(460_004));
}

#[test]
fn every_state_and_failure_comes_back_as_itself() {
    let (board, _) = board();
    let orders = assign_one(&board, &part("orders", 0));
    for state in PartitionState::ALL {
        orders.set_state(state);
        assert_eq!(orders.snapshot().state, state);
    }
    orders.set_stuck("disk full");
    assert_eq!(orders.snapshot().note, "disk full");
    orders.set_state(PartitionState::Running);
    assert_eq!(orders.snapshot().note, "");
    for (i, failure) in Failure::ALL.into_iter().enumerate() {
        (0..=i).for_each(|_| board.count_failure(failure));
    }
    assert_eq!(board.snapshot().failures, [1, 2, 3, 4, 5, 6, 7, 8]);
}

/// The partition is read, delivered, set up anew, revoked and assigned while somebody scrapes.
#[test]
fn whoever_looks_while_others_write_finds_that_it_adds_up_and_never_shrinks() {
    const ROUNDS: u64 = 3_000;
    let board = Arc::new(Board::new(Timestamp(0)));
    let writer = {
        let board = Arc::clone(&board);
        std::thread::spawn(move || write_rounds(&board, ROUNDS))
    };
    let (mut read_before, mut accounted_before) = (0, 0);
    let mut looks = 0_u64;
    while !writer.is_finished() || looks == 0 {
        let snapshot = board.snapshot();
        let in_flight: u64 = snapshot.partitions.iter().map(|p| p.in_flight_records).sum();
        if let Some(total) = snapshot.totals.get("orders") {
            assert_eq!(total.counts.read, accounted(total) + in_flight);
            assert!(total.counts.read >= read_before && accounted(total) >= accounted_before);
            (read_before, accounted_before) = (total.counts.read, accounted(total));
        }
        looks += 1;
    }
    writer.join().unwrap();
    let total = &board.snapshot().totals["orders"];
    assert_eq!(total.counts.read, accounted(total));
}

fn write_rounds(board: &Board, rounds: u64) {
    let orders = part("orders", 0);
    let mut resumed = Counts::default();
    for round in 0..rounds {
        let shown = assign_one(board, &orders);
        shown.begin(resumed);
        let mut live = resumed;
        for step in 0..8 {
            live.read += 5;
            shown.publish(live, 1);
            live.forwarded += 3;
            live.suppressed += step % 2;
            shown.publish(live, 1);
            if step == 5 && round % 3 == 0 {
                live = resumed;
                shown.begin(resumed);
            }
        }
        resumed = Counts { read: live.forwarded + live.suppressed, ..live };
        board.revoke(&orders);
    }
}
