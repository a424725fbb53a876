//! Bytes and checksums: the one way values are written and read.

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::store::SegmentId;

const CHECKSUM: usize = 8;

/// Binds a value's checksum to where the value belongs: partition, segment and key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place(u64);

impl Place {
    /// Segment `segment` of the partition whose directory is called `partition`.
    pub(super) fn new(partition: &str, segment: SegmentId) -> Self {
        Self(xxh3_64_with_seed(partition.as_bytes(), segment.0))
    }

    fn seed(self, key: &[u8]) -> u64 {
        xxh3_64_with_seed(key, self.0)
    }

    /// Adds the checksum that lets `value` stand under `key` here and nowhere else.
    pub(super) fn seal(self, key: &[u8], mut value: Vec<u8>) -> Vec<u8> {
        let sum = xxh3_64_with_seed(&value, self.seed(key));
        value.extend_from_slice(&sum.to_be_bytes());
        value
    }

    /// Returns the value without its checksum, if that is right.
    pub(super) fn unseal<'a>(self, key: &[u8], sealed: &'a [u8]) -> Option<&'a [u8]> {
        let (value, sum) = sealed.split_last_chunk::<CHECKSUM>()?;
        (xxh3_64_with_seed(value, self.seed(key)) == u64::from_be_bytes(*sum)).then_some(value)
    }
}

/// Adds a checksum to a file's content.
pub(super) fn seal_file(mut content: Vec<u8>) -> Vec<u8> {
    let sum = xxh3_64(&content);
    content.extend_from_slice(&sum.to_be_bytes());
    content
}

/// Returns a file's content without its checksum, if that is right.
pub(super) fn unseal_file(sealed: &[u8]) -> Option<&[u8]> {
    let (content, sum) = sealed.split_last_chunk::<CHECKSUM>()?;
    (xxh3_64(content) == u64::from_be_bytes(*sum)).then_some(content)
}

/// Reads numbers off the front of some bytes; `None` where they end too soon.
#[derive(Debug)]
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl Reader<'_> {
    pub(super) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (front, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*front)
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_be_bytes)
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    pub(super) fn i64(&mut self) -> Option<i64> {
        self.array().map(i64::from_be_bytes)
    }

    pub(super) fn u128(&mut self) -> Option<u128> {
        self.array().map(u128::from_be_bytes)
    }

    /// Reads a flag and what stands behind it; the latter is read either way.
    pub(super) fn optional<const N: usize>(&mut self) -> Option<Option<[u8; N]>> {
        let flag = self.u8()?;
        let value = self.array::<N>()?;
        match flag {
            0 => Some(None),
            1 => Some(Some(value)),
            _ => None,
        }
    }

    /// Returns `value` if nothing is left over.
    pub(super) fn end<T>(self, value: T) -> Option<T> {
        self.0.is_empty().then_some(value)
    }
}

/// Writes a flag and a value of fixed length.
pub(super) fn put_optional<const N: usize>(out: &mut Vec<u8>, value: Option<[u8; N]>) {
    out.push(u8::from(value.is_some()));
    out.extend_from_slice(&value.unwrap_or([0; N]));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_value_opens_only_under_its_own_key_segment_and_partition() {
        let place = Place::new("t-1", SegmentId(1));
        let sealed = place.seal(b"key", b"value".to_vec());
        assert_eq!(place.unseal(b"key", &sealed), Some(&b"value"[..]));
        assert_eq!(place.unseal(b"kez", &sealed), None);
        assert_eq!(Place::new("t-1", SegmentId(2)).unseal(b"key", &sealed), None);
        assert_eq!(Place::new("t-2", SegmentId(1)).unseal(b"key", &sealed), None);
        for bit in 0..sealed.len() * 8 {
            let mut flipped = sealed.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(place.unseal(b"key", &flipped), None, "bit {bit}");
        }
    }
}
