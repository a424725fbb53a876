//! What it comes to, in words. Pure.

use super::figures::Summary;
use super::matrix::Mode;
use super::report::{Report, Row};

/// Writes a figure for people: three or four digits, thousands apart.
pub(super) fn number(value: f64) -> String {
    let decimals = match value.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        _ => 2,
    };
    let plain = format!("{value:.decimals$}");
    let (whole, rest) = plain.split_at(plain.find('.').unwrap_or(plain.len()));
    grouped(whole) + rest
}

/// Writes a count for people, thousands apart.
pub(super) fn count(value: u64) -> String {
    grouped(&value.to_string())
}

fn grouped(whole: &str) -> String {
    let mut out = String::new();
    let digits = whole.chars().filter(char::is_ascii_digit).count();
    let mut left = digits;
    for c in whole.chars() {
        if c.is_ascii_digit() {
            if left < digits && left.is_multiple_of(3) {
                out.push(',');
            }
            left -= 1;
        }
        out.push(c);
    }
    out
}

/// Returns the sentences.
pub(super) fn verdict(report: &Report) -> Vec<String> {
    let mut sentences = Vec::new();
    for row in &report.rows {
        match &row.faults {
            Some(faults) => sentences
                .push(format!("{}: failed the ledger ({faults}); it gets no figures.", row.name)),
            None if row.mode == Mode::Passthrough => {}
            None => sentences.extend(cost(report, row)),
        }
    }
    sentences.extend(target(report));
    if sentences.is_empty() {
        sentences.push("Nothing was measured that could be compared.".to_owned());
    }
    sentences
}

fn cost(report: &Report, row: &Row) -> Option<String> {
    let mut parts = Vec::new();
    if let Some(ratio) = row.metric("records_per_s").and_then(|summary| summary.ratio) {
        parts.push(format!("{} times the plain passthrough's throughput", number(ratio)));
    }
    if let Some(ratio) = row.metric("cpu_s_per_million").and_then(|summary| summary.ratio) {
        parts.push(format!("{} times its CPU a record", number(ratio)));
    }
    if let Some(p99) = row.metric("latency_p99_ms") {
        let base = report.rows.iter().find(|row| row.mode == Mode::Passthrough);
        let base = base.and_then(|row| row.metric("latency_p99_ms"));
        let against =
            base.map_or_else(String::new, |base| format!(" against {} ms", number(base.median)));
        let rate = count(report.settings.rate);
        parts
            .push(format!("p99 end to end {} ms{against} at {rate} records/s", number(p99.median)));
    }
    if let Some(recovery) = row.metric("recovery_ms") {
        parts.push(format!("back after a kill in {} ms", number(recovery.median)));
    }
    (!parts.is_empty()).then(|| format!("{}: {}.", row.name, parts.join("; ")))
}

/// Says which interval meets the target, for each mode that has intervals.
fn target(report: &Report) -> Vec<String> {
    let Some(target) = report.settings.target_p99_ms else { return Vec::new() };
    [Mode::Dedup, Mode::Transactional]
        .into_iter()
        .filter_map(|mode| {
            let rows = report.rows.iter().filter(|row| row.mode == mode);
            let timed: Vec<_> = rows
                .filter_map(|row| Some((row, row.metric("latency_p99_ms")?, row.interval_ms?)))
                .collect();
            (!timed.is_empty()).then(|| meets(mode, target, &timed))
        })
        .collect()
}

fn meets(mode: Mode, target: f64, timed: &[(&Row, &Summary, f64)]) -> String {
    let mode = mode.as_str();
    let wanted = format!("a p99 of {} ms", number(target));
    // The slowest round counts: a target is not met on average.
    let meeting = timed.iter().filter(|(_, p99, _)| p99.max <= target);
    let longest = meeting.max_by(|a, b| a.2.total_cmp(&b.2));
    let Some((row, p99, interval)) = longest else {
        let best = timed.iter().map(|(_, p99, _)| p99.max).fold(f64::INFINITY, f64::min);
        return format!(
            "No interval measured gives {mode} {wanted}: the best was {} ms.",
            number(best)
        );
    };
    let every = timed.iter().all(|(_, p99, _)| p99.max <= target);
    let tail = if every { ", as does every shorter one measured" } else { "" };
    let tail = if timed.len() > 1 { tail } else { "" };
    format!(
        "`checkpoint.interval = \"{}ms\"` gives {mode} {wanted} ({}: at most {} ms in any \
         round){tail}.",
        interval,
        row.name,
        number(p99.max)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::bench::report::tests::{sample, sample_of};

    #[test]
    fn numbers_have_few_digits_and_thousands_apart() {
        assert_eq!(number(1_234_567.8), "1,234,568");
        assert_eq!(number(100.0), "100");
        assert_eq!(number(12.345), "12.3");
        assert_eq!(number(0.954), "0.95");
        assert_eq!(number(999.6), "1,000");
        assert_eq!(number(-1_500.0), "-1,500");
        assert_eq!([count(0), count(999), count(4_000_000)], ["0", "999", "4,000,000"]);
    }

    #[test]
    fn each_guarantee_has_its_price_in_one_sentence() {
        let verdict = sample().verdict;
        let dedup = verdict.iter().find(|line| line.starts_with("dedup every 1s")).expect("there");
        assert_eq!(
            dedup,
            "dedup every 1s: 0.90 times the plain passthrough's throughput; 1.11 times its CPU a \
             record; p99 end to end 9.50 ms against 8.00 ms at 10,000 records/s; back after a kill \
             in 700 ms."
        );
        assert!(!verdict.iter().any(|line| line.starts_with("passthrough")));
    }

    #[test]
    fn the_longest_interval_that_meets_the_target_is_named_for_each_mode() {
        let text = sample().verdict.join("\n");
        assert!(
            text.contains("`checkpoint.interval = \"1000ms\"` gives dedup a p99 of 250 ms"),
            "{text}"
        );
        assert!(text.contains("as does every shorter one measured"), "{text}");
        assert!(text.contains("`checkpoint.interval = \"100ms\"` gives transactional"), "{text}");
    }

    #[test]
    fn a_target_nobody_meets_is_said_with_the_best_there_was() {
        let report = sample_of(|rows| {
            for row in rows.iter_mut() {
                for figures in row.rounds.values_mut() {
                    figures.latency_p99_ms = Some(300.0);
                }
            }
        });
        let text = report.verdict.join("\n");
        assert!(
            text.contains("No interval measured gives dedup a p99 of 250 ms: the best was 300 ms"),
            "{text}"
        );
    }

    #[test]
    fn one_slow_round_misses_the_target_whatever_the_median_says() {
        let report = sample_of(|rows| {
            if let Some(figures) = rows[3].rounds.get_mut(&1) {
                figures.latency_p99_ms = Some(400.0);
            }
        });
        let text = report.verdict.join("\n");
        assert!(text.contains("\"100ms\"` gives dedup"), "{text}");
    }

    #[test]
    fn a_row_that_failed_the_ledger_is_named_with_its_faults_alone() {
        let text = sample_of(|rows| rows[2].ledger.lost = 4).verdict.join("\n");
        assert!(text.contains("dedup every 100ms: failed the ledger (4 lost)"), "{text}");
        assert!(!text.contains("dedup every 100ms: 0."), "{text}");
    }
}
