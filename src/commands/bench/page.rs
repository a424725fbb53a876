//! The report as one page: no scripts, nothing fetched, dark and light, readable on a phone.
//!
//! It is well-formed XML, so that a test can read it without a browser.

mod chart;
mod draw;

use super::figures::{METRICS, float};
use super::report::{Report, Row};
use super::verdict::{count, number};

const STYLE: &str = include_str!("page/style.css");

/// Makes `text` safe between tags and in attributes.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

/// Returns the page.
pub(super) fn page(report: &Report) -> String {
    let title = "What deduplication costs";
    let body = [
        format!("<header><h1>{title}</h1>{}</header>", settings(report)),
        verdict(report),
        chart::charts(report),
        tables(report),
        ledger(report),
        notes(report),
    ];
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\
         <meta name=\"color-scheme\" content=\"light dark\"/>\
         <meta http-equiv=\"Content-Security-Policy\" \
         content=\"default-src 'none'; style-src 'unsafe-inline'\"/>\
         <title>{title}</title><style>{STYLE}</style></head><body><main>\n{}\n</main></body></html>\n",
        body.join("\n")
    )
}

fn settings(report: &Report) -> String {
    let (at, with) = (&report.surroundings, &report.settings);
    let known = if with.known_keys > 0 {
        format!(", {} keys known before", count(with.known_keys))
    } else {
        String::new()
    };
    let partial = report.partial.as_ref().map_or_else(String::new, |why| {
        format!("<p class=\"alert\"><strong>Partial.</strong> {}</p>", escape(why))
    });
    format!(
        "<p class=\"soft\">{} records of {} + {} bytes, {} % duplicates, {} partition{}, {} \
         round{}{known}; latencies at {} records/s. firstseen {} on {}, {} processors, {}.</p>{partial}",
        count(with.records),
        with.key_bytes,
        with.value_bytes,
        float(with.duplicates_per_10k) / 100.0,
        with.partitions,
        if with.partitions == 1 { "" } else { "s" },
        with.rounds,
        if with.rounds == 1 { "" } else { "s" },
        count(with.rate),
        escape(&at.version),
        escape(&at.brokers),
        at.processors,
        escape(&at.began),
    )
}

fn verdict(report: &Report) -> String {
    let lines = report.verdict.iter().map(|line| format!("<li>{}</li>", with_code(line)));
    format!("<section><h2>Verdict</h2><ul>{}</ul></section>", lines.collect::<String>())
}

/// Escapes text, and sets what stands between backticks as code.
fn with_code(text: &str) -> String {
    let parts = text.split('`').enumerate();
    parts
        .map(|(at, part)| match at % 2 {
            0 => escape(part),
            _ => format!("<code>{}</code>", escape(part)),
        })
        .collect()
}

fn tables(report: &Report) -> String {
    let bodies: String = METRICS
        .iter()
        .filter_map(|metric| {
            let rows: String = report
                .rows
                .iter()
                .filter_map(|row| Some((row, row.metric(metric.name)?)))
                .map(|(row, summary)| {
                    let [median, min, max] =
                        [summary.median, summary.min, summary.max].map(number);
                    let ratio = summary.ratio.map_or_else(|| "–".to_owned(), number);
                    format!(
                        "<tr><td>{}</td><td>{median}</td><td>{min} – {max}</td><td>{ratio}</td></tr>",
                        escape(&row.name)
                    )
                })
                .collect();
            let head = format!(
                "<tr class=\"group\"><th colspan=\"4\" scope=\"rowgroup\">{} <span>{}</span></th></tr>",
                metric.title, metric.unit
            );
            (!rows.is_empty()).then(|| format!("<tbody>{head}{rows}</tbody>"))
        })
        .collect();
    if bodies.is_empty() {
        return String::new();
    }
    format!(
        "<section><h2>All figures</h2><p class=\"soft\">Ratios are to the plain passthrough in the \
         same round; their median is shown.</p><div class=\"wide\"><table><thead><tr><th></th>\
         <th>median</th><th>range</th><th>ratio</th></tr></thead>{bodies}</table></div></section>"
    )
}

fn ledger(report: &Report) -> String {
    let row = |row: &Row| {
        let c = &row.ledger;
        let class = if row.faults.is_some() { " class=\"bad\"" } else { "" };
        let counts = [c.read, c.forwarded, c.lost, c.repeated, c.reordered];
        let cells: String =
            counts.iter().map(|counted| format!("<td>{}</td>", count(*counted))).collect();
        format!("<tr{class}><td>{}</td>{cells}</tr>", escape(&row.name))
    };
    let rows: String = report.rows.iter().map(row).collect();
    format!(
        "<section><h2>Ledger</h2><p class=\"soft\">Both topics of every turn, read back and \
         compared. A path that fails gets no figures.</p><div class=\"wide\"><table><thead><tr>\
         <th></th><th>read</th><th>forwarded</th><th>lost</th><th>repeated</th><th>reordered</th>\
         </tr></thead><tbody>{rows}</tbody></table></div></section>"
    )
}

fn notes(report: &Report) -> String {
    let of_rows = report
        .rows
        .iter()
        .flat_map(|row| row.notes.iter().map(move |note| format!("{}: {note}", row.name)));
    let lines: String = report
        .notes
        .iter()
        .cloned()
        .chain(of_rows)
        .map(|note| format!("<li>{}</li>", with_code(&note)))
        .collect();
    if lines.is_empty() {
        return String::new();
    }
    format!("<section><h2>Limits</h2><ul>{lines}</ul></section>")
}

#[cfg(test)]
#[path = "page/tests.rs"]
mod tests;
