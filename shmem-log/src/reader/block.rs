//! One block of the log: a stretch of one recording's accesses in program order.
use super::Reader;
use super::access::{Access, Lines, Position};
use super::error::{Damage, ReadError};
use super::file::word;
use crate::clock::{ClockIndex, Interval};
use crate::layout::*;
use crate::slot::{Commit, LongHead, LongShape};
use crate::types::{Kind, ObjectIndex, Piece, RecordingIndex, SiteIndex};

/// A block as the last snapshot found it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockInfo {
    /// Grows with the age of the log; unique.
    pub ticket: u64,
    pub recording: RecordingIndex,
    /// The sequence number of its first record.
    pub first_record: u64,
    /// Records in it.
    pub records: u32,
    /// Whether its writer is done with it. If not, there may be more in it by now; a later snapshot shows them.
    pub released: bool,
    /// Roughly when it was begun, and ended if it was, in time stamp counter ticks.
    pub tsc_first: u64,
    pub tsc_last: Option<u64>,
    pub(super) bb_base: u64,
    pub(super) slots: u32,
    /// Its place in the ring.
    pub(super) index: u64,
}

/// Memory for a block, to be used again and again: one per thread that reads.
#[derive(Debug)]
pub struct BlockBuffer {
    pub(super) bytes: Box<[u8]>,
    /// First slots of the records.
    starts: Vec<u16>,
    marks: Vec<Mark>,
}

/// A record that tells time and base of bbcount for those behind it.
#[derive(Clone, Copy, Debug)]
struct Mark {
    slot: u32,
    tsc: u64,
    bb_base: u64,
}

impl Default for BlockBuffer {
    fn default() -> Self {
        BlockBuffer {
            bytes: vec![0; BLOCK_BYTES as usize].into_boxed_slice(),
            starts: Vec::with_capacity(SLOTS_PER_BLOCK),
            marks: Vec::new(),
        }
    }
}

/// What walking over a block's records found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Walk {
    pub slots: u32,
    pub records: u32,
}

/// Walks over the committed records of a block, calling `each(slot, commit)`; `committed(slot)` is the commit word, and where
/// it is 0, or at `limit` slots, the walk ends.
pub(super) fn walk(
    bytes: &[u8],
    limit: u32,
    block_offset: u64,
    committed: impl Fn(u32) -> u64,
    mut each: impl FnMut(u32, Commit),
) -> Result<Walk, (Walk, Damage)> {
    let mut walk = Walk::default();
    while walk.slots < limit {
        let slot = walk.slots;
        let at = u64::from(slot) * SLOT_BYTES;
        let commit_word = committed(slot);
        if commit_word == 0 {
            break;
        }
        let commit = Commit::from_word(commit_word);
        let slots = match commit.shape {
            SHAPE_SINGLE | SHAPE_MARK => 1,
            SHAPE_DOUBLE => 2,
            _ => {
                let head = LongHead::from_word(word(bytes, at + SLOT_INTERVAL));
                let offset = block_offset + at + SLOT_INTERVAL;
                if head.len == 0 || head.len > MAX_PIECE_BYTES {
                    let expected = format!("1 to {MAX_PIECE_BYTES} bytes");
                    return Err((walk, Damage::new("length of a long record", offset, expected, head.len)));
                }
                let Some(kind) = Kind::from_bits(head.kind_bits) else {
                    let found = head.kind_bits.into();
                    return Err((walk, Damage::new("kind of a long record", offset + 2, "1, 2 or 3", found)));
                };
                LongShape::new(word(bytes, at + SLOT_WHERE) & OFFSET_MASK, head.len, kind).slots
            }
        };
        if u64::from(slot) + slots > SLOTS_PER_BLOCK as u64 {
            let expected = format!("a record of at most {} slots", SLOTS_PER_BLOCK as u32 - slot);
            return Err((walk, Damage::new("end of a record", block_offset + at, expected, slots)));
        }
        each(slot, commit);
        walk.slots += slots as u32;
        walk.records += u32::from(commit.shape != SHAPE_MARK);
    }
    Ok(walk)
}

impl BlockBuffer {
    /// Finds the records in the bytes. A block that is damaged inside keeps those before the damage.
    pub(super) fn scan(&mut self, info: &BlockInfo, block_offset: u64) -> Option<Damage> {
        self.starts.clear();
        self.marks.clear();
        let (bytes, starts, marks) = (&self.bytes, &mut self.starts, &mut self.marks);
        let committed = |slot: u32| word(bytes, u64::from(slot) * SLOT_BYTES + SLOT_COMMIT);
        let walked = walk(bytes, info.slots, block_offset, committed, |slot, commit| {
            if commit.shape == SHAPE_MARK {
                let at = u64::from(slot) * SLOT_BYTES;
                let (tsc, bb_base) = (word(bytes, at + SLOT_INTERVAL), word(bytes, at + SLOT_VALUE));
                marks.push(Mark { slot, tsc, bb_base });
            } else {
                starts.push(slot as u16);
            }
        });
        let found = match walked {
            Ok(found) => found,
            Err((_, damage)) => return Some(damage),
        };
        let expected = Walk { slots: info.slots, records: info.records };
        if found != expected {
            let (slots, records) = (info.slots, info.records);
            let expected = format!("{records} records in {slots} slots, with {} slots of them", found.slots);
            return Some(Damage::new("records of a block", block_offset, expected, found.records.into()));
        }
        None
    }
}

/// The records of a block.
#[derive(Clone, Copy, Debug)]
pub struct BlockView<'a> {
    pub(super) reader: &'a Reader,
    pub(super) info: &'a BlockInfo,
    pub(super) buffer: &'a BlockBuffer,
}

impl<'a> BlockView<'a> {
    pub fn info(&self) -> &'a BlockInfo {
        self.info
    }

    /// Number of records.
    pub fn len(&self) -> usize {
        self.buffer.starts.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The records in program order. An error is one record that cannot be read.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Result<Access<'a>, ReadError>> + ExactSizeIterator + 'a {
        let view = *self;
        (0..self.len()).map(move |index| view.get(index))
    }

    /// The index of the first record at or behind a slot.
    pub(super) fn index_at(&self, slot: u32) -> usize {
        self.buffer.starts.partition_point(|start| u32::from(*start) < slot)
    }

    /// The record `index`, below [`BlockView::len`].
    #[inline]
    pub fn get(&self, index: usize) -> Result<Access<'a>, ReadError> {
        self.decode(index).map_err(|damage| self.reader.file.damaged(damage))
    }

    #[inline]
    fn decode(&self, index: usize) -> Result<Access<'a>, Damage> {
        let slot = u32::from(self.buffer.starts[index]);
        let at = u64::from(slot) * SLOT_BYTES;
        let bytes: &'a [u8] = &self.buffer.bytes[at as usize..];
        let place = word(bytes, SLOT_WHERE);
        let commit = Commit::from_word(word(bytes, SLOT_COMMIT));
        let damage = |field, at_in_slot, expected: &str, found| {
            Damage::new(field, self.reader.block_offset(self.info.index) + at + at_in_slot, expected, found)
        };
        let object = ObjectIndex::new((place >> OFFSET_BITS) as u32).filter(|index| self.reader.has_object(*index));
        let Some(object) = object else {
            return Err(damage("object of a record", 6, "a registered object", place >> OFFSET_BITS));
        };
        let offset = place & OFFSET_MASK;
        let site = match commit.site {
            0 => None,
            number => match SiteIndex::new(number).and_then(|index| self.reader.site(index)) {
                Some(site) => Some(site),
                None => return Err(damage("site of a record", SLOT_COMMIT, "a registered site", number.into())),
            },
        };
        let (bb_base, tsc) = self.around(slot);
        let mut access = Access {
            position: Position::new(self.info.ticket, slot),
            recording: self.info.recording,
            sequence: self.info.first_record.wrapping_add(index as u64),
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
        if commit.shape == SHAPE_LONG {
            self.decode_long(&mut access, bytes, damage)?;
            return Ok(access);
        }
        let Some(site) = site else {
            return Err(damage("site of a record", SLOT_COMMIT, "a site, in a record of this shape", 0));
        };
        let room = LINE_BYTES - offset % LINE_BYTES;
        if site.len == 0 || site.len > 8 || u64::from(site.len) > room {
            let found = site.len.into();
            return Err(damage("length of a short record's site", SLOT_COMMIT, "1 to 8 bytes within a line", found));
        }
        if (site.kind == Kind::ReadWrite) != (commit.shape == SHAPE_DOUBLE) {
            return Err(damage("shape of a record", SLOT_COMMIT + 3, "that of its site's kind", commit.shape));
        }
        let ticks = word(bytes, SLOT_INTERVAL);
        let start = ticks & ((1 << INTERVAL_BITS) - 1);
        let interval = Interval { start, end: start + (ticks >> INTERVAL_BITS) };
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
        access.lines = Lines::One(ClockIndex::of(place, self.reader.clock_shift), interval);
        Ok(access)
    }

    fn decode_long(
        &self,
        access: &mut Access<'a>,
        bytes: &'a [u8],
        damage: impl Fn(&'static str, u64, &str, u64) -> Damage,
    ) -> Result<(), Damage> {
        let head = LongHead::from_word(word(bytes, SLOT_INTERVAL));
        // The scan has checked kind, length and extent.
        let Some(kind) = Kind::from_bits(head.kind_bits) else {
            return Err(damage("kind of a long record", SLOT_INTERVAL + 2, "1, 2 or 3", head.kind_bits.into()));
        };
        let shape = LongShape::new(access.offset, head.len, kind);
        if access.offset + head.len > OFFSET_MASK + 1 {
            return Err(damage("end of an access", SLOT_WHERE, "at most 2^48", access.offset + head.len));
        }
        if head.flags & !(LONG_BY_KERNEL | LONG_FIRST | LONG_LAST) != 0 || u64::from(head.total) < head.len {
            let found = word(bytes, SLOT_INTERVAL);
            return Err(damage("head of a long record", SLOT_INTERVAL, "known flags, a piece within the whole", found));
        }
        let payload = &bytes[SLOT_BYTES as usize..];
        let lines = &payload[..shape.seen as usize];
        for line in 0..shape.lines {
            let (start, end) = (word(lines, line * 16), word(lines, line * 16 + 8));
            if Interval::new(start, end).is_none() {
                let at = SLOT_BYTES + line * 16 + 8;
                return Err(damage("interval of a line", at, "an end not before the start", end));
            }
        }
        if kind.reads() {
            access.seen = &payload[shape.seen as usize..][..head.len as usize];
        }
        if kind.writes() {
            access.written = &payload[shape.written as usize..][..head.len as usize];
        }
        access.kind = kind;
        access.pc = word(bytes, SLOT_VALUE);
        access.by_kernel = head.flags & LONG_BY_KERNEL != 0;
        access.len = head.len as u32;
        access.total_len = head.total;
        access.piece = match (head.flags & LONG_FIRST != 0, head.flags & LONG_LAST != 0) {
            (true, true) => Piece::Whole,
            (true, false) => Piece::First,
            (false, true) => Piece::Last,
            (false, false) => Piece::Middle,
        };
        access.lines = Lines::Many(lines, self.reader.clock_shift);
        Ok(())
    }

    /// The base of bbcount that holds at a slot, and roughly its time: on a line between the nearest known ones.
    #[inline]
    fn around(&self, slot: u32) -> (u64, u64) {
        let BlockInfo { bb_base, tsc_first, tsc_last, slots, .. } = *self.info;
        let marks = &self.buffer.marks;
        let behind = marks.partition_point(|mark| mark.slot < slot);
        let (from_slot, from_tsc, base) = match behind.checked_sub(1) {
            Some(last) => (marks[last].slot, marks[last].tsc, marks[last].bb_base),
            None => (0, tsc_first, bb_base),
        };
        let to = match marks.get(behind) {
            Some(mark) => Some((mark.slot, mark.tsc)),
            None => tsc_last.map(|tsc| (slots, tsc)),
        };
        let tsc = match to {
            Some((to_slot, to_tsc)) if to_slot > from_slot && to_tsc > from_tsc => {
                // Rough anyway, and a division of wide integers would be the slowest part of decoding.
                let part = f64::from(slot - from_slot) / f64::from(to_slot - from_slot);
                from_tsc + ((to_tsc - from_tsc) as f64 * part) as u64
            }
            _ => from_tsc,
        };
        (base, tsc)
    }
}
