//! A disk in memory that can crash or fail at any operation.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Blocks, Change, Error, MAX_VALUE, SegmentId, Shelf, Value};

/// What happens at the chosen operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The process dies before the operation took effect.
    CrashBefore,
    /// The process dies after the operation took effect, before it returned.
    CrashAfter,
    /// The operation fails; the process lives on.
    Fail(io::ErrorKind),
}

#[derive(Debug, Default)]
struct Platter {
    segments: BTreeMap<SegmentId, BTreeMap<Vec<u8>, Value>>,
    witness: u64,
    operations: u64,
    fault: Option<(u64, Fault)>,
    dead: bool,
}

/// The segments of a partition, in memory. Clones are the same disk.
#[derive(Clone, Debug, Default)]
pub(crate) struct MemoryShelf(Arc<Mutex<Platter>>);

impl MemoryShelf {
    fn platter(&self) -> MutexGuard<'_, Platter> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets operation number `at`, counted from now and from 0, fail.
    pub(crate) fn fail_at(&self, at: u64, fault: Fault) {
        let mut platter = self.platter();
        platter.fault = Some((platter.operations + at, fault));
    }

    /// Returns how many operations that change something there were.
    pub(crate) fn operations(&self) -> u64 {
        self.platter().operations
    }

    /// Returns whether the chosen crash has happened.
    pub(crate) fn is_dead(&self) -> bool {
        self.platter().dead
    }

    /// Starts the machine anew. The witness was never synced, so it may be an older one.
    pub(crate) fn reboot(&self, witness_lost: bool) {
        let mut platter = self.platter();
        platter.dead = false;
        platter.fault = None;
        if witness_lost {
            platter.witness = 0;
        }
    }

    /// Damages the disk from outside.
    pub(crate) fn tamper(
        &self,
        change: impl FnOnce(&mut BTreeMap<SegmentId, BTreeMap<Vec<u8>, Value>>),
    ) {
        change(&mut self.platter().segments);
    }

    /// Returns a copy of everything, to be put back by `restore`.
    pub(crate) fn copy(&self) -> BTreeMap<SegmentId, BTreeMap<Vec<u8>, Value>> {
        self.platter().segments.clone()
    }

    fn operation(&self, effect: impl FnOnce(&mut Platter)) -> Result<(), Error> {
        let mut platter = self.platter();
        let number = platter.operations;
        platter.operations += 1;
        let fault = platter.fault.filter(|(at, _)| *at == number).map(|(_, fault)| fault);
        if platter.dead {
            return Err(failure(io::ErrorKind::BrokenPipe));
        }
        match fault {
            None => effect(&mut platter),
            Some(Fault::Fail(kind)) => return Err(failure(kind)),
            Some(Fault::CrashBefore) => platter.dead = true,
            Some(Fault::CrashAfter) => {
                effect(&mut platter);
                platter.dead = true;
            }
        }
        if platter.dead { Err(failure(io::ErrorKind::BrokenPipe)) } else { Ok(()) }
    }
}

fn failure(kind: io::ErrorKind) -> Error {
    Error::io("use", "memory")(kind.into())
}

impl Shelf for MemoryShelf {
    fn list(&self) -> Result<Vec<SegmentId>, Error> {
        Ok(self.platter().segments.keys().copied().collect())
    }

    fn create(&self, id: SegmentId) -> Result<Box<dyn Blocks>, Error> {
        self.operation(|platter| {
            let old = platter.segments.insert(id, BTreeMap::new());
            assert!(old.is_none(), "{id} is made twice");
        })?;
        self.open(id)
    }

    fn open(&self, id: SegmentId) -> Result<Box<dyn Blocks>, Error> {
        if !self.platter().segments.contains_key(&id) {
            return Err(failure(io::ErrorKind::NotFound));
        }
        Ok(Box::new(MemoryBlocks { shelf: self.clone(), id }))
    }

    fn remove(&self, id: SegmentId) -> Result<(), Error> {
        self.operation(|platter| {
            assert!(platter.segments.remove(&id).is_some(), "{id} is removed twice");
        })
    }

    fn witness(&self) -> Result<u64, Error> {
        Ok(self.platter().witness)
    }

    fn set_witness(&self, generation: u64) -> Result<(), Error> {
        self.operation(|platter| platter.witness = generation)
    }
}

#[derive(Debug)]
struct MemoryBlocks {
    shelf: MemoryShelf,
    id: SegmentId,
}

impl Blocks for MemoryBlocks {
    fn apply(&self, changes: Vec<Change>) -> Result<(), Error> {
        self.shelf.operation(|platter| {
            let pairs = platter.segments.get_mut(&self.id).expect("the segment is there");
            for Change { key, value } in changes {
                assert!(value.as_ref().is_none_or(|value| value.len() <= MAX_VALUE));
                match value {
                    Some(value) => pairs.insert(key, value.into()),
                    None => pairs.remove(&key),
                };
            }
        })
    }

    fn get(&self, key: &[u8]) -> Result<Option<Value>, Error> {
        let platter = self.shelf.platter();
        if platter.dead {
            return Err(failure(io::ErrorKind::BrokenPipe));
        }
        Ok(platter.segments.get(&self.id).and_then(|pairs| pairs.get(key)).cloned())
    }

    fn scan(&self, each: &mut dyn FnMut(&[u8], &Value) -> bool) -> Result<(), Error> {
        let pairs = self.shelf.platter().segments.get(&self.id).cloned().unwrap_or_default();
        for (key, value) in &pairs {
            if !each(key, value) {
                break;
            }
        }
        Ok(())
    }

    fn bytes(&self) -> u64 {
        0
    }
}
