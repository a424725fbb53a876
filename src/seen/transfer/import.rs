//! Reading an export, and making states of it.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufReader, Read};
use std::path::Path;

use super::frame::{Failure, Kind, Reading, VERSION};
use super::head::{Header, Partition};
use super::rewrite::remove_when_closed;
use super::{Filling, TransferError, take_entries};
use crate::key::{Fingerprint, Secret};
use crate::seen::identity::hex;
use crate::seen::{Error, Identity, Opened, Options, Seen, StateDir};
use crate::store;
use crate::words::{Checkpoint, Timestamp};

/// What was imported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The partitions, in the order of the file.
    pub partitions: Vec<Identity>,
    /// Entries, over all partitions.
    pub entries: u64,
}

/// Reads what the export at `path` says of itself.
///
/// # Errors
/// [`TransferError::Damaged`], [`TransferError::Newer`], [`TransferError::File`].
pub fn read_header(path: &Path) -> Result<Header, TransferError> {
    Ok(Export::open(path)?.header)
}

/// Makes states in the directory `state_dir` of the partitions in the export at `path` that `wanted`
/// returns true for. `accept` refuses those that this config cannot use; `options` tells how each is
/// opened; `progress` is told the entries done and all that there are.
///
/// The whole file is read and checked first. A directory without any partition takes the secret of the
/// export over. The partitions come to be all at once where the directory has none, and else one by
/// one, each whole or not at all.
///
/// # Errors
/// [`TransferError`]; nothing is changed where the file is damaged, foreign, or would overwrite.
pub fn import(
    state_dir: &Path,
    path: &Path,
    wanted: &dyn Fn(&Identity) -> bool,
    accept: &dyn Fn(&Identity) -> Result<(), TransferError>,
    options: &dyn Fn(&Identity) -> Options,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Imported, TransferError> {
    let mut found = Vec::new();
    let first = Export::open(path)?;
    let (secret, header) = (first.secret.clone(), first.header.clone());
    first.read(&mut |piece| {
        if let Piece::Partition(identity, ..) = piece {
            found.push((*identity).clone());
        }
        Ok(())
    })?;
    found.retain(|identity| wanted(identity));
    found.iter().try_for_each(accept)?;
    let mut dir = StateDir::open(state_dir)?;
    let there = dir.list()?;
    for identity in &found {
        let target = dir.partition_dir(&identity.source);
        if there.iter().any(|(path, _)| *path == target) {
            return Err(TransferError::Exists { partition: identity.source.clone(), dir: target });
        }
    }
    if dir.secret().id() != secret.id() {
        if !there.is_empty() {
            let (stored, wanted) = (header.secret_id, hex(dir.secret().id()));
            let field = "the secret's id";
            return Err(Error::RuleChanged { field, stored, wanted }.into());
        }
        dir.replace_secret(secret)?;
    }
    let work = dir.workplace("import")?;
    store::create_private_dir(&work, &*dir.durability).map_err(Error::from)?;
    let second = Export::open(path)?;
    let filled = fill(&dir, second, &work, wanted, options, progress).and_then(|entries| {
        put_in_place(&dir, &work, &found, there.is_empty())?;
        Ok(entries)
    });
    // Nothing is left there where all went well.
    let removed = remove_when_closed(&work);
    let entries = filled?;
    removed?;
    Ok(Imported { partitions: found, entries })
}

/// Makes the states below `work`.
fn fill(
    dir: &StateDir,
    export: Export,
    work: &Path,
    wanted: &dyn Fn(&Identity) -> bool,
    options: &dyn Fn(&Identity) -> Options,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<u64, TransferError> {
    let total = export.header.entries;
    let (mut done, mut entries) = (0, 0);
    let mut seen: Option<(Seen, Checkpoint, Timestamp)> = None;
    let mut batch = Vec::new();
    export.read(&mut |piece| {
        match piece {
            Piece::Partition(identity, checkpoint, floor) => {
                seen = None;
                if wanted(identity) {
                    let path = work.join(Identity::directory_name(&identity.source));
                    let Opened { seen: made, .. } =
                        Seen::open_found(dir, &path, identity, &options(identity))?;
                    Filling::begin(&made, checkpoint.clone(), *floor)?;
                    seen = Some((made, checkpoint.clone(), *floor));
                }
            }
            Piece::Entry(fingerprint, at) => {
                done += 1;
                if seen.is_some() {
                    batch.push((fingerprint, at));
                }
                if batch.len() >= super::BATCH {
                    entries += store_batch(&seen, &mut batch)?;
                    progress(done, total);
                }
            }
            Piece::PartitionEnd => {
                entries += store_batch(&seen, &mut batch)?;
                if let Some((seen, checkpoint, floor)) = seen.take() {
                    Filling::begin(&seen, checkpoint, floor)?.end()?;
                }
                progress(done, total);
            }
        }
        Ok(())
    })?;
    Ok(entries)
}

fn store_batch(
    seen: &Option<(Seen, Checkpoint, Timestamp)>,
    batch: &mut Vec<(Fingerprint, Timestamp)>,
) -> Result<u64, Error> {
    let Some((seen, checkpoint, floor)) = seen else { return Ok(0) };
    let mut filling = Filling::begin(seen, checkpoint.clone(), *floor)?;
    for (fingerprint, at) in batch.drain(..) {
        filling.add(fingerprint, at)?;
    }
    filling.write()?;
    Ok(filling.written)
}

fn put_in_place(
    dir: &StateDir,
    work: &Path,
    found: &[Identity],
    all_at_once: bool,
) -> Result<(), Error> {
    let (target, durability) = (dir.partitions_dir(), &*dir.durability);
    store::sync_dir(work, durability)?;
    if all_at_once {
        // An empty directory may be replaced by renaming another over it.
        fs::rename(work, &target).map_err(store::Error::io("put in place", work))?;
        return Ok(store::sync_dir(dir.path(), durability)?);
    }
    for identity in found {
        let name = Identity::directory_name(&identity.source);
        let made = work.join(&name);
        fs::rename(&made, target.join(name)).map_err(store::Error::io("put in place", &made))?;
    }
    Ok(store::sync_dir(&target, durability)?)
}

/// A piece of an export.
enum Piece<'a> {
    Partition(&'a Identity, &'a Checkpoint, &'a Timestamp),
    Entry(Fingerprint, Timestamp),
    PartitionEnd,
}

/// An export being read.
struct Export {
    path: std::path::PathBuf,
    frames: Reading<BufReader<File>>,
    header: Header,
    secret: Secret,
    payload: Vec<u8>,
}

impl Export {
    fn open(path: &Path) -> Result<Self, TransferError> {
        let file = File::open(path).map_err(|source| TransferError::File {
            attempt: "open",
            path: path.to_owned(),
            source,
        })?;
        let damaged = |at, failure| failure_of(path, at, failure);
        let frames = Reading::begin(BufReader::with_capacity(1 << 20, file));
        let mut frames = match frames.map_err(|failure| damaged(0, failure))? {
            Ok(frames) => frames,
            Err(0) => return Err(damaged(0, Failure::Damaged("its version is 0"))),
            Err(found) => {
                return Err(TransferError::Newer { path: path.to_owned(), found, known: VERSION });
            }
        };
        let mut payload = Vec::new();
        let begun = begin(&mut frames, &mut payload);
        let (header, secret) = begun.map_err(|failure| damaged(frames.at, failure))?;
        Ok(Self { path: path.to_owned(), frames, header, secret, payload })
    }

    /// Hands out everything behind the secret, in order, and makes sure that all of it is there.
    fn read(
        mut self,
        each: &mut dyn FnMut(Piece<'_>) -> Result<(), TransferError>,
    ) -> Result<(), TransferError> {
        let mut counted = Counted::default();
        loop {
            let (at, path) = (self.frames.at, &self.path);
            let damaged = |what| failure_of(path, at, Failure::Damaged(what));
            let kind = self.frames.frame(&mut self.payload);
            match kind.map_err(|failure| failure_of(path, at, failure))? {
                Kind::Partition => {
                    let (identity, checkpoint, floor) = serde_json::from_slice(&self.payload)
                        .ok()
                        .and_then(|head: Partition| head.take(self.secret.id()))
                        .ok_or_else(|| damaged("a partition's head is malformed"))?;
                    counted.begin(&identity).map_err(damaged)?;
                    each(Piece::Partition(&identity, &checkpoint, &floor))?;
                }
                Kind::Entries => {
                    let entries = take_entries(&self.payload);
                    let entries = entries.ok_or_else(|| damaged("entries are cut short"))?;
                    for entry in entries {
                        counted.entry().map_err(damaged)?;
                        each(Piece::Entry(Fingerprint(entry.fingerprint), Timestamp(entry.at)))?;
                    }
                }
                Kind::PartitionEnd => {
                    counted.end(&self.payload).map_err(damaged)?;
                    each(Piece::PartitionEnd)?;
                }
                Kind::End => {
                    counted.all(&self.payload, &self.header).map_err(damaged)?;
                    break;
                }
                Kind::Header | Kind::Secret => {
                    return Err(damaged("a frame is in another's place"));
                }
            }
        }
        let (at, path) = (self.frames.at, self.path);
        self.frames.end().map_err(|failure| failure_of(&path, at, failure))
    }
}

fn begin(
    frames: &mut Reading<impl Read>,
    payload: &mut Vec<u8>,
) -> Result<(Header, Secret), Failure> {
    let misplaced = Failure::Damaged("a frame is in another's place");
    if frames.frame(payload)? != Kind::Header {
        return Err(misplaced);
    }
    let header: Header = serde_json::from_slice(payload)
        .map_err(|_error| Failure::Damaged("its header is malformed"))?;
    if frames.frame(payload)? != Kind::Secret {
        return Err(misplaced);
    }
    let secret: Option<[u8; Secret::LEN]> = payload.as_slice().try_into().ok();
    let secret = secret.ok_or(Failure::Damaged("its secret is cut short"))?;
    let secret = Secret::from_bytes(secret);
    if hex(secret.id()) != header.secret_id {
        return Err(Failure::Damaged("its secret is not the one its header names"));
    }
    Ok((header, secret))
}

/// Checks that the parts of an export add up.
#[derive(Default)]
struct Counted {
    open: Option<u64>,
    entries: u64,
    partitions: BTreeSet<String>,
}

impl Counted {
    fn begin(&mut self, identity: &Identity) -> Result<(), &'static str> {
        if self.open.replace(0).is_some() {
            return Err("a partition begins inside another");
        }
        let fresh = self.partitions.insert(Identity::directory_name(&identity.source));
        if fresh { Ok(()) } else { Err("a partition is there twice") }
    }

    fn entry(&mut self) -> Result<(), &'static str> {
        *self.open.as_mut().ok_or("entries are outside of a partition")? += 1;
        Ok(())
    }

    fn end(&mut self, payload: &[u8]) -> Result<(), &'static str> {
        let count = self.open.take().ok_or("a partition ends that did not begin")?;
        self.entries += count;
        let right = payload == count.to_be_bytes().as_slice();
        if right { Ok(()) } else { Err("entries of a partition are missing") }
    }

    fn all(&self, payload: &[u8], header: &Header) -> Result<(), &'static str> {
        let partitions = u32::try_from(self.partitions.len()).unwrap_or(u32::MAX);
        let right = payload == partitions.to_be_bytes().as_slice()
            && self.open.is_none()
            && (partitions, self.entries) == (header.partitions, header.entries);
        if right { Ok(()) } else { Err("partitions are missing") }
    }
}

fn failure_of(path: &Path, at: u64, failure: Failure) -> TransferError {
    let path = path.to_owned();
    match failure {
        Failure::Io(source) => TransferError::File { attempt: "read", path, source },
        Failure::Damaged(what) => TransferError::Damaged { path, what: what.to_owned(), at },
    }
}
