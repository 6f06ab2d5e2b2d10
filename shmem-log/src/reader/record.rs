//! One record: from the bytes of its slots to an access.
//!
//! Blocks are read whole by [`Reader::load`]. Who keeps an index of the log reads single records, with these parts: the slots
//! ([`Reader::read_slots`]), how many there are ([`RecordHead::slots`]), what they say ([`Reader::decode`]), and whether it still counts
//! ([`Reader::is_current`]).
//!
//! I1. The bytes are what somebody's file holds: whatever is in them, the answer is an access or an error.
use super::Reader;
use super::access::{Access, Lines, Position};
use super::error::{Damage, ReadError};
use super::file::word;
use crate::clock::{ClockIndex, Interval};
use crate::layout::*;
use crate::slot::{Commit, LongHead, LongShape};
use crate::types::{Kind, ObjectIndex, Piece, RecordingIndex, SiteIndex};

/// A record that tells time and base of bbcount for those behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Where it stands in its block.
    pub slot: u32,
    /// Time stamp counter.
    pub tsc: u64,
    pub bb_base: u64,
}

/// What a block says about base of bbcount and rough time, for all of its slots.
#[derive(Clone, Copy, Debug)]
pub struct BlockTimes<'a> {
    /// At its beginning.
    pub bb_base: u64,
    pub tsc_first: u64,
    /// None if it is not released.
    pub tsc_last: Option<u64>,
    /// Slots up to which `tsc_last` counts.
    pub slots: u32,
    /// By slot.
    pub marks: &'a [Mark],
}

impl BlockTimes<'_> {
    /// The base of bbcount that holds at a slot, and roughly its time: on a line between the nearest known ones.
    #[inline]
    pub fn at(&self, slot: u32) -> (u64, u64) {
        let marks = self.marks;
        let behind = marks.partition_point(|mark| mark.slot < slot);
        let (from_slot, from_tsc, base) = match behind.checked_sub(1) {
            Some(last) => (marks[last].slot, marks[last].tsc, marks[last].bb_base),
            None => (0, self.tsc_first, self.bb_base),
        };
        let to = match marks.get(behind) {
            Some(mark) => Some((mark.slot, mark.tsc)),
            None => self.tsc_last.map(|tsc| (self.slots, tsc)),
        };
        let tsc = match to {
            Some((to_slot, to_tsc)) if to_slot > from_slot && to_tsc > from_tsc => {
                // Rough anyway, and a division of wide integers would be the slowest part of decoding.
                let part = f64::from(slot.saturating_sub(from_slot)) / f64::from(to_slot - from_slot);
                from_tsc + ((to_tsc - from_tsc) as f64 * part) as u64
            }
            _ => from_tsc,
        };
        (base, tsc)
    }
}

/// What the slots of a record do not say about it.
#[derive(Clone, Copy, Debug)]
pub struct RecordContext<'a> {
    pub position: Position,
    pub recording: RecordingIndex,
    /// For [`Access::sequence`].
    pub sequence: u64,
    pub times: BlockTimes<'a>,
}

/// The words of a record's first slot, not yet looked into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHead {
    pub place: u64,
    pub word1: u64,
    pub word2: u64,
    pub commit: u64,
}

/// Where an access is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    pub object: ObjectIndex,
    /// Bytes from the object's start.
    pub offset: u64,
    /// Bytes, at least 1.
    pub len: u32,
    pub kind: Kind,
}

impl RecordHead {
    /// Of slot `slot` of the slots in `bytes`, which must be inside.
    #[inline(always)]
    pub fn of(bytes: &[u8], slot: u32) -> RecordHead {
        let bytes = &bytes[slot as usize * SLOT_BYTES as usize..][..SLOT_BYTES as usize];
        RecordHead {
            place: word(bytes, SLOT_WHERE),
            word1: word(bytes, SLOT_INTERVAL),
            word2: word(bytes, SLOT_VALUE),
            commit: word(bytes, SLOT_COMMIT),
        }
    }

    /// Whether there is a record; its other slots are as they should be, too.
    #[inline]
    pub fn is_committed(&self) -> bool {
        self.commit != 0
    }

    /// Whether it is a mark, and no access.
    #[inline]
    pub fn mark(&self, slot: u32) -> Option<Mark> {
        (self.shape() == SHAPE_MARK).then_some(Mark { slot, tsc: self.word1, bb_base: self.word2 })
    }

    #[inline]
    fn shape(&self) -> u64 {
        Commit::from_word(self.commit).shape
    }

    /// Length and kind of a long record, and where its parts are.
    fn long(&self) -> Result<(LongHead, Kind, LongShape), Damage> {
        let head = LongHead::from_word(self.word1);
        if head.len == 0 || head.len > MAX_PIECE_BYTES {
            let expected = format!("1 to {MAX_PIECE_BYTES} bytes");
            return Err(Damage::new("length of a long record", SLOT_INTERVAL, expected, head.len));
        }
        let Some(kind) = Kind::from_bits(head.kind_bits) else {
            return Err(Damage::new("kind of a long record", SLOT_INTERVAL + 2, "1, 2 or 3", head.kind_bits.into()));
        };
        Ok((head, kind, LongShape::new(self.place & OFFSET_MASK, head.len, kind)))
    }

    /// How many slots the record takes, from 1 on; they may not all be in its block. The damage's offset is from the record's start.
    #[inline]
    pub fn slots(&self) -> Result<u32, Damage> {
        match self.shape() {
            SHAPE_SINGLE | SHAPE_MARK => Ok(1),
            SHAPE_DOUBLE => Ok(2),
            _ => Ok(self.long()?.2.slots as u32),
        }
    }

    /// The intervals on the clocks of the lines that it touches, in order: `bytes` are those of its slots, and not one of a mark.
    #[inline]
    pub fn intervals<'a>(&self, bytes: &'a [u8]) -> impl Iterator<Item = Interval> + 'a {
        let (short, lines) = match self.shape() {
            SHAPE_LONG => (None, self.long().map_or(0, |(_, _, shape)| shape.lines)),
            _ => (Some(self.short_interval()), 0),
        };
        let payload = bytes.get(SLOT_BYTES as usize..).unwrap_or(&[]);
        let lines = payload.chunks_exact(16).take(lines as usize);
        short.into_iter().chain(lines.map_while(|line| Interval::new(word(line, 0), word(line, 8))))
    }

    #[inline(always)]
    fn short_interval(&self) -> Interval {
        let start = self.word1 & ((1 << INTERVAL_BITS) - 1);
        Interval { start, end: start + (self.word1 >> INTERVAL_BITS) }
    }
}

impl Reader {
    /// Reads the slots from `slot` on of the block that was given this ticket, as many as fit whole into `buffer`; those that are not
    /// in the block any more stay as they are. What was read counts if [`Reader::is_current`] says so afterwards.
    pub fn read_slots(&self, ticket: u64, slot: u32, buffer: &mut [u8]) -> Result<(), ReadError> {
        let left = (SLOTS_PER_BLOCK as u64).saturating_sub(slot.into());
        let bytes = (buffer.len() as u64 / SLOT_BYTES).min(left) * SLOT_BYTES;
        let offset = self.block_offset(self.place_in_ring(ticket)) + u64::from(slot) * SLOT_BYTES;
        self.file.read("blocks", offset, &mut buffer[..bytes as usize])
    }

    /// Whether a block still is what it was under this ticket.
    pub fn is_current(&self, ticket: u64) -> Result<bool, ReadError> {
        let header = self.layout.block_headers().offset + self.place_in_ring(ticket) * BLOCK_HEADER_BYTES;
        Ok(self.file.read_word("block headers", header + BLK_STATE)? >> 18 == ticket)
    }

    /// Where an access is, from the first slot of its record. None if it makes no sense.
    #[inline]
    pub fn extent(&self, head: &RecordHead) -> Option<Extent> {
        let object = ObjectIndex::new((head.place >> OFFSET_BITS) as u32).filter(|index| self.has_object(*index))?;
        let offset = head.place & OFFSET_MASK;
        let commit = Commit::from_word(head.commit);
        let (len, kind) = match commit.shape {
            SHAPE_LONG => {
                let (long, kind, _) = head.long().ok()?;
                (long.len as u32, kind)
            }
            SHAPE_MARK => return None,
            shape => {
                let site = self.site(SiteIndex::new(commit.site)?)?;
                let fits = site.len.wrapping_sub(1) < 8 && u64::from(site.len) <= LINE_BYTES - offset % LINE_BYTES;
                if !fits || (site.kind == Kind::ReadWrite) != (shape == SHAPE_DOUBLE) {
                    return None;
                }
                (site.len, site.kind)
            }
        };
        (offset + u64::from(len) <= OFFSET_MASK + 1).then_some(Extent { object, offset, len, kind })
    }

    /// The access whose record's first slot is the first in `bytes`, and which must not be a mark. Borrows its values from `bytes`.
    ///
    /// An error also if `bytes` end before the record does.
    #[inline]
    pub fn decode<'a>(&self, context: &RecordContext<'_>, bytes: &'a [u8]) -> Result<Access<'a>, ReadError> {
        self.decode_record(context, bytes).map_err(|damage| {
            let slot = self.block_offset(self.place_in_ring(context.position.ticket())) + u64::from(context.position.slot()) * SLOT_BYTES;
            self.file.damaged(damage.behind(slot))
        })
    }

    #[inline]
    fn decode_record<'a>(&self, context: &RecordContext<'_>, bytes: &'a [u8]) -> Result<Access<'a>, Damage> {
        let short = |found: usize, expected: u32| Damage::new("end of a record", 0, format!("{expected} slots"), found as u64 / SLOT_BYTES);
        if bytes.len() < SLOT_BYTES as usize {
            return Err(short(bytes.len(), 1));
        }
        let head = RecordHead::of(bytes, 0);
        let slots = head.slots()?;
        let Some(bytes) = bytes.get(..slots as usize * SLOT_BYTES as usize) else {
            return Err(short(bytes.len(), slots));
        };
        let commit = Commit::from_word(head.commit);
        let object = ObjectIndex::new((head.place >> OFFSET_BITS) as u32).filter(|index| self.has_object(*index));
        let Some(object) = object else {
            return Err(Damage::new("object of a record", 6, "a registered object", head.place >> OFFSET_BITS));
        };
        let offset = head.place & OFFSET_MASK;
        let site = match commit.site {
            0 => None,
            number => match SiteIndex::new(number).and_then(|index| self.site(index)) {
                Some(site) => Some(site),
                None => return Err(Damage::new("site of a record", SLOT_COMMIT, "a registered site", number.into())),
            },
        };
        let (bb_base, tsc) = context.times.at(context.position.slot());
        let access = Access {
            position: context.position,
            recording: context.recording,
            sequence: context.sequence,
            site: site.map(|site| site.index),
            pc: 0,
            bbcount: bb_base.wrapping_add(commit.delta.into()),
            kind: Kind::Read,
            by_kernel: false,
            object,
            offset,
            len: 0,
            piece: Piece::Whole,
            total_len: 0,
            tsc,
            seen: &[],
            written: &[],
            lines: Lines::Many(&[], 0),
        };
        match commit.shape {
            SHAPE_LONG => return self.decode_long(access, &head, bytes),
            SHAPE_MARK => return Err(Damage::new("shape of a record", SLOT_COMMIT + 3, "an access, not a mark", commit.shape)),
            _ => {}
        }
        let Some(site) = site else {
            return Err(Damage::new("site of a record", SLOT_COMMIT, "a site, in a record of this shape", 0));
        };
        let room = LINE_BYTES - offset % LINE_BYTES;
        if site.len == 0 || site.len > 8 || u64::from(site.len) > room {
            let found = site.len.into();
            return Err(Damage::new("length of a short record's site", SLOT_COMMIT, "1 to 8 bytes within a line", found));
        }
        if (site.kind == Kind::ReadWrite) != (commit.shape == SHAPE_DOUBLE) {
            return Err(Damage::new("shape of a record", SLOT_COMMIT + 3, "that of its site's kind", commit.shape));
        }
        let mut access = access;
        let len = site.len as usize;
        let first = &bytes[SLOT_VALUE as usize..][..len];
        match site.kind {
            Kind::Read => access.seen = first,
            Kind::Write => access.written = first,
            Kind::ReadWrite => {
                access.seen = first;
                access.written = &bytes[SLOT_BYTES as usize..][..len];
            }
        }
        access.pc = site.pc;
        access.kind = site.kind;
        access.len = site.len;
        access.total_len = site.len;
        access.lines = Lines::One(ClockIndex::of(head.place, self.clock_shift), head.short_interval());
        Ok(access)
    }

    fn decode_long<'a>(&self, mut access: Access<'a>, first: &RecordHead, bytes: &'a [u8]) -> Result<Access<'a>, Damage> {
        let (head, kind, shape) = first.long()?;
        if access.offset + head.len > OFFSET_MASK + 1 {
            return Err(Damage::new("end of an access", SLOT_WHERE, "at most 2^48", access.offset + head.len));
        }
        if head.flags & !(LONG_BY_KERNEL | LONG_FIRST | LONG_LAST) != 0 || u64::from(head.total) < head.len {
            return Err(Damage::new("head of a long record", SLOT_INTERVAL, "known flags, a piece within the whole", first.word1));
        }
        let payload = &bytes[SLOT_BYTES as usize..];
        let lines = &payload[..shape.seen as usize];
        for line in 0..shape.lines {
            let (start, end) = (word(lines, line * 16), word(lines, line * 16 + 8));
            if Interval::new(start, end).is_none() {
                let at = SLOT_BYTES + line * 16 + 8;
                return Err(Damage::new("interval of a line", at, "an end not before the start", end));
            }
        }
        if kind.reads() {
            access.seen = &payload[shape.seen as usize..][..head.len as usize];
        }
        if kind.writes() {
            access.written = &payload[shape.written as usize..][..head.len as usize];
        }
        access.kind = kind;
        access.pc = first.word2;
        access.by_kernel = head.flags & LONG_BY_KERNEL != 0;
        access.len = head.len as u32;
        access.total_len = head.total;
        access.piece = match (head.flags & LONG_FIRST != 0, head.flags & LONG_LAST != 0) {
            (true, true) => Piece::Whole,
            (true, false) => Piece::First,
            (false, true) => Piece::Last,
            (false, false) => Piece::Middle,
        };
        access.lines = Lines::Many(lines, self.clock_shift);
        Ok(access)
    }
}
