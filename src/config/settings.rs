//! The table of all settings: the one place that knows their names, kinds, defaults and meaning.
//!
//! Reading, suggestions, overriding variables, the printed config, the example file and the
//! reference are all made from it.

use super::kind::Kind;
use super::model::{
    Config, DedupRule, DeliveryMode, DropRule, Membership, OnMissingKey, OnMissingState,
    OnUndeliverable, StartAt, TopicSelection, WindowClock,
};
use super::print::{flag, list, quote, span};
use super::units::format_size;

/// One setting.
pub(super) struct Setting {
    /// The full key: section, dot, name.
    pub(super) path: &'static str,
    pub(super) kind: Kind,
    pub(super) fallback: Fallback,
    /// What it means: whole sentences.
    pub(super) doc: &'static str,
    pub(super) show: Show,
}

/// What holds where a setting is not given. Texts are TOML values.
pub(super) enum Fallback {
    /// This default.
    Default(&'static str),
    /// Nothing: it must be given, like this.
    Required(&'static str),
    /// It is left out; given, it looks like this.
    Nothing(&'static str),
}

/// Writes a setting's value as TOML; `None` where it is left out.
pub(super) enum Show {
    /// From the whole config.
    Whole(fn(&Config) -> Option<String>),
    /// From a dedup rule: the setting can be overridden by topic.
    Rule(fn(&DedupRule) -> String),
}

impl Setting {
    /// Returns the section, such as `source`.
    pub(super) fn section(&self) -> &'static str {
        self.path.split_once('.').map_or("", |(section, _)| section)
    }

    /// Returns the name inside the section.
    pub(super) fn name(&self) -> &'static str {
        self.path.split_once('.').map_or(self.path, |(_, name)| name)
    }
}

/// The sections, in the order of the example file, each with what it is about.
pub(super) const SECTIONS: [(&str, &str); 8] = [
    ("kafka", "How to reach the brokers."),
    ("source", "What to read, and as whom."),
    ("sink", "Where to write, and what to do when it fails."),
    ("dedup", "What makes two records the same, and for how long."),
    ("delivery", "How records are delivered."),
    ("checkpoint", "When progress is made durable."),
    ("state", "Where the memory of keys lives."),
    ("status", "Metrics and health over HTTP."),
];

/// The sections that hold client properties below `client`.
pub(super) const CLIENT_SECTIONS: [&str; 2] = ["kafka", "sink"];

/// Every setting, by section.
pub(super) static SETTINGS: &[Setting] = &[
    Setting {
        path: "kafka.bootstrap_servers",
        kind: Kind::Servers,
        fallback: Fallback::Required("\"localhost:9092\""),
        doc: "The brokers to ask first, as a comma-separated `host:port` list.",
        show: Show::Whole(|c| Some(quote(&c.kafka.bootstrap_servers))),
    },
    Setting {
        path: "kafka.allow_insecure",
        kind: Kind::Flag,
        fallback: Fallback::Default("false"),
        doc: "Whether passwords and tokens may cross the network unencrypted.",
        show: Show::Whole(|c| Some(flag(c.kafka.allow_insecure))),
    },
    Setting {
        path: "source.group",
        kind: Kind::Text,
        fallback: Fallback::Required("\"payments-dedup\""),
        doc: "The consumer group.",
        show: Show::Whole(|c| Some(quote(&c.source.group))),
    },
    Setting {
        path: "source.topics",
        kind: Kind::Topics,
        fallback: Fallback::Required("[\"payments\"]"),
        doc: "The topics to read: a list, or a pattern that begins with `^`, such as \
              `\"^payments-.*\"`, which has to match a topic's whole name.",
        show: Show::Whole(|c| {
            Some(match &c.source.topics {
                TopicSelection::List(names) => list(names.iter().map(String::as_str)),
                TopicSelection::Pattern(pattern) => quote(&format!("^{pattern}")),
            })
        }),
    },
    Setting {
        path: "source.membership",
        kind: Kind::Choice { allowed: &["group", "alone"], later: &[] },
        fallback: Fallback::Default("\"group\""),
        doc: "How partitions are handed out. `group`: the consumer group shares them among \
              instances. `alone`: this instance takes all of them, and only one may run.",
        show: Show::Whole(|c| {
            Some(quote(match c.source.membership {
                Membership::Group => "group",
                Membership::Alone => "alone",
            }))
        }),
    },
    Setting {
        path: "source.instance_id",
        kind: Kind::Text,
        fallback: Fallback::Nothing("\"sink-1\""),
        doc: "A name that stays with this instance, so that after a restart it takes its \
              partitions back at once. No two running instances may share one.",
        show: Show::Whole(|c| c.source.instance_id.as_deref().map(quote)),
    },
    Setting {
        path: "source.start",
        kind: Kind::Choice { allowed: &["earliest", "latest", "stop"], later: &[] },
        fallback: Fallback::Default("\"earliest\""),
        doc: "Where to begin in a partition that has neither state nor a committed offset. \
              `stop` refuses to start.",
        show: Show::Whole(|c| {
            Some(quote(match c.source.start {
                StartAt::Earliest => "earliest",
                StartAt::Latest => "latest",
                StartAt::Stop => "stop",
            }))
        }),
    },
    Setting {
        path: "source.session_timeout",
        kind: Kind::Span { least: "1s", most: "30m" },
        fallback: Fallback::Default("\"45s\""),
        doc: "How long the group waits for a silent instance before it gives its partitions \
              away.",
        show: Show::Whole(|c| Some(span(c.source.session_timeout))),
    },
    Setting {
        path: "sink.topic",
        kind: Kind::Topic { template: true },
        fallback: Fallback::Default("\"{topic}.dedup\""),
        doc: "The output topic. `{topic}` stands for the name of the source topic.",
        show: Show::Whole(|c| Some(quote(&c.sink.topic))),
    },
    Setting {
        path: "sink.partition",
        kind: Kind::Choice { allowed: &["same"], later: &["murmur2"] },
        fallback: Fallback::Default("\"same\""),
        doc: "The output partition. `same`: the number of the source partition.",
        show: Show::Whole(|_| Some(quote("same"))),
    },
    Setting {
        path: "sink.delivery_timeout",
        kind: Kind::Span { least: "100ms", most: "30m" },
        fallback: Fallback::Default("\"30s\""),
        doc: "How long the client tries to deliver one record. It has to stay more than 2s \
              below `source.session_timeout`, so that an instance which lost its partitions \
              has stopped writing before another one begins.",
        show: Show::Whole(|c| Some(span(c.sink.delivery_timeout))),
    },
    Setting {
        path: "sink.on_undeliverable",
        kind: Kind::Choice { allowed: &["stop", "dead-letter"], later: &[] },
        fallback: Fallback::Default("\"stop\""),
        doc: "What to do with a record whose delivery fails for good: stop the process, or \
              write it to `sink.dead_letter_topic`.",
        show: Show::Whole(|c| {
            Some(quote(match c.sink.on_undeliverable {
                OnUndeliverable::Stop => "stop",
                OnUndeliverable::DeadLetter(_) => "dead-letter",
            }))
        }),
    },
    Setting {
        path: "sink.dead_letter_topic",
        kind: Kind::Topic { template: false },
        fallback: Fallback::Nothing("\"payments.dead\""),
        doc: "Where records go that cannot be delivered or have no key, if a policy says so.",
        show: Show::Whole(|c| c.sink.dead_letter_topic.as_deref().map(quote)),
    },
    Setting {
        path: "sink.in_flight_max",
        kind: Kind::Size { least: "1MiB" },
        fallback: Fallback::Default("\"64MiB\""),
        doc: "How many bytes of records may be in flight, over all partitions. Reading pauses \
              there.",
        show: Show::Whole(|c| Some(quote(&format_size(c.sink.in_flight_max_bytes)))),
    },
    Setting {
        path: "sink.bootstrap_servers",
        kind: Kind::Servers,
        fallback: Fallback::Nothing("\"other:9092\""),
        doc: "The brokers of the output, where it lives on another cluster. The properties of \
              `kafka.client` then hold for the source only.",
        show: Show::Whole(|c| c.sink.bootstrap_servers.as_deref().map(quote)),
    },
    Setting {
        path: "dedup.key",
        kind: Kind::Key,
        fallback: Fallback::Default("\"record-key\""),
        doc: "What the key is made of: `record-key`, `value`, `header:NAME`, `json:/pointer` \
              into the value, or a list of these.",
        show: Show::Rule(|rule| super::print::key(&rule.key)),
    },
    Setting {
        path: "dedup.hash",
        kind: Kind::Choice { allowed: &["xxh3-128", "blake3-128"], later: &[] },
        fallback: Fallback::Default("\"xxh3-128\""),
        doc: "How keys are hashed. Choose `blake3-128` where tenants you do not trust choose \
              their own keys.",
        show: Show::Rule(|rule| quote(rule.hash.as_str())),
    },
    Setting {
        path: "dedup.window",
        kind: Kind::Span { least: "1ms", most: "3650d" },
        fallback: Fallback::Default("\"24h\""),
        doc: "How long a key is remembered, at least.",
        show: Show::Rule(|rule| span(rule.window.to_duration())),
    },
    Setting {
        path: "dedup.clock",
        kind: Kind::Choice { allowed: &["event", "arrival"], later: &[] },
        fallback: Fallback::Default("\"event\""),
        doc: "Which time the window is counted in: the record's timestamp, or when the record \
              was first read.",
        show: Show::Rule(|rule| {
            quote(match rule.clock {
                WindowClock::Event => "event",
                WindowClock::Arrival => "arrival",
            })
        }),
    },
    Setting {
        path: "dedup.max_future",
        kind: Kind::Span { least: "0s", most: "3650d" },
        fallback: Fallback::Default("\"1h\""),
        doc: "How far ahead of the wall clock a record's timestamp may be. A later one counts \
              as this, so that one record from the future does not expire the rest.",
        show: Show::Rule(|rule| span(rule.max_future.to_duration())),
    },
    Setting {
        path: "dedup.refresh",
        kind: Kind::Flag,
        fallback: Fallback::Default("false"),
        doc: "Whether a duplicate starts the window of its key anew.",
        show: Show::Rule(|rule| flag(rule.refresh)),
    },
    Setting {
        path: "dedup.on_missing_key",
        kind: Kind::Choice { allowed: &["forward", "dead-letter", "stop"], later: &[] },
        fallback: Fallback::Default("\"forward\""),
        doc: "What to do with a record that has no key: forward it unjudged, write it to \
              `sink.dead_letter_topic`, or stop the process.",
        show: Show::Rule(|rule| {
            quote(match rule.on_missing_key {
                OnMissingKey::Forward => "forward",
                OnMissingKey::DeadLetter => "dead-letter",
                OnMissingKey::Stop => "stop",
            })
        }),
    },
    Setting {
        path: "dedup.drop",
        kind: Kind::Drop,
        fallback: Fallback::Default("[]"),
        doc: "Records to leave out on purpose, counted: `null-value` (tombstones), \
              `empty-value`.",
        show: Show::Rule(|rule| {
            let DropRule { null_value, empty_value } = rule.drop;
            let named = [(null_value, "null-value"), (empty_value, "empty-value")];
            list(named.into_iter().filter(|(on, _)| *on).map(|(_, name)| name))
        }),
    },
    Setting {
        path: "delivery.mode",
        kind: Kind::Choice { allowed: &["auto", "dedup", "transactional"], later: &[] },
        fallback: Fallback::Default("\"auto\""),
        doc: "How records are delivered. `dedup`: without transactions. `transactional`: in \
              transactions, or not at all. `auto`: in transactions where the brokers allow them, \
              which is found out once and kept in the state; `run --redecide` asks anew.",
        show: Show::Whole(|c| {
            Some(quote(match c.delivery.mode {
                DeliveryMode::Auto => "auto",
                DeliveryMode::Dedup => "dedup",
                DeliveryMode::Transactional => "transactional",
            }))
        }),
    },
    Setting {
        path: "delivery.transactional_id_prefix",
        kind: Kind::Text,
        fallback: Fallback::Nothing("\"payments-dedup\""),
        doc: "What transactional ids begin with, where it is not the group: each source partition \
              has the id `PREFIX-TOPIC-PARTITION`, and `auto` asks with `PREFIX-probe-…`. Every \
              group needs a prefix of its own.",
        show: Show::Whole(|c| c.delivery.transactional_id_prefix.as_deref().map(quote)),
    },
    Setting {
        path: "delivery.transaction_timeout",
        kind: Kind::Span { least: "1s", most: "24h" },
        fallback: Fallback::Default("\"1m\""),
        doc: "How long a transaction may stay open before the brokers abort it: for so long at \
              most readers wait for an instance that died and is not started again. It has to \
              cover `checkpoint.interval`, `sink.delivery_timeout` and 5s (the default grows \
              with them), and to stay within the brokers' `transaction.max.timeout.ms`.",
        show: Show::Whole(|c| transactional(c, || span(c.delivery.transaction_timeout))),
    },
    Setting {
        path: "delivery.fallback_on_timeout",
        kind: Kind::Flag,
        fallback: Fallback::Default("false"),
        doc: "Whether `auto` may choose `dedup` where the brokers do not say in time whether they \
              allow transactions. Otherwise firstseen does not start then.",
        show: Show::Whole(|c| {
            let asked = c.delivery.mode == DeliveryMode::Auto;
            asked.then(|| flag(c.delivery.fallback_on_timeout))
        }),
    },
    Setting {
        path: "checkpoint.interval",
        kind: Kind::Span { least: "100ms", most: "10m" },
        fallback: Fallback::Default("\"1s\""),
        doc: "The time between two checkpoints: how much is read again after a crash.",
        show: Show::Whole(|c| Some(span(c.checkpoint.interval))),
    },
    Setting {
        path: "checkpoint.max_records",
        kind: Kind::Count { least: 1, most: 100_000_000 },
        fallback: Fallback::Default("250000"),
        doc: "A checkpoint is also due after this many first occurrences in one partition.",
        show: Show::Whole(|c| Some(c.checkpoint.max_records.to_string())),
    },
    Setting {
        path: "checkpoint.timeout",
        kind: Kind::Span { least: "100ms", most: "10m" },
        fallback: Fallback::Default("\"10s\""),
        doc: "A checkpoint that takes longer is reported as slow. The flow goes on until the \
              bound on what is in flight is reached.",
        show: Show::Whole(|c| Some(span(c.checkpoint.timeout))),
    },
    Setting {
        path: "state.dir",
        kind: Kind::Path,
        fallback: Fallback::Default("\"./state\""),
        doc: "The directory of the state, made with mode 0700 if absent. Keep it on a local \
              disk that nobody sweeps.",
        show: Show::Whole(|c| Some(quote(&c.state.dir.to_string_lossy()))),
    },
    Setting {
        path: "state.on_missing_state",
        kind: Kind::Choice { allowed: &["rebuild", "stop", "empty"], later: &[] },
        fallback: Fallback::Default("\"rebuild\""),
        doc: "What to do where state is missing or cannot be used: read the output back over \
              one window, refuse to run, or start with no memory of any key.",
        show: Show::Whole(|c| {
            Some(quote(match c.state.on_missing_state {
                OnMissingState::Rebuild => "rebuild",
                OnMissingState::Stop => "stop",
                OnMissingState::Empty => "empty",
            }))
        }),
    },
    Setting {
        path: "state.memory",
        kind: Kind::Size { least: "1MiB" },
        fallback: Fallback::Default("\"256MiB\""),
        doc: "How much memory caches and filters may take together, over all partitions.",
        show: Show::Whole(|c| Some(quote(&format_size(c.state.memory)))),
    },
    Setting {
        path: "state.min_free",
        kind: Kind::Size { least: "0B" },
        fallback: Fallback::Default("\"64MiB\""),
        doc: "Reading pauses below this much free space on the disk of the state.",
        show: Show::Whole(|c| Some(quote(&format_size(c.state.min_free_bytes)))),
    },
    Setting {
        path: "status.listen",
        kind: Kind::Listen,
        fallback: Fallback::Default("\"127.0.0.1:9600\""),
        doc: "The address that serves metrics and health, or `off`.",
        show: Show::Whole(|c| {
            Some(quote(&c.status.listen.map_or("off".to_owned(), |at| at.to_string())))
        }),
    },
];

/// Shows a setting of transactions where there may be any: elsewhere it would be refused.
fn transactional(config: &Config, show: impl Fn() -> String) -> Option<String> {
    (config.delivery.mode != DeliveryMode::Dedup).then(show)
}

/// Words that other programs use, and the setting that is meant.
const ALIASES: &[(&str, &str)] = &[
    ("brokers", "kafka.bootstrap_servers"),
    ("servers", "kafka.bootstrap_servers"),
    ("group_id", "source.group"),
    ("consumer_group", "source.group"),
    ("pattern", "source.topics"),
    ("regex", "source.topics"),
    ("start_from", "source.start"),
    ("offset", "source.start"),
    ("output", "sink.topic"),
    ("output_topic", "sink.topic"),
    ("dlq", "sink.dead_letter_topic"),
    ("dead_letter", "sink.dead_letter_topic"),
    ("ttl", "dedup.window"),
    ("retention", "dedup.window"),
    ("fields", "dedup.key"),
    ("path", "state.dir"),
    ("directory", "state.dir"),
    ("data_dir", "state.dir"),
    ("port", "status.listen"),
    ("address", "status.listen"),
];

/// Returns the full key that somebody means who writes `name` in another section, or by another
/// program's word.
pub(super) fn meant(name: &str) -> Option<&'static str> {
    let plain = name.to_lowercase().replace(['-', '.'], "_");
    let named = SETTINGS.iter().find(|setting| setting.name() == plain).map(|s| s.path);
    named.or_else(|| ALIASES.iter().find(|(alias, _)| *alias == plain).map(|(_, path)| *path))
}

/// Returns the settings of `section`.
pub(super) fn of_section(section: &str) -> impl Iterator<Item = &'static Setting> {
    SETTINGS.iter().filter(move |setting| setting.section() == section)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_alias_leads_to_a_setting_and_is_none_itself() {
        for (alias, path) in ALIASES {
            assert!(SETTINGS.iter().any(|setting| setting.path == *path), "{path}");
            assert!(SETTINGS.iter().all(|setting| setting.name() != *alias), "{alias}");
        }
    }

    #[test]
    fn every_setting_belongs_to_a_known_section_and_only_dedup_is_by_topic() {
        for setting in SETTINGS {
            assert!(
                SECTIONS.iter().any(|(name, _)| *name == setting.section()),
                "{}",
                setting.path
            );
            let by_topic = matches!(setting.show, Show::Rule(_));
            assert_eq!(by_topic, setting.section() == "dedup", "{}", setting.path);
        }
    }
}
