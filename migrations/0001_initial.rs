//! Layout 1, the first. All numbers big-endian; a checksum is XXH3-64.
//!
//! ```text
//! <state.dir>/                       0700
//!   LOCK                             the holder's process id; locked with flock while it runs
//!   FORMAT                           "firstseen-state 1 <checksum of what is before it, hex>\n"
//!   secret                           192 random bytes | checksum 8
//!   partitions/t-<32 hex>/           hex: BLAKE3, cut, of "topic length 8 | topic | partition 4"
//!     NAME                           JSON of the identity, a line feed, checksum in hex, a line feed
//!     GENERATION                     generation 8 | checksum 8; at or below the newest durable one
//!     seg-<16 hex>/                  one sled 0.34 database; the number is never used again
//!     dead-<16 hex>/                 a segment being removed
//!   quarantine-<utc>-<n>/            a partition set aside because it was damaged
//! ```
//!
//! A segment's database: every value ends in a checksum 8 whose seed is made of the partition's
//! directory name, the segment's number and the key, so no value can stand in another's place.
//!
//! ```text
//! key 00                     checkpoint: version 1 | kind 1 | generation 8 | ...
//!    kind 1, checkpoint:     floor 8 | next segment number 8 | resume 8 | output flag 1, offset 8
//!                            | high mark 8 | counts 12 x 8 | marks 1 (1: clean, 2: the next is there)
//!                            | output offset accounted for 8 | incarnation 16 | written at 8
//!                            | source topic id flag 1, id 16 | output topic id flag 1, id 16
//!                            | segments 2, then per segment: number 8 | first ms 8 | last ms 8
//!                            | newest generation 8 | entries 8
//!    kind 2, moved:          nothing more: the newest checkpoint is elsewhere, at this generation
//!                            or a later one
//! key 01                     header: version 1
//! key 02 | run 8             run: version 1 | generation 8 | entries 8 | blocks 4
//!                            | replaces 2, then per replaced run: number 8
//! key 03 | run 8 | block 4   block: version 1 | entries 2 | per entry: fingerprint 16 | ms 8,
//!                            in order of (fingerprint, ms)
//! ```
//!
//! Exactly one segment holds a kind-1 checkpoint record once a checkpoint is acknowledged.
//! A run counts if its generation is at most the newest checkpoint's and no counting run replaces
//! it. Blocks without a run record, and segments the newest checkpoint does not list, are leftovers.

use std::path::Path;

use crate::store::{Durability, Error, create_private_dir};

/// Makes an empty state of layout 1. The secret is there already.
pub(super) fn up(dir: &Path, durability: &dyn Durability) -> Result<(), Error> {
    create_private_dir(&dir.join("partitions"), durability)
}
