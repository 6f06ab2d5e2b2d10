//! The words of a slot, as pure functions: the writer composes them, the reader takes them apart.
use crate::layout::*;
use crate::types::Kind;

/// What the commit word says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Commit {
    pub site: u32,
    pub shape: u64,
    /// bbcount less the base that holds at this slot.
    pub delta: u32,
}

impl Commit {
    #[inline(always)]
    pub const fn word(self) -> u64 {
        self.site as u64 & SITE_MASK | self.shape << SHAPE_BITS | (self.delta as u64) << 32
    }

    #[inline(always)]
    pub const fn from_word(word: u64) -> Commit {
        Commit { site: (word & SITE_MASK) as u32, shape: word >> SHAPE_BITS & 3, delta: (word >> 32) as u32 }
    }
}

/// Word 1 of a long record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LongHead {
    pub len: u64,
    pub kind_bits: u8,
    pub flags: u64,
    pub total: u32,
}

impl LongHead {
    pub const fn word(self) -> u64 {
        self.len | (self.kind_bits as u64) << LONG_KIND_BITS | self.flags << LONG_FLAGS_BITS | (self.total as u64) << LONG_TOTAL_BITS
    }

    pub const fn from_word(word: u64) -> LongHead {
        LongHead {
            len: word & 0xffff,
            kind_bits: (word >> LONG_KIND_BITS) as u8,
            flags: word >> LONG_FLAGS_BITS & 0xff,
            total: (word >> LONG_TOTAL_BITS) as u32,
        }
    }
}

/// Lines that `[offset, offset + len)` touches; `len` is at least 1.
#[inline(always)]
pub(crate) const fn lines(offset: u64, len: u64) -> u64 {
    (offset + len - 1) / LINE_BYTES - offset / LINE_BYTES + 1
}

/// Where the parts of a long record's payload lie, in bytes from its second slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LongShape {
    pub lines: u64,
    pub seen: u64,
    pub written: u64,
    pub slots: u64,
}

impl LongShape {
    pub const fn new(offset: u64, len: u64, kind: Kind) -> LongShape {
        let lines = lines(offset, len);
        let padded = len.next_multiple_of(8);
        let seen = lines * 16;
        let written = seen + if kind.reads() { padded } else { 0 };
        let end = written + if kind.writes() { padded } else { 0 };
        LongShape { lines, seen, written, slots: 1 + end.div_ceil(SLOT_BYTES) }
    }
}

/// The word that says where an access is.
#[inline(always)]
pub(crate) const fn place(object: u32, offset: u64) -> u64 {
    (object as u64) << OFFSET_BITS | offset & OFFSET_MASK
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn words_round_trip_at_their_limits() {
        for commit in
            [Commit { site: 1, shape: SHAPE_SINGLE, delta: 0 }, Commit { site: SITE_MASK as u32, shape: SHAPE_MARK, delta: u32::MAX }]
        {
            assert_eq!(Commit::from_word(commit.word()), commit);
            assert_ne!(commit.word(), 0);
        }
        let head = LongHead { len: MAX_PIECE_BYTES, kind_bits: 3, flags: 7, total: u32::MAX };
        assert_eq!(LongHead::from_word(head.word()), head);
    }

    #[test]
    fn the_largest_piece_fits_a_block() {
        let shape = LongShape::new(63, MAX_PIECE_BYTES, Kind::ReadWrite);
        assert_eq!(shape.lines, 17);
        assert!(shape.slots <= SLOTS_PER_BLOCK as u64);
    }
}
