//! What was read from the store lately. Nothing here is ever the reason to call a key new.
//!
//! Entries are named by segment and run, and neither number is used twice, so what is cached is
//! never newer or older than the store: a run never changes, and an answer counts only while its
//! segment lives.

use moka::sync::Cache;

use crate::store::{SegmentId, Value};

/// What one answer takes, the cache's own bookkeeping included.
const ANSWER_BYTES: u32 = 160;
const BLOCK_OVERHEAD: usize = 200;

/// Where a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct BlockName {
    pub(super) segment: SegmentId,
    pub(super) run: u64,
    pub(super) number: u32,
}

/// An occurrence that was found in the store.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer {
    pub(super) segment: SegmentId,
    pub(super) at: i64,
}

/// Blocks whose checksum was right, and positive answers.
#[derive(Debug)]
pub(super) struct Caches {
    pub(super) blocks: Cache<BlockName, Value>,
    pub(super) answers: Cache<u128, Answer>,
}

impl Caches {
    /// Caches that take about `bytes` together.
    pub(super) fn new(bytes: u64) -> Self {
        let weigh = |value: &Value| u32::try_from(value.len() + BLOCK_OVERHEAD).unwrap_or(u32::MAX);
        let blocks = Cache::builder()
            .max_capacity(bytes - bytes / 4)
            .weigher(move |_: &BlockName, value: &Value| weigh(value))
            .build();
        let answers = Cache::builder()
            .max_capacity(bytes / 4)
            .weigher(|_: &u128, _: &Answer| ANSWER_BYTES)
            .build();
        Self { blocks, answers }
    }
}
