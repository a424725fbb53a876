//! Writing a partition's state anew beside the old one, and letting them change places.
//!
//! It is how a key is forgotten and how a state is made as small as it can be: no part of a stored
//! state is ever changed in place, and nobody can meet a state half way.

use std::path::Path;
use std::time::{Duration, Instant};

use super::Filling;
use crate::seen::{EntryView, Error, Found, Identity, Opened, Options, Seen, StateDir, Stats};
use crate::store;
use crate::words::Checkpoint;

/// How long the old state's files may take to be let go of.
const CLOSING: Duration = Duration::from_secs(5);

/// What became of a state that was written anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rewritten {
    /// The old one.
    pub before: Stats,
    /// The new one.
    pub after: Stats,
}

impl StateDir {
    /// Writes the state of `identity` anew with the entries that `keep` returns true for, and puts it in
    /// the old one's place. Needs room for both. Returns none where nothing was ever durable.
    ///
    /// `progress` is told the entries read and all that there are.
    ///
    /// # Durability
    /// On return the new state survives a power cut; before that, the old one does.
    ///
    /// # Errors
    /// The old state is still in its place then.
    pub fn rewrite(
        &self,
        identity: &Identity,
        options: &Options,
        keep: &mut dyn FnMut(EntryView) -> bool,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Option<Rewritten>, Error> {
        let Opened { seen: old, found } = Seen::open_existing(self, identity, options)?;
        let Found::Checkpoint(checkpoint) = found else { return Ok(None) };
        let before = old.stats();
        let path = self.workplace("rewrite")?;
        let made = self.fill_anew(&path, identity, options, &old, checkpoint, keep, progress);
        drop(old);
        let put = made.and_then(|after| {
            store::exchange(&path, &self.partition_dir(&identity.source))?;
            for parent in [self.path(), &self.partitions_dir()] {
                store::sync_dir(parent, &*self.durability)?;
            }
            Ok(after)
        });
        // What is there now is the old state, or what was made of the new one.
        let removed = remove_when_closed(&path);
        let after = put?;
        removed?;
        Ok(Some(Rewritten { before, after }))
    }

    /// Makes a state at `path` of what is kept of `old`.
    #[expect(clippy::too_many_arguments, reason = "two states, and what is asked while copying")]
    fn fill_anew(
        &self,
        path: &Path,
        identity: &Identity,
        options: &Options,
        old: &Seen,
        checkpoint: Checkpoint,
        keep: &mut dyn FnMut(EntryView) -> bool,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Stats, Error> {
        let total = old.stats().keys;
        let Opened { seen: new, .. } = Seen::open_found(self, path, identity, options)?;
        let mut filling = Filling::begin(&new, checkpoint, old.floor())?;
        let (mut done, mut failure) = (0_u64, None);
        old.each_entry(&mut |entry| {
            done += 1;
            if done.is_multiple_of(65_536) {
                progress(done, total);
            }
            if keep(entry) {
                failure = filling.add(entry.fingerprint, entry.at).err();
            }
            failure.is_none()
        })?;
        if let Some(error) = failure {
            return Err(error);
        }
        filling.end()?;
        progress(done, total);
        Ok(new.stats())
    }
}

/// Removes the old state's directory; its database may still be closing its files in there.
pub(super) fn remove_when_closed(path: &Path) -> Result<(), Error> {
    let started = Instant::now();
    loop {
        match store::remove_tree(path) {
            Err(_) if started.elapsed() < CLOSING => {
                std::thread::sleep(Duration::from_millis(10));
            }
            removed => return Ok(removed?),
        }
    }
}
