//! The random secret that makes fingerprints unpredictable.

use std::fmt;

/// The random secret of one state. Never printed.
#[derive(Clone)]
pub struct Secret([u8; Secret::LEN]);

impl Secret {
    /// Length in bytes: what XXH3 takes as a whole secret.
    pub const LEN: usize = 192;

    /// Draws a new secret from the system's random source.
    ///
    /// # Errors
    /// The system gives no random bytes; there is no fallback.
    pub fn generate() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; Self::LEN];
        getrandom::fill(&mut bytes)?;
        Ok(Self(bytes))
    }

    /// Takes a secret that was stored.
    pub fn from_bytes(bytes: [u8; Self::LEN]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes, to be stored where only the owner can read them.
    pub(crate) fn as_bytes(&self) -> &[u8; Self::LEN] {
        &self.0
    }

    /// Returns a name for this secret that can be stored and shown: nothing about the secret
    /// follows from it.
    pub fn id(&self) -> [u8; 8] {
        let [a, b, c, d, e, f, g, h, ..] = blake3::derive_key("firstseen secret id 1", &self.0);
        [a, b, c, d, e, f, g, h]
    }

    /// Returns the key of the BLAKE3 fingerprint.
    pub(super) fn blake3_key(&self) -> [u8; 32] {
        blake3::derive_key("firstseen fingerprint key 1", &self.0)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_a_secret_is_pinned_and_differs_between_secrets() {
        assert_eq!(
            Secret::from_bytes([7; Secret::LEN]).id(),
            [249, 207, 133, 122, 209, 29, 238, 145]
        );
        let (a, b) = (Secret::generate().unwrap(), Secret::generate().unwrap());
        assert_ne!(a.as_bytes(), b.as_bytes());
        assert_ne!(a.id(), b.id());
    }

    #[test]
    fn a_secret_is_not_printed() {
        assert_eq!(format!("{:?}", Secret::from_bytes([7; Secret::LEN])), "Secret(..)");
    }
}
