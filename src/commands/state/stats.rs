//! `state stats`: how much is remembered, how far back, and what it costs.

use serde::{Deserialize, Serialize};

use super::{Context, ask};
use crate::seen::{self, Report, Seen, SegmentReport, StateDir};
use crate::window::Window;
use crate::words::{SourcePartition, Span, Timestamp, instant_text};

const DAY_MS: u128 = 86_400_000;

/// Below this no rate is told: too few records to speak of days.
const RATE_SPAN_MIN_MS: u64 = 1_000;

/// Figures of every partition in scope.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatsReport {
    /// The state directory.
    pub state_dir: String,
    /// Whether a running process told them.
    pub online: bool,
    /// The process that read the state.
    pub pid: u32,
    /// The partitions, in order.
    pub partitions: Vec<PartitionStats>,
    /// Partitions that a running process is about to take.
    pub being_taken: Vec<String>,
}

/// Figures of one partition. Times are in ms since 1970.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionStats {
    /// The source topic.
    pub topic: String,
    /// The source partition.
    pub partition: i32,
    /// Keys remembered; one remembered at several times counts several times.
    pub keys: u64,
    /// Bytes on disk.
    pub bytes: u64,
    /// Bytes of memory the filters take.
    pub filter_bytes: u64,
    /// Segments whose filter found no room in memory.
    pub segments_without_filter: usize,
    /// Runs, over all segments.
    pub runs: usize,
    /// The time of the oldest key.
    pub oldest_ms: Option<i64>,
    /// The time of the newest key.
    pub newest_ms: Option<i64>,
    /// Below this time nothing is remembered; none where nothing was forgotten.
    pub floor_ms: Option<i64>,
    /// The window this config asks for.
    pub window_ms: i64,
    /// From when on records are judged by their whole window again; none where they are.
    pub window_whole_from_ms: Option<i64>,
    /// Keys a day, at the rate of those that are there.
    pub keys_per_day: Option<u64>,
    /// Bytes on disk a day, at the same rate.
    pub bytes_per_day: Option<u64>,
    /// Keys of one whole window at that rate.
    pub window_keys: Option<u64>,
    /// Bytes on disk of one whole window at that rate.
    pub window_bytes: Option<u64>,
    /// The number of the newest checkpoint.
    pub generation: u64,
    /// When it was written.
    pub checkpoint_ms: Option<i64>,
    /// Whether it was written while leaving, with nothing in flight.
    pub clean: bool,
    /// The next source offset to read.
    pub resume: Option<i64>,
    /// Where catch-up reads the output from.
    pub output_position: Option<i64>,
    /// The latest time of any record.
    pub high_mark_ms: Option<i64>,
    /// The segments, in order of time.
    pub segments: Vec<SegmentStats>,
}

/// Figures of one segment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentStats {
    /// Its name on disk.
    pub name: String,
    /// The first time that belongs to it.
    pub from_ms: i64,
    /// The last time that belongs to it.
    pub to_ms: i64,
    /// Keys.
    pub keys: u64,
    /// Bytes on disk.
    pub bytes: u64,
    /// Bytes of memory its filters take.
    pub filter_bytes: u64,
    /// Whether its filter found room in memory.
    pub has_filter: bool,
    /// Runs.
    pub runs: usize,
}

pub(super) fn run(context: &Context) -> Result<(), crate::error::Error> {
    let report = match context.open() {
        Ok(dir) => offline(context, &dir)?,
        Err(error) => {
            let holder = ask::Holder::of(context, error)?;
            let mut report: StatsReport = holder.get("/state/stats")?;
            let source = |of: &PartitionStats| SourcePartition::new(&*of.topic, of.partition);
            report.partitions.retain(|partition| context.scope.covers(&source(partition)));
            report
        }
    };
    Ok(context.print(&report, &text(&report))?)
}

fn offline(context: &Context, dir: &StateDir) -> Result<StatsReport, crate::error::Error> {
    let mut partitions = Vec::new();
    for identity in context.targets(dir)? {
        let seen = context.open_seen(dir, &identity)?;
        let window = Window::new(context.config.rule(&identity.source.topic));
        partitions.push(PartitionStats::of(&identity.source, &seen, &window)?);
    }
    let state_dir = dir.path().display().to_string();
    let pid = std::process::id();
    Ok(StatsReport { state_dir, online: false, pid, partitions, being_taken: Vec::new() })
}

impl PartitionStats {
    /// Reads the figures of a seen-set.
    pub(super) fn of(
        source: &SourcePartition,
        seen: &Seen,
        window: &Window,
    ) -> Result<Self, seen::Error> {
        let bounds = seen.time_bounds()?;
        Ok(Self::from_report(source, &seen.report(), bounds, window))
    }

    fn from_report(
        source: &SourcePartition,
        report: &Report,
        bounds: Option<(Timestamp, Timestamp)>,
        window: &Window,
    ) -> Self {
        let Report { checkpoint, generation, floor, stats, segments } = report;
        let checkpoint = checkpoint.as_ref();
        let high_mark = checkpoint.map_or(Timestamp::MIN, |checkpoint| checkpoint.high_mark);
        let span = bounds.map(|(oldest, newest)| oldest.distance(newest));
        let cost = Cost { keys: stats.keys, bytes: stats.bytes_on_disk, span };
        Self {
            topic: source.topic.to_string(),
            partition: source.partition,
            keys: stats.keys,
            bytes: stats.bytes_on_disk,
            filter_bytes: stats.filter_bytes,
            segments_without_filter: stats.segments_without_filter,
            runs: stats.runs,
            oldest_ms: bounds.map(|(oldest, _)| oldest.0),
            newest_ms: bounds.map(|(_, newest)| newest.0),
            floor_ms: known(*floor),
            window_ms: window.length().as_ms(),
            window_whole_from_ms: window.whole_from(*floor, high_mark).and_then(known),
            keys_per_day: cost.keys_in(DAY_MS),
            bytes_per_day: cost.bytes_in(DAY_MS),
            window_keys: cost.keys_in(window.length().to_duration().as_millis()),
            window_bytes: cost.bytes_in(window.length().to_duration().as_millis()),
            generation: *generation,
            checkpoint_ms: checkpoint.map(|checkpoint| checkpoint.written_at.0),
            clean: checkpoint.is_some_and(|checkpoint| checkpoint.clean),
            resume: checkpoint.map(|checkpoint| checkpoint.resume.0),
            output_position: checkpoint.and_then(|c| c.output).map(|position| position.0),
            high_mark_ms: known(high_mark),
            segments: segments.iter().map(segment).collect(),
        }
    }
}

fn known(at: Timestamp) -> Option<i64> {
    (at > Timestamp::MIN).then_some(at.0)
}

fn segment(segment: &SegmentReport) -> SegmentStats {
    SegmentStats {
        name: segment.name.clone(),
        from_ms: segment.first.0,
        to_ms: segment.last.0,
        keys: segment.entries,
        bytes: segment.bytes_on_disk,
        filter_bytes: segment.filter_bytes,
        has_filter: segment.has_filter,
        runs: segment.runs.len(),
    }
}

/// What is there, and over how much time it came.
struct Cost {
    keys: u64,
    bytes: u64,
    span: Option<Span>,
}

impl Cost {
    fn keys_in(&self, millis: u128) -> Option<u64> {
        self.scaled(self.keys, millis)
    }

    fn bytes_in(&self, millis: u128) -> Option<u64> {
        self.scaled(self.bytes, millis)
    }

    fn scaled(&self, amount: u64, millis: u128) -> Option<u64> {
        let span = self.span?.as_ms().unsigned_abs();
        if span < RATE_SPAN_MIN_MS {
            return None;
        }
        let scaled = u128::from(amount).saturating_mul(millis) / u128::from(span);
        Some(u64::try_from(scaled).unwrap_or(u64::MAX))
    }
}

fn text(report: &StatsReport) -> String {
    let mut text = format!("state {}", report.state_dir);
    if report.online {
        text.push_str(&format!(", as process {} has it now", report.pid));
    }
    text.push('\n');
    for partition in &report.partitions {
        text.push_str(&partition_text(partition));
    }
    for partition in &report.being_taken {
        text.push_str(&format!("\n{partition}: being taken\n"));
    }
    text
}

fn partition_text(of: &PartitionStats) -> String {
    let time = |ms: Option<i64>| ms.map_or("none".to_owned(), |ms| instant_text(Timestamp(ms)));
    let amount = |keys: Option<u64>, bytes: Option<u64>| match (keys, bytes) {
        (Some(keys), Some(bytes)) => format!("{keys} keys, {}", size(bytes)),
        _ => "not known yet".to_owned(),
    };
    let each =
        of.bytes.checked_div(of.keys).map_or(String::new(), |each| format!(", {each} B a key"));
    let mut text = format!(
        "\n{}/{}: {} keys, {} on disk{each}; {} segments, {} runs; filters {}\n",
        of.topic,
        of.partition,
        of.keys,
        size(of.bytes),
        of.segments.len(),
        of.runs,
        size(of.filter_bytes),
    );
    if of.segments_without_filter > 0 {
        let without = of.segments_without_filter;
        text.push_str(&format!("  {without} segments without a filter: raise `state.memory`\n"));
    }
    text.push_str(&format!("  oldest {}, newest {}\n", time(of.oldest_ms), time(of.newest_ms)));
    text.push_str(&format!("  a day costs {}\n", amount(of.keys_per_day, of.bytes_per_day)));
    let window = Span::from_ms(of.window_ms);
    let whole = amount(of.window_keys, of.window_bytes);
    text.push_str(&format!("  a whole window of {window} costs {whole}\n"));
    if let Some(from) = of.window_whole_from_ms {
        let (floor, from) = (time(of.floor_ms), time(Some(from)));
        text.push_str(&format!("  known from {floor} on; the window is whole from {from} on\n"));
    }
    let (resume, clean) = (of.resume.unwrap_or(0), if of.clean { "clean" } else { "not clean" });
    let (generation, at) = (of.generation, time(of.checkpoint_ms));
    text.push_str(&format!("  checkpoint {generation} of {at}, {clean}, resumes at {resume}\n"));
    for segment in &of.segments {
        let (from, to) = (time(Some(segment.from_ms)), time(Some(segment.to_ms)));
        let SegmentStats { name, keys, bytes, filter_bytes, runs, .. } = segment;
        let (bytes, filter) = (size(*bytes), size(*filter_bytes));
        text.push_str(&format!(
            "  {name}  {from} to {to}  {keys} keys  {bytes}  {runs} runs  filters {filter}\n"
        ));
    }
    text
}

/// Returns bytes in the unit that suits them, with one digit behind the point.
pub(super) fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    let mut tenths = u128::from(bytes) * 10;
    let mut unit = "B";
    for larger in UNITS {
        if tenths < 10_240 {
            break;
        }
        (tenths, unit) = (tenths / 1_024, larger);
    }
    match unit {
        "B" => format!("{bytes} B"),
        unit => format!("{}.{} {unit}", tenths / 10, tenths % 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_told_in_the_unit_that_suits_them() {
        assert_eq!(size(0), "0 B");
        assert_eq!(size(1_023), "1023 B");
        assert_eq!(size(1_024), "1.0 KiB");
        assert_eq!(size(1_536 * 1_024), "1.5 MiB");
        assert_eq!(size(u64::MAX), "16777215.9 TiB");
    }

    #[test]
    fn costs_follow_the_rate_of_what_is_there() {
        let cost = Cost { keys: 100, bytes: 5_000, span: Some(Span::from_ms(3_600_000)) };
        assert_eq!(cost.keys_in(DAY_MS), Some(2_400));
        assert_eq!(cost.bytes_in(DAY_MS), Some(120_000));
        let short = Cost { span: Some(Span::from_ms(999)), ..cost };
        assert_eq!(short.keys_in(DAY_MS), None);
        assert_eq!(Cost { span: None, ..short }.keys_in(DAY_MS), None);
    }
}
