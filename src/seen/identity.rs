//! Whose seen-set a directory holds, and by which rule its fingerprints were made.

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::Error;
use crate::config::WindowClock;
use crate::words::SourcePartition;

/// Everything that must stay the same for stored fingerprints to mean what they meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The source partition.
    pub source: SourcePartition,
    /// The key rule in canonical form.
    pub rule: String,
    /// The name of the hash.
    pub hash: String,
    /// Which time windows are counted in.
    pub clock: WindowClock,
    /// Where first occurrences go.
    pub output_topic: String,
    /// The id of the secret that keys the hash.
    pub secret_id: [u8; 8],
}

/// The identity as the NAME file spells it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Name {
    topic: String,
    partition: i32,
    rule: String,
    hash: String,
    clock: String,
    output_topic: String,
    secret_id: String,
}

impl Identity {
    /// Returns the name of the directory for `source`.
    ///
    /// Never made of the topic's own characters: a broker may return any, and file systems fold
    /// some of them.
    pub(super) fn directory_name(source: &SourcePartition) -> String {
        let topic = source.topic.as_bytes();
        let length = u64::try_from(topic.len()).unwrap_or(u64::MAX);
        let mut hasher = blake3::Hasher::new();
        hasher.update(&length.to_be_bytes()).update(topic).update(&source.partition.to_be_bytes());
        let hex: String = hasher.finalize().to_hex().chars().take(32).collect();
        format!("t-{hex}")
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let name = Name {
            topic: self.source.topic.to_string(),
            partition: self.source.partition,
            rule: self.rule.clone(),
            hash: self.hash.clone(),
            clock: clock_name(self.clock).to_owned(),
            output_topic: self.output_topic.clone(),
            secret_id: hex(self.secret_id),
        };
        let json = serde_json::to_string(&name).unwrap_or_default();
        let sum = xxh3_64(json.as_bytes());
        format!("{json}\n{sum:016x}\n").into_bytes()
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        let (json, sum) = text.strip_suffix('\n')?.split_once('\n')?;
        (sum == format!("{:016x}", xxh3_64(json.as_bytes()))).then_some(())?;
        let name: Name = serde_json::from_str(json).ok()?;
        let clock = clock_of(&name.clock)?;
        let secret_id = u64::from_str_radix(&name.secret_id, 16).ok()?.to_be_bytes();
        Some(Self {
            source: SourcePartition::new(name.topic, name.partition),
            rule: name.rule,
            hash: name.hash,
            clock,
            output_topic: name.output_topic,
            secret_id,
        })
    }

    /// Checks that `stored`, found where `self` was looked for, means the same.
    ///
    /// # Errors
    /// [`Error::Foreign`] or [`Error::RuleChanged`], with the first difference.
    pub fn accept(&self, stored: &Self) -> Result<(), Error> {
        let foreign = |field, stored: String, wanted: String| {
            if stored == wanted {
                return Ok(());
            }
            Err(Error::Foreign { field, stored, wanted })
        };
        let changed = |field, stored: String, wanted: String| {
            if stored == wanted {
                return Ok(());
            }
            Err(Error::RuleChanged { field, stored, wanted })
        };
        foreign("the source", stored.source.to_string(), self.source.to_string())?;
        foreign("the output topic", stored.output_topic.clone(), self.output_topic.clone())?;
        changed("the key rule", stored.rule.clone(), self.rule.clone())?;
        changed("the hash", stored.hash.clone(), self.hash.clone())?;
        changed(
            "the window's clock",
            clock_name(stored.clock).to_owned(),
            clock_name(self.clock).to_owned(),
        )?;
        changed("the secret's id", hex(stored.secret_id), hex(self.secret_id))
    }
}

/// Returns the clock of this name.
pub(super) fn clock_of(name: &str) -> Option<WindowClock> {
    [WindowClock::Event, WindowClock::Arrival].into_iter().find(|clock| clock_name(*clock) == name)
}

pub(super) fn clock_name(clock: WindowClock) -> &'static str {
    match clock {
        WindowClock::Event => "event",
        WindowClock::Arrival => "arrival",
    }
}

pub(super) fn hex(id: [u8; 8]) -> String {
    format!("{:016x}", u64::from_be_bytes(id))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::words::{Code, Coded};

    fn identity(topic: &str) -> Identity {
        Identity {
            source: SourcePartition::new(topic, 3),
            rule: "record-key".to_owned(),
            hash: "xxh3-128".to_owned(),
            clock: WindowClock::Event,
            output_topic: "out".to_owned(),
            secret_id: [9; 8],
        }
    }

    #[test]
    fn an_identity_reads_back_and_a_flipped_bit_is_noticed() {
        for topic in ["orders", "..", "/", "a\0b", "zażółć\n", &"x".repeat(249)] {
            let bytes = identity(topic).encode();
            assert_eq!(Identity::decode(&bytes), Some(identity(topic)));
            for bit in 0..bytes.len() * 8 {
                let mut flipped = bytes.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(Identity::decode(&flipped), None, "bit {bit}");
            }
        }
    }

    #[test]
    fn directory_names_never_show_the_topic_and_never_collide_when_case_is_folded() {
        let topics = ["..", ".", "/", "a/b", "a\0b", "A", "a", "a.b", "a_b", "é", "e\u{301}", ""];
        let names: BTreeSet<_> = topics
            .iter()
            .map(|topic| Identity::directory_name(&SourcePartition::new(*topic, 0)))
            .map(|name| name.to_lowercase())
            .collect();
        assert_eq!(names.len(), topics.len());
        for name in names {
            assert!(
                name.len() == 34 && name.chars().all(|c| c == '-' || c.is_ascii_alphanumeric())
            );
        }
    }

    #[test]
    fn each_difference_is_named_with_both_values() {
        let wanted = identity("orders");
        let cases: [(Identity, Code, &str); 6] = [
            (identity("refunds"), Code::StateForeign, "the source was `refunds/3`"),
            (
                Identity { output_topic: "b".into(), ..wanted.clone() },
                Code::StateForeign,
                "output topic was `b`, now it is `out`",
            ),
            (
                Identity { rule: "value".into(), ..wanted.clone() },
                Code::StateRuleChanged,
                "the key rule was `value`, now it is `record-key`",
            ),
            (
                Identity { hash: "blake3-128".into(), ..wanted.clone() },
                Code::StateRuleChanged,
                "the hash was `blake3-128`",
            ),
            (
                Identity { clock: WindowClock::Arrival, ..wanted.clone() },
                Code::StateRuleChanged,
                "clock was `arrival`, now it is `event`",
            ),
            (
                Identity { secret_id: [1; 8], ..wanted.clone() },
                Code::StateRuleChanged,
                "the secret's id was `0101010101010101`",
            ),
        ];
        for (stored, code, text) in cases {
            let error = wanted.accept(&stored).expect_err(text);
            assert_eq!(error.code(), code);
            assert!(error.to_string().contains(text), "{error}");
        }
        wanted.accept(&wanted).expect("equal identities agree");
    }
}
