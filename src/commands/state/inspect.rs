//! `state inspect`: segments, runs and entries as they are stored.

use serde::Serialize;

use super::Context;
use crate::seen::{EntryView, Report};
use crate::words::{Timestamp, instant_text};

/// What to list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InspectOptions {
    /// How many entries of each partition at most.
    pub limit: usize,
    /// Only entries at this time or later.
    pub since: Option<Timestamp>,
    /// Only entries at this time or earlier.
    pub until: Option<Timestamp>,
    /// Only entries of the segment with this name.
    pub segment: Option<String>,
    /// Only entries whose fingerprint begins with these hexadecimal digits.
    pub fingerprint: Option<String>,
    /// List runs, no entries.
    pub runs: bool,
}

#[derive(Serialize)]
struct Listing {
    state_dir: String,
    partitions: Vec<PartitionListing>,
}

#[derive(Serialize)]
struct PartitionListing {
    topic: String,
    partition: i32,
    segments: Vec<SegmentListing>,
    entries: Vec<EntryListing>,
    /// Whether there are more entries that match than the limit lets through.
    more: bool,
}

#[derive(Serialize)]
struct SegmentListing {
    name: String,
    from_ms: i64,
    to_ms: i64,
    entries: u64,
    runs: Vec<RunListing>,
}

#[derive(Serialize)]
struct RunListing {
    id: u64,
    generation: u64,
    entries: u64,
    blocks: usize,
}

#[derive(Serialize)]
struct EntryListing {
    fingerprint: String,
    at_ms: i64,
    at: String,
    segment: String,
    run: u64,
}

pub(super) fn run(context: &Context, options: &InspectOptions) -> Result<(), crate::error::Error> {
    let dir = context.open()?;
    let mut partitions = Vec::new();
    for identity in context.targets(&dir)? {
        let seen = context.open_seen(&dir, &identity)?;
        let report = seen.report();
        let (mut entries, mut more) = (Vec::new(), false);
        if !options.runs {
            let mut progress = context.progress("reading");
            let mut read = 0;
            seen.each_entry(&mut |entry| {
                read += 1;
                if read % 65_536 == 0 {
                    progress.show(read, report.stats.keys);
                }
                if options.matches(&report, entry) {
                    more = entries.len() >= options.limit;
                    if !more {
                        entries.push(entry_listing(&report, entry));
                    }
                }
                !more
            })?;
        }
        partitions.push(PartitionListing {
            topic: identity.source.topic.to_string(),
            partition: identity.source.partition,
            segments: segments(&report, options),
            entries,
            more,
        });
    }
    let listing = Listing { state_dir: dir.path().display().to_string(), partitions };
    Ok(context.print(&listing, &text(&listing, options.runs))?)
}

impl InspectOptions {
    fn matches(&self, report: &Report, entry: EntryView) -> bool {
        let in_segment = |name: &String| {
            report.segments.get(entry.segment).is_some_and(|segment| segment.name == *name)
        };
        self.since.is_none_or(|since| entry.at >= since)
            && self.until.is_none_or(|until| entry.at <= until)
            && self.segment.as_ref().is_none_or(in_segment)
            && self.fingerprint.as_ref().is_none_or(|prefix| {
                entry.fingerprint.to_string().starts_with(&prefix.to_ascii_lowercase())
            })
    }
}

fn segments(report: &Report, options: &InspectOptions) -> Vec<SegmentListing> {
    let wanted = |name: &str| options.segment.as_ref().is_none_or(|wanted| wanted == name);
    let segments = report.segments.iter().filter(|segment| wanted(&segment.name));
    let listed = segments.map(|segment| SegmentListing {
        name: segment.name.clone(),
        from_ms: segment.first.0,
        to_ms: segment.last.0,
        entries: segment.entries,
        runs: segment
            .runs
            .iter()
            .map(|run| RunListing {
                id: run.id,
                generation: run.generation,
                entries: run.entries,
                blocks: run.blocks,
            })
            .collect(),
    });
    listed.collect()
}

fn entry_listing(report: &Report, entry: EntryView) -> EntryListing {
    let segment = report.segments.get(entry.segment);
    EntryListing {
        fingerprint: entry.fingerprint.to_string(),
        at_ms: entry.at.0,
        at: instant_text(entry.at),
        segment: segment.map(|segment| segment.name.clone()).unwrap_or_default(),
        run: entry.run,
    }
}

fn text(listing: &Listing, runs: bool) -> String {
    let mut text = format!("state {}\n", listing.state_dir);
    for of in &listing.partitions {
        text.push_str(&format!("\n{}/{}\n", of.topic, of.partition));
        for segment in &of.segments {
            let at = |ms| instant_text(Timestamp(ms));
            let (from, to) = (at(segment.from_ms), at(segment.to_ms));
            let SegmentListing { name, entries, .. } = segment;
            let count = segment.runs.len();
            text.push_str(&format!("  {name}  {from} to {to}  {entries} entries  {count} runs\n"));
            for run in segment.runs.iter().filter(|_| runs) {
                let RunListing { id, generation, entries, blocks } = run;
                text.push_str(&format!(
                    "    run {id}  {entries} entries  {blocks} blocks  up to checkpoint {generation}\n"
                ));
            }
        }
        for EntryListing { fingerprint, at, segment, run, .. } in &of.entries {
            text.push_str(&format!("  {fingerprint}  {at}  {segment} run {run}\n"));
        }
        if of.more {
            text.push_str("  and more; raise `--limit` or narrow the filters\n");
        }
    }
    text
}
