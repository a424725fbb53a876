//! `state explain`: what would become of a record with this key, by which rule, and why.

use serde::{Deserialize, Serialize};

use super::key::hex_of_bytes;
use super::{Context, RecordOptions, ask};
use crate::config::{DedupRule, OnMissingKey, WindowClock};
use crate::engine::Why;
use crate::key::{Fingerprint, Hasher, OwnedRecord, Secret};
use crate::seen::{self, Seen};
use crate::window::Window;
use crate::words::{SourcePartition, Span, Timestamp, WallClock, instant_text};

/// What would become of a record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation {
    /// The process that judged.
    pub pid: u32,
    /// The source topic.
    pub topic: String,
    /// Its key rule.
    pub rule: String,
    /// How long a key is remembered, in ms.
    pub window_ms: i64,
    /// In which time: `event` or `arrival`.
    pub clock: String,
    /// The time at which it is judged, in ms since 1970.
    pub at_ms: i64,
    /// The hash of its key; none where it has no key.
    pub fingerprint: Option<String>,
    /// The verdict in each partition; one without a partition where all are the same.
    pub verdicts: Vec<Verdict>,
}

/// What would become of a record in one partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// The source partition; none where it does not matter.
    pub partition: Option<i32>,
    /// `forward`, `suppress`, `leave-out`, `dead-letter` or `stop`.
    pub verdict: String,
    /// Why, in one word.
    pub why: String,
    /// When the occurrence that decides was, in ms since 1970.
    pub seen_at_ms: Option<i64>,
    /// How far it is from the time of the record, in ms.
    pub age_ms: Option<i64>,
    /// Why, for people.
    pub text: String,
}

/// A question to a running process.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Request {
    pub(super) topic: String,
    pub(super) partition: Option<i32>,
    pub(super) at_ms: Option<i64>,
    /// All bytes in hexadecimal, since keys need not be text.
    pub(super) key: Option<String>,
    pub(super) value: Option<String>,
    pub(super) headers: Vec<(String, Option<String>)>,
}

pub(super) fn run(
    context: &Context,
    record: &RecordOptions,
    at: Option<Timestamp>,
) -> Result<(), crate::error::Error> {
    let explanation = match context.open() {
        Ok(dir) => {
            let topic = context.topic(Some(&dir))?;
            let mut question = Question::new(context.config.rule(&topic), &topic, at);
            let record = record.record(&question.rule.key)?;
            if let Some(fingerprint) = question.judge(&record, dir.secret()) {
                for identity in context.targets(&dir)? {
                    if *identity.source.topic != topic {
                        continue;
                    }
                    context.expected(&identity.source, dir.secret().id()).accept(&identity)?;
                    let seen = context.open_seen(&dir, &identity)?;
                    question.look(&identity.source, &seen, fingerprint, None)?;
                }
            }
            question.explanation
        }
        Err(error) => {
            let holder = ask::Holder::of(context, error)?;
            let topic = context.topic(None)?;
            let record = record.record(&context.config.rule(&topic).key)?;
            holder.post("/state/explain", &Request::of(&topic, context, at, &record))?
        }
    };
    Ok(context.print(&explanation, &text(&explanation))?)
}

impl Request {
    fn of(topic: &str, context: &Context, at: Option<Timestamp>, record: &OwnedRecord) -> Self {
        let hex = |bytes: &Option<Vec<u8>>| bytes.as_deref().map(hex_of_bytes);
        let header = |(name, value): &(Vec<u8>, Option<Vec<u8>>)| (hex_of_bytes(name), hex(value));
        Self {
            topic: topic.to_owned(),
            partition: context.scope.partition,
            at_ms: at.map(|at| at.0),
            key: hex(&record.key),
            value: hex(&record.value),
            headers: record.headers.iter().map(header).collect(),
        }
    }
}

/// A record on its way to its verdicts.
pub(super) struct Question<'a> {
    pub(super) rule: &'a DedupRule,
    window: Window,
    at: Timestamp,
    pub(super) explanation: Explanation,
}

impl<'a> Question<'a> {
    pub(super) fn new(rule: &'a DedupRule, topic: &str, at: Option<Timestamp>) -> Self {
        let window = Window::new(rule);
        let now = WallClock::system().now();
        // What arrives, arrives now; a time of its own counts as far as `max_future` lets it.
        let at = window.time_of(Some(at.unwrap_or(now)), now).at;
        let clock = match rule.clock {
            WindowClock::Event => "event",
            WindowClock::Arrival => "arrival",
        };
        let explanation = Explanation {
            pid: std::process::id(),
            topic: topic.to_owned(),
            rule: rule.key.to_string(),
            window_ms: rule.window.as_ms(),
            clock: clock.to_owned(),
            at_ms: at.0,
            fingerprint: None,
            verdicts: Vec::new(),
        };
        Self { rule, window, at, explanation }
    }

    /// Applies the rules that ask nobody. Returns the fingerprint where the seen-sets decide.
    pub(super) fn judge(&mut self, record: &OwnedRecord, secret: &Secret) -> Option<Fingerprint> {
        let drop = self.rule.drop;
        let left_out = match record.value.as_deref() {
            None if drop.null_value && self.looks_at_value(record) => Some("null-value"),
            Some([]) if drop.empty_value => Some("empty-value"),
            _ => None,
        };
        if let Some(why) = left_out {
            let text = format!("`dedup.drop` leaves out records with a {why}");
            self.add(None, "leave-out", why, None, text);
            return None;
        }
        let mut hasher = Hasher::new(self.rule.hash, secret.clone());
        match hasher.fingerprint(&self.rule.key, record.view()) {
            Ok(fingerprint) => {
                self.explanation.fingerprint = Some(fingerprint.to_string());
                Some(fingerprint)
            }
            Err(missing) => {
                let (verdict, does) = match self.rule.on_missing_key {
                    OnMissingKey::Forward => ("forward", "forwards it, never deduplicated"),
                    OnMissingKey::DeadLetter => {
                        ("dead-letter", "sends it to the dead-letter topic")
                    }
                    OnMissingKey::Stop => ("stop", "stops the process"),
                };
                let text = format!("it has no key ({missing}): `dedup.on_missing_key` {does}");
                self.add(None, verdict, "missing-key", None, text);
                None
            }
        }
    }

    /// Without any part of a record given, nobody said that its value is null.
    fn looks_at_value(&self, record: &OwnedRecord) -> bool {
        use crate::key::KeyPart;
        let of_value = |part: &KeyPart| matches!(part, KeyPart::Value | KeyPart::Json(_));
        record.value.is_some() || self.rule.key.parts().iter().any(of_value)
    }

    /// Adds the verdict of one partition. `recent` is what its memory says.
    pub(super) fn look(
        &mut self,
        source: &SourcePartition,
        seen: &Seen,
        fingerprint: Fingerprint,
        recent: Option<(Timestamp, Why)>,
    ) -> Result<(), seen::Error> {
        let partition = Some(source.partition);
        if let Some((at, why)) = recent {
            let (why, text) = match why {
                Why::InFlight => ("in-flight", "a record with its key is in flight"),
                Why::Replay => ("replay", "it is taken for the replay of one on the output"),
                Why::Seen | Why::Stale => ("seen", "its key was forwarded"),
            };
            let text = format!("{text}, {}", self.distance(at));
            self.add(partition, "suppress", why, Some(at), text);
            return Ok(());
        }
        if let Some(at) = seen.nearest(fingerprint, self.at, self.window.length())? {
            let text = format!("its key was forwarded, {}", self.distance(at));
            self.add(partition, "suppress", "seen", Some(at), text);
            return Ok(());
        }
        let ever = seen.nearest(fingerprint, self.at, Span::from_ms(i64::MAX))?;
        let floor = seen.floor();
        let (why, mut text) = match ever {
            Some(at) => ("outside-window", format!("its key was forwarded, {}", self.distance(at))),
            None => ("unknown", "its key is not remembered".to_owned()),
        };
        let mut why = why;
        if self.window.too_old(self.at, floor) {
            let floor = instant_text(floor);
            text.push_str(&format!("; what was forwarded before {floor} is forgotten"));
            if ever.is_none() {
                why = "too-old";
            }
        }
        self.add(partition, "forward", why, ever, text);
        Ok(())
    }

    fn distance(&self, at: Timestamp) -> String {
        let (distance, window) = (self.at.distance(at), self.window.length());
        let side = if distance <= window { "within" } else { "outside" };
        let order = if at <= self.at { "before" } else { "after" };
        format!("at {}, {distance} {order} it: {side} the window of {window}", instant_text(at))
    }

    fn add(
        &mut self,
        partition: Option<i32>,
        verdict: &str,
        why: &str,
        seen_at: Option<Timestamp>,
        text: String,
    ) {
        self.explanation.verdicts.push(Verdict {
            partition,
            verdict: verdict.to_owned(),
            why: why.to_owned(),
            seen_at_ms: seen_at.map(|at| at.0),
            age_ms: seen_at.map(|at| self.at.0.saturating_sub(at.0)),
            text,
        });
    }
}

fn text(explanation: &Explanation) -> String {
    let Explanation { topic, rule, clock, fingerprint, .. } = explanation;
    let (window, at) = (Span::from_ms(explanation.window_ms), Timestamp(explanation.at_ms));
    let at = instant_text(at);
    let mut text = format!(
        "a record of `{topic}` at {at}, key rule {rule}, window {window} by {clock} time\n"
    );
    if let Some(fingerprint) = fingerprint {
        text.push_str(&format!("fingerprint {fingerprint}\n"));
    }
    for Verdict { partition, verdict, text: why, .. } in &explanation.verdicts {
        let place = partition.map_or(String::new(), |partition| format!("{topic}/{partition}: "));
        text.push_str(&format!("{place}{verdict}: {why}\n"));
    }
    text
}
