//! Which blocks a snapshot has, by their headers.
//!
//! Headers are read many at once, and three times: the first copy says whose a block is and whether it was released, the second holds the
//! rest, the third tells whether it has gone to somebody else meanwhile. Each copy is a system call of its own, as within one nothing
//! tells which byte was copied first. A block that is still being written is looked into as well.
use super::block::{self, BlockBuffer, BlockInfo};
use super::counts::Unfinished;
use super::error::{Damage, ReadError};
use super::file::word;
use super::{Position, Reader, Recording};
use crate::layout::*;
use crate::types::{ObjectIndex, RecordingIndex};

/// Headers that are read at once.
const AT_ONCE: u64 = 4096;

impl Reader {
    /// Blocks claimed up to `cursor`, by age, and the accesses under way in them.
    pub(super) fn read_blocks(&self, cursor: u64) -> Result<(Vec<BlockInfo>, Vec<Unfinished>), ReadError> {
        let mut blocks = Vec::new();
        let mut youngest = (0, 0);
        // And the next one, which shows a cursor that is too low.
        self.headers(cursor + 1, |index, [first, second, third]| {
            let state = word(first, BLK_STATE);
            youngest = youngest.max((state >> 18, index));
            if let Some(mut block) = self.claimed(index, state, cursor)?
                && word(third, BLK_STATE) >> 18 == block.ticket
            {
                self.fill(&mut block, second)?;
                blocks.push(block);
            }
            Ok(())
        })?;
        let (ticket, index) = youngest;
        let now = self.file.read_word("cursor", HDR_CURSOR)?;
        if ticket > now {
            let at = self.header_offset(index) + BLK_STATE;
            return Err(self.file.damaged(Damage::new("ticket of a block", at, format!("at most the cursor, {now}"), ticket)));
        }
        let mut unfinished = Vec::new();
        let mut kept = Vec::with_capacity(blocks.len());
        for mut block in blocks {
            if block.released || self.look_into(&mut block, &mut unfinished)? {
                kept.push(block);
            }
        }
        kept.sort_unstable_by_key(|block| block.ticket);
        Ok((kept, unfinished))
    }

    /// Calls `each` with the number of every block that may have been claimed up to `cursor`, and three copies of its header.
    fn headers(&self, cursor: u64, mut each: impl FnMut(u64, [&[u8]; 3]) -> Result<(), ReadError>) -> Result<(), ReadError> {
        let section = self.layout.block_headers();
        let count = section.count.min(cursor);
        let mut copies = [(); 3].map(|()| vec![0; (AT_ONCE.min(count) * BLOCK_HEADER_BYTES) as usize]);
        for start in (0..count).step_by(AT_ONCE as usize) {
            let bytes = (AT_ONCE.min(count - start) * BLOCK_HEADER_BYTES) as usize;
            for copy in &mut copies {
                self.file.read("block headers", section.offset + start * BLOCK_HEADER_BYTES, &mut copy[..bytes])?;
            }
            let [first, second, third] = copies.each_ref().map(|copy| copy[..bytes].chunks_exact(BLOCK_HEADER_BYTES as usize));
            for (index, ((first, second), third)) in (start..).zip(first.zip(second).zip(third)) {
                each(index, [first, second, third])?;
            }
        }
        Ok(())
    }

    /// Finds out, after the blocks and then the recordings were read, how many records of each recording are older than all that
    /// the snapshot leaves out.
    ///
    /// A block may have been overwritten before the snapshot came to it, or even been released and overwritten since the
    /// recordings' counts were read before; its records are lost then, and are to be counted. What tells is the next block of
    /// its recording, or if that has none the recording's count.
    pub(super) fn count_appended(&mut self) -> Result<(), ReadError> {
        /// Of a recording: what it has in the snapshot, and what comes next.
        #[derive(Clone, Copy, Default)]
        struct Ends {
            ticket: u64,
            records: u64,
            active: bool,
            next: Option<u64>,
        }
        let mut all = vec![Ends::default(); self.recordings.last().map_or(0, |last| last.index.get() as usize + 1)];
        for block in &self.blocks {
            if let Some(ends) = all.get_mut(block.recording.get() as usize) {
                let records = block.first_record.saturating_add(block.records.into());
                *ends = Ends { ticket: block.ticket, records, active: !block.released, next: None };
            }
        }
        let unexplained = |recording: &Recording| {
            let ends = &all[recording.index.get() as usize];
            !ends.active && recording.appended > ends.records
        };
        if self.recordings.iter().any(unexplained) {
            let now = self.file.read_word("cursor", HDR_CURSOR)?;
            self.headers(now, |index, [first, second, third]| {
                let Some(mut block) = self.claimed(index, word(first, BLK_STATE), u64::MAX)? else { return Ok(()) };
                let Some(ends) = all.get_mut(block.recording.get() as usize) else { return Ok(()) };
                if block.ticket > ends.ticket && word(third, BLK_STATE) >> 18 == block.ticket {
                    self.fill(&mut block, second)?;
                    ends.next = Some(ends.next.map_or(block.first_record, |least| least.min(block.first_record)));
                }
                Ok(())
            })?;
        }
        for recording in &mut self.recordings {
            let ends = &all[recording.index.get() as usize];
            recording.appended = if ends.active { ends.records } else { ends.next.unwrap_or(recording.appended) };
        }
        Ok(())
    }

    fn header_offset(&self, index: u64) -> u64 {
        self.layout.block_headers().offset + index * BLOCK_HEADER_BYTES
    }

    /// The block that a state word speaks of, if that was claimed up to `cursor` and its header is complete.
    fn claimed(&self, index: u64, state: u64, cursor: u64) -> Result<Option<BlockInfo>, ReadError> {
        let (ticket, count) = (state >> 18, self.layout.block_headers().count);
        if state == 0 || ticket > cursor {
            return Ok(None);
        }
        if ticket == 0 || (ticket - 1) % count != index {
            let expected = format!("one that falls on block {index} of {count}");
            return Err(self.file.damaged(Damage::new("ticket of a block", self.header_offset(index) + BLK_STATE, expected, ticket)));
        }
        if state & 3 != STATE_ACTIVE && state & 3 != STATE_RELEASED {
            return Ok(None);
        }
        let Some(recording) = RecordingIndex::new((state >> 2) as u32 & 0xffff) else { return Ok(None) };
        Ok(Some(BlockInfo {
            ticket,
            recording,
            index,
            released: state & 3 == STATE_RELEASED,
            first_record: 0,
            bb_base: 0,
            tsc_first: 0,
            tsc_last: None,
            slots: 0,
            records: 0,
        }))
    }

    fn fill(&self, block: &mut BlockInfo, words: &[u8]) -> Result<(), ReadError> {
        block.bb_base = word(words, BLK_BB_BASE);
        block.first_record = word(words, BLK_FIRST_RECORD);
        block.tsc_first = word(words, BLK_TSC_FIRST);
        if !block.released {
            return Ok(());
        }
        let used = word(words, BLK_USED);
        (block.slots, block.records) = (used as u32, (used >> 32) as u32);
        if block.slots as usize > SLOTS_PER_BLOCK || block.records > block.slots {
            let expected = format!("records in at most {SLOTS_PER_BLOCK} slots");
            return Err(self.file.damaged(Damage::new("use of a block", self.header_offset(block.index) + BLK_USED, expected, used)));
        }
        block.tsc_last = Some(word(words, BLK_TSC_LAST));
        Ok(())
    }

    /// Counts what a block holds that is still being written. False if it has gone to somebody else meanwhile.
    fn look_into(&self, block: &mut BlockInfo, unfinished: &mut Vec<Unfinished>) -> Result<bool, ReadError> {
        let offset = self.block_offset(block.index);
        let mut first = BlockBuffer::default();
        let mut second = BlockBuffer::default();
        self.file.read("blocks", offset, &mut first.bytes)?;
        self.file.read("blocks", offset, &mut second.bytes)?;
        let again = self.file.read_word("block headers", self.header_offset(block.index) + BLK_STATE)?;
        if again >> 18 != block.ticket {
            return Ok(false);
        }
        let committed = |slot: u32| word(&first.bytes, u64::from(slot) * SLOT_BYTES + SLOT_COMMIT);
        let walked = block::walk(&second.bytes, SLOTS_PER_BLOCK as u32, offset, committed, |_, _| {});
        let walk = walked.map_err(|(_, damage)| self.file.damaged(damage))?;
        (block.slots, block.records) = (walk.slots, walk.records);
        let at = u64::from(walk.slots) * SLOT_BYTES;
        if at < BLOCK_BYTES {
            let place = word(&second.bytes, at + SLOT_WHERE);
            let committed = word(&second.bytes, at + SLOT_COMMIT);
            if let (Some(object), 0) = (ObjectIndex::new((place >> OFFSET_BITS) as u32), committed) {
                let position = Position::new(block.ticket, walk.slots);
                let (recording, offset) = (block.recording, place & OFFSET_MASK);
                unfinished.push(Unfinished { position, recording, object, offset });
            }
        }
        Ok(true)
    }
}
