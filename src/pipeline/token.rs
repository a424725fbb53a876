//! The 64 bits that travel with a delivery and come back in its report.

use crate::engine::Sequence;

/// Bits of the sequence: a core would have to deliver for a month at 400,000 records/s to use
/// them up.
const SEQUENCE_BITS: u32 = 40;
const LIFE_BITS: u32 = 8;

/// Names a delivery among all partitions: which lane, which life of it, which sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token {
    /// The place of the lane.
    pub(super) slot: u16,
    /// How often the lane started anew, modulo 256: reports of an earlier life are stale.
    pub(super) life: u8,
    pub(super) sequence: Sequence,
}

impl Token {
    pub(super) fn pack(self) -> u64 {
        let sequence = self.sequence.0 & ((1 << SEQUENCE_BITS) - 1);
        (u64::from(self.slot) << (SEQUENCE_BITS + LIFE_BITS))
            | (u64::from(self.life) << SEQUENCE_BITS)
            | sequence
    }

    #[expect(clippy::cast_possible_truncation, reason = "takes the bits apart")]
    pub(super) fn unpack(bits: u64) -> Self {
        Self {
            slot: (bits >> (SEQUENCE_BITS + LIFE_BITS)) as u16,
            life: (bits >> SEQUENCE_BITS) as u8,
            sequence: Sequence(bits & ((1 << SEQUENCE_BITS) - 1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_unpacks_as_it_was_packed() {
        for (slot, life, sequence) in [(0, 0, 0), (u16::MAX, u8::MAX, (1 << 40) - 1), (3, 7, 99)] {
            let token = Token { slot, life, sequence: Sequence(sequence) };
            assert_eq!(Token::unpack(token.pack()), token);
        }
    }
}
