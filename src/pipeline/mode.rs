//! How records are delivered: decided once, said plainly, and kept in the state.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

use crate::checkpoint::{Chosen, Decision, Reason};
use crate::config::{Config, DeliveryMode, OnUndeliverable};
use crate::kafka::{self, Answer, RecordLimits, Refusal, Writes};
use crate::seen::StateDir;
use crate::words::{Board, Mode, SourcePartition, WallClock};

use super::Error;
use super::context::Control;

/// The shortest time the brokers get to say whether they allow transactions.
const PROBE_LEAST: Duration = Duration::from_secs(3);

/// How records are delivered, and what for that has to be known everywhere.
#[derive(Debug)]
pub(super) struct Delivery {
    decision: Mutex<Decision>,
    chosen: Chosen,
    was_transactional: bool,
    prefix: String,
    timeout: Duration,
    pub(super) limits: RecordLimits,
}

impl Delivery {
    pub(super) fn new(decision: Decision, config: &Config, limits: RecordLimits) -> Self {
        Self {
            decision: Mutex::new(decision),
            chosen: decision.chosen,
            was_transactional: decision.was_transactional,
            prefix: config.transactional_id_prefix().to_owned(),
            timeout: config.delivery.transaction_timeout,
            limits,
        }
    }

    pub(super) fn is_transactional(&self) -> bool {
        self.chosen == Chosen::Transactional
    }

    /// Whether a transaction of an earlier run may be open.
    pub(super) fn was_transactional(&self) -> bool {
        self.was_transactional
    }

    /// How the producer of a partition's transactions writes.
    pub(super) fn transactions_of(&self, partition: &SourcePartition) -> Writes {
        let id = format!("{}-{}-{}", self.prefix, partition.topic, partition.partition);
        Writes::Transactional { id, timeout: self.timeout }
    }

    /// How the producer writes that all partitions share.
    pub(super) fn shared(&self) -> Writes {
        let plain = self.decision.lock().unwrap_or_else(PoisonError::into_inner).plain;
        if plain { Writes::Plain } else { Writes::Idempotent }
    }

    /// Takes down that the brokers refuse idempotent writing, too.
    pub(super) fn set_plain(
        &self,
        config: &Config,
        state: &StateDir,
        board: &Board,
    ) -> Result<(), Error> {
        let mut decision = self.decision.lock().unwrap_or_else(PoisonError::into_inner);
        decision.plain = true;
        state.keep_delivery(&decision.to_text())?;
        announce(*decision, config, board);
        Ok(())
    }
}

/// Decides how records are delivered, keeps that in the state, and says so.
///
/// Only an answer that there are no transactions leads to delivery without, or the config's word.
///
/// # Errors
/// Where the config asks for what the brokers refuse, or the brokers do not answer.
pub(super) fn decide(
    config: &Config,
    state: &StateDir,
    partition: Option<&SourcePartition>,
    board: &Board,
    control: &Control,
) -> Result<Decision, Error> {
    let kept = state.delivery()?.as_deref().and_then(Decision::parse);
    let ask = || {
        let id = probe_id(config, state);
        let limit = config.sink.delivery_timeout.max(PROBE_LEAST);
        let fallback = SourcePartition::new("", 0);
        let partition = partition.unwrap_or(&fallback);
        kafka::probe(config, &id, partition, limit, &control.stop)
    };
    let asked = asked(config, kept.filter(|_| !control.redecide));
    let (chosen, reason, plain) = match asked {
        Asked::Known { chosen, reason, plain } => (chosen, reason, plain),
        Asked::Brokers { must } => {
            let (chosen, reason) = judge(ask()?, must, config.delivery.fallback_on_timeout)?;
            (chosen, reason, false)
        }
    };
    let was_transactional =
        chosen == Chosen::Transactional || kept.is_some_and(|kept| kept.was_transactional);
    let at = WallClock::system().now();
    let decision = Decision { chosen, reason, plain, was_transactional, at };
    if kept.is_none_or(|kept| Decision { at, ..kept } != decision) {
        state.keep_delivery(&decision.to_text())?;
    }
    announce(decision, config, board);
    Ok(decision)
}

/// What there is to find out.
#[derive(Debug, PartialEq, Eq)]
enum Asked {
    Known {
        chosen: Chosen,
        reason: Reason,
        plain: bool,
    },
    /// The brokers have to say. `must` says that delivery without transactions will not do.
    Brokers {
        must: bool,
    },
}

fn asked(config: &Config, kept: Option<Decision>) -> Asked {
    let plain = kept.is_some_and(|kept| kept.plain);
    let dedup = |reason| Asked::Known { chosen: Chosen::Dedup, reason, plain };
    match (config.delivery.mode, kept) {
        (DeliveryMode::Dedup, _) => dedup(Reason::Configured),
        (DeliveryMode::Transactional, Some(kept)) if kept.chosen == Chosen::Transactional => {
            let (chosen, reason) = (Chosen::Transactional, Reason::Configured);
            Asked::Known { chosen, reason, plain: false }
        }
        (DeliveryMode::Transactional, _) => Asked::Brokers { must: true },
        _ if config.sink.bootstrap_servers.is_some() => dedup(Reason::TwoClusters),
        // What the config said then is no answer of the brokers'.
        (DeliveryMode::Auto, Some(kept))
            if !matches!(kept.reason, Reason::Configured | Reason::TwoClusters) =>
        {
            Asked::Known { chosen: kept.chosen, reason: kept.reason, plain: kept.plain }
        }
        (DeliveryMode::Auto, _) => Asked::Brokers { must: false },
    }
}

/// What follows from the brokers' answer.
fn judge(answer: Answer, must: bool, fall_back: bool) -> Result<(Chosen, Reason), kafka::Error> {
    let dedup = |reason| Ok((Chosen::Dedup, reason));
    match answer {
        Answer::Allowed if must => Ok((Chosen::Transactional, Reason::Configured)),
        Answer::Allowed => Ok((Chosen::Transactional, Reason::ProbeSucceeded)),
        Answer::Refused { cause, .. } if must => Err(cause),
        Answer::Refused { why, .. } => dedup(match why {
            Refusal::NoSuchRequest => Reason::NoSuchRequest,
            Refusal::IdDenied => Reason::IdDenied,
            Refusal::ClusterDenied => Reason::ClusterDenied,
        }),
        Answer::NotNow { .. } if fall_back && !must => dedup(Reason::ProbeTimedOut),
        Answer::NotNow { cause } => Err(cause),
    }
}

/// Returns an id that no other running instance asks with, and that is the same at each start.
fn probe_id(config: &Config, state: &StateDir) -> String {
    let of_state = u64::from_be_bytes(state.secret().id());
    format!("{}-probe-{of_state:016x}", config.transactional_id_prefix())
}

/// Says once what the user gets now.
fn announce(decision: Decision, config: &Config, board: &Board) {
    let mode = match (decision.chosen, decision.plain) {
        (Chosen::Transactional, _) => "transactional",
        (Chosen::Dedup, false) => "dedup",
        (Chosen::Dedup, true) => "dedup-plain",
    };
    let why = decision.reason.sentence();
    tracing::info!(mode, why, "{}", promise(decision, config));
    board.set_mode(Mode { name: mode, reason: decision.reason.as_str().to_owned() });
}

fn promise(decision: Decision, config: &Config) -> String {
    let dead_letter = matches!(config.sink.on_undeliverable, OnUndeliverable::DeadLetter(_));
    let refused = if dead_letter { "go to the dead-letter topic" } else { "stop the process" };
    let what = match (decision.chosen, decision.plain) {
        (Chosen::Transactional, _) => {
            "transactional delivery: no loss and no duplicates for readers of committed records; \
             records can be seen from the next checkpoint on"
        }
        (Chosen::Dedup, false) => {
            "dedup delivery: no loss; duplicates only from a dead instance's late bytes, detected \
             and counted; records can be seen at once"
        }
        (Chosen::Dedup, true) => {
            "dedup delivery without idempotent writing, which the brokers refuse: no loss, order \
             kept by one request at a time; duplicates from a dead instance's late bytes and from \
             answers that were lost, detected and counted"
        }
    };
    format!("{what}; records the output refuses {refused}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Environment, load_text};
    use crate::kafka::Cause;
    use crate::words::Timestamp;

    fn config(mode: &str, more: &str) -> Config {
        let text = format!(
            "kafka = {{ bootstrap_servers = \"a:9\" }}\nsource = {{ group = \"g\", topics = [\"t\"] }}\n\
             delivery = {{ mode = \"{mode}\" }}\n{more}"
        );
        let env = Environment::from_pairs::<String, String>([]);
        load_text(&text, "test", &env).unwrap_or_else(|faults| panic!("{faults:?}"))
    }

    fn kept(chosen: Chosen, reason: Reason) -> Option<Decision> {
        let at = Timestamp(1);
        Some(Decision { chosen, reason, plain: false, was_transactional: false, at })
    }

    fn refused(why: Refusal) -> Answer {
        let cause = kafka::Error::TransactionsRefused {
            servers: "a:9".to_owned(),
            id: "g-probe".to_owned(),
            cause: Cause::text("no"),
        };
        Answer::Refused { why, cause }
    }

    fn not_now() -> Answer {
        Answer::NotNow {
            cause: kafka::Error::TransactionsUnanswered {
                servers: "a:9".to_owned(),
                waited: Duration::from_secs(1),
                cause: Cause::text("late"),
            },
        }
    }

    #[test]
    fn only_a_refusal_leads_to_dedup_by_itself() {
        let judged = |answer, must, fall_back| judge(answer, must, fall_back).ok();
        let dedup = |reason| Some((Chosen::Dedup, reason));
        assert_eq!(judged(refused(Refusal::IdDenied), false, false), dedup(Reason::IdDenied));
        assert_eq!(
            judged(refused(Refusal::NoSuchRequest), false, false),
            dedup(Reason::NoSuchRequest)
        );
        assert_eq!(judged(refused(Refusal::IdDenied), true, true), None);
        assert_eq!(judged(not_now(), false, false), None);
        assert_eq!(judged(not_now(), false, true), dedup(Reason::ProbeTimedOut));
        assert_eq!(judged(not_now(), true, true), None);
    }

    #[test]
    fn an_answer_of_the_brokers_stays_and_a_word_of_the_config_does_not() {
        let auto = config("auto", "");
        let answered = kept(Chosen::Dedup, Reason::IdDenied);
        let known = Asked::Known { chosen: Chosen::Dedup, reason: Reason::IdDenied, plain: false };
        assert_eq!(asked(&auto, answered), known);
        assert_eq!(
            asked(&auto, kept(Chosen::Dedup, Reason::Configured)),
            Asked::Brokers { must: false }
        );
        assert_eq!(
            asked(&config("transactional", ""), answered),
            Asked::Brokers { must: true },
            "what the config asks for is asked of the brokers once"
        );
    }

    #[test]
    fn two_clusters_need_no_question() {
        let auto = config("auto", "sink = { bootstrap_servers = \"b:9\" }");
        let known =
            Asked::Known { chosen: Chosen::Dedup, reason: Reason::TwoClusters, plain: false };
        assert_eq!(asked(&auto, None), known);
        assert_eq!(asked(&auto, kept(Chosen::Transactional, Reason::ProbeSucceeded)), known);
    }
}
