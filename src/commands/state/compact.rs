//! `state compact`: write a state anew, as small as it can be; or have the process that holds it merge
//! its runs.

use serde::{Deserialize, Serialize};

use super::stats::size;
use super::{Context, ask};
use crate::commands::out;
use crate::seen::StateDir;

/// A request to a running process.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Request {
    pub(super) topic: Option<String>,
    pub(super) partition: Option<i32>,
}

/// What a running process did; ask again until it is done.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Answer {
    pub(super) pid: u32,
    pub(super) done: bool,
    pub(super) merges: u64,
}

#[derive(Serialize)]
struct Compacted {
    state_dir: String,
    online: bool,
    /// Merges of a running process.
    merges: u64,
    /// What was written anew.
    partitions: Vec<PartitionCompacted>,
}

#[derive(Serialize)]
struct PartitionCompacted {
    topic: String,
    partition: i32,
    keys: u64,
    bytes_before: u64,
    bytes_after: u64,
    runs_before: usize,
    runs_after: usize,
}

pub(super) fn run(context: &Context) -> Result<(), crate::error::Error> {
    let compacted = match context.open() {
        Ok(dir) => offline(context, &dir)?,
        Err(error) => online(context, &ask::Holder::of(context, error)?)?,
    };
    Ok(context.print(&compacted, &text(&compacted))?)
}

fn offline(context: &Context, dir: &StateDir) -> Result<Compacted, crate::error::Error> {
    let mut partitions = Vec::new();
    for identity in context.targets(dir)? {
        let mut progress = context.progress("compacting");
        let options = context.options(&identity.source.topic);
        let show = &mut |done, total| progress.show(done, total);
        let Some(rewritten) = dir.rewrite(&identity, &options, &mut |_| true, show)? else {
            continue;
        };
        partitions.push(PartitionCompacted {
            topic: identity.source.topic.to_string(),
            partition: identity.source.partition,
            keys: rewritten.after.keys,
            bytes_before: rewritten.before.bytes_on_disk,
            bytes_after: rewritten.after.bytes_on_disk,
            runs_before: rewritten.before.runs,
            runs_after: rewritten.after.runs,
        });
    }
    let state_dir = dir.path().display().to_string();
    Ok(Compacted { state_dir, online: false, merges: 0, partitions })
}

fn online(context: &Context, holder: &ask::Holder) -> Result<Compacted, crate::error::Error> {
    let scope = context.scope.clone();
    let request = Request { topic: scope.topic, partition: scope.partition };
    let mut merges = 0;
    loop {
        let answer: Answer = holder.post("/state/compact", &request)?;
        merges += answer.merges;
        if answer.done {
            let state_dir = context.config.state.dir.display().to_string();
            return Ok(Compacted { state_dir, online: true, merges, partitions: Vec::new() });
        }
        if !context.json {
            out::tell(&format!("compacting: {merges} merges so far"));
        }
    }
}

fn text(compacted: &Compacted) -> String {
    let Compacted { state_dir, online, merges, partitions } = compacted;
    if *online {
        return format!(
            "state {state_dir}: the process that holds it made {merges} merges\nOnly a compaction \
             while no process holds the state gives space on the disk back at once.\n"
        );
    }
    let mut text = format!("state {state_dir}\n");
    for of in partitions {
        let (before, after) = (size(of.bytes_before), size(of.bytes_after));
        text.push_str(&format!(
            "{}/{}: {} keys, {before} to {after}, {} runs to {}\n",
            of.topic, of.partition, of.keys, of.runs_before, of.runs_after
        ));
    }
    text
}
