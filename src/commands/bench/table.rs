//! The report on a terminal. Pure.

use std::fmt::Write as _;

use super::figures::METRICS;
use super::report::{Report, Row};
use super::verdict::{count, number};

/// Returns the report as text of at most 80 columns, verdict and notes aside.
pub(super) fn table(report: &Report) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    write_all(&mut text, report).unwrap_or_default();
    text
}

fn write_all(out: &mut String, report: &Report) -> std::fmt::Result {
    head(out, report)?;
    for metric in METRICS {
        let rows = report.rows.iter().filter(|row| row.metric(metric.name).is_some());
        let rows: Vec<&Row> = rows.collect();
        if rows.is_empty() {
            continue;
        }
        let title = format!("{} ({})", metric.title, metric.unit);
        writeln!(out, "\n{title:<42}{:>9}{:>10}{:>10}{:>9}", "median", "min", "max", "ratio")?;
        for row in rows {
            let Some(summary) = row.metric(metric.name) else { continue };
            let ratio = summary.ratio.map_or_else(|| "-".to_owned(), number);
            let [median, min, max] = [summary.median, summary.min, summary.max].map(number);
            writeln!(out, "  {:<38}{median:>11}{min:>10}{max:>10}{ratio:>9}", row.name)?;
        }
    }
    ledger(out, report)?;
    tail(out, report)
}

fn head(out: &mut String, report: &Report) -> std::fmt::Result {
    let (at, with) = (&report.surroundings, &report.settings);
    writeln!(out, "firstseen {} on {}, {} processors", at.version, at.brokers, at.processors)?;
    writeln!(
        out,
        "{} records of {} + {} bytes, partitions {}, duplicates {}%, rounds {}, keys known {}",
        count(with.records),
        with.key_bytes,
        with.value_bytes,
        with.partitions,
        super::figures::float(with.duplicates_per_10k) / 100.0,
        with.rounds,
        count(with.known_keys),
    )?;
    if let Some(partial) = &report.partial {
        writeln!(out, "PARTIAL: {partial}")?;
    }
    Ok(())
}

fn ledger(out: &mut String, report: &Report) -> std::fmt::Result {
    writeln!(
        out,
        "\n{:<27}{:>13}{:>11}{:>7}{:>9}{:>11}",
        "ledger, all turns", "read", "forwarded", "lost", "repeated", "reordered"
    )?;
    for row in &report.rows {
        let counts = &row.ledger;
        writeln!(
            out,
            "  {:<25}{:>13}{:>11}{:>7}{:>9}{:>11}",
            row.name, counts.read, counts.forwarded, counts.lost, counts.repeated, counts.reordered
        )?;
    }
    Ok(())
}

fn tail(out: &mut String, report: &Report) -> std::fmt::Result {
    writeln!(out, "\nverdict")?;
    for line in &report.verdict {
        writeln!(out, "  {line}")?;
    }
    let of_rows = report
        .rows
        .iter()
        .flat_map(|row| row.notes.iter().map(move |note| format!("{}: {note}", row.name)));
    for note in report.notes.iter().cloned().chain(of_rows) {
        writeln!(out, "  note: {note}")?;
    }
    let topics = &report.topics;
    write!(out, "  topics: {} made, {} left", topics.made, topics.left.len())?;
    if !topics.left.is_empty() {
        write!(out, " ({})", topics.left.join(", "))?;
    }
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::bench::report::tests::{sample, sample_of};

    #[test]
    fn every_row_shows_median_range_and_ratio() {
        let text = table(&sample());
        let line = text.lines().find(|line| line.contains("dedup every 100ms")).expect("there");
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(words[3..], ["850,000", "800,000", "900,000", "0.85"], "{text}");
    }

    #[test]
    fn tables_fit_eighty_columns() {
        let text = table(&sample());
        let tables = text.split("\nverdict").next().expect("before it");
        for line in tables.lines().skip(2) {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }

    #[test]
    fn a_partial_report_says_so_at_its_head() {
        let mut report = sample();
        report.partial = Some("round 2, dedup every 1s: no broker answers".to_owned());
        let text = table(&report);
        assert!(text.lines().nth(2).is_some_and(|line| line.starts_with("PARTIAL: round 2")));
    }

    #[test]
    fn a_row_without_figures_is_in_the_ledger_alone() {
        let text = table(&sample_of(|rows| rows[2].ledger.lost = 4));
        let lines: Vec<&str> =
            text.lines().filter(|line| line.starts_with("  dedup every 100ms ")).collect();
        assert_eq!(lines.len(), 1, "{text}");
    }
}
