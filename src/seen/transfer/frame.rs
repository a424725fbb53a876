//! The frames of an export: the one way they are written and read.
//!
//! | bytes | what |
//! | --- | --- |
//! | 1 | kind |
//! | 4 | length of the payload, big-endian, as all numbers here |
//! | length | payload |
//! | 8 | XXH3-64 of the three above, seeded with the frame's number, from 0 |
//!
//! The seed tells a frame that is missing, twice there or in another's place.

use std::io::{self, Read, Write};

use xxhash_rust::xxh3::Xxh3;

pub(super) const MAGIC: &[u8; 16] = b"firstseen-export";

/// The format this build writes, and the newest it reads.
pub(super) const VERSION: u32 = 1;

/// No frame of ours is longer; a length above it is damage, and is not allocated.
const LONGEST: u32 = 4 << 20;

/// What a frame holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Header = 1,
    Secret = 2,
    Partition = 3,
    Entries = 4,
    PartitionEnd = 5,
    End = 6,
}

impl Kind {
    const ALL: [Self; 6] =
        [Self::Header, Self::Secret, Self::Partition, Self::Entries, Self::PartitionEnd, Self::End];
}

/// Why a frame cannot be read.
#[derive(Debug)]
pub(super) enum Failure {
    Io(io::Error),
    Damaged(&'static str),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::UnexpectedEof {
            return Self::Damaged("it ends too soon");
        }
        Self::Io(error)
    }
}

/// Writes frames.
#[derive(Debug)]
pub(super) struct Writing<W> {
    pub(super) to: W,
    number: u64,
    pub(super) bytes: u64,
}

impl<W: Write> Writing<W> {
    pub(super) fn begin(mut to: W) -> io::Result<Self> {
        to.write_all(MAGIC)?;
        to.write_all(&VERSION.to_be_bytes())?;
        Ok(Self { to, number: 0, bytes: 20 })
    }

    pub(super) fn frame(&mut self, kind: Kind, payload: &[u8]) -> io::Result<()> {
        let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
        let head = head(kind, length);
        self.to.write_all(&head)?;
        self.to.write_all(payload)?;
        self.to.write_all(&sum(self.number, &head, payload).to_be_bytes())?;
        self.number += 1;
        self.bytes += u64::from(length) + 13;
        Ok(())
    }
}

/// Reads frames.
#[derive(Debug)]
pub(super) struct Reading<R> {
    from: R,
    number: u64,
    /// Where the next frame begins.
    pub(super) at: u64,
}

impl<R: Read> Reading<R> {
    /// Reads magic and version. Returns the version where it is another than ours.
    pub(super) fn begin(mut from: R) -> Result<Result<Self, u32>, Failure> {
        let mut magic = [0; 16];
        from.read_exact(&mut magic)?;
        if magic != *MAGIC {
            return Err(Failure::Damaged("it does not begin as an export does"));
        }
        let mut version = [0; 4];
        from.read_exact(&mut version)?;
        let version = u32::from_be_bytes(version);
        Ok(if version == VERSION { Ok(Self { from, number: 0, at: 20 }) } else { Err(version) })
    }

    /// Reads the next frame into `payload`.
    pub(super) fn frame(&mut self, payload: &mut Vec<u8>) -> Result<Kind, Failure> {
        let mut start = [0; 5];
        self.from.read_exact(&mut start)?;
        let [number, length @ ..] = start;
        let length = u32::from_be_bytes(length);
        let kind = Kind::ALL.into_iter().find(|kind| *kind as u8 == number);
        let kind = kind.ok_or(Failure::Damaged("a frame is of an unknown kind"))?;
        if length > LONGEST {
            return Err(Failure::Damaged("a frame is too long"));
        }
        payload.resize(usize::try_from(length).unwrap_or(usize::MAX), 0);
        self.from.read_exact(payload)?;
        let mut found = [0; 8];
        self.from.read_exact(&mut found)?;
        if u64::from_be_bytes(found) != sum(self.number, &start, payload) {
            return Err(Failure::Damaged("a frame's checksum does not match"));
        }
        self.number += 1;
        self.at += u64::from(length) + 13;
        Ok(kind)
    }

    /// Makes sure that nothing follows.
    pub(super) fn end(mut self) -> Result<(), Failure> {
        let mut one = [0; 1];
        match self.from.read(&mut one)? {
            0 => Ok(()),
            _ => Err(Failure::Damaged("something follows its end")),
        }
    }
}

fn head(kind: Kind, length: u32) -> [u8; 5] {
    let [a, b, c, d] = length.to_be_bytes();
    [kind as u8, a, b, c, d]
}

fn sum(number: u64, head: &[u8], payload: &[u8]) -> u64 {
    let mut hash = Xxh3::with_seed(number);
    hash.update(head);
    hash.update(payload);
    hash.digest()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Vec<u8> {
        let mut writing = Writing::begin(Vec::new()).unwrap();
        writing.frame(Kind::Header, b"{}").unwrap();
        writing.frame(Kind::Entries, &[7; 100]).unwrap();
        writing.frame(Kind::End, &[]).unwrap();
        assert_eq!(writing.bytes, u64::try_from(writing.to.len()).unwrap());
        writing.to
    }

    fn read(bytes: &[u8]) -> Result<Vec<Kind>, Failure> {
        let mut reading = Reading::begin(bytes)?.map_err(|_error| Failure::Damaged("version"))?;
        let (mut kinds, mut payload) = (Vec::new(), Vec::new());
        while kinds.last() != Some(&Kind::End) {
            kinds.push(reading.frame(&mut payload)?);
        }
        reading.end()?;
        Ok(kinds)
    }

    #[test]
    fn frames_read_back_and_no_flipped_bit_cut_or_swap_goes_unnoticed() {
        let bytes = sample();
        assert_eq!(read(&bytes).unwrap(), [Kind::Header, Kind::Entries, Kind::End]);
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(read(&flipped).is_err(), "bit {bit}");
        }
        for len in 0..bytes.len() {
            assert!(read(&bytes[..len]).is_err(), "cut at {len}");
        }
        let mut longer = bytes.clone();
        longer.push(0);
        assert!(read(&longer).is_err(), "something follows");
        // The second frame taken out whole.
        let mut shorter = bytes[..35].to_vec();
        shorter.extend_from_slice(&bytes[35 + 113..]);
        assert!(read(&shorter).is_err(), "a frame is missing");
    }
}
