//! States that know many keys before the first record: what a sink looks like after a day.

use std::time::Duration;

use super::child::Job;
use super::place::now;
use super::{Error, Options};
use crate::commands::demo::plan::Random;
use crate::config::Config;
use crate::key::Fingerprint;
use crate::seen::{Batch, Identity, Options as SeenOptions, Seen, StateDir};
use crate::window::Window;
use crate::words::{Checkpoint, Counts, OutputPosition, ResumeOffset, SourcePartition, Timestamp};

/// How many keys are written at a time.
const CHUNK: u64 = 250_000;

/// Writes a state for each partition, with its share of the known keys, spread evenly over the
/// window. Fingerprints are random numbers, as those of real keys are.
pub(super) fn fill(
    config: &Config,
    job: &Job,
    partitions: i32,
    options: &Options,
) -> Result<(), Error> {
    let dir = StateDir::open(&job.state())?;
    let rule = config.rule(&job.from);
    let window = Window::new(rule);
    let memory = config.state.memory / u64::from(partitions.max(1).unsigned_abs());
    let share = options.known_keys / u64::from(partitions.max(1).unsigned_abs());
    for partition in 0..partitions {
        let identity = Identity {
            source: SourcePartition::new(job.from.as_str(), partition),
            rule: rule.key.canonical(),
            hash: rule.hash.as_str().to_owned(),
            clock: rule.clock,
            output_topic: job.to.clone(),
            secret_id: dir.secret().id(),
        };
        let opened = Seen::open(&dir, &identity, &SeenOptions::new(window.segment(), memory))?;
        let mut random = Random::new(options.seed ^ u64::from(partition.unsigned_abs()));
        fill_one(&opened.seen, share, &mut random, options.window)?;
    }
    Ok(())
}

fn fill_one(seen: &Seen, keys: u64, random: &mut Random, window: Duration) -> Result<(), Error> {
    let end = now();
    let length = u64::try_from(window.as_millis()).unwrap_or(u64::MAX);
    // The oldest would expire while the bench runs.
    let kept = length - length / 16;
    let mut written = 0;
    while written < keys {
        let count = CHUNK.min(keys - written);
        let entries = (written..written + count)
            .map(|number| {
                let age = u128::from(kept) * u128::from(keys - number) / u128::from(keys);
                let age = i64::try_from(age).unwrap_or(i64::MAX);
                (fingerprint(random), Timestamp(end.0.saturating_sub(age)))
            })
            .collect();
        seen.write(Batch { entries, checkpoint: beginning(end) })?;
        written += count;
    }
    Ok(())
}

fn fingerprint(random: &mut Random) -> Fingerprint {
    Fingerprint(u128::from(random.next()) << 64 | u128::from(random.next()))
}

/// A checkpoint of a sink that left cleanly before its first record.
fn beginning(at: Timestamp) -> Checkpoint {
    Checkpoint {
        resume: ResumeOffset(0),
        output: Some(OutputPosition(0)),
        accounted: None,
        high_mark: at,
        counts: Counts::default(),
        clean: true,
        incarnation: 0,
        written_at: at,
        source_topic_id: None,
        output_topic_id: None,
    }
}
