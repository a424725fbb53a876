//! The small values of a segment: checkpoint record, header, run records; and all keys.

use super::codec::{Reader, put_optional};
use crate::store::SegmentId;
use crate::words::{Checkpoint, Counts, OutputPosition, ResumeOffset, Timestamp, TopicId};

const VERSION: u8 = 1;
const KIND_CHECKPOINT: u8 = 1;
const KIND_MOVED: u8 = 2;

pub(super) const CHECKPOINT_KEY: &[u8] = &[0];
pub(super) const HEADER_KEY: &[u8] = &[1];
/// The value under [`HEADER_KEY`]; its checksum says whose segment this is.
pub(super) const HEADER: &[u8] = &[VERSION];
const RUN_PREFIX: u8 = 2;
const BLOCK_PREFIX: u8 = 3;

/// What a key of a segment stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Checkpoint,
    Header,
    Run(u64),
    Block(u64, u32),
}

impl Key {
    pub(super) fn run(id: u64) -> Vec<u8> {
        let mut key = vec![RUN_PREFIX];
        key.extend_from_slice(&id.to_be_bytes());
        key
    }

    pub(super) fn block(run: u64, number: u32) -> Vec<u8> {
        let mut key = vec![BLOCK_PREFIX];
        key.extend_from_slice(&run.to_be_bytes());
        key.extend_from_slice(&number.to_be_bytes());
        key
    }

    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        match bytes {
            CHECKPOINT_KEY => return Some(Self::Checkpoint),
            HEADER_KEY => return Some(Self::Header),
            _ => {}
        }
        let mut reader = Reader(bytes);
        match reader.u8()? {
            RUN_PREFIX => {
                let id = reader.u64()?;
                reader.end(Self::Run(id))
            }
            BLOCK_PREFIX => {
                let (run, number) = (reader.u64()?, reader.u32()?);
                reader.end(Self::Block(run, number))
            }
            _ => None,
        }
    }
}

/// The times that belong to a segment, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) first: i64,
    pub(super) last: i64,
}

impl Range {
    pub(super) fn covers(self, at: i64) -> bool {
        self.first <= at && at <= self.last
    }

    fn put(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.first.to_be_bytes());
        out.extend_from_slice(&self.last.to_be_bytes());
    }

    fn take(reader: &mut Reader<'_>) -> Option<Self> {
        Some(Self { first: reader.i64()?, last: reader.i64()? })
    }
}

/// What a run is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RunRecord {
    /// The newest checkpoint whose entries are in it.
    pub(super) generation: u64,
    pub(super) entries: u64,
    pub(super) blocks: u32,
    /// The runs whose entries are all in this one.
    pub(super) replaces: Vec<u64>,
}

impl RunRecord {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        out.extend_from_slice(&self.generation.to_be_bytes());
        out.extend_from_slice(&self.entries.to_be_bytes());
        out.extend_from_slice(&self.blocks.to_be_bytes());
        out.extend_from_slice(&short(self.replaces.len()).to_be_bytes());
        for run in &self.replaces {
            out.extend_from_slice(&run.to_be_bytes());
        }
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        (reader.u8()? == VERSION).then_some(())?;
        let (generation, entries, blocks) = (reader.u64()?, reader.u64()?, reader.u32()?);
        let replaced = reader.u16()?;
        let replaces = (0..replaced).map(|_| reader.u64()).collect::<Option<_>>()?;
        reader.end(Self { generation, entries, blocks, replaces })
    }
}

/// What the newest checkpoint knows of a segment, so that a missing or older one is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) id: SegmentId,
    pub(super) range: Range,
    /// The newest generation of its runs; 0 if it has none.
    pub(super) newest: u64,
    pub(super) entries: u64,
}

/// A checkpoint as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stored {
    pub(super) generation: u64,
    pub(super) floor: Timestamp,
    pub(super) next_segment: u64,
    pub(super) checkpoint: Checkpoint,
    pub(super) segments: Vec<Listed>,
}

/// The value under [`CHECKPOINT_KEY`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Record {
    Checkpoint(Box<Stored>),
    /// A newer checkpoint, of at least this generation, is in another segment.
    Moved {
        generation: u64,
    },
}

impl Record {
    pub(super) fn generation(&self) -> u64 {
        match self {
            Self::Checkpoint(stored) => stored.generation,
            Self::Moved { generation } => *generation,
        }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let kind = match self {
            Self::Checkpoint(_) => KIND_CHECKPOINT,
            Self::Moved { .. } => KIND_MOVED,
        };
        let mut out = vec![VERSION, kind];
        out.extend_from_slice(&self.generation().to_be_bytes());
        if let Self::Checkpoint(stored) = self {
            put_stored(&mut out, stored);
        }
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        (reader.u8()? == VERSION).then_some(())?;
        let kind = reader.u8()?;
        let generation = reader.u64()?;
        match kind {
            KIND_MOVED => reader.end(Self::Moved { generation }),
            KIND_CHECKPOINT => {
                let stored = take_stored(&mut reader, generation)?;
                reader.end(Self::Checkpoint(Box::new(stored)))
            }
            _ => None,
        }
    }
}

/// Set beside the mark "clean" where the position accounted for follows; older records lack it.
const ACCOUNTED: u8 = 2;

fn put_stored(out: &mut Vec<u8>, stored: &Stored) {
    let Stored { generation: _, floor, next_segment, checkpoint, segments } = stored;
    out.extend_from_slice(&floor.0.to_be_bytes());
    out.extend_from_slice(&next_segment.to_be_bytes());
    out.extend_from_slice(&checkpoint.resume.0.to_be_bytes());
    put_optional(out, checkpoint.output.map(|position| position.0.to_be_bytes()));
    out.extend_from_slice(&checkpoint.high_mark.0.to_be_bytes());
    for count in counts_to_array(checkpoint.counts) {
        out.extend_from_slice(&count.to_be_bytes());
    }
    let accounted = if checkpoint.accounted.is_some() { ACCOUNTED } else { 0 };
    out.push(u8::from(checkpoint.clean) | accounted);
    out.extend(checkpoint.accounted.into_iter().flat_map(|position| position.0.to_be_bytes()));
    out.extend_from_slice(&checkpoint.incarnation.to_be_bytes());
    out.extend_from_slice(&checkpoint.written_at.0.to_be_bytes());
    put_optional(out, checkpoint.source_topic_id.map(|id| id.0));
    put_optional(out, checkpoint.output_topic_id.map(|id| id.0));
    out.extend_from_slice(&short(segments.len()).to_be_bytes());
    for segment in segments {
        out.extend_from_slice(&segment.id.0.to_be_bytes());
        segment.range.put(out);
        out.extend_from_slice(&segment.newest.to_be_bytes());
        out.extend_from_slice(&segment.entries.to_be_bytes());
    }
}

fn take_stored(reader: &mut Reader<'_>, generation: u64) -> Option<Stored> {
    let floor = Timestamp(reader.i64()?);
    let next_segment = reader.u64()?;
    let mut accounted = None;
    let checkpoint = Checkpoint {
        resume: ResumeOffset(reader.i64()?),
        output: reader.optional()?.map(|bytes| OutputPosition(i64::from_be_bytes(bytes))),
        high_mark: Timestamp(reader.i64()?),
        counts: take_counts(reader)?,
        clean: {
            let marks = reader.u8()?;
            if marks & ACCOUNTED != 0 {
                accounted = Some(OutputPosition(reader.i64()?));
            }
            match marks & !ACCOUNTED {
                0 => false,
                1 => true,
                _ => return None,
            }
        },
        accounted,
        incarnation: reader.u128()?,
        written_at: Timestamp(reader.i64()?),
        source_topic_id: reader.optional()?.map(TopicId),
        output_topic_id: reader.optional()?.map(TopicId),
    };
    let count = reader.u16()?;
    let segments = (0..count).map(|_| take_listed(reader)).collect::<Option<_>>()?;
    Some(Stored { generation, floor, next_segment, checkpoint, segments })
}

fn take_listed(reader: &mut Reader<'_>) -> Option<Listed> {
    Some(Listed {
        id: SegmentId(reader.u64()?),
        range: Range::take(reader)?,
        newest: reader.u64()?,
        entries: reader.u64()?,
    })
}

/// The stored order of the counts: never change it, only add at the end with a new version.
fn counts_to_array(counts: Counts) -> [u64; 12] {
    let Counts {
        read,
        forwarded,
        suppressed,
        replayed,
        left_out,
        dead_lettered,
        missing_key,
        future,
        too_old,
        no_timestamp,
        late_writes,
        repeated,
    } = counts;
    [
        read,
        forwarded,
        suppressed,
        replayed,
        left_out,
        dead_lettered,
        missing_key,
        future,
        too_old,
        no_timestamp,
        late_writes,
        repeated,
    ]
}

fn take_counts(reader: &mut Reader<'_>) -> Option<Counts> {
    Some(Counts {
        read: reader.u64()?,
        forwarded: reader.u64()?,
        suppressed: reader.u64()?,
        replayed: reader.u64()?,
        left_out: reader.u64()?,
        dead_lettered: reader.u64()?,
        missing_key: reader.u64()?,
        future: reader.u64()?,
        too_old: reader.u64()?,
        no_timestamp: reader.u64()?,
        late_writes: reader.u64()?,
        repeated: reader.u64()?,
    })
}

/// Lengths here are bounded far below this by the number of segments and the merge fan-in.
fn short(len: usize) -> u16 {
    u16::try_from(len).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seen::place::MAX_SEGMENTS;
    use crate::store::MAX_VALUE;

    fn sample(segments: usize) -> Stored {
        let counts = Counts { read: 1, forwarded: 2, repeated: 12, ..Counts::default() };
        Stored {
            generation: 7,
            floor: Timestamp(-3),
            next_segment: 9,
            checkpoint: Checkpoint {
                resume: ResumeOffset(42),
                output: Some(OutputPosition(40)),
                accounted: Some(OutputPosition(44)),
                high_mark: Timestamp(1_000),
                counts,
                clean: true,
                incarnation: u128::MAX - 1,
                written_at: Timestamp(1_001),
                source_topic_id: Some(TopicId([3; 16])),
                output_topic_id: None,
            },
            segments: vec![
                Listed {
                    id: SegmentId(8),
                    range: Range { first: 0, last: 99 },
                    newest: 7,
                    entries: 5
                };
                segments
            ],
        }
    }

    #[test]
    fn records_read_back_as_they_were_written() {
        for record in
            [Record::Checkpoint(Box::new(sample(3))), Record::Moved { generation: u64::MAX }]
        {
            let bytes = record.encode();
            assert_eq!(Record::decode(&bytes), Some(record));
            for len in 0..bytes.len() {
                assert_eq!(Record::decode(&bytes[..len]), None, "cut at {len}");
            }
        }
        let run = RunRecord { generation: 3, entries: 4, blocks: 1, replaces: vec![1, 2] };
        assert_eq!(RunRecord::decode(&run.encode()), Some(run));
    }

    #[test]
    fn the_longest_checkpoint_record_fits_into_a_stored_value() {
        let record = Record::Checkpoint(Box::new(sample(MAX_SEGMENTS)));
        assert!(record.encode().len() + 8 <= MAX_VALUE);
    }

    #[test]
    fn keys_parse_back_and_runs_sort_before_blocks() {
        assert_eq!(Key::parse(&Key::run(5)), Some(Key::Run(5)));
        assert_eq!(Key::parse(&Key::block(5, 6)), Some(Key::Block(5, 6)));
        assert_eq!(Key::parse(&[9]), None);
        assert!(Key::run(u64::MAX) < Key::block(0, 0));
    }
}
