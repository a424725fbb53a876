//! What the system and the program tell about a child: processor time, memory, checkpoints.

use std::path::Path;
use std::time::Duration;

/// Returns the processor time a process has used, user and system, all threads.
pub(super) fn cpu_time(id: u32) -> Option<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let per_second = rustix::param::clock_ticks_per_second();
    parse_cpu(&stat, per_second)
}

fn parse_cpu(stat: &str, per_second: u64) -> Option<Duration> {
    // The program's name may hold anything, but what follows its last bracket is numbers.
    let (_, after) = stat.rsplit_once(')')?;
    let mut fields = after.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    let ms = (user + system).checked_mul(1_000)?.checked_div(per_second)?;
    Some(Duration::from_millis(ms))
}

/// Returns the most memory a process has held, in bytes.
pub(super) fn peak_rss(id: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    parse_peak(&status)
}

fn parse_peak(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

/// Returns how many bytes the files below `path` take; what cannot be read counts nothing.
pub(super) fn bytes_below(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    const BLOCK: u64 = 512;
    let Ok(entries) = std::fs::read_dir(path) else { return 0 };
    let bytes = entries.flatten().filter_map(|entry| {
        let meta = entry.metadata().ok()?;
        Some(if meta.is_dir() { bytes_below(&entry.path()) } else { meta.blocks() * BLOCK })
    });
    bytes.sum()
}

/// Mean and an upper bound for 99 in 100 of a histogram.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Took {
    pub(super) mean_ms: f64,
    /// `None` where it lies above the last bound.
    pub(super) p99_ms: Option<f64>,
}

/// Reads the histogram `name`, in seconds, off a metrics page; `None` where it has no entry.
pub(super) fn histogram(page: &str, name: &str) -> Option<Took> {
    let value = |suffix: &str| -> Option<f64> {
        let wanted = format!("{name}{suffix}");
        let line = page.lines().find(|line| {
            line.strip_prefix(&wanted).is_some_and(|rest| rest.starts_with(['{', ' ']))
        })?;
        line.rsplit(' ').next()?.parse().ok()
    };
    let count = value("_count").filter(|count| *count > 0.0)?;
    let mean_ms = value("_sum")? / count * 1_000.0;
    let buckets = page.lines().filter_map(|line| {
        let rest = line.strip_prefix(name)?.strip_prefix("_bucket{le=\"")?;
        let (bound, counted) = rest.split_once("\"}")?;
        Some((bound.parse::<f64>().ok()?, counted.trim().parse::<f64>().ok()?))
    });
    let bound = buckets.filter(|(_, counted)| *counted >= count * 0.99).map(|(bound, _)| bound);
    let p99 = bound.reduce(f64::min).filter(|bound| bound.is_finite());
    Some(Took { mean_ms, p99_ms: p99.map(|bound| bound * 1_000.0) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_read_past_a_name_with_brackets_and_spaces() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 900 0 0 0 150 50 0 0 20 0 9 0 1 2 3";
        assert_eq!(parse_cpu(stat, 100), Some(Duration::from_secs(2)));
        assert_eq!(parse_cpu("7 (a) S 1", 100), None);
    }

    #[test]
    fn peak_memory_is_in_bytes() {
        let status = "Name:\tx\nVmPeak:\t  9 kB\nVmHWM:\t    2048 kB\nVmRSS:\t 4 kB\n";
        assert_eq!(parse_peak(status), Some(2 << 20));
        assert_eq!(parse_peak("Name: x"), None);
    }

    #[test]
    fn this_process_has_used_some_of_both() {
        let id = std::process::id();
        assert!(cpu_time(id).is_some());
        assert!(peak_rss(id).is_some_and(|bytes| bytes > 1 << 20));
    }

    const PAGE: &str = "# TYPE firstseen_checkpoint_duration_seconds histogram\n\
        firstseen_checkpoint_duration_seconds_sum 1.5\n\
        firstseen_checkpoint_duration_seconds_count 100\n\
        firstseen_checkpoint_duration_seconds_bucket{le=\"0.01\"} 60\n\
        firstseen_checkpoint_duration_seconds_bucket{le=\"0.05\"} 99\n\
        firstseen_checkpoint_duration_seconds_bucket{le=\"+Inf\"} 100\n";

    #[test]
    fn a_histogram_gives_its_mean_and_the_bound_of_99_in_100() {
        let took = histogram(PAGE, "firstseen_checkpoint_duration_seconds").expect("there");
        assert!((took.mean_ms - 15.0).abs() < 1e-9, "{took:?}");
        assert_eq!(took.p99_ms, Some(50.0));
    }

    #[test]
    fn above_the_last_bound_there_is_no_p99_and_without_entries_nothing() {
        let slow = PAGE.replace("le=\"0.05\"} 99", "le=\"0.05\"} 98");
        let took = histogram(&slow, "firstseen_checkpoint_duration_seconds").expect("there");
        assert_eq!(took.p99_ms, None);
        let none = PAGE.replace("_count 100", "_count 0");
        assert_eq!(histogram(&none, "firstseen_checkpoint_duration_seconds"), None);
        assert_eq!(histogram(PAGE, "firstseen_checkpoint"), None);
    }
}
