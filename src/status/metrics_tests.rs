//! The page keeps to the format, and its numbers keep to each other.

use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;

use super::*;
use crate::words::{Counts, ManualClock, Mode, SourcePartition, Timestamp};

/// Checks `page` against the text format; returns the value of every series.
pub(in crate::status) fn parse(page: &str) -> BTreeMap<String, f64> {
    let name = "[a-zA-Z_:][a-zA-Z0-9_:]*";
    let label = r#"[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\[\\"n])*""#;
    let help = Regex::new(&format!(r"^# HELP ({name}) [^\n]+$")).unwrap();
    let kind = Regex::new(&format!(r"^# TYPE ({name}) (counter|gauge|info|histogram)$")).unwrap();
    let unit = Regex::new(&format!("^# UNIT ({name}) (seconds|bytes)$")).unwrap();
    let sample =
        Regex::new(&format!(r"^({name})(\{{{label}(?:,{label})*\}})? (-?[0-9.e+-]+)$")).unwrap();
    let (mut series, mut families, mut family) = (BTreeMap::new(), BTreeSet::new(), String::new());
    let body = page.strip_suffix("# EOF\n").expect("an end mark");
    for line in body.lines() {
        if let Some(found) = help.captures(line) {
            found[1].clone_into(&mut family);
            assert!(families.insert(family.clone()), "twice: {family}");
        } else if let Some(found) = kind.captures(line).or_else(|| unit.captures(line)) {
            assert_eq!(found[1], family, "{line}");
        } else {
            let found = sample.captures(line).unwrap_or_else(|| panic!("not a sample: {line}"));
            let suffix = found[1].strip_prefix(&family).expect("a sample of its family");
            assert!(["", "_total", "_info", "_sum", "_count", "_bucket"].contains(&suffix));
            let labels = found.get(2).map_or("", |labels| labels.as_str());
            let value = found[3].parse().expect("a number");
            let key = format!("{}{labels}", &found[1]);
            assert_eq!(series.insert(key, value), None, "twice: {line}");
        }
    }
    series
}

fn scrape(board: &Arc<Board>) -> BTreeMap<String, f64> {
    parse(&Metrics::new(Arc::clone(board)).render().unwrap())
}

fn board() -> (Arc<Board>, ManualClock) {
    let clock = ManualClock::at(Timestamp(0));
    (Arc::new(Board::manual(clock.clone())), clock)
}

fn partitions(topic: &str, count: i32) -> Vec<SourcePartition> {
    (0..count).map(|partition| SourcePartition::new(topic, partition)).collect()
}

#[test]
fn a_board_without_partitions_is_a_valid_page() {
    let series = scrape(&board().0);
    assert_eq!(series["firstseen_failures_total{kind=\"delivery_final\"}"], 0.0);
    assert_eq!(series["firstseen_assigned"], 0.0);
    assert_eq!(series["firstseen_checkpoint_duration_seconds_bucket{le=\"+Inf\"}"], 0.0);
}

#[test]
fn every_promised_metric_is_there_with_its_value() {
    let (board, clock) = board();
    let held = board.assign(&partitions("orders", 2));
    let counts = Counts {
        read: 21,
        forwarded: 9,
        suppressed: 4,
        replayed: 3,
        left_out: 2,
        dead_lettered: 1,
        late_writes: 6,
        repeated: 5,
        missing_key: 8,
        ..Counts::default()
    };
    held[0].publish(counts, 300);
    held[1].publish(counts, 30);
    held[0].count_missing("absent", 7);
    held[0].set_state(PartitionState::Running);
    held[0].set_lag(Some(40));
    held[1].set_lag(Some(50));
    held[0].set_store(1_000, 20_000, 2);
    held[1].set_store(10, 200, 1);
    held[1].set_catch_up(25, 100);
    held[0].set_lease(Some(Duration::from_secs(20)));
    board.transaction_committed(Duration::from_millis(20));
    board.transaction_aborted(Aborted::Fenced);
    board.transactions_anew(Anew::Repeated);
    board.set_mode(Mode { name: "dedup", reason: "asked for".into() });
    board.count_failure(Failure::Commit);
    clock.set(Timestamp(4_000));
    board.checkpointed(&held[0], Duration::from_millis(20), true);
    clock.set(Timestamp(5_500));

    let series = scrape(&board);
    let expected = [
        ("records_read_total", 42.0),
        ("records_forwarded_total", 18.0),
        ("records_suppressed_total", 8.0),
        ("records_replayed_total", 6.0),
        ("records_left_out_total", 4.0),
        ("records_dead_lettered_total", 2.0),
        ("records_given_back_total", 0.0),
        ("records_missing_key_total", 16.0),
        ("late_writes_total", 12.0),
        ("late_writes_repeated_total", 10.0),
        ("slow_checkpoints_total", 1.0),
        ("in_flight_records", 4.0),
        ("in_flight_bytes", 330.0),
        ("checkpoint_age_seconds", 5.5),
        ("catch_up_records", 75.0),
        ("catch_up_read_records", 25.0),
        ("store_bytes", 20_200.0),
        ("store_keys", 1_010.0),
        ("store_segments", 3.0),
        ("lag_max_records", 50.0),
        ("lease_remaining_seconds", 14.5),
    ];
    for (name, value) in expected {
        assert_eq!(series[&format!("firstseen_{name}{{topic=\"orders\"}}")], value, "{name}");
    }
    let expected = [
        ("failures_total{kind=\"commit\"}", 1.0),
        ("missing_keys_total{topic=\"orders\",reason=\"absent\"}", 7.0),
        ("delivery_mode{mode=\"dedup\",reason=\"asked for\"}", 1.0),
        ("transactions_committed_total", 1.0),
        ("transaction_commit_duration_seconds_sum", 0.02),
        ("transactions_aborted_total{reason=\"fenced\"}", 1.0),
        ("transactions_reinitialised_total{reason=\"repeated\"}", 1.0),
        ("partitions{topic=\"orders\",state=\"running\"}", 1.0),
        ("partitions{topic=\"orders\",state=\"opening\"}", 1.0),
        ("partitions{topic=\"orders\",state=\"stuck\"}", 0.0),
        ("lag_records{topic=\"orders\",partition=\"1\"}", 50.0),
        ("partition_running{topic=\"orders\",partition=\"1\"}", 0.0),
        ("checkpoint_duration_seconds_bucket{le=\"0.01\"}", 0.0),
        ("checkpoint_duration_seconds_bucket{le=\"0.025\"}", 1.0),
        ("checkpoint_duration_seconds_count", 1.0),
        ("checkpoint_duration_seconds_sum", 0.02),
        ("uptime_seconds", 5.5),
        ("assigned", 1.0),
    ];
    for (name, value) in expected {
        assert_eq!(series[&format!("firstseen_{name}")], value, "{name}");
    }
}

#[test]
fn what_was_read_is_what_became_of_it_plus_what_is_in_flight_in_every_scrape() {
    let board = Arc::new(Board::new(Timestamp(0)));
    let orders = board.assign(&partitions("orders", 1)).remove(0);
    let writer = std::thread::spawn(move || {
        let mut counts = Counts::default();
        for round in 0..20_000_u64 {
            counts.read += 3;
            counts.forwarded += 2;
            counts.suppressed += round % 2;
            orders.publish(counts, 0);
            if round % 1_000 == 0 {
                orders.begin(Counts { read: counts.forwarded + counts.suppressed, ..counts });
                counts.read = counts.forwarded + counts.suppressed;
            }
        }
    });
    let metrics = Metrics::new(Arc::clone(&board));
    let ends = ["forwarded", "suppressed", "replayed", "left_out", "dead_lettered", "given_back"];
    let mut scrapes = 0;
    while !writer.is_finished() || scrapes == 0 {
        let series = parse(&metrics.render().unwrap());
        let of = |name: &str| series[&format!("firstseen_{name}{{topic=\"orders\"}}")];
        let became: f64 = ends.iter().map(|end| of(&format!("records_{end}_total"))).sum();
        assert_eq!(of("records_read_total"), became + of("in_flight_records"));
        scrapes += 1;
    }
    writer.join().unwrap();
}

#[test]
fn a_hostile_topic_name_stays_inside_its_label() {
    let (board, _) = board();
    board.assign(&partitions("a\"} 1\nfirstseen_assigned 0\\", 1));
    board.set_mode(Mode { name: "dedup", reason: "said \"so\"\n".into() });
    let series = scrape(&board);
    assert_eq!(series["firstseen_assigned"], 1.0);
    let label = r#"{topic="a\"} 1\nfirstseen_assigned 0\\"}"#;
    assert_eq!(series[&format!("firstseen_records_read_total{label}")], 0.0);
}

#[test]
fn two_thousand_partitions_do_not_swamp_the_page() {
    let (board, _) = board();
    let held = board.assign(&partitions("orders", 2_000));
    held.iter().for_each(|partition| partition.set_lag(Some(1)));
    let series = scrape(&board);
    assert!(series.keys().all(|name| !name.contains("partition=")));
    assert_eq!(series["firstseen_partitions{topic=\"orders\",state=\"opening\"}"], 2_000.0);
    assert!(series.len() < 100, "{} series", series.len());
}

#[test]
fn totals_outlive_the_partition_and_gauges_do_not() {
    let (board, _) = board();
    let orders = partitions("orders", 1);
    board.assign(&orders)[0].publish(Counts { read: 5, forwarded: 3, ..Counts::default() }, 9);
    board.revoke(&orders[0]);
    let series = scrape(&board);
    assert_eq!(series["firstseen_records_read_total{topic=\"orders\"}"], 5.0);
    assert_eq!(series["firstseen_records_given_back_total{topic=\"orders\"}"], 2.0);
    assert!(!series.contains_key("firstseen_in_flight_records{topic=\"orders\"}"));
}
