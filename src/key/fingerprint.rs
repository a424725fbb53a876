//! The 128-bit hash of a dedup key, under a secret.

/// A keyed 128-bit hash of a dedup key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(pub u128);

/// Which hash makes fingerprints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashKind {
    /// XXH3-128 under a random secret: fast, safe against chance.
    Xxh3,
    /// Keyed BLAKE3 cut to 128 bits: for tenants who choose their own keys.
    Blake3,
}

/// The random secret of one state. Never printed.
#[derive(Clone)]
pub struct Secret([u8; Secret::LEN]);

impl Secret {
    /// Length in bytes: what XXH3 takes as a whole secret.
    pub const LEN: usize = 192;
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// Makes fingerprints by one hash and secret.
#[derive(Clone, Debug)]
pub struct Hasher {
    kind: HashKind,
    secret: Secret,
}
