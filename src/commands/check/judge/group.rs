//! The group: who is in it, and whether we could join.

use super::super::command::Commands;
use super::super::facts::Facts;
use super::super::finding::{Finding, Kind, Severity};
use super::untold;
use crate::config::{Config, Membership};
use crate::kafka::survey::{GroupSurvey, Member};

/// What the client calls itself unless told otherwise, and how its members share partitions.
const CLIENT_ID: &str = "firstseen";
const ASSIGNOR: &str = "cooperative-sticky";

pub(super) fn judge(config: &Config, facts: &Facts) -> Vec<Finding> {
    let commands = Commands::source(config);
    let finding = |found: String| {
        let needed = "instances of this config, each with an id of its own";
        Finding::new(Kind::GroupMembers, &config.source.group, found, needed)
    };
    vec![match &facts.group {
        Ok(group) => members(config, &commands, group, finding),
        Err(cause) => {
            finding(untold(cause)).is(Severity::Unknown, commands.members(&config.source.group))
        }
    }]
}

fn members(
    config: &Config,
    commands: &Commands,
    group: &GroupSurvey,
    finding: impl Fn(String) -> Finding,
) -> Finding {
    let see = || commands.members(&config.source.group);
    let own = |setting: &str| format!("{}; stop it, or change {setting}", see());
    let client = config.kafka.client.get("client.id").map_or(CLIENT_ID, String::as_str);
    let given = config.kafka.client.get("partition.assignment.strategy");
    let assignor = given.map_or(ASSIGNOR, String::as_str);
    let place = |member: &Member| format!("`{}` at {}", member.client_id, member.host);
    let same = |member: &&Member| {
        config.source.instance_id.is_some() && member.instance_id == config.source.instance_id
    };
    let Some(first) = group.members.first() else { return finding("no members now".to_owned()) };
    if config.source.membership == Membership::Alone {
        return finding(format!("{} is a member, and this config is alone", place(first)))
            .is(Severity::Breaks, own("`group` under [source]"));
    }
    if let Some(member) = group.members.iter().find(same) {
        return finding(format!("{} has the same instance id", place(member)))
            .is(Severity::Breaks, own("`instance_id` under [source]"));
    }
    if let Some(member) = group.members.iter().find(|member| member.client_id != client) {
        return finding(format!("{} is another client", place(member)))
            .is(Severity::Weakens, own("`group` under [source]"));
    }
    if !group.assignor.is_empty() && !assignor.split(',').any(|ours| ours.trim() == group.assignor)
    {
        return finding(format!("its members share by `{}`, we by `{assignor}`", group.assignor))
            .is(Severity::Breaks, own("`group` under [source]"));
    }
    finding(match group.members.len() {
        1 => format!("{} is a member", place(first)),
        count => format!("{count} instances are members"),
    })
}
