//! The ledger of one turn: source and output read back whole, side by side.

use std::time::{Duration, Instant};

use super::Error;
use super::matrix::Mode;
use super::place::{end, stalled};
use crate::config::Config;
use crate::kafka::bench::{Followed, Follower, Next};
use crate::ledger::{Check, Ledger, Rules};
use crate::words::Span;

const STALL: Duration = Duration::from_secs(30);
const TURN: Duration = Duration::from_millis(20);

/// Reads both topics to their ends and compares them, partition by partition.
///
/// A passthrough must forward every record, so for it no record has a key.
pub(super) fn audit(
    config: &Config,
    (from, to): (&str, &str),
    partitions: i32,
    mode: Mode,
    window: Duration,
    alive: &dyn Fn() -> Result<(), Error>,
) -> Result<Ledger, Error> {
    let window = Span::from_ms(i64::try_from(window.as_millis()).unwrap_or(i64::MAX));
    let rules = || {
        if mode.is_run() { Rules::by_record_key(window) } else { Rules::by(window, |_| None) }
    };
    let mut checks: Vec<Check> =
        (0..partitions).map(|partition| Check::new(partition, rules())).collect();
    let mut input = Side::open(config, from, partitions)?;
    let mut output = Side::open(config, to, partitions)?;
    let mut moved = Instant::now();
    while !(input.is_done() && output.is_done()) {
        alive()?;
        // Side by side, so that content is held only until its counterpart comes.
        let took =
            input.feed(&mut checks, Check::input)? + output.feed(&mut checks, Check::output)?;
        if took > 0 {
            moved = Instant::now();
        } else if moved.elapsed() > STALL {
            let reached = input.taken + output.taken;
            return Err(stalled(STALL, reached, input.wanted + output.wanted));
        }
    }
    let mut found = Ledger::default();
    for check in checks {
        found.merge(&check.finish());
    }
    Ok(found)
}

/// One of the two topics.
struct Side {
    follower: Follower,
    /// Whether the end of each partition was met; nobody writes any more.
    ended: Vec<bool>,
    taken: i64,
    wanted: i64,
}

impl Side {
    fn open(config: &Config, topic: &str, partitions: i32) -> Result<Self, Error> {
        let follower = Follower::open(config, topic, partitions)?;
        let wanted = end(&follower)?;
        let ended = (0..partitions).map(|_| false).collect();
        Ok(Self { follower, ended, taken: 0, wanted })
    }

    fn is_done(&self) -> bool {
        self.ended.iter().all(|ended| *ended)
    }

    /// Takes what is there, up to some thousands.
    fn feed(
        &mut self,
        checks: &mut [Check],
        give: fn(&mut Check, &crate::ledger::Record),
    ) -> Result<u64, Error> {
        const MOST: u64 = 5_000;
        let mut took = 0;
        let mut wait = if self.is_done() { return Ok(0) } else { TURN };
        while took < MOST && !self.is_done() {
            match self.follower.next(wait)? {
                Next::Nothing => break,
                Next::Record(followed) => take(&followed, checks, give),
                Next::End(partition) => {
                    if let Some(ended) =
                        usize::try_from(partition).ok().and_then(|at| self.ended.get_mut(at))
                    {
                        *ended = true;
                    }
                    continue;
                }
            }
            wait = Duration::ZERO;
            took += 1;
            self.taken += 1;
        }
        Ok(took)
    }
}

fn take(
    followed: &Followed<'_>,
    checks: &mut [Check],
    give: fn(&mut Check, &crate::ledger::Record),
) {
    let record = followed.record();
    let partition = usize::try_from(followed.partition()).unwrap_or(usize::MAX);
    if let Some(check) = checks.get_mut(partition) {
        give(check, &record);
    }
}
