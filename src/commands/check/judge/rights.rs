//! Rights: what the broker says this user may do, and what trying showed.

use super::super::command::{Commands, quoted};
use super::super::facts::Facts;
use super::super::finding::{Finding, Kind, Severity};
use super::untold;
use crate::config::Config;
use crate::kafka::survey::{Apis, Idempotence, Operation, TopicSurvey};

pub(super) fn judge(config: &Config, facts: &Facts) -> Vec<Finding> {
    use Operation::{Describe, Read, Write};
    let (source, output) = (Commands::source(config), Commands::output(config));
    let mut all = Vec::new();
    for pair in &facts.pairs {
        all.extend(topic(&source, &pair.source.topic, &[Describe, Read]));
        all.extend(topic(&output, &pair.output.topic, &[Describe, Read, Write]));
    }
    all.extend(facts.dead_letter.iter().filter_map(|t| topic(&output, t, &[Describe, Write])));
    all.push(group(config, facts));
    all.push(idempotent_write(&output, &facts.producing.idempotence));
    all.push(features(facts.producing.apis.as_ref()));
    all
}

fn named(operation: Operation) -> &'static str {
    match operation {
        Operation::Read => "Read",
        Operation::Write => "Write",
        Operation::Describe => "Describe",
        Operation::DescribeConfigs => "DescribeConfigs",
    }
}

fn listed(operations: &[Operation]) -> String {
    let names: Vec<_> = operations.iter().map(|operation| named(*operation)).collect();
    names.join(", ")
}

/// Returns those of `needed` that are not among `may`.
fn missing(needed: &[Operation], may: &[Operation]) -> Vec<Operation> {
    needed.iter().filter(|operation| !may.contains(operation)).copied().collect()
}

/// Judges the rights on a topic that is there; one that is not has a finding of its own.
fn topic(commands: &Commands, topic: &TopicSurvey, needed: &[Operation]) -> Option<Finding> {
    let name = &topic.name;
    let finding = |found: String| Finding::new(Kind::TopicRights, name, found, listed(needed));
    let all: Vec<_> = needed.iter().map(|operation| named(*operation)).collect();
    let unknown =
        |why: String| finding(why).is(Severity::Unknown, commands.grant_topic(&all, name));
    Some(match &topic.found {
        Ok(None) => return None,
        Ok(Some(found)) => match &found.operations {
            Some(may) => granted(finding, needed, may, |lacks| commands.grant_topic(lacks, name)),
            None => unknown("not told by the broker".to_owned()),
        },
        Err(cause) if cause.is_denied() => {
            finding("no Describe".to_owned()).is(Severity::Breaks, commands.grant_topic(&all, name))
        }
        Err(cause) => unknown(untold(cause)),
    })
}

fn granted(
    finding: impl Fn(String) -> Finding,
    needed: &[Operation],
    may: &[Operation],
    grant: impl FnOnce(&[&str]) -> String,
) -> Finding {
    let lacks = missing(needed, may);
    if lacks.is_empty() {
        return finding(listed(needed));
    }
    let names: Vec<_> = lacks.iter().map(|operation| named(*operation)).collect();
    finding(format!("no {}", listed(&lacks))).is(Severity::Breaks, grant(&names))
}

fn group(config: &Config, facts: &Facts) -> Finding {
    let needed = [Operation::Describe, Operation::Read];
    let name = &config.source.group;
    let commands = Commands::source(config);
    let grant = |names: &[&str]| commands.grant(names, &format!("--group {}", quoted(name)));
    let finding = |found: String| Finding::new(Kind::GroupRights, name, found, listed(&needed));
    let all = ["Describe", "Read"];
    match &facts.group {
        Ok(group) => match &group.operations {
            Some(may) => granted(finding, &needed, may, grant),
            None => finding("not told by the broker".to_owned()).is(Severity::Unknown, grant(&all)),
        },
        Err(cause) if cause.is_denied() => {
            finding("no Describe".to_owned()).is(Severity::Breaks, grant(&all))
        }
        Err(cause) => finding(untold(cause)).is(Severity::Unknown, grant(&all)),
    }
}

fn idempotent_write(commands: &Commands, tried: &Idempotence) -> Finding {
    let finding = |found: String| {
        Finding::new(Kind::IdempotentWrite, "cluster", found, "a producer gets an id")
    };
    let grant = || commands.grant(&["IdempotentWrite"], "--cluster");
    match tried {
        Idempotence::Works => finding("a producer gets an id".to_owned()),
        // Then `run` writes without one, a request at a time.
        Idempotence::Refused(cause) if cause.is_denied() => {
            finding(format!("refused: {cause}")).is(Severity::Weakens, grant())
        }
        Idempotence::Refused(cause) => finding(format!("not there: {cause}"))
            .is(Severity::Weakens, "use brokers that take InitProducerId (Kafka 0.11 or newer)"),
        Idempotence::Unknown(cause) => {
            finding(format!("no answer: {cause}")).is(Severity::Unknown, grant())
        }
    }
}

fn features(apis: Option<&Apis>) -> Finding {
    let needed = "requests of transactions, topic ids, rights";
    let finding = |found: String| Finding::new(Kind::Features, "brokers", found, needed);
    let Some(apis) = apis else {
        return finding("not told".to_owned())
            .is(Severity::Unknown, "compare the brokers' version with docs/check.md");
    };
    let lacks: Vec<&str> = Apis::TRANSACTIONS
        .iter()
        .filter(|api| apis.highest(api.key).is_none())
        .map(|api| api.name)
        .collect();
    let metadata = apis.highest(METADATA).unwrap_or(-1);
    let mut found = vec![format!("Kafka {}", generation(apis))];
    if metadata < 8 {
        found.push("rights are not told".to_owned());
    }
    if metadata < 10 {
        found.push("topic ids are not told: a topic made again may go unnoticed".to_owned());
    }
    if !lacks.is_empty() {
        found.push(format!("no {}", lacks.join(", ")));
    }
    let weak = metadata < 10 || !lacks.is_empty();
    finding(found.join("; "))
        .when(weak, Severity::Weakens, || "use brokers of Kafka 2.8 or newer".to_owned())
}

const METADATA: i16 = 3;

/// Tells the oldest version of Apache Kafka that takes such requests. Other systems take those of
/// the version they imitate.
fn generation(apis: &Apis) -> &'static str {
    let has = |key, version| apis.highest(key).is_some_and(|highest| highest >= version);
    // Consumer groups kept by the broker, transactions v2, verified additions to transactions,
    // topic ids, the rights in metadata.
    if has(24, 5) && has(26, 5) {
        "4.0 or newer, or alike"
    } else if has(24, 4) {
        "3.5 or newer, or alike"
    } else if has(METADATA, 10) {
        "2.8 or newer, or alike"
    } else if has(METADATA, 8) {
        "2.3 or newer, or alike"
    } else {
        "before 2.3, or alike"
    }
}
