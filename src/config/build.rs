//! From checked values to the config. Asks no questions any more.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::cross::transaction_needs;
use super::kind::Value;
use super::model::{
    CheckpointConfig, ClientProperties, Config, DedupRule, DeliveryConfig, DeliveryMode,
    KafkaConfig, Membership, OnMissingKey, OnMissingState, OnUndeliverable, SinkConfig,
    SourceConfig, StartAt, StateConfig, StatusConfig, TopicSelection, WindowClock,
};
use super::walk::{Found, Values};
use crate::key::{HashKind, KeyRule};
use crate::words::Span;

/// Builds the config; `None` only where a value is missing, which the checks before exclude.
pub(super) fn build(values: &Values) -> Option<Config> {
    let get = Getter { values, topic: None };
    Some(Config {
        kafka: kafka(&get)?,
        source: source(&get)?,
        sink: sink(&get)?,
        dedup: rule(&get)?,
        topics: topics(values)?,
        delivery: delivery(&get)?,
        checkpoint: checkpoint(&get)?,
        state: state(&get)?,
        status: StatusConfig { listen: get.listen("status.listen")? },
    })
}

/// Gets values by path; those of `[dedup]` from the topic's section first.
struct Getter<'a> {
    values: &'a Values,
    topic: Option<&'a BTreeMap<&'static str, Found>>,
}

macro_rules! getters {
    ($($name:ident: $variant:ident -> $type:ty;)*) => {
        impl Getter<'_> {
            $(fn $name(&self, path: &str) -> Option<$type> {
                match self.get(path)? {
                    Value::$variant(value) => Some(value.clone()),
                    _ => None,
                }
            })*
        }
    };
}

getters! {
    text: Text -> String;
    choice: Choice -> &'static str;
    span: Span -> Duration;
    size: Size -> u64;
    count: Count -> i64;
    flag: Flag -> bool;
    selection: Topics -> TopicSelection;
    key: Key -> KeyRule;
    leave_out: Drop -> super::model::DropRule;
    listen: Listen -> Option<std::net::SocketAddr>;
}

impl Getter<'_> {
    fn get(&self, path: &str) -> Option<&Value> {
        let of_topic =
            path.strip_prefix("dedup.").and_then(|name| self.topic.and_then(|t| t.get(name)));
        of_topic.or_else(|| self.values.get(path)).map(|found| &found.value)
    }

    fn client(&self, section: &str) -> ClientProperties {
        let properties = self.values.client(section);
        properties.map(|(name, value)| (name.to_owned(), value.value.clone())).collect()
    }
}

fn kafka(get: &Getter<'_>) -> Option<KafkaConfig> {
    Some(KafkaConfig {
        bootstrap_servers: get.text("kafka.bootstrap_servers")?,
        client: get.client("kafka"),
        allow_insecure: get.flag("kafka.allow_insecure")?,
    })
}

fn source(get: &Getter<'_>) -> Option<SourceConfig> {
    Some(SourceConfig {
        group: get.text("source.group")?,
        instance_id: get.text("source.instance_id"),
        topics: get.selection("source.topics")?,
        membership: match get.choice("source.membership")? {
            "group" => Membership::Group,
            "alone" => Membership::Alone,
            _ => return None,
        },
        start: match get.choice("source.start")? {
            "earliest" => StartAt::Earliest,
            "latest" => StartAt::Latest,
            "stop" => StartAt::Stop,
            _ => return None,
        },
        session_timeout: get.span("source.session_timeout")?,
    })
}

fn sink(get: &Getter<'_>) -> Option<SinkConfig> {
    let dead_letter_topic = get.text("sink.dead_letter_topic");
    Some(SinkConfig {
        topic: get.text("sink.topic")?,
        delivery_timeout: get.span("sink.delivery_timeout")?,
        on_undeliverable: match get.choice("sink.on_undeliverable")? {
            "stop" => OnUndeliverable::Stop,
            "dead-letter" => OnUndeliverable::DeadLetter(dead_letter_topic.clone()?),
            _ => return None,
        },
        dead_letter_topic,
        in_flight_max_bytes: get.size("sink.in_flight_max")?,
        bootstrap_servers: get.text("sink.bootstrap_servers"),
        client: get.client("sink"),
    })
}

fn topics(values: &Values) -> Option<BTreeMap<String, DedupRule>> {
    let rules = values.topics.iter().map(|(topic, section)| {
        let get = Getter { values, topic: Some(&section.values) };
        Some((topic.clone(), rule(&get)?))
    });
    rules.collect()
}

fn rule(get: &Getter<'_>) -> Option<DedupRule> {
    Some(DedupRule {
        key: get.key("dedup.key")?,
        hash: match get.choice("dedup.hash")? {
            "xxh3-128" => HashKind::Xxh3,
            "blake3-128" => HashKind::Blake3,
            _ => return None,
        },
        window: Span::from(get.span("dedup.window")?),
        clock: match get.choice("dedup.clock")? {
            "event" => WindowClock::Event,
            "arrival" => WindowClock::Arrival,
            _ => return None,
        },
        max_future: Span::from(get.span("dedup.max_future")?),
        refresh: get.flag("dedup.refresh")?,
        on_missing_key: match get.choice("dedup.on_missing_key")? {
            "forward" => OnMissingKey::Forward,
            "dead-letter" => OnMissingKey::DeadLetter,
            "stop" => OnMissingKey::Stop,
            _ => return None,
        },
        drop: get.leave_out("dedup.drop")?,
    })
}

fn delivery(get: &Getter<'_>) -> Option<DeliveryConfig> {
    Some(DeliveryConfig {
        mode: match get.choice("delivery.mode")? {
            "auto" => DeliveryMode::Auto,
            "dedup" => DeliveryMode::Dedup,
            "transactional" => DeliveryMode::Transactional,
            _ => return None,
        },
        transactional_id_prefix: get.text("delivery.transactional_id_prefix"),
        transaction_timeout: transaction_timeout(get)?,
        fallback_on_timeout: get.flag("delivery.fallback_on_timeout")?,
    })
}

/// The default grows with what it has to cover.
fn transaction_timeout(get: &Getter<'_>) -> Option<Duration> {
    let timeout = get.span("delivery.transaction_timeout")?;
    if get.values.was_given("delivery.transaction_timeout") {
        return Some(timeout);
    }
    let (interval, delivery) =
        (get.span("checkpoint.interval")?, get.span("sink.delivery_timeout")?);
    Some(timeout.max(transaction_needs(interval, delivery)))
}

fn checkpoint(get: &Getter<'_>) -> Option<CheckpointConfig> {
    Some(CheckpointConfig {
        interval: get.span("checkpoint.interval")?,
        max_records: usize::try_from(get.count("checkpoint.max_records")?).ok()?,
        timeout: get.span("checkpoint.timeout")?,
    })
}

fn state(get: &Getter<'_>) -> Option<StateConfig> {
    Some(StateConfig {
        dir: PathBuf::from(get.text("state.dir")?),
        on_missing_state: match get.choice("state.on_missing_state")? {
            "rebuild" => OnMissingState::Rebuild,
            "stop" => OnMissingState::Stop,
            "empty" => OnMissingState::Empty,
            _ => return None,
        },
        memory: get.size("state.memory")?,
        min_free_bytes: get.size("state.min_free")?,
    })
}
