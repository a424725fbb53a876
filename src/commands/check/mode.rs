//! Which delivery a config comes to on these brokers, and what that promises to whom.

use serde::Serialize;

use super::facts::Facts;
use super::finding::{Finding, Kind, Severity};
use crate::config::{Config, DeliveryMode};
use crate::kafka::survey::{Idempotence, Transactions};

/// How records will be delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Delivery {
    /// Without transactions.
    Dedup,
    /// In transactions.
    Transactional,
    /// `run` would refuse to start.
    Refused,
    /// It cannot be said now.
    Unknown,
}

/// The choice and its reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Choice {
    pub(super) asked: &'static str,
    pub(super) delivery: Delivery,
    pub(super) reason: String,
    #[serde(skip)]
    pub(super) severity: Severity,
}

/// Returns the id that the probe uses: under the prefix of real ones, so that it needs the same
/// rights, and nobody else's, so that it fences nobody.
pub(super) fn probe_id(config: &Config) -> String {
    format!("{}-firstseen-check", config.transactional_id_prefix())
}

/// Returns whether transactions are worth a probe: with two clusters, or none wanted, they are not.
pub(super) fn wants_transactions(config: &Config) -> bool {
    config.delivery.mode != DeliveryMode::Dedup && config.sink.bootstrap_servers.is_none()
}

/// Chooses as `run` would.
///
/// Only what will never change makes `auto` do without transactions; what may pass, or is
/// somebody's mistake, must not cost the stronger promise unnoticed.
pub(super) fn choose(config: &Config, facts: &Facts) -> Choice {
    use Severity::{Breaks, Ok, Unknown, Weakens};
    let (asked, must) = match config.delivery.mode {
        DeliveryMode::Dedup => {
            return Choice::new("dedup", Delivery::Dedup, "the config asks for it", Ok);
        }
        DeliveryMode::Auto => ("auto", false),
        DeliveryMode::Transactional => ("transactional", true),
    };
    let choice =
        |delivery, reason: String, severity| Choice::new(asked, delivery, reason, severity);
    // The config refuses two clusters where transactions are a must.
    if let Some(output) = &facts.output {
        let same = output.id.is_some() && output.id == facts.source.id;
        let reason = if same {
            "`sink.bootstrap_servers` stands for another cluster, and is the same: remove it"
        } else {
            "the output is on another cluster, which no transaction spans"
        };
        return choice(Delivery::Dedup, reason.to_owned(), Weakens);
    }
    let plain = match facts.producing.idempotence {
        Idempotence::Refused(_) => "; the producer's id is refused too, see `idempotent-write`",
        _ => "",
    };
    match &facts.transactions {
        Transactions::Work { .. } => {
            choice(Delivery::Transactional, "transactions can begin".to_owned(), Ok)
        }
        Transactions::Cannot(cause) if must => {
            choice(Delivery::Refused, format!("transactions cannot be had: {cause}"), Breaks)
        }
        Transactions::Cannot(cause) => {
            choice(Delivery::Dedup, format!("transactions cannot be had: {cause}{plain}"), Weakens)
        }
        Transactions::Misconfigured(cause) => {
            choice(Delivery::Refused, format!("transactions are refused: {cause}"), Breaks)
        }
        Transactions::Fenced(cause) => choice(
            Delivery::Unknown,
            format!("another check took the probe's id: {cause}"),
            Unknown,
        ),
        Transactions::NotNow(cause) if config.delivery.fallback_on_timeout && !must => choice(
            Delivery::Dedup,
            format!("the transaction coordinator gave no answer, and that may do: {cause}"),
            Weakens,
        ),
        Transactions::NotNow(cause) => {
            let reason = format!("the transaction coordinator gave no answer: {cause}");
            choice(Delivery::Unknown, reason, Unknown)
        }
        Transactions::NotAsked => {
            choice(Delivery::Unknown, "the coordinator was not asked".to_owned(), Unknown)
        }
    }
}

impl Choice {
    fn new(
        asked: &'static str,
        delivery: Delivery,
        reason: impl Into<String>,
        severity: Severity,
    ) -> Self {
        Self { asked, delivery, reason: reason.into(), severity }
    }

    /// Returns the choice as a finding.
    pub(super) fn finding(&self) -> Finding {
        let found = format!("{}: {}", self.delivery.as_str(), self.reason);
        let fix = match self.severity {
            Severity::Ok => "",
            Severity::Unknown => {
                "check the transaction coordinator, or write mode = \"dedup\" under [delivery]"
            }
            _ => {
                "mend what the reason names, or write mode = \"dedup\" under [delivery] to choose it"
            }
        };
        let needed = format!("what `{}` promises", self.asked);
        Finding::new(Kind::Mode, self.asked, found, needed).is(self.severity, fix)
    }
}

impl Delivery {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Dedup => "dedup",
            Self::Transactional => "transactional",
            Self::Refused => "refused",
            Self::Unknown => "unknown",
        }
    }

    /// Returns what is promised, a line each.
    pub(super) fn guarantee(self) -> &'static [&'static str] {
        match self {
            Self::Dedup => &[
                "no first occurrence is lost, and none is repeated after a crash or restart",
                "a dead or frozen predecessor's late bytes can repeat records in a bounded window; \
                 each is detected, counted and located",
            ],
            Self::Transactional => {
                &["no first occurrence is lost or repeated; a predecessor is fenced by the broker"]
            }
            Self::Refused => &["none: `run` would refuse to start"],
            Self::Unknown => &["not known before the transaction coordinator answers"],
        }
    }

    /// Returns what readers of the output see, by their `isolation.level`.
    pub(super) fn readers(self) -> Readers {
        match self {
            Self::Transactional => Readers {
                read_committed: "each first occurrence once, a checkpoint's records at a time; \
                                 nothing new while a transaction is open, after a crash until it \
                                 is aborted",
                read_uncommitted: "each record at once, and those of aborted transactions besides: \
                                   after a crash or an abort records come twice",
            },
            Self::Dedup => Readers {
                read_committed: "each first occurrence as soon as it is written; only somebody \
                                 else's open transaction on the output holds it back",
                read_uncommitted: "the same, and it is never held back",
            },
            Self::Refused | Self::Unknown => {
                Readers { read_committed: "not known", read_uncommitted: "not known" }
            }
        }
    }
}

/// What readers of the output see.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Readers {
    pub(super) read_committed: &'static str,
    pub(super) read_uncommitted: &'static str,
}
