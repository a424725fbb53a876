//! Everything that is known before anything is judged.

use std::time::{Duration, Instant};

use super::mode;
use super::place::{Place, port_taken};
use crate::config::{Config, TopicSelection};
use crate::kafka::survey::{
    Asked, ClusterSurvey, Described, GroupSurvey, Producing, TopicSurvey, Transactions,
    idempotence, transactions,
};
use crate::kafka::{Cluster, Error};
use crate::words::{SourcePartition, Timestamp, WallClock};

/// How long the brokers may take to answer at all, and how long one question may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(8);

/// How long a producer may take to get its id before it is called unknown.
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long an open transaction is watched: a live one moves on within a few checkpoints.
const WATCH_AT_LEAST: Duration = Duration::from_secs(3);

/// What brokers and this machine told.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub(super) now: Timestamp,
    pub(super) source: ClusterSurvey,
    /// The output's cluster, where it is another one.
    pub(super) output: Option<ClusterSurvey>,
    pub(super) pairs: Vec<Pair>,
    pub(super) dead_letter: Option<TopicSurvey>,
    pub(super) group: Asked<GroupSurvey>,
    pub(super) producing: Producing,
    pub(super) transactions: Transactions,
    pub(super) place: Place,
    /// Why the status address cannot be used, if so.
    pub(super) port_taken: Option<String>,
}

/// A source topic and its output.
#[derive(Clone, Debug)]
pub(super) struct Pair {
    pub(super) source: Watched,
    pub(super) output: Watched,
}

/// A topic, and a second look where its last stable offset was below its end.
#[derive(Clone, Debug)]
pub(super) struct Watched {
    pub(super) topic: TopicSurvey,
    /// When it was looked at first.
    pub(super) looked: Instant,
    /// None where there was nothing to watch.
    pub(super) again: Option<Again>,
}

/// The last stable offsets as seen a second time.
#[derive(Clone, Debug)]
pub(super) struct Again {
    /// How long after the first look.
    pub(super) after: Duration,
    /// Partition and offset.
    pub(super) stable: Asked<Vec<(i32, i64)>>,
}

impl Facts {
    /// Returns the cluster that the output is on.
    pub(super) fn output(&self) -> &ClusterSurvey {
        self.output.as_ref().unwrap_or(&self.source)
    }
}

impl Watched {
    /// Returns what was found, where the topic is there.
    pub(super) fn described(&self) -> Option<&Described> {
        self.topic.found.as_ref().ok()?.as_ref()
    }

    /// Returns the partitions that an open transaction holds back, as seen first.
    fn held(&self) -> Vec<i32> {
        let offsets = self.described().and_then(|topic| topic.offsets.as_ref().ok());
        let held = offsets.into_iter().flatten().filter(|offsets| offsets.stable < offsets.end);
        held.map(|offsets| offsets.partition).collect()
    }
}

/// Asks brokers and machine.
///
/// # Errors
/// Where no broker answers, or the client refuses a setting. All else that is not told is in the
/// facts as such.
pub(super) fn gather(config: &Config, tell: &dyn Fn(&str)) -> Result<Facts, Error> {
    tell("connecting");
    let source = Cluster::connect(config, CONNECT_TIMEOUT)?;
    let other = match config.sink.bootstrap_servers {
        Some(_) => Some(Cluster::connect_to_output(config, CONNECT_TIMEOUT)?),
        None => None,
    };
    let output = other.as_ref().unwrap_or(&source);
    let now = WallClock::system().now();
    tell("asking about brokers");
    let brokers = source.survey()?;
    let output_brokers = other.as_ref().map(Cluster::survey).transpose()?;
    tell("asking about topics");
    let mut pairs = Vec::new();
    for topic in selected(config, &source)? {
        let window = config.rule(&topic).window;
        let name = config.output_topic(&topic);
        let look = |cluster: &Cluster, topic: &str| Watched {
            topic: cluster.survey_topic(topic, window, now),
            looked: Instant::now(),
            again: None,
        };
        pairs.push(Pair { source: look(&source, &topic), output: look(output, &name) });
    }
    let dead = config.sink.dead_letter_topic.as_ref();
    let dead_letter = dead.map(|topic| output.survey_topic(topic, config.dedup.window, now));
    let group = source.survey_group(&config.source.group);
    tell("asking for a producer's id");
    let producing = idempotence(config, PROBE_TIMEOUT)?;
    let probed = probe(config, output, &pairs)?;
    watch(config, &mut pairs, (&source, output), tell);
    Ok(Facts {
        now,
        source: brokers,
        output: output_brokers,
        pairs,
        dead_letter,
        group,
        producing,
        transactions: probed,
        place: Place::look(&config.state.dir),
        port_taken: config.status.listen.and_then(port_taken),
    })
}

/// Returns the topics that are read; none where a pattern matches none.
fn selected(config: &Config, source: &Cluster) -> Result<Vec<String>, Error> {
    let found = source.selected(&config.source.topics)?;
    Ok(match &config.source.topics {
        // The pattern stands for the topic that is not there.
        TopicSelection::Pattern(pattern) if found.is_empty() => vec![format!("^{pattern}")],
        _ => found,
    })
}

/// Asks the transaction coordinator. The one place that decides how `check` probes.
fn probe(config: &Config, output: &Cluster, pairs: &[Pair]) -> Result<Transactions, Error> {
    if !mode::wants_transactions(config) {
        return Ok(Transactions::NotAsked);
    }
    let topic = pairs.first().map_or("", |pair| pair.source.topic.name.as_str());
    let partition = SourcePartition::new(topic, 0);
    transactions(config, output, &mode::probe_id(config), &partition, PROBE_TIMEOUT)
}

/// Looks a second time at what an open transaction holds back, late enough to see whether it moves.
fn watch(
    config: &Config,
    pairs: &mut [Pair],
    (source, output): (&Cluster, &Cluster),
    tell: &dyn Fn(&str),
) {
    let wait = (config.checkpoint.interval * 2).clamp(WATCH_AT_LEAST, WATCH_AT_LEAST * 4);
    let all =
        pairs.iter_mut().flat_map(|pair| [(&mut pair.source, source), (&mut pair.output, output)]);
    for (topic, cluster) in all {
        let held = topic.held();
        if held.is_empty() {
            continue;
        }
        let left = wait.saturating_sub(topic.looked.elapsed());
        if !left.is_zero() {
            tell("watching an open transaction");
            std::thread::sleep(left);
        }
        // Before the question: what is answered later was true at least this long.
        let after = topic.looked.elapsed();
        let stable = cluster.stable_offsets(&topic.topic.name, &held);
        topic.again = Some(Again { after, stable });
    }
}
