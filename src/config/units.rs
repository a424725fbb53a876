//! Lengths of time and sizes, as texts with units.

use std::time::Duration;

/// Reads a length of time in whole milliseconds: `1m30s`, `24h`, `3d`.
///
/// Months and years have no fixed length, and `M` beside `m` is a trap, so they are refused.
pub(super) fn parse_span(text: &str) -> Option<Duration> {
    let units = text.split(|c: char| !c.is_alphabetic()).filter(|unit| !unit.is_empty());
    let vague = |unit: &str| unit == "M" || unit.starts_with("mon") || unit.starts_with('y');
    if units.clone().next().is_none() || units.clone().any(vague) {
        return None;
    }
    let span = humantime::parse_duration(text).ok()?;
    (span.subsec_nanos() % 1_000_000 == 0).then_some(span)
}

/// Writes a length of time so that [`parse_span`] reads it back: `1m30s`, `3d`.
pub(super) fn format_span(span: Duration) -> String {
    let mut left = span.as_millis();
    let mut out = String::new();
    for (unit, ms) in [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)]
    {
        if left >= ms {
            out.push_str(&format!("{}{unit}", left / ms));
            left %= ms;
        }
    }
    if out.is_empty() { "0s".to_owned() } else { out }
}

/// The units of sizes, in the order in which they are tried on the end of a text.
const UNITS: [(&str, u64); 9] = [
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("B", 1),
];

/// Reads a size in bytes: `64MiB`, `1GB`, `512B`.
pub(super) fn parse_size(text: &str) -> Option<u64> {
    let (unit, factor) = UNITS.iter().find(|(unit, _)| text.ends_with(unit))?;
    let number = text.strip_suffix(unit)?.trim_end();
    let plain = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| number.parse::<u64>().ok()?.checked_mul(*factor)).flatten()
}

/// Writes a size with the largest binary unit that leaves a whole number.
pub(super) fn format_size(bytes: u64) -> String {
    let whole = |(_, factor): &&(&str, u64)| bytes > 0 && bytes.is_multiple_of(*factor);
    let binary = UNITS.iter().filter(|(unit, _)| unit.ends_with("iB"));
    match binary.filter(whole).max_by_key(|(_, factor)| *factor) {
        Some((unit, factor)) => format!("{}{unit}", bytes / factor),
        None => format!("{bytes}B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_need_a_unit_that_means_one_thing() {
        assert_eq!(parse_span("1m30s"), Some(Duration::from_secs(90)));
        assert_eq!(parse_span("3d"), Some(Duration::from_secs(3 * 86_400)));
        for text in ["", "0", "5", "1M", "1month", "1y", "1us", "1500us", "-1s", "1 fortnight"] {
            assert_eq!(parse_span(text), None, "{text} was accepted");
        }
    }

    #[test]
    fn lengths_of_time_read_back_as_they_were_written() {
        for ms in [0, 1, 999, 1_500, 90_000, 86_400_000, 31 * 86_400_000, 400 * 86_400_000 + 1] {
            let span = Duration::from_millis(ms);
            assert_eq!(parse_span(&format_span(span)), Some(span));
        }
        assert_eq!(format_span(Duration::from_secs(90)), "1m30s");
    }

    #[test]
    fn sizes_round_trip_and_never_overflow() {
        assert_eq!(parse_size("64MiB"), Some(64 << 20));
        assert_eq!(parse_size("1 GB"), Some(1_000_000_000));
        for text in ["", "64", "MiB", "-1MiB", "1.5MiB", "64mib", "99999999999TiB", "+1B"] {
            assert_eq!(parse_size(text), None, "{text} was accepted");
        }
        for bytes in [0, 1, 1023, 1024, 64 << 20, 3 << 30, 1_000_000] {
            assert_eq!(parse_size(&format_size(bytes)), Some(bytes));
        }
    }
}
