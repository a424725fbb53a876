//! The layout's version, and the numbered steps that bring an older one forward.

use std::path::Path;

use xxhash_rust::xxh3::xxh3_64;

use super::{Durability, Error, files};

#[path = "../../migrations/0001_initial.rs"]
mod initial;

/// The layout this build writes, and the newest it reads.
pub(crate) const LAYOUT: u32 = 1;

const FORMAT: &str = "FORMAT";
const NAME: &str = "firstseen-state";

type Step = fn(&Path, &dyn Durability) -> Result<(), Error>;

/// Step `n` (counted from 1) makes layout `n` out of layout `n - 1`; layout 0 is an empty directory.
/// Every step can be cut short anywhere and run again.
const STEPS: &[Step] = &[initial::up];

/// What the version file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// There is none.
    Absent,
    /// It cannot be read as one.
    Damaged,
    /// This layout.
    Version(u32),
}

/// Reads the layout's version without touching anything.
pub(crate) fn layout_of(dir: &Path) -> Result<Layout, Error> {
    let Some(bytes) = files::read_private(&dir.join(FORMAT))? else {
        return Ok(Layout::Absent);
    };
    let version = std::str::from_utf8(&bytes).ok().and_then(|text| {
        let number: u32 = text.split(' ').nth(1)?.parse().ok()?;
        (text == format_text(number)).then_some(number)
    });
    Ok(version.map_or(Layout::Damaged, Layout::Version))
}

/// Brings directory `dir` from layout `from` to [`LAYOUT`]; each step's number is durable before
/// the next begins.
pub(crate) fn initialise(dir: &Path, from: u32, durability: &dyn Durability) -> Result<(), Error> {
    for (number, step) in (1..).zip(STEPS).filter(|(number, _)| *number > from) {
        step(dir, durability)?;
        files::write_atomically(&dir.join(FORMAT), format_text(number).as_bytes(), durability)?;
    }
    Ok(())
}

fn format_text(version: u32) -> String {
    let text = format!("{NAME} {version}");
    format!("{text} {:016x}\n", xxh3_64(text.as_bytes()))
}
