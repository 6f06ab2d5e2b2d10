//! A part of the index: some consecutive blocks of the log.
use super::Skipped;
use super::column::Column;
use crate::error::Error;
use crate::record::Record;
use crate::source::{Block, Mark, Source};
use rustc_hash::FxHashMap;
use shmem_log::layout::SLOTS_PER_BLOCK;
use shmem_log::{ObjectIndex, RecordingIndex};

/// Entries to a fence.
pub(crate) const FENCE: usize = 64;
const SLOT_BITS: u32 = SLOTS_PER_BLOCK.ilog2();

/// A line of an object, as one number.
pub(crate) fn line_key(object: ObjectIndex, line: u64) -> u64 {
    u64::from(object.get()) << 42 | line & ((1 << 42) - 1)
}

#[derive(Debug)]
pub(crate) struct Segment {
    pub blocks: Vec<Block>,
    pub marks: Vec<Mark>,
    /// Whether no block of it can grow any more.
    pub complete: bool,
    pub skipped: Skipped,
    /// The lists: key, recording; where entries and fences begin, with one more at the end. Sorted.
    pub keys: Vec<u64>,
    pub recordings: Vec<u16>,
    pub first_entry: Vec<u32>,
    pub first_fence: Vec<u32>,
    pub place: Column<u32>,
    pub touched: Column<u8>,
    pub written: Column<u8>,
    pub fence_start: Column<u64>,
    pub fence_touched: Column<u8>,
    pub fence_written: Column<u8>,
}

/// One list of a segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListRef<'a> {
    pub segment: &'a Segment,
    pub recording: RecordingIndex,
    first: usize,
    first_fence: usize,
    pub len: usize,
}

impl Segment {
    /// Fills in of each block where the next one of its recording starts.
    pub fn bound_blocks(&mut self) {
        let mut next: FxHashMap<u16, u64> = FxHashMap::default();
        for block in self.blocks.iter_mut().rev() {
            block.bb_end = next.insert(block.recording, block.bb_base).unwrap_or(u64::MAX);
        }
    }

    /// Entries.
    pub fn len(&self) -> usize {
        self.place.len()
    }

    pub fn size_bytes(&self) -> u64 {
        let lists = self.keys.len() * (8 + 2 + 4 + 4) + 8;
        let blocks = self.blocks.len() * 48 + self.marks.len() * 24;
        (lists + blocks + self.place.len() * 6 + self.fence_start.len() * 10) as u64
    }

    fn list(&self, at: usize) -> Option<ListRef<'_>> {
        let (first, end) = (self.first_entry[at] as usize, self.first_entry[at + 1] as usize);
        let recording = RecordingIndex::new(self.recordings[at].into())?;
        let first_fence = self.first_fence[at] as usize;
        Some(ListRef { segment: self, recording, first, first_fence, len: end.saturating_sub(first) })
    }

    /// The lists of a line, by recording.
    pub fn lists(&self, key: u64) -> impl Iterator<Item = ListRef<'_>> {
        let start = self.keys.partition_point(|this| *this < key);
        let behind = self.keys[start..].iter().take_while(move |this| **this == key).count();
        (start..start + behind).filter_map(|at| self.list(at))
    }

    fn marks_of(&self, block: usize) -> &[Mark] {
        let first = self.blocks[block].first_mark as usize;
        let end = self.blocks.get(block + 1).map_or(self.marks.len(), |next| next.first_mark as usize);
        self.marks.get(first..end).unwrap_or(&[])
    }

    /// Reads the record at a place. None if there is none, or none that makes sense.
    pub fn record(&self, source: &Source, place: u32) -> Result<Option<Record>, Error> {
        let at = (place >> SLOT_BITS) as usize;
        // A block that was overwritten counts no records any more.
        let Some(block) = self.blocks.get(at).filter(|block| block.records > 0) else { return Ok(None) };
        source.record(block, self.marks_of(at), place & (SLOTS_PER_BLOCK as u32 - 1))
    }
}

impl<'a> ListRef<'a> {
    #[inline]
    pub fn place(&self, at: usize) -> u32 {
        self.segment.place.get(self.first + at)
    }

    /// How many of its accesses write.
    pub fn writes(&self) -> u64 {
        (0..self.len).map(|at| u64::from(self.segment.written.get(self.first + at) != 0)).sum()
    }

    /// The block that an entry lies in.
    pub fn block(&self, at: usize) -> Option<&'a Block> {
        self.segment.blocks.get((self.place(at) >> SLOT_BITS) as usize)
    }

    pub fn record(&self, source: &Source, at: usize) -> Result<Option<Record>, Error> {
        self.segment.record(source, self.place(at))
    }

    /// The last entry before `end` that touches one of the words in `touched` and writes one of those in `written`; a mask of 0 asks
    /// for nothing.
    pub fn last_before(&self, end: usize, touched: u8, written: u8) -> Option<usize> {
        let matches = |t: u8, w: u8| (touched == 0 || t & touched != 0) && (written == 0 || w & written != 0);
        let mut end = end.min(self.len);
        while end > 0 {
            let fence = (end - 1) / FENCE;
            let at = self.first_fence + fence;
            if matches(self.segment.fence_touched.get(at), self.segment.fence_written.get(at)) {
                for entry in (fence * FENCE..end).rev() {
                    let at = self.first + entry;
                    if matches(self.segment.touched.get(at), self.segment.written.get(at)) {
                        return Some(entry);
                    }
                }
            }
            end = fence * FENCE;
        }
        None
    }

    /// The first entry at or behind `start`, likewise.
    pub fn first_from(&self, start: usize, touched: u8, written: u8) -> Option<usize> {
        let matches = |t: u8, w: u8| (touched == 0 || t & touched != 0) && (written == 0 || w & written != 0);
        let mut start = start;
        while start < self.len {
            let fence = start / FENCE;
            let end = ((fence + 1) * FENCE).min(self.len);
            let at = self.first_fence + fence;
            if matches(self.segment.fence_touched.get(at), self.segment.fence_written.get(at)) {
                for entry in start..end {
                    let at = self.first + entry;
                    if matches(self.segment.touched.get(at), self.segment.written.get(at)) {
                        return Some(entry);
                    }
                }
            }
            start = end;
        }
        None
    }

    /// The entries from which on intervals start behind `clock` (half ticks) begin in this range; before it, none does.
    pub fn around_clock(&self, clock: u64) -> std::ops::Range<usize> {
        let (mut low, mut high) = (0, self.len.div_ceil(FENCE));
        while low < high {
            let middle = (low + high) / 2;
            if self.segment.fence_start.get(self.first_fence + middle) <= clock {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        match low.checked_sub(1) {
            None => 0..0,
            Some(fence) => fence * FENCE..(low * FENCE).min(self.len),
        }
    }

    /// How many entries, of a beginning of the list, are before something: `is_before` of the record; of one that cannot be
    /// read it is taken to be. Looks at the entries in `range` only.
    pub fn partition(
        &self,
        source: &Source,
        range: std::ops::Range<usize>,
        mut is_before: impl FnMut(&Block, &mut dyn FnMut() -> Result<Option<Record>, Error>) -> Result<bool, Error>,
    ) -> Result<usize, Error> {
        let (mut low, mut high) = (range.start, range.end);
        while low < high {
            let middle = (low + high) / 2;
            let before = match self.block(middle) {
                Some(block) => is_before(block, &mut || self.record(source, middle))?,
                None => true,
            };
            if before {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }
}
