use std::time::Duration;

use super::*;
use crate::words::Coded;

fn collected(mode: Mode, interval: Option<u64>, rates: &[f64], p99: f64) -> Collected {
    let mut latencies = Histogram::new_with_bounds(1, 600_000_000, 3).expect("bounds");
    for us in 1..=1_000 {
        latencies.record(us * 10).expect("in bounds");
    }
    let rounds = (0..).zip(rates).map(|(round, rate)| {
        let figures = Figures {
            records_per_s: Some(*rate),
            mb_per_s: Some(rate * 216.0 / 1e6),
            cpu_s_per_million: Some(1.2e6 / rate),
            latency_p50_ms: Some(p99 / 4.0),
            latency_p99_ms: Some(p99),
            latency_p999_ms: Some(p99 * 1.5),
            latency_max_ms: Some(p99 * 2.0),
            recovery_ms: mode.is_run().then_some(700.0),
            checkpoint_mean_ms: mode.is_run().then_some(12.0),
            ..Figures::default()
        };
        (round, figures)
    });
    Collected {
        case: Case { mode, interval: interval.map(Duration::from_millis) },
        rounds: rounds.collect(),
        ledger: Ledger { read: 100, forwarded: 95, suppressed: 5, ..Ledger::default() },
        latencies,
        rate: Some(10_000.0),
        notes: Vec::new(),
    }
}

/// A report as a bench on brokers makes it.
pub(in super::super) fn sample() -> Report {
    sample_of(|_rows| {})
}

pub(in super::super) fn sample_of(change: impl FnOnce(&mut Vec<Collected>)) -> Report {
    let mut rows = vec![
        collected(Mode::Passthrough, None, &[1_000_000.0, 900_000.0, 1_100_000.0], 8.0),
        collected(Mode::FastPassthrough, None, &[1_400_000.0, 1_300_000.0, 1_500_000.0], 7.0),
        collected(Mode::Dedup, Some(100), &[850_000.0, 800_000.0, 900_000.0], 9.0),
        collected(Mode::Dedup, Some(1_000), &[900_000.0, 850_000.0, 990_000.0], 9.5),
        collected(Mode::Transactional, Some(100), &[700_000.0, 650_000.0, 720_000.0], 120.0),
        collected(Mode::Transactional, Some(1_000), &[880_000.0; 3], 1_010.0),
    ];
    change(&mut rows);
    let surroundings = Surroundings {
        brokers: "kafka-1:9092".to_owned(),
        processors: 2,
        version: "0.1.0 (<test> & \"quotes\")".to_owned(),
        began: "2026-11-30T12:00:00Z".to_owned(),
        took_s: 120.0,
        ..Surroundings::default()
    };
    let settings = Settings {
        rounds: 3,
        records: 4_000_000,
        key_bytes: 16,
        value_bytes: 200,
        partitions: 1,
        duplicates_per_10k: 500,
        distance: 10_000,
        window_s: 86_400.0,
        rate: 10_000,
        rate_for_s: 5.0,
        target_p99_ms: Some(250.0),
        seed: 1,
        ..Settings::default()
    };
    Report::new(surroundings, settings, &rows, Vec::new(), TopicCount::default(), None)
}

#[test]
fn a_row_that_fails_the_ledger_gets_no_figures_and_fails_the_bench() {
    let report = sample_of(|rows| rows[3].ledger.repeated = 2);
    let row = &report.rows[3];
    assert!(row.metrics.is_empty() && row.latency_curve.is_empty() && row.rounds.is_empty());
    assert_eq!(row.faults.as_deref(), Some("2 repeated"));
    let error = report.verdict_on_itself().expect_err("not clean");
    assert_eq!((error.code().as_str(), error.code().exit_code()), ("E7001", 3));
    assert!(error.to_string().contains("dedup every 1s: 2 repeated"), "{error}");
}

#[test]
fn without_a_clean_passthrough_there_are_no_ratios() {
    let report = sample_of(|rows| rows[0].ledger.lost = 1);
    let dedup = report.rows[2].metric("records_per_s").expect("measured");
    assert_eq!((dedup.median, dedup.ratio), (850_000.0, None));
}

#[test]
fn a_load_that_was_too_slow_is_said_with_the_rate_that_was_reached() {
    let report = sample_of(|rows| rows[2].rate = Some(8_123.4));
    let error = report.verdict_on_itself().expect_err("too slow");
    assert_eq!(error.code().as_str(), "E7009");
    assert!(error.to_string().contains("8123 records/s"), "{error}");
    sample().verdict_on_itself().expect("fast enough");
}

#[test]
fn a_clean_row_has_every_round_and_a_curve_that_rises() {
    let report = sample();
    let row = &report.rows[2];
    assert_eq!(row.rounds.len(), 3);
    let summary = row.metric("records_per_s").expect("measured");
    assert_eq!((summary.median, summary.min, summary.max), (850_000.0, 800_000.0, 900_000.0));
    assert!(row.latency_curve.windows(2).all(|pair| pair[0].1 <= pair[1].1));
    assert!(serde_json::to_string(&report).expect("JSON").contains("\"mode\":\"dedup\""));
}
