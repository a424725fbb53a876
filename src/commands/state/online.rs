//! The other end: a running process answers about its state.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;

use super::explain::{Question, Request};
use super::key::bytes_of_hex;
use super::scope::{Scope, reads};
use super::{PartitionStats, StatsReport, compact};
use crate::config::Config;
use crate::key::OwnedRecord;
use crate::pipeline::{Desk, Wanted};
use crate::status::{StateAnswer, StateDesk, StateQuestion};
use crate::window::Window;
use crate::words::Timestamp;

/// How long the polling thread may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long one request may compact: connections are cut after a minute.
const COMPACT_FOR: Duration = Duration::from_secs(10);

/// Answers for a running pipeline.
#[derive(Debug)]
pub(in crate::commands) struct Online {
    config: Arc<Config>,
    desk: Desk,
}

/// Why there is no answer: an HTTP status and a sentence. Never holds a key.
struct Refusal(u16, String);

type Answered = Result<serde_json::Value, Refusal>;

impl StateDesk for Online {
    fn answer(&self, question: StateQuestion) -> StateAnswer {
        let answered = match question {
            StateQuestion::Stats => self.stats(),
            StateQuestion::Explain(body) => self.explain(&body),
            StateQuestion::Compact(body) => self.compact(&body),
        };
        match answered {
            Ok(value) => StateAnswer { status: 200, json: value.to_string() },
            Err(Refusal(status, why)) => {
                StateAnswer { status, json: json!({ "error": why }).to_string() }
            }
        }
    }
}

impl From<crate::seen::Error> for Refusal {
    fn from(error: crate::seen::Error) -> Self {
        Self(500, crate::error::render(&error))
    }
}

impl Online {
    pub(in crate::commands) fn new(config: Arc<Config>, desk: Desk) -> Self {
        Self { config, desk }
    }

    fn ask(&self, wanted: Option<Wanted>) -> Result<crate::pipeline::Reply, Refusal> {
        let reply = self.desk.ask(wanted, PATIENCE);
        reply.ok_or_else(|| Refusal(503, "the process is busy or leaving".to_owned()))
    }

    fn stats(&self) -> Answered {
        let (mut partitions, mut being_taken) = (Vec::new(), Vec::new());
        for lane in self.ask(None)?.lanes {
            let Some(seen) = lane.seen else {
                being_taken.push(lane.partition.to_string());
                continue;
            };
            let window = Window::new(self.config.rule(&lane.partition.topic));
            partitions.push(PartitionStats::of(&lane.partition, &seen, &window)?);
        }
        partitions.sort_by(|a, b| (&a.topic, a.partition).cmp(&(&b.topic, b.partition)));
        let state_dir = self.config.state.dir.display().to_string();
        let pid = std::process::id();
        let report = StatsReport { state_dir, online: true, pid, partitions, being_taken };
        Ok(serde_json::to_value(report).unwrap_or_default())
    }

    fn explain(&self, body: &[u8]) -> Answered {
        // What is wrong with it may quote it, so it is not told.
        let request: Request = serde_json::from_slice(body)
            .map_err(|_error| Refusal(400, "the body is not a question".to_owned()))?;
        if !reads(&self.config, &request.topic) {
            let what = format!("topic `{}` is not read here", request.topic);
            return Err(Refusal(404, what));
        }
        let record = record_of(&request).ok_or_else(|| {
            Refusal(400, "keys, values and headers must be hexadecimal".to_owned())
        })?;
        let rule = self.config.rule(&request.topic);
        let mut question = Question::new(rule, &request.topic, request.at_ms.map(Timestamp));
        let secret = self.ask(None)?.secret;
        if let Some(fingerprint) = question.judge(&record, &secret) {
            let at = Timestamp(question.explanation.at_ms);
            let scope = Scope { topic: Some(request.topic), partition: request.partition };
            for lane in self.ask(Some(Wanted { fingerprint, at }))?.lanes {
                if let Some(seen) = lane.seen.filter(|_| scope.covers(&lane.partition)) {
                    question.look(&lane.partition, &seen, fingerprint, lane.recent)?;
                }
            }
            question.explanation.verdicts.sort_by_key(|verdict| verdict.partition);
        }
        Ok(serde_json::to_value(question.explanation).unwrap_or_default())
    }

    fn compact(&self, body: &[u8]) -> Answered {
        let request: compact::Request = serde_json::from_slice(body)
            .map_err(|_error| Refusal(400, "the body is not a request".to_owned()))?;
        let scope = Scope { topic: request.topic, partition: request.partition };
        let begun = Instant::now();
        let (mut merges, mut done) = (0, false);
        while !done && begun.elapsed() < COMPACT_FOR {
            // Asked anew each time, so that a partition that is left is let go of.
            let lanes = self.ask(None)?.lanes;
            done = true;
            for lane in lanes.into_iter().filter(|lane| scope.covers(&lane.partition)) {
                if let Some(seen) = lane.seen
                    && seen.compact_step()?
                {
                    (merges, done) = (merges + 1, false);
                    break;
                }
            }
        }
        let answer = compact::Answer { pid: std::process::id(), done, merges };
        Ok(serde_json::to_value(answer).unwrap_or_default())
    }
}

fn record_of(request: &Request) -> Option<OwnedRecord> {
    let bytes = |hex: &Option<String>| match hex {
        None => Some(None),
        Some(hex) => bytes_of_hex(hex).ok().map(Some),
    };
    let header =
        |(name, value): &(String, Option<String>)| Some((bytes_of_hex(name).ok()?, bytes(value)?));
    Some(OwnedRecord {
        key: bytes(&request.key)?,
        value: bytes(&request.value)?,
        headers: request.headers.iter().map(header).collect::<Option<_>>()?,
    })
}
