//! One block of the log: a stretch of one recording's accesses in program order.
use super::Reader;
use super::access::{Access, Position};
use super::error::{Damage, ReadError};
use super::file::word;
use super::record::{BlockTimes, Mark, RecordContext, RecordHead};
use crate::layout::*;
use crate::slot::Commit;
use crate::types::RecordingIndex;

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

impl BlockInfo {
    /// What it says about times, with the marks that are in it.
    #[inline]
    pub fn times<'m>(&self, marks: &'m [Mark]) -> BlockTimes<'m> {
        let BlockInfo { bb_base, tsc_first, tsc_last, slots, .. } = *self;
        BlockTimes { bb_base, tsc_first, tsc_last, slots, marks }
    }
}

/// Memory for a block, to be used again and again: one per thread that reads.
#[derive(Debug)]
pub struct BlockBuffer {
    pub(super) bytes: Box<[u8]>,
    /// First slots of the records.
    starts: Vec<u16>,
    marks: Vec<Mark>,
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
        let slots = match (RecordHead { commit: commit_word, ..RecordHead::of(bytes, slot) }).slots() {
            Ok(slots) => slots,
            Err(damage) => return Err((walk, damage.behind(block_offset + at))),
        };
        if slot + slots > SLOTS_PER_BLOCK as u32 {
            let expected = format!("a record of at most {} slots", SLOTS_PER_BLOCK as u32 - slot);
            return Err((walk, Damage::new("end of a record", block_offset + at, expected, slots.into())));
        }
        each(slot, commit);
        walk.slots += slots;
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

    /// The marks between the records, in order.
    pub fn marks(&self) -> &'a [Mark] {
        &self.buffer.marks
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
        let slot = u32::from(self.buffer.starts[index]);
        let context = RecordContext {
            position: Position::new(self.info.ticket, slot),
            recording: self.info.recording,
            sequence: self.info.first_record.wrapping_add(index as u64),
            times: self.info.times(&self.buffer.marks),
        };
        self.reader.decode(&context, &self.buffer.bytes[slot as usize * SLOT_BYTES as usize..])
    }
}
