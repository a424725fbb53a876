//! This machine: the state directory and the status port.

use super::super::command::quoted;
use super::super::facts::Facts;
use super::super::finding::{Finding, Kind, Severity};
use super::super::place::{FileSystem, Place};
use super::{bytes, span};
use crate::config::Config;
use crate::kafka::survey::OffsetFacts;
use crate::words::{Span, Timestamp};

/// What a key takes on the disk before its segment is sealed, measured (benches/RESULTS.md).
const BYTES_PER_KEY: u64 = 54;

pub(super) fn judge(config: &Config, facts: &Facts) -> Vec<Finding> {
    let place = &facts.place;
    let mut all = vec![lock(place), owner(place), file_system(place), space(config, facts)];
    if let Some(address) = config.status.listen {
        let taken = facts.port_taken.as_deref();
        let finding = Finding::new(
            Kind::StatusPort,
            address.to_string(),
            taken.unwrap_or("can be used"),
            "an address that can be used",
        );
        all.push(finding.when(taken.is_some(), Severity::Breaks, || {
            "stop who listens there, or write another listen under [status]".to_owned()
        }));
    }
    all
}

fn on(place: &Place) -> String {
    place.dir.display().to_string()
}

fn lock(place: &Place) -> Finding {
    let finding = |found: String| Finding::new(Kind::StateLock, on(place), found, "held by nobody");
    match &place.held {
        Ok(None) => finding("held by nobody".to_owned()),
        Ok(Some(holder)) => {
            let who = holder.map_or("a process".to_owned(), |pid| format!("process {pid}"));
            let stop = holder.map_or("stop that process".to_owned(), |pid| format!("kill {pid}"));
            finding(format!("held by {who}"))
                .is(Severity::Breaks, format!("{stop}, or write another dir under [state]"))
        }
        Err(why) => finding(why.clone()).is(Severity::Unknown, access(place)),
    }
}

fn owner(place: &Place) -> Finding {
    let finding = |found: String| {
        Finding::new(Kind::StateOwner, on(place), found, "this user's alone, and writable")
    };
    let dir = quoted(&on(place));
    match (&place.shared, &place.unwritable) {
        (Err(why), _) => finding(why.clone()).is(Severity::Unknown, access(place)),
        (Ok(Some(why)), _) => {
            let fix = format!("chown -R \"$(id -u)\" {dir} && chmod -R go-rwx {dir}");
            finding(why.clone()).is(Severity::Breaks, fix)
        }
        (Ok(None), Some(why)) => {
            let base = place.base.display();
            finding(format!("cannot write in `{base}`: {why}")).is(Severity::Breaks, access(place))
        }
        (Ok(None), None) if place.base == place.dir => finding("private and writable".to_owned()),
        (Ok(None), None) => finding("will be made".to_owned()),
    }
}

fn access(place: &Place) -> String {
    format!(
        "ls -ld {}; give this user read, write and search there",
        quoted(&place.base.display().to_string())
    )
}

fn file_system(place: &Place) -> Finding {
    let finding = |found: String| {
        Finding::new(Kind::StateFileSystem, on(place), found, "a local disk that stays")
    };
    let move_it = "write a dir on a local disk under [state]";
    match place.file_system {
        Some(FileSystem::Local(name)) => finding(name.to_owned()),
        Some(FileSystem::Memory(name)) => {
            finding(format!("{name}: gone at the next boot")).is(Severity::Weakens, move_it)
        }
        Some(FileSystem::Layer(name)) => finding(format!("{name}: gone with the container"))
            .is(Severity::Weakens, "mount a volume at the dir of [state]"),
        Some(FileSystem::Network(name)) => {
            finding(format!("{name}: locks and syncs promise less there"))
                .is(Severity::Weakens, move_it)
        }
        None => finding("not told by the system".to_owned())
            .is(Severity::Unknown, format!("df -T {}", quoted(&place.base.display().to_string()))),
    }
}

fn space(config: &Config, facts: &Facts) -> Finding {
    let place = &facts.place;
    let finding =
        |found: String, needed: String| Finding::new(Kind::StateSpace, on(place), found, needed);
    let room = match (&place.free, &place.used) {
        (Ok(free), Ok(used)) => free.saturating_add(*used),
        (Err(why), _) | (_, Err(why)) => {
            return finding(why.clone(), "room for one window".to_owned())
                .is(Severity::Unknown, access(place));
        }
    };
    let mut keys = 0_u64;
    for pair in &facts.pairs {
        let name = &pair.source.topic.name;
        let offsets = pair.source.described().and_then(|topic| topic.offsets.as_ref().ok());
        let Some(offsets) = offsets else {
            return finding(
                format!("{} free; the rate of {name} is not known", bytes(room)),
                "room for one window".to_owned(),
            )
            .is(Severity::Unknown, format!("df -h {}", quoted(&place.base.display().to_string())));
        };
        let window = config.rule(name).window;
        keys = keys.saturating_add(records_in_window(offsets, window, facts.now));
    }
    let needs = keys.saturating_mul(BYTES_PER_KEY).saturating_add(config.state.min_free_bytes);
    finding(
        format!("{} for the state", bytes(room)),
        format!("{} for at most {keys} keys in {}", bytes(needs), windows(config)),
    )
    .when(room < needs, Severity::Weakens, || {
        "write a dir on a larger disk under [state], or a shorter window under [dedup]".to_owned()
    })
}

fn windows(config: &Config) -> String {
    let mut all: Vec<Span> = config.topics.values().map(|rule| rule.window).collect();
    all.push(config.dedup.window);
    all.sort_unstable();
    all.dedup();
    let names: Vec<String> = all.into_iter().map(|window| span(window.to_duration())).collect();
    names.join(" / ")
}

/// Returns how many records of a source fall into one window, at the higher of its two rates: that
/// of the whole window and that of the last hour.
pub(in crate::commands::check) fn records_in_window(
    offsets: &[OffsetFacts],
    window: Span,
    now: Timestamp,
) -> u64 {
    let whole = rate(offsets, |o| o.window, window, now);
    let recent = rate(offsets, |o| o.recent, window, now);
    whole.max(recent)
}

/// Counts the records since a time, and carries them on to a whole window where the log, or the
/// look back, covers less.
fn rate(
    offsets: &[OffsetFacts],
    since: impl Fn(&OffsetFacts) -> Option<(i64, Timestamp)>,
    window: Span,
    now: Timestamp,
) -> u64 {
    /// Less than this says nothing about a rate: a burst of one second is no day.
    const SHORTEST: u64 = 60_000;
    let counted: u64 = offsets
        .iter()
        .filter_map(|o| Some(o.end.saturating_sub(since(o)?.0).max(0).unsigned_abs()))
        .fold(0, u64::saturating_add);
    let first = offsets.iter().filter_map(|o| Some(since(o)?.1)).min();
    let Some(first) = first else { return 0 };
    let covered = now.0.saturating_sub(first.0).max(0).unsigned_abs().max(SHORTEST);
    let window = window.as_ms().unsigned_abs();
    if covered >= window {
        return counted;
    }
    let all = u128::from(counted) * u128::from(window) / u128::from(covered);
    u64::try_from(all).unwrap_or(u64::MAX)
}
