//! Blocks of entries: sorted, of bounded size, searched without being decoded.

use std::cmp::Ordering;

use super::codec::Reader;

/// The entries of a block; with 24 bytes each a block stays below the store's value limit.
const FULL: usize = 256;

/// The entries after which a run begins another block. Tests use small blocks.
pub(super) const BLOCK_ENTRIES: usize = if cfg!(test) { 4 } else { FULL };

const VERSION: u8 = 1;
const HEAD: usize = 3;
const ENTRY: usize = 24;

/// A fingerprint and when it occurred, in ms. The order is the order in blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Entry {
    pub(super) fingerprint: u128,
    pub(super) at: i64,
}

/// Writes `entries`, which are sorted, at least one and at most [`FULL`].
pub(super) fn encode(entries: &[Entry]) -> Vec<u8> {
    debug_assert!(!entries.is_empty() && entries.len() <= FULL);
    debug_assert!(entries.is_sorted());
    let count = u16::try_from(entries.len()).unwrap_or(u16::MAX);
    let mut out = Vec::with_capacity(HEAD + ENTRY * entries.len() + 8);
    out.push(VERSION);
    out.extend_from_slice(&count.to_be_bytes());
    for entry in entries {
        out.extend_from_slice(&entry.fingerprint.to_be_bytes());
        out.extend_from_slice(&entry.at.to_be_bytes());
    }
    out
}

/// A block whose checksum was found right.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block<'a> {
    entries: &'a [[u8; ENTRY]],
}

impl<'a> Block<'a> {
    /// Reads a block; `None` if it is of an unknown version or the wrong length.
    pub(super) fn decode(bytes: &'a [u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let version = reader.u8()?;
        let count = usize::from(reader.u16()?);
        let (entries, rest) = reader.0.as_chunks::<ENTRY>();
        let whole = version == VERSION && rest.is_empty() && entries.len() == count && count > 0;
        whole.then_some(Self { entries })
    }

    pub(super) fn get(self, index: usize) -> Option<Entry> {
        self.entries.get(index).map(entry)
    }

    pub(super) fn len(self) -> usize {
        self.entries.len()
    }

    pub(super) fn iter(self) -> impl Iterator<Item = Entry> + use<'a> {
        self.entries.iter().map(entry)
    }

    pub(super) fn first(self) -> Option<Entry> {
        self.entries.first().map(entry)
    }

    pub(super) fn last(self) -> Option<Entry> {
        self.entries.last().map(entry)
    }

    /// Returns the last entry at or before `wanted` and the first one behind it.
    pub(super) fn around(self, wanted: Entry) -> (Option<Entry>, Option<Entry>) {
        let behind =
            self.entries.partition_point(|bytes| entry(bytes).cmp(&wanted) != Ordering::Greater);
        let before = behind.checked_sub(1).and_then(|index| self.entries.get(index));
        (before.map(entry), self.entries.get(behind).map(entry))
    }
}

fn entry(bytes: &[u8; ENTRY]) -> Entry {
    let mut reader = Reader(bytes);
    // The array is exactly this long, so neither default is ever used.
    let fingerprint = reader.u128().unwrap_or_default();
    Entry { fingerprint, at: reader.i64().unwrap_or_default() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::store::MAX_VALUE;

    #[test]
    fn a_full_block_fits_into_a_stored_value() {
        let entries = [Entry { fingerprint: 0, at: 0 }; FULL];
        assert!(encode(&entries).len() + 8 <= MAX_VALUE);
    }

    proptest! {
        #[test]
        fn a_block_reads_back_as_it_was_written(
            mut raw in prop::collection::vec((0_u128..50, any::<i64>()), 1..FULL),
            wanted in (0_u128..50, any::<i64>()),
        ) {
            raw.sort_unstable();
            let entry = |(fingerprint, at)| Entry { fingerprint, at };
            let entries: Vec<_> = raw.into_iter().map(entry).collect();
            let bytes = encode(&entries);
            let block = Block::decode(&bytes).expect("just written");
            prop_assert_eq!(block.iter().collect::<Vec<_>>(), entries.clone());
            let wanted = entry(wanted);
            let before = entries.iter().rfind(|entry| **entry <= wanted).copied();
            let behind = entries.iter().find(|entry| **entry > wanted).copied();
            prop_assert_eq!(block.around(wanted), (before, behind));
            prop_assert!(Block::decode(&bytes[..bytes.len() - 1]).is_none());
        }
    }
}
