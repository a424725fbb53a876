//! `state reset`: remove the state of some partitions, or of all.

use std::path::PathBuf;

use serde::Serialize;

use super::{Context, Error};
use crate::config::OnMissingState;
use crate::seen::{Identity, StateDir};

#[derive(Serialize)]
struct Removed {
    state_dir: String,
    /// The partitions; those whose name cannot be read by their directory.
    removed: Vec<String>,
    /// What the next run does.
    next: String,
}

pub(super) fn run(context: &Context, yes: bool) -> Result<(), crate::error::Error> {
    let dir = context.open()?;
    let doomed = doomed(context, &dir)?;
    let names: Vec<_> = doomed.iter().map(|(name, _)| name.clone()).collect();
    if !yes {
        let what = format!("reset would remove the state of {}", names.join(", "));
        return Err(Error::arguments(what, "add `--yes` if it is meant").into());
    }
    for (_, path) in &doomed {
        dir.remove_listed(path)?;
    }
    let removed = Removed {
        state_dir: dir.path().display().to_string(),
        removed: names,
        next: next(context).to_owned(),
    };
    let text = format!("removed the state of {}\n{}\n", removed.removed.join(", "), removed.next);
    Ok(context.print(&removed, &text)?)
}

/// Returns what is to be removed; at least one.
fn doomed(
    context: &Context,
    dir: &StateDir,
) -> Result<Vec<(String, PathBuf)>, crate::error::Error> {
    let all = context.scope.topic.is_none() && context.scope.partition.is_none();
    let named = context.scope.topic.as_deref().zip(context.scope.partition);
    // A damaged NAME must not keep anybody from removing what it was for.
    let expected = named.map(|(topic, partition)| {
        dir.partition_dir(&crate::words::SourcePartition::new(topic, partition))
    });
    let wanted = |path: &PathBuf, identity: &Option<Identity>| match identity {
        Some(identity) => context.scope.covers(&identity.source),
        None => all || expected.as_ref() == Some(path),
    };
    let name = |path: &PathBuf, identity: Option<Identity>| match identity {
        Some(identity) => identity.source.to_string(),
        None => path.display().to_string(),
    };
    let list = dir.list()?;
    let doomed: Vec<_> = list
        .into_iter()
        .filter(|(path, identity)| wanted(path, identity))
        .map(|(path, identity)| (name(&path, identity), path))
        .collect();
    if doomed.is_empty() {
        // Names what there is instead.
        context.targets(dir)?;
    }
    Ok(doomed)
}

/// What the next run does without the state.
fn next(context: &Context) -> &'static str {
    match context.config.state.on_missing_state {
        OnMissingState::Rebuild => {
            "The next run resumes at the offset committed to the group and reads the output back over \
             one window, by the present rules; counts start at zero."
        }
        OnMissingState::Stop => {
            "The next run refuses to start (E5008) while the group has a committed offset, because \
             `state.on_missing_state` is stop."
        }
        OnMissingState::Empty => {
            "The next run starts with no memory, because `state.on_missing_state` is empty: keys \
             forwarded before may be forwarded again."
        }
    }
}
