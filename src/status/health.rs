//! Whether the process lives, and whether it does its work; if not, why not.
//!
//! *Live* asks one thing: does the poll loop still go round? If not, only a restart helps. *Ready*
//! asks whether every partition that was assigned is being forwarded. A partition that is stuck
//! makes the process not ready but leaves it live: a restart would not cure it.

use std::time::Duration;

use crate::words::{BoardSnapshot, PartitionSnapshot, PartitionState};

/// How many partitions are described before the rest is only counted.
const LINES_MAX: usize = 100;

/// An answer to a health question: yes or no, and one line for each reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Whether all is well.
    pub ok: bool,
    /// What to show; ends in a newline.
    pub text: String,
}

/// Tells whether the poll loop went round within `limit`.
pub fn live(snapshot: &BoardSnapshot, limit: Duration) -> Report {
    let age = seconds(snapshot.beat_age);
    if snapshot.beat_age <= limit {
        return Report { ok: true, text: format!("live: the poll loop went round {age} ago\n") };
    }
    let limit = seconds(limit);
    let text = format!("not live: the poll loop went round {age} ago, expected within {limit}\n");
    Report { ok: false, text }
}

/// Tells whether the assignment is known and every partition of it is being forwarded.
pub fn ready(snapshot: &BoardSnapshot) -> Report {
    if snapshot.stopping {
        return not_ready("stopping", &snapshot.partitions);
    }
    if !snapshot.assigned {
        return not_ready("no assignment from the group yet", &snapshot.partitions);
    }
    let running = snapshot.partitions.iter().filter(|p| is_running(p)).count();
    let held = snapshot.partitions.len();
    if running == held {
        return Report { ok: true, text: format!("ready: {running} partitions running\n") };
    }
    not_ready(&format!("{running} of {held} partitions running"), &snapshot.partitions)
}

fn is_running(partition: &PartitionSnapshot) -> bool {
    partition.state == PartitionState::Running
}

fn not_ready(why: &str, partitions: &[PartitionSnapshot]) -> Report {
    let mut text = format!("not ready: {why}\n");
    let waiting: Vec<_> = partitions.iter().filter(|p| !is_running(p)).collect();
    for partition in waiting.iter().take(LINES_MAX) {
        text.push_str(&line(partition));
    }
    if let Some(more @ 1..) = waiting.len().checked_sub(LINES_MAX) {
        text.push_str(&format!("and {more} more\n"));
    }
    Report { ok: false, text }
}

/// Describes a partition that is not running, in one line.
fn line(partition: &PartitionSnapshot) -> String {
    let mut line = format!("{}: {}", partition.partition, partition.state.as_str());
    if partition.state == PartitionState::CatchingUp {
        let (read, total) = (partition.catch_up_read, partition.catch_up_total);
        line.push_str(&format!(", {read} of {total} output records read"));
        if let Some(left) = partition.catch_up_left {
            line.push_str(&format!(", about {} left", seconds(left)));
        }
    }
    if !partition.note.is_empty() {
        line.push_str(&format!(": {}", partition.note));
    }
    one_line(&line)
}

/// Topic names and reasons come from elsewhere: none of them may look like another line.
fn one_line(text: &str) -> String {
    let clean = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    clean.chain(['\n']).collect()
}

fn seconds(duration: Duration) -> String {
    format!("{:.1}s", duration.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::{Board, ManualClock, SourcePartition, Timestamp};

    fn board() -> (Board, ManualClock) {
        let clock = ManualClock::at(Timestamp(0));
        (Board::manual(clock.clone()), clock)
    }

    fn orders(partitions: i32) -> Vec<SourcePartition> {
        (0..partitions).map(|partition| SourcePartition::new("orders", partition)).collect()
    }

    fn shown(board: &Board) -> (bool, String) {
        let report = ready(&board.snapshot());
        (report.ok, report.text)
    }

    #[test]
    fn readiness_follows_the_assignment_and_every_partition_of_it() {
        let (board, clock) = board();
        assert_eq!(shown(&board), (false, "not ready: no assignment from the group yet\n".into()));
        board.assign(&[]);
        assert_eq!(shown(&board), (true, "ready: 0 partitions running\n".into()));

        let held = board.assign(&orders(3));
        held[0].set_state(PartitionState::Running);
        held[1].set_state(PartitionState::CatchingUp);
        held[1].set_catch_up(120, 500);
        held[2].set_stuck("disk full\nready: 3 partitions running");
        clock.set(Timestamp(6_000));
        let expected = "not ready: 1 of 3 partitions running\n\
            orders/1: catching-up, 120 of 500 output records read, about 19.0s left\n\
            orders/2: stuck: disk full ready: 3 partitions running\n";
        assert_eq!(shown(&board), (false, expected.into()));

        held[1].set_state(PartitionState::Running);
        board.revoke(&orders(3)[2]);
        assert_eq!(shown(&board), (true, "ready: 2 partitions running\n".into()));
        board.set_unassigned();
        assert!(!shown(&board).0);
        board.assign(&[]);
        assert!(shown(&board).0);
        board.set_stopping();
        assert_eq!(shown(&board), (false, "not ready: stopping\n".into()));
    }

    #[test]
    fn a_long_list_of_partitions_is_cut_and_counted() {
        let (board, _) = board();
        board.assign(&orders(103));
        let (_, text) = shown(&board);
        assert_eq!(text.lines().count(), 102);
        assert_eq!(text.lines().last(), Some("and 3 more"));
    }

    #[test]
    fn liveness_is_a_poll_loop_that_goes_round() {
        let (board, clock) = board();
        let limit = Duration::from_secs(30);
        clock.set(Timestamp(30_000));
        assert!(live(&board.snapshot(), limit).ok);
        clock.set(Timestamp(30_100));
        let report = live(&board.snapshot(), limit);
        assert_eq!(
            (report.ok, report.text.as_str()),
            (false, "not live: the poll loop went round 30.1s ago, expected within 30.0s\n"),
        );
        board.beat();
        assert!(live(&board.snapshot(), limit).ok);
    }
}
