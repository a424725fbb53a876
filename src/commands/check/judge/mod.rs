//! The comparisons: from a config and facts to findings. No I/O, no clock, no surprises.

mod group;
mod rights;
mod size;
mod state;
mod timing;
mod topics;
mod transactions;

use std::time::Duration;

#[cfg(test)]
pub(super) use state::records_in_window;

use super::facts::Facts;
use super::finding::{Finding, Kind, Severity};
use super::mode::{self, Choice};
use crate::config::{self, Config, Membership};
use crate::kafka::Cause;

/// Returns the delivery this comes to, and every finding, the worst first.
pub(super) fn judge(config: &Config, facts: &Facts) -> (Choice, Vec<Finding>) {
    let choice = mode::choose(config, facts);
    let mut all = vec![choice.finding()];
    all.extend(warned(config));
    all.push(membership(config));
    all.extend(topics::judge(config, facts));
    all.extend(size::judge(config, facts));
    all.extend(transactions::judge(config, facts));
    all.extend(timing::judge(config, facts));
    all.extend(rights::judge(config, facts));
    all.extend(group::judge(config, facts));
    all.extend(state::judge(config, facts));
    all.sort_by(|a, b| b.severity.cmp(&a.severity).then(a.kind.cmp(&b.kind)).then(a.on.cmp(&b.on)));
    (choice, all)
}

fn warned(config: &Config) -> Vec<Finding> {
    let all = config::warnings(config).into_iter();
    all.map(|warning| {
        Finding::new(Kind::Config, "config", warning, "a setting that weakens nothing")
            .is(Severity::Weakens, "change the setting named")
    })
    .collect()
}

fn membership(config: &Config) -> Finding {
    let group = &config.source.group;
    let found = match config.source.membership {
        Membership::Group => "group",
        Membership::Alone => "alone",
    };
    Finding::new(Kind::Membership, group, found, "group").when(
        config.source.membership == Membership::Alone,
        Severity::Weakens,
        || {
            "write membership = \"group\" under [source], or make sure that one instance runs"
                .to_owned()
        },
    )
}

/// Words for what was not told.
fn untold(cause: &Cause) -> String {
    format!("not told: {cause}")
}

fn span(length: Duration) -> String {
    // Settings of brokers are in milliseconds; nobody needs less.
    let ms = u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
    humantime::format_duration(Duration::from_millis(ms)).to_string()
}

/// Writes a length of time as a config or a client takes it.
fn setting(length: Duration) -> String {
    match length.subsec_nanos() {
        0 => format!("{}s", length.as_secs()),
        _ => format!("{}ms", length.as_millis()),
    }
}

fn span_ms(ms: u64) -> String {
    span(Duration::from_millis(ms))
}

/// Writes a size for people.
fn bytes(size: u64) -> String {
    const UNITS: [(&str, u64); 4] =
        [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match UNITS.into_iter().find(|(_, unit)| size >= *unit) {
        Some((name, unit)) => {
            let tenths = u128::from(size) * 10 / u128::from(unit);
            format!("{}.{} {name}", tenths / 10, tenths % 10)
        }
        None => format!("{size} B"),
    }
}
