//! Topics: are they there, do they keep what is written, and for long enough.

use std::str::FromStr;

use super::super::command::Commands;
use super::super::facts::{Facts, Pair};
use super::super::finding::{Finding, Kind, Severity};
use super::{span, span_ms, untold};
use crate::config::Config;
use crate::kafka::TimestampType;
use crate::kafka::survey::{Described, TopicSurvey};
use crate::pipeline::fit;
use crate::words::Span;

/// How many replicas a topic should have.
const REPLICAS: usize = 3;

/// What a topic is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Source,
    Output,
    DeadLetter,
}

pub(super) fn judge(config: &Config, facts: &Facts) -> Vec<Finding> {
    let commands = (Commands::source(config), Commands::output(config));
    let mut all = Vec::new();
    for pair in &facts.pairs {
        all.push(there(Role::Source, &pair.source.topic, &commands.0, |commands, name| {
            commands.create(name, None, replicas(facts.source.brokers.len()), &[])
        }));
        all.push(there(Role::Output, &pair.output.topic, &commands.1, |commands, name| {
            make_output(config, facts, pair, commands, name)
        }));
        if let Some(output) = pair.output.described() {
            let window = config.rule(&pair.source.topic.name).window;
            let judge =
                Output { name: &pair.output.topic.name, output, window, commands: &commands.1 };
            all.extend(judge.all());
            if let Some(source) = pair.source.described() {
                all.push(judge.partitions(source));
                all.push(judge.timestamp_range(source));
            }
        }
    }
    if let Some(topic) = &facts.dead_letter {
        all.push(there(Role::DeadLetter, topic, &commands.1, |commands, name| {
            commands.create(name, Some(1), replicas(facts.output().brokers.len()), &[])
        }));
    }
    all
}

/// Returns how many replicas a new topic can have on that many brokers.
fn replicas(brokers: usize) -> usize {
    brokers.clamp(1, REPLICAS)
}

fn make_output(
    config: &Config,
    facts: &Facts,
    pair: &Pair,
    commands: &Commands,
    name: &str,
) -> String {
    let source = pair.source.described();
    let window = config.rule(&pair.source.topic.name).window;
    let mut settings = vec![
        ("cleanup.policy", "delete".to_owned()),
        ("message.timestamp.type", "CreateTime".to_owned()),
        ("retention.ms", window.as_ms().to_string()),
    ];
    let size = source.and_then(|source| source.facts.max_message_bytes);
    settings.extend(size.map(|size| ("max.message.bytes", size.to_string())));
    let partitions = source.map(|source| source.facts.partitions);
    commands.create(name, partitions, replicas(facts.output().brokers.len()), &settings)
}

fn there(
    role: Role,
    topic: &TopicSurvey,
    commands: &Commands,
    make: impl FnOnce(&Commands, &str) -> String,
) -> Finding {
    let kind = match role {
        Role::Source => Kind::SourceTopic,
        Role::Output => Kind::OutputTopic,
        Role::DeadLetter => Kind::DeadLetterTopic,
    };
    let finding = |found: String| Finding::new(kind, &topic.name, found, "a topic of this name");
    match &topic.found {
        Ok(Some(topic)) => finding(match topic.facts.partitions {
            1 => "1 partition".to_owned(),
            partitions => format!("{partitions} partitions"),
        }),
        // A pattern is the name of no topic.
        Ok(None) if topic.name.starts_with('^') => finding("no topic matches".to_owned())
            .is(Severity::Breaks, "create the topic, or correct `topics` under [source]"),
        Ok(None) => {
            finding("does not exist".to_owned()).is(Severity::Breaks, make(commands, &topic.name))
        }
        Err(cause) if cause.is_denied() => finding("may not be described".to_owned())
            .is(Severity::Breaks, commands.grant_topic(&["Describe"], &topic.name)),
        Err(cause) => finding(untold(cause))
            .is(Severity::Unknown, "check the brokers, and run the check again"),
    }
}

/// Reads a setting, or says why it is not known.
pub(super) fn told<T: FromStr>(topic: &Described, setting: &str) -> Result<T, String> {
    let settings = topic.settings.as_ref().map_err(untold)?;
    settings.number(setting).ok_or_else(|| "not told by the broker".to_owned())
}

/// An output and what it has to keep.
struct Output<'a> {
    name: &'a str,
    output: &'a Described,
    window: Span,
    commands: &'a Commands,
}

impl Output<'_> {
    fn all(&self) -> Vec<Finding> {
        vec![
            self.timestamps(),
            self.retention_time(),
            self.retention_bytes(),
            self.cleanup(),
            self.replication(),
            self.in_sync(),
            self.unclean(),
        ]
    }

    fn finding(&self, kind: Kind, found: impl Into<String>, needed: impl Into<String>) -> Finding {
        Finding::new(kind, self.name, found, needed)
    }

    fn unknown(&self, kind: Kind, why: String, needed: impl Into<String>) -> Finding {
        self.finding(kind, why, needed).is(Severity::Unknown, self.see())
    }

    fn see(&self) -> String {
        self.commands.grant_topic(&["DescribeConfigs"], self.name)
    }

    fn set(&self, setting: &str, value: impl ToString) -> String {
        self.commands.set_topic(self.name, setting, value)
    }

    fn partitions(&self, source: &Described) -> Finding {
        let (has, needs) = (self.output.facts.partitions, source.facts.partitions);
        let bad = fit::lacks_partitions(&source.facts, &self.output.facts);
        self.finding(Kind::Partitions, has.to_string(), format!("at least {needs}")).when(
            bad,
            Severity::Breaks,
            || self.commands.partitions(self.name, needs),
        )
    }

    fn timestamps(&self) -> Finding {
        let needed = "CreateTime";
        match self.output.facts.timestamp_type {
            Some(TimestampType::Create) => self.finding(Kind::Timestamps, "CreateTime", needed),
            Some(TimestampType::LogAppend) => self
                .finding(Kind::Timestamps, "LogAppendTime", needed)
                .is(Severity::Breaks, self.set("message.timestamp.type", needed)),
            None => {
                let why = told::<String>(self.output, "message.timestamp.type");
                let why = why.unwrap_or_else(|why| why);
                self.unknown(Kind::Timestamps, why, needed)
            }
        }
    }

    fn timestamp_range(&self, source: &Described) -> Finding {
        let kind = Kind::TimestampRange;
        let needed = "what the source takes";
        let mut narrow = Vec::new();
        for setting in ["message.timestamp.before.max.ms", "message.timestamp.after.max.ms"] {
            match (told::<i64>(source, setting), told::<i64>(self.output, setting)) {
                (Ok(source), Ok(output)) if output < source => {
                    narrow.push((setting, output, source))
                }
                (Ok(_), Ok(_)) => {}
                (Err(why), _) | (_, Err(why)) => return self.unknown(kind, why, needed),
            }
        }
        let Some((setting, output, wanted)) = narrow.first() else {
            return self.finding(kind, "as wide as the source's", needed);
        };
        let found = format!("{setting} is {output}, in the source {wanted}");
        self.finding(kind, found, needed).is(Severity::Weakens, self.set(setting, wanted))
    }

    fn retention_time(&self) -> Finding {
        let needed = format!("at least {}", span(self.window.to_duration()));
        match self.output.facts.retention_ms {
            Some(kept) => {
                let found = u64::try_from(kept).map_or_else(|_| "for ever".to_owned(), span_ms);
                let bad = fit::keeps_too_short(&self.output.facts, self.window);
                self.finding(Kind::RetentionTime, found, needed).when(
                    bad,
                    Severity::Weakens,
                    || self.set("retention.ms", self.window.as_ms()),
                )
            }
            None => {
                let why = told::<i64>(self.output, "retention.ms").err().unwrap_or_default();
                self.unknown(Kind::RetentionTime, why, needed)
            }
        }
    }

    fn retention_bytes(&self) -> Finding {
        let needed = "-1 (no limit)";
        match told::<i64>(self.output, "retention.bytes") {
            Ok(limit) => self.finding(Kind::RetentionBytes, limit.to_string(), needed).when(
                limit >= 0,
                Severity::Weakens,
                || self.set("retention.bytes", -1),
            ),
            Err(why) => self.unknown(Kind::RetentionBytes, why, needed),
        }
    }

    fn cleanup(&self) -> Finding {
        let needed = "delete";
        match &self.output.facts.cleanup_policy {
            Some(policy) => self.finding(Kind::Cleanup, policy, needed).when(
                fit::is_compacted(&self.output.facts),
                Severity::Weakens,
                || self.set("cleanup.policy", needed),
            ),
            None => {
                let why = told::<String>(self.output, "cleanup.policy").err().unwrap_or_default();
                self.unknown(Kind::Cleanup, why, needed)
            }
        }
    }

    fn replication(&self) -> Finding {
        let least = self.output.partitions.iter().map(|p| p.replicas).min().unwrap_or_default();
        let needed = format!("{REPLICAS} (2 at least)");
        self.finding(Kind::Replication, least.to_string(), needed).when(
            least < 2,
            Severity::Weakens,
            || {
                let see = self.commands.describe(self.name);
                format!("{see}, then kafka-reassign-partitions.sh to more brokers")
            },
        )
    }

    fn in_sync(&self) -> Finding {
        let kind = Kind::InSync;
        let partitions = &self.output.partitions;
        let least = match told::<usize>(self.output, "min.insync.replicas") {
            Ok(least) => least,
            Err(why) => return self.unknown(kind, why, "2"),
        };
        let replicas = partitions.iter().map(|p| p.replicas).min().unwrap_or_default();
        if least > replicas {
            let found = format!("{least}, with {replicas} replicas");
            let wanted = replicas.saturating_sub(1).max(1);
            return self
                .finding(kind, found, "fewer than there are replicas")
                .is(Severity::Breaks, self.set("min.insync.replicas", wanted));
        }
        if let Some(p) = partitions.iter().find(|p| p.leader.is_none() || p.in_sync < least) {
            let state = if p.leader.is_none() {
                "no leader".to_owned()
            } else {
                format!("{} of {} replicas in sync", p.in_sync, p.replicas)
            };
            let found = format!("partition {} has {state}", p.partition);
            return self
                .finding(kind, found, format!("at least {least} in sync"))
                .is(Severity::Breaks, self.commands.describe(self.name));
        }
        // With one replica there is nothing to wait for: `replication` tells of it.
        let weak = least < 2 && replicas >= 2;
        let needed = if replicas < 2 { "1, with one replica" } else { "2" };
        self.finding(kind, least.to_string(), needed)
            .when(weak, Severity::Weakens, || self.set("min.insync.replicas", 2))
    }

    fn unclean(&self) -> Finding {
        let setting = "unclean.leader.election.enable";
        match told::<bool>(self.output, setting) {
            Ok(on) => self.finding(Kind::Unclean, on.to_string(), "false").when(
                on,
                Severity::Weakens,
                || self.set(setting, false),
            ),
            Err(why) => self.unknown(Kind::Unclean, why, "false"),
        }
    }
}
