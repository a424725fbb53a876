//! Reading every checksum of a state, and naming everything that is wrong with it.
//!
//! Opening a state ends at the first thing that does not fit; this goes on. What reads right is then
//! opened as a start would, which proves that nothing is missing and finishes what a crash cut short.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::block::Block;
use super::codec::Place;
use super::dir::NAME;
use super::open::{open_limit, within};
use super::record::{Key, Record, RunRecord};
use super::{Error, Identity, Options, Seen, StateDir};
use crate::store::{self, DiskShelf, SegmentId, Shelf};

/// The most flaws of one segment that are listed; a torn file may have thousands.
const LISTED_MAX: usize = 20;

/// How long reading one segment may take before it counts as damaged; more for large ones.
const SCAN_LIMIT: Duration = Duration::from_secs(120);

/// Something that is wrong with a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flaw {
    /// The file or segment.
    pub place: String,
    /// What is wrong with it.
    pub what: String,
}

/// What reading one partition found.
#[derive(Clone, Debug)]
pub struct Verified {
    /// Its directory.
    pub dir: PathBuf,
    /// Whose state it is, where that can be read.
    pub identity: Option<Identity>,
    /// Segments read.
    pub segments: usize,
    /// Stored values whose checksum was right.
    pub values: u64,
    /// Entries in them, those included that no checkpoint counts.
    pub entries: u64,
    /// All that is wrong; empty where nothing is.
    pub flaws: Vec<Flaw>,
}

/// What reading one segment found.
#[derive(Debug, Default)]
struct Scan {
    values: u64,
    entries: u64,
    flaws: Vec<Flaw>,
    unlisted: usize,
}

impl StateDir {
    /// Reads all of the partition in directory `path`, as [`StateDir::list`] names it.
    ///
    /// # Errors
    /// Only what is not the state's fault: no permission, too many open files.
    pub fn verify(&self, path: &Path, options: &Options) -> Result<Verified, Error> {
        let mut verified = Verified {
            dir: path.to_owned(),
            identity: None,
            segments: 0,
            values: 0,
            entries: 0,
            flaws: Vec::new(),
        };
        self.verify_name(&mut verified)?;
        let shelf = DiskShelf::new(path.to_owned(), Arc::clone(&self.durability))?;
        if let Err(error) = shelf.witness() {
            let error = Error::opening("its newest checkpoint is not known", error);
            verified.add("GENERATION", error)?;
        }
        let name = directory_name(path, verified.identity.as_ref());
        for id in sorted(shelf.list()?) {
            verified.segments += 1;
            match self.scan_segment(path, &name, id) {
                Ok(scan) => verified.take(id, scan),
                Err(error) => verified.add(&id.to_string(), error)?,
            }
        }
        if let Some(identity) = verified.identity.clone().filter(|_| verified.flaws.is_empty())
            && let Err(error) = Seen::open_existing(self, &identity, options)
        {
            verified.add("checkpoint", error)?;
        }
        Ok(verified)
    }

    fn verify_name(&self, verified: &mut Verified) -> Result<(), Error> {
        let read = store::read_private(&verified.dir.join(NAME));
        let bytes = match read {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return verified.add(NAME, Error::corrupt("it is missing")),
            Err(source) => {
                return verified.add(NAME, Error::opening("it is not readable", source));
            }
        };
        let Some(identity) = Identity::decode(&bytes) else {
            return verified.add(NAME, Error::corrupt("its checksum does not match"));
        };
        let named = Identity::directory_name(&identity.source);
        if verified.dir.file_name().is_none_or(|found| *found != *named) {
            let what = format!("it is the name of {}, whose directory is {named}", identity.source);
            verified.add(NAME, Error::corrupt(what))?;
        } else if identity.secret_id != self.secret().id() {
            let what = "its fingerprints were made under another secret";
            verified.add(NAME, Error::corrupt(what))?;
        }
        verified.identity = Some(identity);
        Ok(())
    }

    fn scan_segment(&self, path: &Path, name: &str, id: SegmentId) -> Result<Scan, Error> {
        let (dir, durability) = (path.to_owned(), Arc::clone(&self.durability));
        let place = Place::new(name, id);
        within(open_limit(path, SCAN_LIMIT), move || {
            let damaged = |source| Error::opening("it is not readable", source);
            let shelf = DiskShelf::new(dir, durability)?;
            let blocks = shelf.open(id).map_err(damaged)?;
            let mut scan = Scan::default();
            blocks
                .scan(&mut |key, sealed| {
                    scan.pair(place, key, sealed);
                    true
                })
                .map_err(damaged)?;
            Ok(scan)
        })
    }
}

impl Verified {
    fn take(&mut self, id: SegmentId, scan: Scan) {
        self.values += scan.values;
        self.entries += scan.entries;
        let in_segment = |flaw: Flaw| Flaw { place: format!("{id}, {}", flaw.place), ..flaw };
        self.flaws.extend(scan.flaws.into_iter().map(in_segment));
        if scan.unlisted > 0 {
            let what = format!("{} more values are damaged", scan.unlisted);
            self.flaws.push(Flaw { place: id.to_string(), what });
        }
    }

    /// Lists `error` where the state is at fault.
    fn add(&mut self, place: &str, error: Error) -> Result<(), Error> {
        let theirs = matches!(error, Error::Corrupt { .. } | Error::Permissions { .. });
        if !theirs {
            return Err(error);
        }
        self.flaws.push(Flaw { place: place.to_owned(), what: chain(&error) });
        Ok(())
    }
}

impl Scan {
    fn pair(&mut self, place: Place, key: &[u8], sealed: &[u8]) {
        let parsed = Key::parse(key);
        let flaw = match (place.unseal(key, sealed), parsed) {
            (None, _) => Some("its checksum does not match"),
            (Some(_), None) => Some("nothing of this kind belongs here"),
            (Some(value), Some(key)) => self.value(key, value),
        };
        match flaw {
            None => self.values += 1,
            Some(_) if self.flaws.len() >= LISTED_MAX => self.unlisted += 1,
            Some(what) => self.flaws.push(Flaw { place: name_of(parsed), what: what.to_owned() }),
        }
    }

    fn value(&mut self, key: Key, value: &[u8]) -> Option<&'static str> {
        match key {
            Key::Checkpoint => Record::decode(value).is_none().then_some("it is malformed"),
            Key::Header => None,
            Key::Run(_) => RunRecord::decode(value).is_none().then_some("it is malformed"),
            Key::Block(..) => {
                let Some(block) = Block::decode(value) else { return Some("it is malformed") };
                self.entries += u64::try_from(block.len()).unwrap_or(u64::MAX);
                (!block.iter().is_sorted()).then_some("its entries are out of order")
            }
        }
    }
}

fn name_of(key: Option<Key>) -> String {
    match key {
        None => "an unknown value".to_owned(),
        Some(Key::Checkpoint) => "the checkpoint".to_owned(),
        Some(Key::Header) => "the header".to_owned(),
        Some(Key::Run(id)) => format!("the record of run {id}"),
        Some(Key::Block(run, number)) => format!("run {run}, block {number}"),
    }
}

/// Checksums are bound to the name a directory had when it was written.
fn directory_name(path: &Path, identity: Option<&Identity>) -> String {
    match identity {
        Some(identity) => Identity::directory_name(&identity.source),
        None => path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
    }
}

fn sorted(mut ids: Vec<SegmentId>) -> Vec<SegmentId> {
    ids.sort_unstable();
    ids
}

fn chain(error: &Error) -> String {
    let (mut text, mut cause) = match error {
        Error::Corrupt { what, source } => {
            (what.clone(), source.as_ref().map(|source| source as &dyn std::error::Error))
        }
        other => (other.to_string(), std::error::Error::source(other)),
    };
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}
