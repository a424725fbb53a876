//! Writing an export.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use super::frame::{Kind, Writing};
use super::head::{Header, Partition};
use super::{ENTRY, FRAME_ENTRIES, TransferError, put_entry};
use crate::seen::identity::hex;
use crate::seen::{Error, Found, Identity, Opened, Options, Seen, StateDir};
use crate::store;
use crate::words::WallClock;

/// What was exported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// Partitions.
    pub partitions: u32,
    /// Entries, over all partitions.
    pub entries: u64,
    /// Bytes of the file.
    pub bytes: u64,
}

/// Writes the states of `identities` and the secret of `dir` to a new file at `path`, readable by
/// this user alone. `progress` is told the entries written and all that there are.
///
/// # Errors
/// [`TransferError`]; no file is left at `path` then.
pub fn export(
    dir: &StateDir,
    identities: &[Identity],
    options: &Options,
    path: &Path,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Exported, TransferError> {
    let failed = |attempt| move |source| TransferError::File { attempt, path: path.into(), source };
    if path.try_exists().map_err(failed("look for"))? {
        return Err(failed("create")(io::ErrorKind::AlreadyExists.into()));
    }
    let mut opened = Vec::new();
    for identity in identities {
        let Opened { seen, found } = Seen::open_existing(dir, identity, options)?;
        // Nothing was ever durable there, so there is nothing to move.
        if let Found::Checkpoint(checkpoint) = found {
            opened.push((identity, seen, checkpoint));
        }
    }
    let total = opened.iter().map(|(_, seen, _)| seen.stats().keys).sum();
    let made = Unfinished::create(path).map_err(failed("create"))?;
    let file = made.file.try_clone().map_err(failed("open"))?;
    let write = || -> Result<Exported, Failure> {
        let mut to = Writing::begin(BufWriter::with_capacity(1 << 20, file))?;
        let partitions = u32::try_from(opened.len()).unwrap_or(u32::MAX);
        let header = Header {
            build: env!("CARGO_PKG_VERSION").to_owned(),
            created_at_ms: WallClock::system().now().0,
            partitions,
            entries: total,
            secret_id: hex(dir.secret().id()),
        };
        to.frame(Kind::Header, &json(&header))?;
        to.frame(Kind::Secret, dir.secret().as_bytes())?;
        let mut entries = 0;
        for (identity, seen, checkpoint) in &opened {
            let head = Partition::of(identity, checkpoint, seen.floor());
            to.frame(Kind::Partition, &json(&head))?;
            let count = put_entries(&mut to, seen, &mut |done| progress(entries + done, total))?;
            to.frame(Kind::PartitionEnd, &count.to_be_bytes())?;
            entries += count;
        }
        to.frame(Kind::End, &partitions.to_be_bytes())?;
        to.to.flush()?;
        Ok(Exported { partitions, entries, bytes: to.bytes })
    };
    let exported = write().map_err(|failure| match failure {
        Failure::Io(source) => failed("write")(source),
        Failure::State(error) => error.into(),
    })?;
    made.finish(path).map_err(failed("finish"))?;
    Ok(exported)
}

enum Failure {
    Io(io::Error),
    State(Error),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::State(error)
    }
}

fn json(value: &impl serde::Serialize) -> Vec<u8> {
    // Only maps with keys that are no strings fail; there are none.
    serde_json::to_vec(value).unwrap_or_default()
}

/// Writes all entries of `seen` as frames; returns how many.
fn put_entries(
    to: &mut Writing<impl Write>,
    seen: &Seen,
    progress: &mut dyn FnMut(u64),
) -> Result<u64, Failure> {
    let mut payload = Vec::with_capacity(FRAME_ENTRIES * ENTRY);
    let (mut count, mut failure) = (0, None);
    seen.each_entry(&mut |entry| {
        put_entry(&mut payload, entry);
        count += 1;
        if payload.len() == FRAME_ENTRIES * ENTRY {
            failure = to.frame(Kind::Entries, &payload).err();
            payload.clear();
            progress(count);
        }
        failure.is_none()
    })?;
    if let Some(error) = failure {
        return Err(error.into());
    }
    if !payload.is_empty() {
        to.frame(Kind::Entries, &payload)?;
    }
    progress(count);
    Ok(count)
}

/// A file under another name until it is whole; removed where it never is.
struct Unfinished {
    path: PathBuf,
    file: File,
}

impl Unfinished {
    fn create(path: &Path) -> io::Result<Self> {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(".part");
        let path = path.with_file_name(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            removed => removed?,
        }
        let file = store::open_options().write(true).create_new(true).open(&path)?;
        Ok(Self { path, file })
    }

    /// Makes it durable under its own name; another file of that name is not replaced.
    fn finish(self, path: &Path) -> io::Result<()> {
        self.file.sync_all()?;
        match fs::hard_link(&self.path, path) {
            // Some file systems have no links; there was no file of this name a moment ago.
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                fs::rename(&self.path, path)?;
            }
            linked => linked?,
        }
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.path)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(path = %self.path.display(), %error, "an unfinished file is left");
        }
    }
}
