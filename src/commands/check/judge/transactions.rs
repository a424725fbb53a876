//! Transactions: ours, and those of others that hold readers back.

use std::time::Duration;

use super::super::command::Commands;
use super::super::facts::{Again, Facts, Watched};
use super::super::finding::{Finding, Kind, Severity};
use super::super::mode;
use super::{setting, span, span_ms, untold};
use crate::config::Config;
use crate::kafka::survey::{ClusterSurvey, OffsetFacts, Transactions};

/// What a checkpoint may take besides its interval.
const MARGIN: Duration = Duration::from_secs(2);

pub(super) fn judge(config: &Config, facts: &Facts) -> Vec<Finding> {
    let (source, output) = (Commands::source(config), Commands::output(config));
    let mut all = Vec::new();
    for pair in &facts.pairs {
        // A writer to the source may take its time; on the output nobody writes but us.
        let topics =
            [(&source, &pair.source, Severity::Unknown), (&output, &pair.output, Severity::Breaks)];
        for (commands, topic, standing) in topics {
            // One that is not there has a finding of its own.
            if !matches!(topic.topic.found, Ok(None)) {
                all.push(open(commands, topic, config.checkpoint.interval, standing));
            }
        }
    }
    if mode::wants_transactions(config) {
        all.push(timeout(config, facts));
        all.push(id(config, &output, &facts.transactions));
    }
    all
}

/// Judges what an open transaction holds back. One that stood still for less than two checkpoints
/// may be that of a living instance.
fn open(
    commands: &Commands,
    watched: &Watched,
    checkpoint: Duration,
    standing: Severity,
) -> Finding {
    let kind = Kind::OpenTransaction;
    let name = &watched.topic.name;
    let needed = "the end of each partition";
    let finding = |found: String| Finding::new(kind, name, found, needed);
    let unknown =
        |why: String| finding(why).is(Severity::Unknown, commands.grant_topic(&["Describe"], name));
    let Some(topic) = watched.described() else {
        return unknown("the topic cannot be asked".to_owned());
    };
    let offsets = match &topic.offsets {
        Ok(offsets) => offsets,
        Err(cause) => return unknown(untold(cause)),
    };
    let held: Vec<&OffsetFacts> = offsets.iter().filter(|o| o.stable < o.end).collect();
    let Some(first) = held.first() else {
        return finding("at the end of each partition".to_owned());
    };
    let (waited, again) = match &watched.again {
        Some(Again { after, stable: Ok(again) }) => (*after, again),
        Some(Again { stable: Err(cause), .. }) => return unknown(untold(cause)),
        None => return unknown("below the end, and not looked at again".to_owned()),
    };
    let stands = |one: &&&OffsetFacts| again.contains(&(one.partition, one.stable));
    match held.iter().find(stands) {
        None => {
            finding(format!("moving, {} below the end", first.end.saturating_sub(first.stable)))
        }
        Some(one) => {
            let found = format!(
                "partition {} stands at {} for {}, {} below its end",
                one.partition,
                one.stable,
                span(Duration::from_secs(waited.as_secs())),
                one.end.saturating_sub(one.stable)
            );
            let seen_enough = waited >= checkpoint.saturating_mul(2);
            let severity = if seen_enough { standing } else { Severity::Unknown };
            finding(found).is(severity, commands.abort(name, one.partition, one.stable))
        }
    }
}

/// Returns the lowest ceiling of all brokers, since any of them may coordinate.
fn ceiling(cluster: &ClusterSurvey) -> Result<u64, String> {
    lowest(cluster, "transaction.max.timeout.ms")
}

/// Returns the lowest value of a setting among all brokers.
pub(super) fn lowest(cluster: &ClusterSurvey, setting: &str) -> Result<u64, String> {
    let mut all = Vec::with_capacity(cluster.brokers.len());
    for broker in &cluster.brokers {
        let settings = broker.settings.as_ref().map_err(untold)?;
        all.push(settings.number(setting).ok_or("not told by the broker")?);
    }
    all.into_iter().min().ok_or_else(|| "no broker is known".to_owned())
}

fn timeout(config: &Config, facts: &Facts) -> Finding {
    let kind = Kind::TransactionTimeout;
    let ours = config.delivery.transaction_timeout;
    let longest = config.checkpoint.interval.saturating_add(MARGIN);
    if longest >= ours {
        let found = format!("checkpoint.interval is {}", span(config.checkpoint.interval));
        let fix = format!("write interval = \"{}\" under [checkpoint]", setting(ours / 4));
        return Finding::new(kind, "checkpoint.interval", found, format!("below {}", span(ours)))
            .is(Severity::Breaks, fix);
    }
    let needed = format!("at least {}", span(ours));
    let raise = format!(
        "set transaction.max.timeout.ms={} in every broker's server.properties",
        ours.as_millis()
    );
    // What the coordinator did is surer than what it says.
    if let Transactions::Misconfigured(cause) = &facts.transactions {
        let found = ceiling(facts.output()).map_or_else(|_| cause.to_string(), span_ms);
        return Finding::new(kind, "brokers", found, needed).is(Severity::Breaks, raise);
    }
    match ceiling(facts.output()) {
        Ok(most) => Finding::new(kind, "brokers", span_ms(most), needed).when(
            u128::from(most) < ours.as_millis(),
            Severity::Breaks,
            || raise,
        ),
        Err(_) if matches!(facts.transactions, Transactions::Work { .. }) => {
            Finding::new(kind, "brokers", "not told, and enough: transactions begin", needed)
        }
        Err(why) => Finding::new(kind, "brokers", why, needed)
            .is(Severity::Unknown, see_brokers(&Commands::output(config))),
    }
}

/// What lets a user see the settings of brokers.
pub(super) fn see_brokers(commands: &Commands) -> String {
    commands.grant(&["DescribeConfigs"], "--cluster")
}

fn id(config: &Config, commands: &Commands, probe: &Transactions) -> Finding {
    let finding = |found: String| {
        Finding::new(Kind::TransactionalId, mode::probe_id(config), found, "transactions begin")
    };
    let prefix = super::super::command::quoted(config.transactional_id_prefix());
    let grant = || {
        let id = format!("--transactional-id {prefix} --resource-pattern-type prefixed");
        commands.grant(&["Describe", "Write"], &id)
    };
    match probe {
        Transactions::Work { .. } => finding("transactions begin".to_owned()),
        Transactions::Cannot(cause) if cause.is_denied() => {
            finding(format!("refused: {cause}")).is(Severity::Weakens, grant())
        }
        Transactions::Cannot(cause) => finding(format!("not there: {cause}")).is(
            Severity::Weakens,
            "use brokers with transactions, or write mode = \"dedup\" under [delivery]",
        ),
        Transactions::Misconfigured(cause) => finding(format!("refused: {cause}"))
            .is(Severity::Breaks, "mend what `transaction-timeout` says"),
        Transactions::Fenced(cause) => finding(format!("fenced: {cause}"))
            .is(Severity::Unknown, "let the other check end, and run this one again"),
        Transactions::NotNow(cause) => finding(format!("no answer: {cause}"))
            .is(Severity::Unknown, "check the transaction coordinator, and run the check again"),
        Transactions::NotAsked => {
            finding("not asked".to_owned()).is(Severity::Unknown, "run the check again")
        }
    }
}
