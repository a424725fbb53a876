//! Sizes: what comes in has to go out.

use super::super::command::Commands;
use super::super::facts::{Facts, Pair};
use super::super::finding::{Finding, Kind, Severity};
use super::topics::told;
use crate::config::Config;
use crate::kafka::survey::Described;

/// The client's own bound on one answer, and what an answer holds beside its batches.
const RECEIVE_DEFAULT: u64 = 100_000_000;
const ENVELOPE: u64 = 512;

pub(super) fn judge(config: &Config, facts: &Facts) -> Vec<Finding> {
    let commands = Commands::output(config);
    let mut all = Vec::new();
    for pair in &facts.pairs {
        let Some(source) = pair.source.described() else { continue };
        all.push(fetch(config, pair, source));
        let outputs = [(&pair.output.topic.name, pair.output.described())];
        let dead = facts
            .dead_letter
            .iter()
            .map(|topic| (&topic.name, topic.found.as_ref().ok().and_then(Option::as_ref)));
        for (name, output) in outputs.into_iter().chain(dead) {
            all.extend(output.map(|output| record(&commands, source, name, output)));
        }
    }
    // Many sources share one dead-letter topic.
    all.sort_by(|a, b| (a.kind, &a.on, b.severity).cmp(&(b.kind, &b.on, a.severity)));
    all.dedup_by(|a, b| (a.kind, &a.on) == (b.kind, &b.on));
    all
}

fn record(commands: &Commands, source: &Described, name: &str, output: &Described) -> Finding {
    const SETTING: &str = "max.message.bytes";
    match (told::<u64>(source, SETTING), told::<u64>(output, SETTING)) {
        (Ok(taken), Ok(has)) => {
            Finding::new(Kind::RecordSize, name, has.to_string(), format!("at least {taken}")).when(
                has < taken,
                Severity::Weakens,
                || commands.set_topic(name, SETTING, taken),
            )
        }
        (source, output) => {
            let why = output.err().or(source.err()).unwrap_or_default();
            Finding::new(Kind::RecordSize, name, why, "what the source takes")
                .is(Severity::Unknown, commands.grant_topic(&["DescribeConfigs"], name))
        }
    }
}

fn fetch(config: &Config, pair: &Pair, source: &Described) -> Finding {
    let name = &pair.source.topic.name;
    let given = config.kafka.client.get("receive.message.max.bytes");
    let room = given.and_then(|value| value.trim().parse().ok()).unwrap_or(RECEIVE_DEFAULT);
    match told::<u64>(source, "max.message.bytes") {
        Ok(largest) => {
            let least = largest.saturating_add(ENVELOPE);
            Finding::new(Kind::FetchSize, name, room.to_string(), format!("at least {least}")).when(
                room < least,
                Severity::Breaks,
                || {
                    format!(
                        "write \"receive.message.max.bytes\" = \"{least}\" under [kafka.client]"
                    )
                },
            )
        }
        Err(why) => Finding::new(Kind::FetchSize, name, why, "room for the source's largest batch")
            .is(
                Severity::Unknown,
                Commands::source(config).grant_topic(&["DescribeConfigs"], name),
            ),
    }
}
