//! One line that tells whether two readers saw the same records.

use std::fmt;

/// A digest over a set of records that does not depend on their order, only on each one's content
/// and on how often it occurs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digest(u128);

impl Digest {
    /// Adds a record and returns the record's own hash.
    pub(super) fn add(&mut self, content: &[u8]) -> u128 {
        let hash = hash(content);
        self.0 = self.0.wrapping_add(hash);
        hash
    }

    /// Adds everything that went into `other`.
    pub fn merge(&mut self, other: Self) {
        self.0 = self.0.wrapping_add(other.0);
    }
}

/// Returns the first half of the content's BLAKE3 hash.
fn hash(content: &[u8]) -> u128 {
    let full = blake3::hash(content);
    full.as_bytes().iter().take(16).fold(0, |sum, byte| (sum << 8) | u128::from(*byte))
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(contents: &[&[u8]]) -> Digest {
        let mut digest = Digest::default();
        for content in contents {
            digest.add(content);
        }
        digest
    }

    #[test]
    fn order_does_not_matter_but_count_does() {
        assert_eq!(of(&[b"a", b"b"]), of(&[b"b", b"a"]));
        assert_ne!(of(&[b"a", b"b"]), of(&[b"a", b"b", b"b"]));
        assert_ne!(of(&[b"a", b"a"]), Digest::default());
    }

    #[test]
    fn merging_equals_adding() {
        let mut left = of(&[b"a"]);
        left.merge(of(&[b"b"]));
        assert_eq!(left, of(&[b"a", b"b"]));
    }
}
