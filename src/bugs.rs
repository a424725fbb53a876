//! Seeded bugs: defects that tests switch on to prove that they would be noticed.
//!
//! Without the feature `bugs` every question is answered with a constant `false`, and the
//! compiler removes what hangs on it. The feature is never part of a release.

/// Returns whether the seeded bug `name` is switched on (`FIRSTSEEN_BUG=name`).
#[cfg(feature = "bugs")]
pub fn active(name: &str) -> bool {
    static ACTIVE: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    ACTIVE.get_or_init(|| std::env::var("FIRSTSEEN_BUG").ok()).as_deref() == Some(name)
}

/// Returns false: this build has no seeded bugs.
#[cfg(not(feature = "bugs"))]
#[inline(always)]
pub const fn active(_name: &str) -> bool {
    false
}
