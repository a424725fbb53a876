//! What no single value can be blamed for: settings that contradict each other.

use std::time::Duration;

use super::fault::{Fault, Origin, suggest};
use super::kind::Value;
use super::loops;
use super::model::TopicSelection;
use super::read::is_topic;
use super::tree::join;
use super::walk::{Found, Values};
use crate::words::Code;

/// How far the delivery timeout has to stay below the session timeout.
const LEASE_MARGIN: Duration = Duration::from_secs(2);

/// How long a commit may take, beyond what the transaction has to wait for before it.
const COMMIT_MARGIN: Duration = Duration::from_secs(5);

/// Returns how long a transaction has to be allowed to stay open.
pub(super) fn transaction_needs(interval: Duration, delivery: Duration) -> Duration {
    interval.saturating_add(delivery).saturating_add(COMMIT_MARGIN)
}

/// Compares the values with each other. Where one is missing, its own fault is known already.
pub(super) fn check(values: &Values, faults: &mut Vec<Fault>) {
    let cross = Cross { values };
    faults.extend(cross.lease());
    faults.extend(cross.instance_without_group());
    faults.extend(cross.sections_without_topic());
    faults.extend(cross.shared_output());
    faults.extend(cross.output_is_source());
    faults.extend(cross.output_name_too_long());
    faults.extend(cross.dead_letter_topic_missing());
    faults.extend(cross.dead_letter_topic_unused());
    faults.extend(cross.dead_letter_topic_taken());
    faults.extend(cross.transaction_over_two_clusters());
    faults.extend(cross.transactions_unused());
    faults.extend(cross.fallback_unused());
    faults.extend(cross.transaction_too_short());
}

struct Cross<'a> {
    values: &'a Values,
}

impl<'a> Cross<'a> {
    fn text(&self, path: &str) -> Option<(&'a str, &'a Found)> {
        let found = self.values.get(path)?;
        match &found.value {
            Value::Text(text) => Some((text, found)),
            _ => None,
        }
    }

    fn choice(&self, path: &str) -> Option<(&'static str, &'a Found)> {
        let found = self.values.get(path)?;
        match found.value {
            Value::Choice(name) => Some((name, found)),
            _ => None,
        }
    }

    fn span(&self, path: &str) -> Option<(Duration, &'a Found)> {
        let found = self.values.get(path)?;
        match found.value {
            Value::Span(span) => Some((span, found)),
            _ => None,
        }
    }

    fn is_set(&self, path: &str) -> Option<&'a Found> {
        let found = self.values.get(path)?;
        self.values.was_given(path).then_some(found)
    }

    fn selection(&self) -> Option<(&'a TopicSelection, &'a Found)> {
        let found = self.values.get("source.topics")?;
        match &found.value {
            Value::Topics(selection) => Some((selection, found)),
            _ => None,
        }
    }

    /// An instance that lost its partitions must have given up writing before the next begins.
    fn lease(&self) -> Option<Fault> {
        let (membership, _) = self.choice("source.membership")?;
        let (session, session_found) = self.span("source.session_timeout")?;
        let (delivery, found) = self.span("sink.delivery_timeout")?;
        let fits = delivery.checked_add(LEASE_MARGIN).is_some_and(|end| end < session);
        if membership != "group" || fits {
            return None;
        }
        let path = "sink.delivery_timeout";
        let (blamed, key) = match found.origin {
            // The default cannot be at fault: the line that was typed is.
            Origin::Unset => (session_found, "source.session_timeout"),
            _ => (found, path),
        };
        Some(Fault::new(
            Code::ConfigConflict,
            key,
            &blamed.origin,
            format!(
                "expected `{path}` more than 2s below `source.session_timeout`, got {} against {}",
                found.shown, session_found.shown
            ),
            "lower `sink.delivery_timeout` or raise `source.session_timeout`",
        ))
    }

    fn instance_without_group(&self) -> Option<Fault> {
        let (membership, _) = self.choice("source.membership")?;
        let (_, found) = self.text("source.instance_id")?;
        (membership == "alone").then(|| {
            Fault::new(
                Code::ConfigConflict,
                "source.instance_id",
                &found.origin,
                "has no effect while `source.membership` is `alone`",
                "remove it, or set `source.membership = \"group\"`",
            )
        })
    }

    fn sections_without_topic(&self) -> Vec<Fault> {
        let Some((selection, found)) = self.selection() else { return Vec::new() };
        let read = |topic: &str| match selection {
            TopicSelection::List(names) => names.iter().any(|name| name == topic),
            TopicSelection::Pattern(pattern) => loops::matches_whole(pattern, topic),
        };
        let names: &[String] = match selection {
            TopicSelection::List(names) if !found.foreign => names,
            _ => &[],
        };
        let unread = self.values.topics.iter().filter(|(topic, _)| !read(topic));
        unread
            .map(|(topic, section)| {
                let fix = suggest(topic, names.iter().map(String::as_str), || {
                    "add the topic to `source.topics`, or remove the section".into()
                });
                let key = join("topics", topic);
                let problem = "is a section for a topic that `source.topics` does not read";
                Fault::new(Code::ConfigConflict, key, &section.origin, problem, fix)
            })
            .collect()
    }

    /// Source partitions that share an output partition cannot be told apart on the way back.
    fn shared_output(&self) -> Option<Fault> {
        let (selection, _) = self.selection()?;
        let (output, found) = self.text("sink.topic")?;
        let several = match selection {
            TopicSelection::List(names) => names.len() > 1,
            TopicSelection::Pattern(_) => true,
        };
        (several && !output.contains("{topic}")).then(|| {
            Fault::new(
                Code::SharedOutput,
                "sink.topic",
                &found.origin,
                format!(
                    "expected an output topic for each source topic, got {} for several; that \
                     needs a provenance header on each record, which is not in this build",
                    found.shown
                ),
                "put `{topic}` into the name, or run one instance with its own output for each \
                 topic",
            )
        })
    }

    /// Whether source and output may be topics of one cluster.
    fn one_cluster(&self) -> bool {
        let Some((sink, _)) = self.text("sink.bootstrap_servers") else { return true };
        let Some((kafka, _)) = self.text("kafka.bootstrap_servers") else { return false };
        sink.split(',').any(|server| kafka.split(',').any(|other| other == server))
    }

    fn output_is_source(&self) -> Option<Fault> {
        let (selection, topics) = self.selection()?;
        let (output, found) = self.text("sink.topic")?;
        if !self.one_cluster() {
            return None;
        }
        let looped = match selection {
            TopicSelection::List(names) => {
                let outputs = names.iter().map(|name| output.replace("{topic}", name));
                outputs.into_iter().find(|output| names.contains(output)).map(|output| {
                    let foreign = found.foreign || topics.foreign;
                    let shown = if foreign { found.shown.clone() } else { format!("`{output}`") };
                    format!("got {shown}, which is in `source.topics`")
                })
            }
            TopicSelection::Pattern(pattern) => loops::reads_its_output(pattern, output)
                .then(|| format!("got {}, whose names its pattern matches", found.shown)),
        }?;
        let (origin, key) = match &found.origin {
            Origin::Unset => (&topics.origin, "source.topics"),
            origin => (origin, "sink.topic"),
        };
        Some(Fault::new(
            Code::ConfigSameTopic,
            key,
            origin,
            format!("expected `sink.topic` to name no topic of `source.topics`, {looped}"),
            "give the output a name that is not read, such as `dedup.{topic}`",
        ))
    }

    fn output_name_too_long(&self) -> Option<Fault> {
        let (TopicSelection::List(names), _) = self.selection()? else { return None };
        let (output, found) = self.text("sink.topic")?;
        let name = names.iter().find(|name| !is_topic(&output.replace("{topic}", name)))?;
        Some(Fault::new(
            Code::ConfigOutOfRange,
            "sink.topic",
            &found.origin,
            format!(
                "expected an output topic of at most 249 characters, got {} for the source \
                 topic of {} characters",
                found.shown,
                name.len()
            ),
            "use a shorter name for the output",
        ))
    }

    /// The policies that send records to the dead-letter topic: key, and where each was set.
    fn dead_letter_policies(&self) -> Vec<(String, &'a Origin)> {
        let mut policies = Vec::new();
        for path in ["sink.on_undeliverable", "dedup.on_missing_key"] {
            if let Some(("dead-letter", found)) = self.choice(path) {
                policies.push((path.to_owned(), &found.origin));
            }
        }
        for (topic, section) in &self.values.topics {
            if let Some(found) = section.values.get("on_missing_key")
                && matches!(found.value, Value::Choice("dead-letter"))
            {
                let key = join(&join("topics", topic), "on_missing_key");
                policies.push((key, &found.origin));
            }
        }
        policies
    }

    fn dead_letter_topic_missing(&self) -> Vec<Fault> {
        if self.values.was_given("sink.dead_letter_topic") {
            return Vec::new();
        }
        let missing = |(key, origin): (String, &Origin)| {
            let problem = "expected `sink.dead_letter_topic` beside `dead-letter`, got nothing";
            let fix = "set `sink.dead_letter_topic`, or choose another policy";
            Fault::new(Code::ConfigMissing, key, origin, problem, fix)
        };
        self.dead_letter_policies().into_iter().map(missing).collect()
    }

    fn dead_letter_topic_unused(&self) -> Option<Fault> {
        let (_, found) = self.text("sink.dead_letter_topic")?;
        // A policy that was given badly may have meant it.
        self.choice("sink.on_undeliverable")?;
        self.choice("dedup.on_missing_key")?;
        self.dead_letter_policies().is_empty().then(|| {
            Fault::new(
                Code::ConfigConflict,
                "sink.dead_letter_topic",
                &found.origin,
                format!("got {}, which no policy uses", found.shown),
                "set `sink.on_undeliverable` or `dedup.on_missing_key` to `\"dead-letter\"`, or \
                 remove it",
            )
        })
    }

    /// Offsets and records can be committed together on one cluster only.
    fn transaction_over_two_clusters(&self) -> Option<Fault> {
        let ("transactional", found) = self.choice("delivery.mode")? else { return None };
        let (_, servers) = self.text("sink.bootstrap_servers")?;
        Some(Fault::new(
            Code::ConfigTwoClusters,
            "delivery.mode",
            &found.origin,
            format!(
                "expected source and output on one cluster for `transactional`, got \
                 `sink.bootstrap_servers` {}",
                servers.shown
            ),
            "set `delivery.mode` to `dedup`, which works between clusters, or remove \
             `sink.bootstrap_servers`",
        ))
    }

    fn transactions_unused(&self) -> Vec<Fault> {
        let Some(("dedup", _)) = self.choice("delivery.mode") else { return Vec::new() };
        let unused = [
            "delivery.transactional_id_prefix",
            "delivery.transaction_timeout",
            "delivery.fallback_on_timeout",
        ];
        let given = unused.into_iter().filter_map(|path| Some((path, self.is_set(path)?)));
        given
            .map(|(path, found)| {
                Fault::new(
                    Code::ConfigTransactionUnused,
                    path,
                    &found.origin,
                    "has no effect while `delivery.mode` is `dedup`",
                    "remove it, or set `delivery.mode` to `auto` or `transactional`",
                )
            })
            .collect()
    }

    fn fallback_unused(&self) -> Option<Fault> {
        let ("transactional", _) = self.choice("delivery.mode")? else { return None };
        let found = self.is_set("delivery.fallback_on_timeout")?;
        Some(Fault::new(
            Code::ConfigTransactionUnused,
            "delivery.fallback_on_timeout",
            &found.origin,
            "has no effect while `delivery.mode` is `transactional`, which never falls back",
            "remove it, or set `delivery.mode` to `auto`",
        ))
    }

    /// A transaction is open for an interval, then its last records are waited for, then it is
    /// committed.
    fn transaction_too_short(&self) -> Option<Fault> {
        let (mode, _) = self.choice("delivery.mode")?;
        let found = self.is_set("delivery.transaction_timeout")?;
        let (timeout, _) = self.span("delivery.transaction_timeout")?;
        let (interval, interval_found) = self.span("checkpoint.interval")?;
        let (delivery, delivery_found) = self.span("sink.delivery_timeout")?;
        if mode == "dedup" || timeout >= transaction_needs(interval, delivery) {
            return None;
        }
        Some(Fault::new(
            Code::ConfigTransactionShort,
            "delivery.transaction_timeout",
            &found.origin,
            format!(
                "expected a time that covers `checkpoint.interval`, `sink.delivery_timeout` and \
                 5s, got {} against {} and {}",
                found.shown, interval_found.shown, delivery_found.shown
            ),
            "raise it, remove it, or lower one of the two others",
        ))
    }

    fn dead_letter_topic_taken(&self) -> Option<Fault> {
        let (dead, found) = self.text("sink.dead_letter_topic")?;
        let (selection, _) = self.selection()?;
        let (output, _) = self.text("sink.topic")?;
        let (read, written) = match selection {
            TopicSelection::List(names) => (
                names.iter().any(|name| name == dead),
                names.iter().any(|name| output.replace("{topic}", name) == dead),
            ),
            TopicSelection::Pattern(pattern) => {
                (loops::matches_whole(pattern, dead), loops::writes(pattern, output, dead))
            }
        };
        let taken = if read && self.one_cluster() {
            "is a topic of `source.topics`"
        } else if written {
            "is an output topic"
        } else {
            return None;
        };
        Some(Fault::new(
            Code::ConfigSameTopic,
            "sink.dead_letter_topic",
            &found.origin,
            format!("expected a topic of its own, got {}, which {taken}", found.shown),
            "name a topic that is neither read nor an output",
        ))
    }
}
