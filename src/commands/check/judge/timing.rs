//! Times: of this config against each other, and against the brokers'.

use std::time::Duration;

use super::super::command::Commands;
use super::super::facts::Facts;
use super::super::finding::{Finding, Kind, Severity};
use super::transactions::{lowest, see_brokers};
use super::{setting, span, span_ms, untold};
use crate::config::{Config, Membership};
use crate::kafka::Timings;
use crate::kafka::survey::{Clock, ClusterSurvey, Transactions};

/// How far the delivery timeout has to stay below the session timeout; the config enforces it.
const LEASE_MARGIN: Duration = Duration::from_secs(2);

/// A stop that nobody plans for is over by then.
const LONGEST_STOP: Duration = Duration::from_secs(7 * 24 * 3_600);

pub(super) fn judge(config: &Config, facts: &Facts) -> Vec<Finding> {
    let mut all = Vec::new();
    if config.source.membership == Membership::Group {
        all.push(session(config, &facts.source));
        all.push(delivery(config));
        all.push(poll(config));
        all.push(heartbeat(config));
    }
    all.push(offsets(config, &facts.source));
    all.push(clock(config, &facts.transactions));
    all
}

fn session(config: &Config, cluster: &ClusterSurvey) -> Finding {
    let ours = config.source.session_timeout;
    let group = &config.source.group;
    let finding =
        |found: String, needed: String| Finding::new(Kind::SessionTimeout, group, found, needed);
    let limits = (
        lowest(cluster, "group.max.session.timeout.ms"),
        highest(cluster, "group.min.session.timeout.ms"),
    );
    match limits {
        (Ok(most), Ok(least)) => {
            let ms = ours.as_millis();
            let fits = u128::from(least) <= ms && ms <= u128::from(most);
            let needed = format!("{} to {}", span_ms(least), span_ms(most));
            finding(span(ours), needed).when(!fits, Severity::Breaks, || {
                let wanted = if ms < u128::from(least) { least } else { most };
                let wanted = setting(Duration::from_millis(wanted));
                format!("write session_timeout = \"{wanted}\" under [source]")
            })
        }
        (Err(why), _) | (_, Err(why)) => finding(
            format!("{}; the limits are {why}", span(ours)),
            "within the brokers' limits".to_owned(),
        )
        .is(Severity::Unknown, see_brokers(&Commands::source(config))),
    }
}

/// Returns the highest value of a setting among all brokers.
fn highest(cluster: &ClusterSurvey, setting: &str) -> Result<u64, String> {
    let mut all = Vec::with_capacity(cluster.brokers.len());
    for broker in &cluster.brokers {
        let settings = broker.settings.as_ref().map_err(untold)?;
        all.push(settings.number(setting).ok_or("not told by the broker")?);
    }
    all.into_iter().max().ok_or_else(|| "no broker is known".to_owned())
}

fn delivery(config: &Config) -> Finding {
    let (delivery, session) = (config.sink.delivery_timeout, config.source.session_timeout);
    let most = session.saturating_sub(LEASE_MARGIN);
    Finding::new(
        Kind::DeliveryTimeout,
        &config.source.group,
        span(delivery),
        format!("below {}", span(most)),
    )
    .when(delivery >= most, Severity::Breaks, || {
        format!("write delivery_timeout = \"{}\" under [sink]", setting(most / 2))
    })
}

fn poll(config: &Config) -> Finding {
    let poll = Timings::of(config).poll;
    let least = config.sink.delivery_timeout.saturating_add(config.checkpoint.timeout);
    Finding::new(
        Kind::PollInterval,
        &config.source.group,
        span(poll),
        format!("above {}", span(least)),
    )
    .when(poll <= least, Severity::Weakens, || {
        let wanted = least.saturating_mul(2).max(config.source.session_timeout).as_millis();
        format!("write \"max.poll.interval.ms\" = \"{wanted}\" under [kafka.client]")
    })
}

fn heartbeat(config: &Config) -> Finding {
    let heartbeat = Timings::of(config).heartbeat;
    let most = config.source.session_timeout / 3;
    Finding::new(
        Kind::Heartbeat,
        &config.source.group,
        span(heartbeat),
        format!("at most {}", span(most)),
    )
    .when(heartbeat > most, Severity::Weakens, || {
        let wanted = most.as_millis().max(1);
        format!("write \"heartbeat.interval.ms\" = \"{wanted}\" under [kafka.client]")
    })
}

fn offsets(config: &Config, cluster: &ClusterSurvey) -> Finding {
    let longest = config.topics.values().chain([&config.dedup]).map(|rule| rule.window).max();
    let window = longest.map_or(Duration::ZERO, |window| window.to_duration());
    let least = window.min(LONGEST_STOP);
    let needed = format!("at least {}", span(least));
    let finding = |found: String| Finding::new(Kind::OffsetsRetention, "brokers", found, &needed);
    match lowest(cluster, "offsets.retention.minutes") {
        Ok(minutes) => {
            let kept = Duration::from_secs(minutes.saturating_mul(60));
            finding(span(kept)).when(kept < least, Severity::Weakens, || {
                let wanted = least.as_secs().div_ceil(60);
                format!(
                    "set offsets.retention.minutes={wanted} in every broker's server.properties"
                )
            })
        }
        Err(why) => finding(why).is(Severity::Unknown, see_brokers(&Commands::source(config))),
    }
}

/// Returns how far apart two clocks may be before it matters.
fn tolerance(config: &Config) -> u64 {
    let shortest = config.topics.values().chain([&config.dedup]).map(|rule| rule.window).min();
    let tenth = shortest.map_or(0, |window| window.as_ms().unsigned_abs() / 10);
    tenth.clamp(1_000, 60_000)
}

/// The coordinator's note was made between two of our times, or later by another broker whose
/// clock is ahead: the distance is known to within those two.
fn clock(config: &Config, probe: &Transactions) -> Finding {
    let most = tolerance(config);
    let needed = format!("within {}", span_ms(most));
    let finding = |found: String| Finding::new(Kind::Clock, "this machine", found, &needed);
    let fix = "synchronise the clocks of this machine and the brokers by NTP (chronyc tracking)";
    let unknown = |why: String| {
        let see = Commands::output(config).grant_topic(&["Describe"], "__transaction_state");
        finding(why).is(Severity::Unknown, format!("{see}; or compare `date` on both"))
    };
    match probe {
        Transactions::Work { clock: Ok(Clock { before, broker, after }) } => {
            let ahead = broker.0.saturating_sub(after.0);
            let behind = before.0.saturating_sub(broker.0);
            let apart = ahead.max(behind).max(0).unsigned_abs();
            let side = if ahead > behind { "behind" } else { "ahead of" };
            let within = after.0.saturating_sub(before.0).max(0).unsigned_abs();
            let found = if apart == 0 {
                format!("equal within {}", span_ms(within))
            } else {
                format!("{side} the broker by {}, within {}", span_ms(apart), span_ms(within))
            };
            finding(found).when(apart > most, Severity::Weakens, || fix.to_owned())
        }
        Transactions::Work { clock: Err(cause) } => unknown(untold(cause)),
        _ => finding("no broker told its time".to_owned())
            .is(Severity::Unknown, "compare `date -u` on this machine and on the brokers"),
    }
}
