//! The report: for people, and as JSON.

use serde::Serialize;

use super::finding::{Finding, Severity};
use super::mode::{Choice, Readers};
use crate::config::Config;
use crate::error::one_line;

/// All that is told at the end.
#[derive(Debug, Serialize)]
pub(super) struct Report<'a> {
    group: &'a str,
    source: &'a str,
    output: &'a str,
    mode: &'a Choice,
    guarantee: Vec<String>,
    readers: Readers,
    counts: Counts,
    findings: &'a [Finding],
}

/// How many findings there are of each severity; accepted ones are in `accepted` alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Counts {
    pub(super) breaks: usize,
    pub(super) weakens: usize,
    pub(super) unknown: usize,
    pub(super) accepted: usize,
    pub(super) ok: usize,
}

impl Counts {
    pub(super) fn of(findings: &[Finding]) -> Self {
        let mut counts = Self::default();
        for finding in findings {
            let count = match finding.severity {
                Severity::Ok => &mut counts.ok,
                _ if finding.accepted => &mut counts.accepted,
                Severity::Unknown => &mut counts.unknown,
                Severity::Weakens => &mut counts.weakens,
                Severity::Breaks => &mut counts.breaks,
            };
            *count += 1;
        }
        counts
    }

    /// Whether nothing is left that the exit code has to tell.
    pub(super) fn is_clean(self) -> bool {
        self.breaks + self.weakens + self.unknown == 0
    }
}

impl<'a> Report<'a> {
    pub(super) fn new(config: &'a Config, mode: &'a Choice, findings: &'a [Finding]) -> Self {
        Self {
            group: &config.source.group,
            source: &config.kafka.bootstrap_servers,
            output: config.sink_bootstrap_servers(),
            mode,
            guarantee: guarantee(mode, findings),
            readers: mode.delivery.readers(),
            counts: Counts::of(findings),
            findings,
        }
    }

    /// Writes the report as one JSON object on one line.
    pub(super) fn json(&self) -> Result<String, serde_json::Error> {
        let mut text = serde_json::to_string(self)?;
        text.push('\n');
        Ok(text)
    }

    /// Writes the report for people.
    pub(super) fn text(&self) -> String {
        let mut out = String::new();
        let place = if self.source == self.output {
            self.source.to_owned()
        } else {
            format!("{} into {}", self.source, self.output)
        };
        line(&mut out, &format!("group `{}` on {place}", self.group));
        out.push('\n');
        let mode = format!("{} -> {}", self.mode.asked, self.mode.delivery.as_str());
        entry(&mut out, "mode", &format!("{mode}: {}", self.mode.reason));
        for promise in &self.guarantee {
            entry(&mut out, "guarantee", promise);
        }
        entry(&mut out, "readers", &format!("read_committed: {}", self.readers.read_committed));
        entry(&mut out, "", &format!("read_uncommitted: {}", self.readers.read_uncommitted));
        out.push('\n');
        out.push_str(&table(self.findings));
        out.push('\n');
        line(&mut out, &self.sum());
        out
    }

    fn sum(&self) -> String {
        let Counts { breaks, weakens, unknown, accepted, ok } = self.counts;
        let mut sum = format!("breaks {breaks}, weakens {weakens}, unknown {unknown}, ok {ok}");
        if accepted > 0 {
            sum.push_str(&format!(", accepted {accepted}"));
        }
        sum
    }
}

/// Returns what is promised, and by which findings less or nothing of it holds.
fn guarantee(mode: &Choice, findings: &[Finding]) -> Vec<String> {
    let mut all: Vec<String> =
        mode.delivery.guarantee().iter().map(|promise| (*promise).to_owned()).collect();
    let limits = [
        (Severity::Breaks, "all of it only once this is mended"),
        (Severity::Weakens, "with less than that by"),
        (Severity::Unknown, "as far as can be told without"),
    ];
    for (severity, limit) in limits {
        let mut names: Vec<&str> =
            findings.iter().filter(|f| f.severity == severity).map(|f| f.kind.name()).collect();
        names.dedup();
        if !names.is_empty() {
            all.push(format!("{limit}: {}", names.join(", ")));
        }
    }
    all
}

fn line(out: &mut String, text: &str) {
    out.push_str(&one_line(text));
    out.push('\n');
}

fn entry(out: &mut String, name: &str, text: &str) {
    out.push_str(&format!("  {name:<11}{}\n", one_line(text)));
}

/// Writes findings as rows under headings; below what is not ok, what is needed and what mends it.
pub(super) fn table(findings: &[Finding]) -> String {
    const HEAD: [&str; 5] = ["SEVERITY", "FINDING", "ON", "SETTING", "FOUND"];
    /// A longer cell pushes its own row aside, not all of them.
    const WIDEST: usize = 32;
    let rows: Vec<[String; 5]> = findings.iter().map(cells).collect();
    let mut widths = HEAD.map(str::len);
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count().min(WIDEST));
        }
    }
    let mut out = String::new();
    push_row(&mut out, &HEAD.map(str::to_owned), &widths);
    for (row, finding) in rows.iter().zip(findings) {
        push_row(&mut out, row, &widths);
        if finding.severity > Severity::Ok {
            out.push_str(&format!("      needed: {}\n", one_line(&finding.needed)));
            out.push_str(&format!("      fix: {}\n", one_line(&finding.fix)));
        }
    }
    out
}

fn cells(finding: &Finding) -> [String; 5] {
    let severity = finding.severity.as_str();
    let severity = if finding.accepted { format!("({severity})") } else { severity.to_owned() };
    [
        severity,
        finding.kind.to_string(),
        one_line(&finding.on),
        finding.setting.to_owned(),
        one_line(&finding.found),
    ]
}

fn push_row(out: &mut String, row: &[String; 5], widths: &[usize; 5]) {
    let mut text = String::from("  ");
    for (cell, width) in row.iter().zip(widths) {
        text.push_str(&format!("{cell:<width$}  "));
    }
    out.push_str(text.trim_end());
    out.push('\n');
}
