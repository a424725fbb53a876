//! The pictures: throughput bars with ranges, latency curves, cost against interval.
//!
//! A picture is 360 units wide, as wide as a phone, so that its text stays readable there.

use std::fmt::Write as _;

use super::super::matrix::Mode;
use super::super::report::{Report, Row};
use super::super::verdict::{count, number};
use super::draw::{Scale, nines, px};
use super::escape;

const WIDTH: f64 = 360.0;
const LEFT: f64 = 44.0;
const RIGHT: f64 = 8.0;
const PLOT: f64 = WIDTH - LEFT - RIGHT;

/// Returns the section with all pictures that there are figures for.
pub(super) fn charts(report: &Report) -> String {
    let figures: String = [
        throughput(report),
        latency(report),
        against_interval(
            report,
            "Throughput against interval",
            "times the plain passthrough's",
            |row| row.metric("records_per_s").and_then(|summary| summary.ratio),
            false,
        ),
        against_interval(
            report,
            "p99 latency against interval",
            "ms, logarithmic",
            |row| row.metric("latency_p99_ms").map(|summary| summary.median),
            true,
        ),
    ]
    .into_iter()
    .flatten()
    .collect();
    if figures.is_empty() {
        return String::new();
    }
    format!(
        "<section class=\"charts\"><h2>Pictures</h2><div class=\"grid\">{figures}</div></section>"
    )
}

fn figure(title: &str, unit: &str, height: f64, drawing: &str, below: &str) -> String {
    let title = escape(title);
    format!(
        "<figure><figcaption>{title} <span>{}</span></figcaption>\
         <svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{title}\">{drawing}</svg>\
         {below}</figure>",
        escape(unit)
    )
}

fn color(mode: Mode) -> usize {
    match mode {
        Mode::Passthrough => 0,
        Mode::FastPassthrough => 1,
        Mode::Dedup => 2,
        Mode::Transactional => 3,
    }
}

/// Returns the row's place among those of its mode: it chooses the dashes.
fn dash(report: &Report, row: &Row) -> usize {
    let same = report.rows.iter().filter(|other| other.mode == row.mode);
    same.take_while(|other| other.name != row.name).count() % 4
}

fn throughput(report: &Report) -> Option<String> {
    const ROW: f64 = 38.0;
    let rows: Vec<_> =
        report.rows.iter().filter_map(|row| Some((row, *row.metric("records_per_s")?))).collect();
    let most = rows.iter().map(|(_, summary)| summary.max).reduce(f64::max)?;
    let scale = Scale::linear(most, 0.0, WIDTH - 4.0);
    let mut drawing = String::new();
    let mut top = 0.0;
    for (row, summary) in &rows {
        let (bar, middle) = (px(top + 16.0), px(top + 22.0));
        let ratio =
            summary.ratio.map_or_else(String::new, |ratio| format!(", × {}", number(ratio)));
        let (name, median) = (escape(&row.name), number(summary.median));
        let (min, max) = (px(scale.at(summary.min)), px(scale.at(summary.max)));
        // Writing to a string does not fail.
        write!(
            drawing,
            "<text x=\"0\" y=\"{}\">{name}</text>\
             <text x=\"{WIDTH}\" y=\"{}\" text-anchor=\"end\" class=\"faint\">{median}{ratio}</text>\
             <rect x=\"0\" y=\"{bar}\" width=\"{}\" height=\"12\" rx=\"2\" class=\"f{}\"/>\
             <line x1=\"{min}\" x2=\"{max}\" y1=\"{middle}\" y2=\"{middle}\" class=\"range\"/>\
             <line x1=\"{min}\" x2=\"{min}\" y1=\"{}\" y2=\"{}\" class=\"range\"/>\
             <line x1=\"{max}\" x2=\"{max}\" y1=\"{}\" y2=\"{}\" class=\"range\"/>",
            px(top + 11.0),
            px(top + 11.0),
            px(scale.at(summary.median)),
            color(row.mode),
            px(top + 18.0),
            px(top + 26.0),
            px(top + 18.0),
            px(top + 26.0),
        )
        .unwrap_or_default();
        top += ROW;
    }
    let unit = "records/s, median with range; × the plain passthrough";
    Some(figure("Throughput", unit, top, &drawing, ""))
}

/// Draws the axis on the left with its marks across.
fn left_axis(drawing: &mut String, scale: Scale, suffix: &str) {
    for tick in scale.ticks() {
        let y = scale.at(tick);
        write!(
            drawing,
            "<line x1=\"{LEFT}\" x2=\"{}\" y1=\"{}\" y2=\"{}\" class=\"axis\"/>\
             <text x=\"{}\" y=\"{}\" text-anchor=\"end\" class=\"faint\">{}{suffix}</text>",
            WIDTH - RIGHT,
            px(y),
            px(y),
            LEFT - 6.0,
            px(y + 4.0),
            short(tick),
        )
        .unwrap_or_default();
    }
}

/// Writes a mark as shortly as can be.
fn short(value: f64) -> String {
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if value >= 1_000.0 { number(value) } else { text.to_owned() }
}

fn mark(drawing: &mut String, x: f64, y: f64, label: &str) {
    write!(
        drawing,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\" class=\"faint\">{}</text>",
        px(x),
        px(y),
        escape(label)
    )
    .unwrap_or_default();
}

/// Draws a dashed line across at the p99 that is wanted, where it is on the picture. Returns its
/// part of the legend.
fn target(drawing: &mut String, report: &Report, scale: Scale) -> String {
    let wanted = report.settings.target_p99_ms.filter(|target| scale.holds(*target));
    let Some(target) = wanted else { return String::new() };
    let y = px(scale.at(target));
    write!(
        drawing,
        "<line x1=\"{LEFT}\" x2=\"{}\" y1=\"{y}\" y2=\"{y}\" class=\"target\"/>",
        WIDTH - RIGHT
    )
    .unwrap_or_default();
    format!(
        "<li><svg viewBox=\"0 0 26 8\" aria-hidden=\"true\"><line x1=\"0\" x2=\"26\" y1=\"4\" \
         y2=\"4\" class=\"target\"/></svg>p99 wanted: {} ms</li>",
        number(target)
    )
}

fn latency(report: &Report) -> Option<String> {
    const TOP: f64 = 8.0;
    const HEIGHT: f64 = 200.0;
    let rows: Vec<&Row> = report.rows.iter().filter(|row| !row.latency_curve.is_empty()).collect();
    let all = || rows.iter().flat_map(|row| row.latency_curve.iter().map(|(_, ms)| *ms));
    let (least, most) = (all().reduce(f64::min)?, all().reduce(f64::max)?);
    let scale = Scale::decades(least, most, TOP + HEIGHT, -HEIGHT);
    let mut drawing = String::new();
    left_axis(&mut drawing, scale, "");
    let wanted = target(&mut drawing, report, scale);
    for (percentile, label) in [
        (0.0, "0"),
        (50.0, "p50"),
        (90.0, "p90"),
        (99.0, "p99"),
        (99.9, "p99.9"),
        (99.99, "p99.99"),
    ] {
        let x = (LEFT + PLOT * nines(percentile)).min(WIDTH - 20.0);
        mark(&mut drawing, x, TOP + HEIGHT + 16.0, label);
    }
    for row in &rows {
        let points: Vec<String> = row
            .latency_curve
            .iter()
            .map(|(at, ms)| format!("{},{}", px(LEFT + PLOT * nines(*at)), px(scale.at(*ms))))
            .collect();
        polyline(&mut drawing, report, row, &points);
    }
    let rate = count(report.settings.rate);
    let unit = format!("ms, logarithmic, at {rate} records/s");
    Some(figure(
        "End-to-end latency",
        &unit,
        HEIGHT + 32.0,
        &drawing,
        &legend(report, &rows, &wanted),
    ))
}

fn polyline(drawing: &mut String, report: &Report, row: &Row, points: &[String]) {
    write!(
        drawing,
        "<polyline points=\"{}\" class=\"curve s{} d{}\"/>",
        points.join(" "),
        color(row.mode),
        dash(report, row)
    )
    .unwrap_or_default();
}

fn legend(report: &Report, rows: &[&Row], wanted: &str) -> String {
    let items: String = rows
        .iter()
        .map(|row| {
            format!(
                "<li><svg viewBox=\"0 0 26 8\" aria-hidden=\"true\"><line x1=\"0\" x2=\"26\" y1=\"4\" \
                 y2=\"4\" class=\"curve s{} d{}\"/></svg>{}</li>",
                color(row.mode),
                dash(report, row),
                escape(&row.name)
            )
        })
        .collect();
    format!("<ul class=\"legend\">{items}{wanted}</ul>")
}

/// Draws one figure over the interval between checkpoints, for each mode that has intervals.
fn against_interval(
    report: &Report,
    title: &str,
    unit: &str,
    of: fn(&Row) -> Option<f64>,
    logarithmic: bool,
) -> Option<String> {
    const TOP: f64 = 8.0;
    const HEIGHT: f64 = 150.0;
    let points: Vec<(&Row, f64, f64)> =
        report.rows.iter().filter_map(|row| Some((row, row.interval_ms?, of(row)?))).collect();
    let values = || points.iter().map(|(.., value)| *value);
    let (least, most) = (values().reduce(f64::min)?, values().reduce(f64::max)?);
    let y = if logarithmic {
        Scale::decades(least, most, TOP + HEIGHT, -HEIGHT)
    } else {
        Scale::linear(most.max(1.0) * 1.1, TOP + HEIGHT, -HEIGHT)
    };
    let intervals = || points.iter().map(|(_, interval, _)| *interval);
    let (first, last) = (intervals().reduce(f64::min)?, intervals().reduce(f64::max)?);
    let x = Scale::decades(first, last, LEFT, PLOT);
    let mut drawing = String::new();
    left_axis(&mut drawing, y, "");
    let wanted = if logarithmic { target(&mut drawing, report, y) } else { String::new() };
    for tick in x.ticks() {
        mark(&mut drawing, x.at(tick).min(WIDTH - 16.0), TOP + HEIGHT + 16.0, &time(tick));
    }
    for mode in [Mode::Dedup, Mode::Transactional] {
        let own = points.iter().filter(|(row, ..)| row.mode == mode);
        let places: Vec<(f64, f64)> = own.map(|(_, at, value)| (x.at(*at), y.at(*value))).collect();
        line_of(&mut drawing, mode, &places);
    }
    let key = legend_of_modes(&points, &wanted);
    Some(figure(title, unit, HEIGHT + 32.0, &drawing, &key))
}

fn line_of(drawing: &mut String, mode: Mode, places: &[(f64, f64)]) {
    let points: Vec<String> =
        places.iter().map(|(x, y)| format!("{},{}", px(*x), px(*y))).collect();
    let color = color(mode);
    if points.len() > 1 {
        write!(drawing, "<polyline points=\"{}\" class=\"curve s{color}\"/>", points.join(" "))
            .unwrap_or_default();
    }
    for (x, y) in places {
        write!(drawing, "<circle cx=\"{}\" cy=\"{}\" r=\"4\" class=\"f{color}\"/>", px(*x), px(*y))
            .unwrap_or_default();
    }
}

fn legend_of_modes(points: &[(&Row, f64, f64)], wanted: &str) -> String {
    let modes = [Mode::Dedup, Mode::Transactional].into_iter();
    let items: String = modes
        .filter(|mode| points.iter().any(|(row, ..)| row.mode == *mode))
        .map(|mode| {
            format!(
                "<li><svg viewBox=\"0 0 26 8\" aria-hidden=\"true\"><circle cx=\"13\" cy=\"4\" r=\"4\" \
                 class=\"f{}\"/></svg>{}</li>",
                color(mode),
                mode.as_str()
            )
        })
        .collect();
    format!("<ul class=\"legend\">{items}{wanted}</ul>")
}

/// Writes milliseconds as people do.
fn time(ms: f64) -> String {
    if ms < 1_000.0 { format!("{ms:.0} ms") } else { format!("{:.0} s", ms / 1e3) }
}
