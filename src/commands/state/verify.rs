//! `state verify`: read every checksum, name what is wrong, and say what a start would do about it.

use serde::Serialize;

use super::{Context, Error};
use crate::config::OnMissingState;
use crate::seen::{self, StateDir, Verified};

#[derive(Serialize)]
struct Checked {
    state_dir: String,
    /// What is wrong with the directory itself; nothing below it was read then.
    directory: Option<String>,
    partitions: Vec<PartitionChecked>,
    faults: usize,
}

#[derive(Serialize)]
struct PartitionChecked {
    /// None where the partition's NAME cannot be read.
    topic: Option<String>,
    partition: Option<i32>,
    dir: String,
    segments: usize,
    /// Stored values whose checksum is right.
    values: u64,
    entries: u64,
    flaws: Vec<Flaw>,
    /// What a start would do; none where nothing is wrong.
    next: Option<String>,
}

#[derive(Serialize)]
struct Flaw {
    place: String,
    what: String,
}

pub(super) fn run(context: &Context) -> Result<(), crate::error::Error> {
    let state_dir = context.config.state.dir.clone();
    let checked = match context.open() {
        Ok(dir) => partitions(context, &dir)?,
        Err(error) if error.code() == crate::words::Code::StateCorrupt => {
            let directory = error.to_string();
            let state_dir = state_dir.display().to_string();
            Checked { state_dir, directory: Some(directory), partitions: Vec::new(), faults: 1 }
        }
        Err(error) => return Err(error),
    };
    context.print(&checked, &text(&checked))?;
    match checked.faults {
        0 => Ok(()),
        faults => Err(Error::Faults { dir: state_dir, faults, first: first(&checked) }.into()),
    }
}

fn partitions(context: &Context, dir: &StateDir) -> Result<Checked, seen::Error> {
    let mut partitions = Vec::new();
    let mut progress = context.progress("verifying");
    let list = dir.list()?;
    let total = u64::try_from(list.len()).unwrap_or(u64::MAX);
    for (done, (path, identity)) in (1..).zip(list) {
        let covered = identity.as_ref().is_none_or(|id| context.scope.covers(&id.source));
        if covered {
            let topic = identity.as_ref().map_or("", |identity| &*identity.source.topic);
            let verified = dir.verify(&path, &context.options(topic))?;
            partitions.push(partition(context, verified));
        }
        progress.show(done, total);
    }
    let faults = partitions.iter().map(|partition| partition.flaws.len()).sum();
    let state_dir = dir.path().display().to_string();
    Ok(Checked { state_dir, directory: None, partitions, faults })
}

fn partition(context: &Context, verified: Verified) -> PartitionChecked {
    let Verified { dir, identity, segments, values, entries, flaws } = verified;
    let next = (!flaws.is_empty()).then(|| next(context, identity.as_ref()));
    PartitionChecked {
        topic: identity.as_ref().map(|identity| identity.source.topic.to_string()),
        partition: identity.as_ref().map(|identity| identity.source.partition),
        dir: dir.display().to_string(),
        segments,
        values,
        entries,
        flaws: flaws.into_iter().map(|flaw| Flaw { place: flaw.place, what: flaw.what }).collect(),
        next,
    }
}

/// What a start does about a damaged partition.
fn next(context: &Context, identity: Option<&seen::Identity>) -> String {
    let then = match (context.config.state.on_missing_state, identity) {
        (OnMissingState::Stop, _) => {
            return "`run` sets it aside and refuses to start (E5004)".into();
        }
        (OnMissingState::Empty, _) => {
            "starts with no memory: keys forwarded before may be forwarded again".to_owned()
        }
        (OnMissingState::Rebuild, None) => "reads its output back over one window".to_owned(),
        (OnMissingState::Rebuild, Some(identity)) => {
            let window = context.config.rule(&identity.source.topic).window;
            let (output, number) = (&identity.output_topic, identity.source.partition);
            format!("reads {output}/{number} back over one window ({window})")
        }
    };
    format!("`run` sets it aside and {then}")
}

fn first(checked: &Checked) -> String {
    if let Some(directory) = &checked.directory {
        return directory.clone();
    }
    let flawed = checked.partitions.iter().find_map(|p| Some((p, p.flaws.first()?)));
    flawed.map_or_else(String::new, |(partition, flaw)| {
        format!("{}: {}: {}", name(partition), flaw.place, flaw.what)
    })
}

fn name(of: &PartitionChecked) -> String {
    match (&of.topic, of.partition) {
        (Some(topic), Some(partition)) => format!("{topic}/{partition}"),
        _ => of.dir.clone(),
    }
}

fn text(checked: &Checked) -> String {
    let mut text = format!("state {}\n", checked.state_dir);
    if let Some(directory) = &checked.directory {
        text.push_str(&format!("{directory}\n"));
    }
    for of in &checked.partitions {
        let PartitionChecked { segments, values, entries, .. } = of;
        let verdict = if of.flaws.is_empty() { "sound" } else { "damaged" };
        let name = name(of);
        text.push_str(&format!(
            "{name}: {verdict}; {segments} segments, {values} checksums right, {entries} entries\n"
        ));
        for Flaw { place, what } in &of.flaws {
            text.push_str(&format!("  {place}: {what}\n"));
        }
        if let Some(next) = &of.next {
            text.push_str(&format!("  next: {next}\n"));
        }
    }
    text
}
