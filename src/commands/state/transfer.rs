//! `state export` and `state import`.

use std::path::Path;

use serde::Serialize;

use super::Context;
use super::scope::reads;
use super::stats::size;
use crate::commands::out;
use crate::seen::{self, Exported, Identity, Imported, TransferError};

/// Said aloud, whatever the output is for.
const SECRET: &str = "the file holds the state's secret: whoever has it can make keys with equal \
                      fingerprints; keep it as private as the state, and delete it when it is imported";

#[derive(Serialize)]
struct ExportDone {
    file: String,
    partitions: u32,
    entries: u64,
    bytes: u64,
    contains_secret: bool,
}

#[derive(Serialize)]
struct ImportDone {
    state_dir: String,
    build: String,
    created_at_ms: i64,
    partitions: Vec<String>,
    entries: u64,
}

pub(super) fn export(context: &Context, file: &Path) -> Result<(), crate::error::Error> {
    let dir = context.open()?;
    let targets = context.targets(&dir)?;
    let topic = targets.first().map_or("", |identity| &*identity.source.topic);
    let mut progress = context.progress("exporting");
    let show = &mut |done, total| progress.show(done, total);
    let exported = seen::export(&dir, &targets, &context.options(topic), file, show)?;
    drop(progress);
    out::tell(&format!("note: {SECRET}"));
    let Exported { partitions, entries, bytes } = exported;
    let file = file.display().to_string();
    let done = ExportDone { file, partitions, entries, bytes, contains_secret: true };
    let text = format!(
        "exported {partitions} partitions, {entries} entries, {} to {}\n",
        size(bytes),
        done.file
    );
    Ok(context.print(&done, &text)?)
}

pub(super) fn import(context: &Context, file: &Path) -> Result<(), crate::error::Error> {
    seen::ignore_file_size_signal()
        .map_err(|source| super::Error::File { path: context.config.state.dir.clone(), source })?;
    let header = seen::read_header(file)?;
    let wanted = |identity: &Identity| context.scope.covers(&identity.source);
    let accept = |identity: &Identity| -> Result<(), TransferError> {
        if !reads(&context.config, &identity.source.topic) {
            return Err(TransferError::NotRead { partition: identity.source.clone() });
        }
        Ok(context.expected(&identity.source, identity.secret_id).accept(identity)?)
    };
    let options = |identity: &Identity| context.options(&identity.source.topic);
    let mut progress = context.progress("importing");
    let show = &mut |done, total| progress.show(done, total);
    let dir = &context.config.state.dir;
    let imported = seen::import(dir, file, &wanted, &accept, &options, show)?;
    drop(progress);
    let Imported { partitions, entries } = imported;
    let done = ImportDone {
        state_dir: dir.display().to_string(),
        build: header.build,
        created_at_ms: header.created_at_ms,
        partitions: partitions.iter().map(|identity| identity.source.to_string()).collect(),
        entries,
    };
    let text = format!(
        "imported {} partitions, {entries} entries into {}\nThe next run goes on where the exported \
         state was; what was forwarded since then it reads back from the output.\n",
        done.partitions.len(),
        done.state_dir
    );
    Ok(context.print(&done, &text)?)
}
