//! How records are delivered, as decided, and why: kept in the state, so that a start does not
//! decide anew. Pure: text in, text out.

use crate::words::Timestamp;

/// How records are delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chosen {
    /// Without transactions.
    Dedup,
    /// In transactions.
    Transactional,
}

/// Why so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The config asks for it.
    Configured,
    /// The brokers took a transaction.
    ProbeSucceeded,
    /// Source and output are on different clusters.
    TwoClusters,
    /// The brokers do not know the requests.
    NoSuchRequest,
    /// The transactional id may not be used.
    IdDenied,
    /// The cluster may not be written to in this way.
    ClusterDenied,
    /// The brokers did not answer in time, and the config allows to do without.
    ProbeTimedOut,
}

impl Reason {
    const ALL: [Self; 7] = [
        Self::Configured,
        Self::ProbeSucceeded,
        Self::TwoClusters,
        Self::NoSuchRequest,
        Self::IdDenied,
        Self::ClusterDenied,
        Self::ProbeTimedOut,
    ];

    /// Returns the reason as it stands in labels and files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Configured => "configured",
            Self::ProbeSucceeded => "probe-succeeded",
            Self::TwoClusters => "two-clusters",
            Self::NoSuchRequest => "no-such-request",
            Self::IdDenied => "transactional-id-denied",
            Self::ClusterDenied => "cluster-denied",
            Self::ProbeTimedOut => "probe-timed-out",
        }
    }

    /// Returns the reason for people.
    pub fn sentence(self) -> &'static str {
        match self {
            Self::Configured => "`delivery.mode` says so",
            Self::ProbeSucceeded => "the brokers allow transactions",
            Self::TwoClusters => {
                "source and output are on different clusters, and no transaction spans both"
            }
            Self::NoSuchRequest => "the brokers do not know transactions",
            Self::IdDenied => "this user may not use the transactional id",
            Self::ClusterDenied => "this user may not write in transactions to this cluster",
            Self::ProbeTimedOut => {
                "the brokers did not say in time whether they allow transactions, and \
                 `delivery.fallback_on_timeout` is set"
            }
        }
    }
}

/// What was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// How records are delivered.
    pub chosen: Chosen,
    /// Why so.
    pub reason: Reason,
    /// Whether the brokers refuse idempotent writing, too.
    pub plain: bool,
    /// Whether records were ever delivered in transactions from this state: then one may be open
    /// that has to be ended before a partition is taken.
    pub was_transactional: bool,
    /// When it was decided, by the wall clock.
    pub at: Timestamp,
}

const PREFIX: &str = "firstseen-delivery1";

impl Decision {
    /// Reads what [`Decision::to_text`] wrote; `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(';');
        if parts.next() != Some(PREFIX) {
            return None;
        }
        let chosen = match parts.next()? {
            "dedup" => Chosen::Dedup,
            "transactional" => Chosen::Transactional,
            _ => return None,
        };
        let reason = parts.next()?;
        let reason = Reason::ALL.into_iter().find(|known| known.as_str() == reason)?;
        let mut flag = |on: &str, off: &str| match parts.next()? {
            said if said == on => Some(true),
            said if said == off => Some(false),
            _ => None,
        };
        let plain = flag("plain", "idempotent")?;
        let was_transactional = flag("was-transactional", "never-transactional")?;
        let at = Timestamp(parts.next()?.parse().ok()?);
        Some(Self { chosen, reason, plain, was_transactional, at })
    }

    /// Writes it for [`Decision::parse`].
    pub fn to_text(self) -> String {
        let Self { chosen, reason, plain, was_transactional, at } = self;
        let mode = match chosen {
            Chosen::Dedup => "dedup",
            Chosen::Transactional => "transactional",
        };
        let plain = if plain { "plain" } else { "idempotent" };
        let was = if was_transactional { "was-transactional" } else { "never-transactional" };
        format!("{PREFIX};{mode};{};{plain};{was};{at}", reason.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decision_reads_back_as_it_was_written() {
        for reason in Reason::ALL {
            for (chosen, plain, was_transactional) in [
                (Chosen::Dedup, false, true),
                (Chosen::Dedup, true, false),
                (Chosen::Transactional, false, true),
            ] {
                let at = Timestamp(1_700_000_000_000);
                let decision = Decision { chosen, reason, plain, was_transactional, at };
                assert_eq!(Decision::parse(&decision.to_text()), Some(decision));
            }
        }
    }

    #[test]
    fn a_text_that_is_no_decision_is_none() {
        for text in ["", "firstseen-delivery1", "firstseen-delivery2;dedup;configured;plain"] {
            assert_eq!(Decision::parse(text), None, "{text}");
        }
    }
}
