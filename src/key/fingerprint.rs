//! The 128-bit hash of a dedup key, under a secret.

use std::fmt;

use super::encode::{encode, encode_content};
use super::{Headers, KeyRule, Missing, RecordView, Secret};

/// A keyed 128-bit hash of a dedup key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(pub u128);

/// Which hash makes fingerprints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashKind {
    /// XXH3-128 under a random secret: fast, safe against chance, not made to withstand an
    /// attacker who can observe which keys collide.
    Xxh3,
    /// Keyed BLAKE3 cut to 128 bits: for tenants who choose their own keys.
    Blake3,
}

/// Makes fingerprints by one hash and secret.
///
/// Keeps one buffer, so that in a steady state no record costs an allocation; it grows to the
/// largest key so far.
#[derive(Clone)]
pub struct Hasher {
    algorithm: Algorithm,
    scratch: Vec<u8>,
}

#[derive(Clone)]
enum Algorithm {
    Xxh3(Secret),
    Blake3([u8; 32]),
}

impl HashKind {
    /// Every hash there is.
    pub const ALL: [Self; 2] = [Self::Xxh3, Self::Blake3];

    /// Returns the name used in the config and in stored state.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Xxh3 => "xxh3-128",
            Self::Blake3 => "blake3-128",
        }
    }

    /// Returns the hash of this name, if there is one.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

impl Hasher {
    /// A hasher of this kind under `secret`.
    pub fn new(kind: HashKind, secret: Secret) -> Self {
        let algorithm = match kind {
            HashKind::Xxh3 => Algorithm::Xxh3(secret),
            HashKind::Blake3 => Algorithm::Blake3(secret.blake3_key()),
        };
        Self { algorithm, scratch: Vec::new() }
    }

    /// Returns which hash this is.
    pub fn kind(&self) -> HashKind {
        match self.algorithm {
            Algorithm::Xxh3(_) => HashKind::Xxh3,
            Algorithm::Blake3(_) => HashKind::Blake3,
        }
    }

    /// Returns the fingerprint of `record`'s key under `rule`.
    ///
    /// # Errors
    /// [`Missing`] where a part of the rule is not there: the reason of the first such part. The
    /// record has no key then, and is like no other record.
    pub fn fingerprint<H: Headers + ?Sized>(
        &mut self,
        rule: &KeyRule,
        record: RecordView<'_, H>,
    ) -> Result<Fingerprint, Missing> {
        encode(rule, record, &mut self.scratch)?;
        Ok(Fingerprint(self.algorithm.hash(&self.scratch)))
    }
}

impl Hasher {
    /// Returns a fingerprint of a whole record, for one that has no dedup key.
    ///
    /// Takes its timestamp in milliseconds, -1 for none. It tells the replay of such a record
    /// from a new one; it never makes two records the same key.
    pub fn content<H: Headers + ?Sized>(
        &mut self,
        record: RecordView<'_, H>,
        timestamp_ms: i64,
    ) -> Fingerprint {
        encode_content(record, timestamp_ms, &mut self.scratch);
        Fingerprint(self.algorithm.hash(&self.scratch))
    }
}

impl Algorithm {
    fn hash(&self, bytes: &[u8]) -> u128 {
        match self {
            Self::Xxh3(secret) => xxhash_rust::xxh3::xxh3_128_with_secret(bytes, secret.as_bytes()),
            Self::Blake3(key) => {
                let [low @ .., _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _] =
                    *blake3::keyed_hash(key, bytes).as_bytes();
                u128::from_le_bytes(low)
            }
        }
    }
}

impl fmt::Display for HashKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// 32 hexadecimal digits.
impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// Shows neither the secret nor the last key.
impl fmt::Debug for Hasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hasher").field("kind", &self.kind()).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "fingerprint_tests.rs"]
mod tests;
