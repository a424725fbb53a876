//! `state forget`: let a key pass once more.

use serde::Serialize;

use super::explain::Question;
use super::{Context, RecordOptions};
use crate::seen::StateDir;
use crate::words::{Span, Timestamp, instant_text};

/// What forgetting cannot do.
const LATER: &str = "a rebuild from the output learns it again, since the output still holds it";

#[derive(Serialize)]
struct Forgotten {
    topic: String,
    fingerprint: Option<String>,
    partitions: Vec<PartitionForgotten>,
    notes: Vec<String>,
}

#[derive(Serialize)]
struct PartitionForgotten {
    partition: i32,
    /// The times of the occurrences that were removed, in ms since 1970.
    removed_ms: Vec<i64>,
}

pub(super) fn run(context: &Context, record: &RecordOptions) -> Result<(), crate::error::Error> {
    let dir = context.open()?;
    let topic = context.topic(Some(&dir))?;
    let mut question = Question::new(context.config.rule(&topic), &topic, None);
    let record = record.record(&question.rule.key)?;
    let Some(fingerprint) = question.judge(&record, dir.secret()) else {
        let why = question.explanation.verdicts.first().map(|verdict| verdict.text.clone());
        let what = format!("there is nothing to forget: {}", why.unwrap_or_default());
        return Err(super::Error::arguments(what, "give a record that has a key").into());
    };
    let mut partitions = Vec::new();
    let mut notes = vec![LATER.to_owned()];
    for identity in context.targets(&dir)? {
        if *identity.source.topic != topic {
            continue;
        }
        context.expected(&identity.source, dir.secret().id()).accept(&identity)?;
        let seen = context.open_seen(&dir, &identity)?;
        let found = seen.nearest(fingerprint, Timestamp(0), Span::from_ms(i64::MAX))?;
        let clean = seen.report().checkpoint.is_none_or(|checkpoint| checkpoint.clean);
        drop(seen);
        if !clean {
            notes.push(format!(
                "{} was not left cleanly: where the record lies behind its last checkpoint, the next \
                 start reads it back from the output",
                identity.source
            ));
        }
        let removed_ms = match found {
            Some(_) => remove(context, &dir, &identity, fingerprint)?,
            None => Vec::new(),
        };
        partitions.push(PartitionForgotten { partition: identity.source.partition, removed_ms });
    }
    let fingerprint = Some(fingerprint.to_string());
    let forgotten = Forgotten { topic, fingerprint, partitions, notes };
    Ok(context.print(&forgotten, &text(&forgotten))?)
}

fn remove(
    context: &Context,
    dir: &StateDir,
    identity: &crate::seen::Identity,
    fingerprint: crate::key::Fingerprint,
) -> Result<Vec<i64>, crate::error::Error> {
    let mut removed = Vec::new();
    let mut progress = context.progress("writing the state anew");
    let options = context.options(&identity.source.topic);
    let show = &mut |done, total| progress.show(done, total);
    dir.rewrite(
        identity,
        &options,
        &mut |entry| {
            let keep = entry.fingerprint != fingerprint;
            if !keep {
                removed.push(entry.at.0);
            }
            keep
        },
        show,
    )?;
    removed.sort_unstable();
    Ok(removed)
}

fn text(forgotten: &Forgotten) -> String {
    let mut text = String::new();
    for PartitionForgotten { partition, removed_ms } in &forgotten.partitions {
        let place = format!("{}/{partition}", forgotten.topic);
        if removed_ms.is_empty() {
            text.push_str(&format!("{place}: the key was not remembered\n"));
            continue;
        }
        let times: Vec<_> = removed_ms.iter().map(|ms| instant_text(Timestamp(*ms))).collect();
        let times = times.join(", ");
        text.push_str(&format!(
            "{place}: forgotten, as of {times}; the next record with this key is forwarded\n"
        ));
    }
    for note in &forgotten.notes {
        text.push_str(&format!("note: {note}\n"));
    }
    text
}
