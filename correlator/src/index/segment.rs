//! A part of the index: some consecutive blocks of the log.
use super::Skipped;
use super::column::Column;
use crate::error::Error;
use crate::record::Record;
use crate::source::{Block, PAGE_SLOTS, Source};
use shmem_log::layout::SLOTS_PER_BLOCK;
use shmem_log::{Mark, ObjectIndex, RecordingIndex};

/// Entries, counted over the whole segment, of which one has its start noted.
pub(super) const START_EVERY: usize = 16;
/// Entries whose masks are or-ed into one, and of those again.
pub(super) const NEAR: usize = 64;
pub(super) const FAR: usize = NEAR * NEAR;
const SLOT_BITS: u32 = SLOTS_PER_BLOCK.ilog2();
const PAGE_BITS: u32 = PAGE_SLOTS.ilog2();

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
    /// The lists: key, recording; where entries begin, with one more at the end. Sorted.
    pub keys: Column<u64>,
    pub recordings: Column<u16>,
    pub first_entry: Column<u32>,
    pub place: Column<u32>,
    pub mask: Column<u16>,
    pub start: Column<u64>,
    pub near: Column<u16>,
    pub far: Column<u16>,
}

/// What an entry does to the words of its line: which it touches, and in the upper half which it writes.
pub(crate) fn mask(words: u8, writes: bool) -> u16 {
    u16::from(words) | if writes { u16::from(words) << 8 } else { 0 }
}

/// The masks of entries that touch, or write, one of these words.
pub(crate) fn wanted(words: u8, writes_only: bool) -> u16 {
    u16::from(words) << if writes_only { 8 } else { 0 }
}

/// One list of a segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListRef<'a> {
    pub segment: &'a Segment,
    pub recording: RecordingIndex,
    first: usize,
    pub len: usize,
}

impl Segment {
    /// Entries.
    pub fn len(&self) -> usize {
        self.place.len()
    }

    pub fn size_bytes(&self) -> u64 {
        let lists = self.keys.len() * (8 + 2 + 4) + 4;
        let blocks = self.blocks.len() * 64 + self.marks.len() * 24;
        (lists + blocks + self.place.len() * 6 + self.start.len() * 8 + (self.near.len() + self.far.len()) * 2) as u64
    }

    fn list(&self, at: usize) -> Option<ListRef<'_>> {
        let (first, end) = (self.first_entry.get(at) as usize, self.first_entry.get(at + 1) as usize);
        let recording = RecordingIndex::new(self.recordings.get(at).into())?;
        let len = end.min(self.len()).saturating_sub(first);
        (len > 0).then_some(ListRef { segment: self, recording, first, len })
    }

    /// The lists of a line, by recording.
    pub fn lists(&self, key: u64) -> impl Iterator<Item = ListRef<'_>> {
        let (mut low, mut high) = (0, self.keys.len());
        while low < high {
            let middle = (low + high) / 2;
            if self.keys.get(middle) < key {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        (low..self.keys.len()).take_while(move |at| self.keys.get(*at) == key).filter_map(|at| self.list(at))
    }

    fn marks_of(&self, block: usize) -> &[Mark] {
        let first = self.blocks[block].first_mark as usize;
        let end = self.blocks.get(block + 1).map_or(self.marks.len(), |next| next.first_mark as usize);
        self.marks.get(first..end).unwrap_or(&[])
    }

    /// Reads the record at a place, and with `near` what is around it. None if there is none, or none that makes sense.
    pub fn record(&self, source: &Source, place: u32, near: bool) -> Result<Option<Record>, Error> {
        let at = (place >> SLOT_BITS) as usize;
        // A block that was overwritten counts no records any more.
        let Some(block) = self.blocks.get(at).filter(|block| block.records > 0) else { return Ok(None) };
        source.record(block, self.marks_of(at), place & (SLOTS_PER_BLOCK as u32 - 1), near)
    }
}

impl<'a> ListRef<'a> {
    #[inline]
    pub fn place(&self, at: usize) -> u32 {
        self.segment.place.get(self.first + at)
    }

    /// How many of its accesses write.
    pub fn writes(&self) -> u64 {
        (0..self.len).map(|at| u64::from(self.segment.mask.get(self.first + at) >> 8 != 0)).sum()
    }

    /// The block that an entry lies in.
    pub fn block(&self, at: usize) -> Option<&'a Block> {
        self.segment.blocks.get((self.place(at) >> SLOT_BITS) as usize)
    }

    pub fn record(&self, source: &Source, at: usize) -> Result<Option<Record>, Error> {
        // Whoever reads one of several in a row is likely to read the others next.
        let page = |at: usize| self.place(at) >> PAGE_BITS;
        let near = at > 0 && page(at - 1) == page(at) || at + 1 < self.len && page(at + 1) == page(at);
        self.segment.record(source, self.place(at), near)
    }

    /// The last entry before `end` with one of the bits `wanted` in its mask.
    pub fn last_before(&self, end: usize, wanted: u16) -> Option<usize> {
        let segment = self.segment;
        let mut end = self.first + end.min(self.len);
        while end > self.first {
            let near = (end - 1) / NEAR;
            if segment.near.get(near) & wanted != 0 {
                let entries = (near * NEAR).max(self.first)..end;
                if let Some(found) = entries.rev().find(|at| segment.mask.get(*at) & wanted != 0) {
                    return Some(found - self.first);
                }
                end = near * NEAR;
            } else if segment.far.get((end - 1) / FAR) & wanted != 0 {
                end = near * NEAR;
            } else {
                end = (end - 1) / FAR * FAR;
            }
        }
        None
    }

    /// The first entry at or behind `start`, likewise.
    pub fn first_from(&self, start: usize, wanted: u16) -> Option<usize> {
        let segment = self.segment;
        let (mut at, end) = (self.first + start, self.first + self.len);
        while at < end {
            let next = (at / NEAR + 1) * NEAR;
            if segment.near.get(at / NEAR) & wanted != 0 {
                if let Some(found) = (at..next.min(end)).find(|at| segment.mask.get(*at) & wanted != 0) {
                    return Some(found - self.first);
                }
                at = next;
            } else if segment.far.get(at / FAR) & wanted != 0 {
                at = next;
            } else {
                at = (at / FAR + 1) * FAR;
            }
        }
        None
    }

    /// The end of the entries whose intervals start at or before `clock` (ticks), or all of them, lies in this range, as far as the
    /// starts tell that are noted; it begins behind 0 if one of them is at or before `clock`.
    pub fn around_clock(&self, clock: u64) -> std::ops::Range<usize> {
        let (from, to) = (self.first.div_ceil(START_EVERY), (self.first + self.len).div_ceil(START_EVERY));
        let (mut low, mut high) = (from, to);
        while low < high {
            let middle = (low + high) / 2;
            if self.segment.start.get(middle) <= clock {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let behind = if low < to { low * START_EVERY - self.first } else { self.len };
        let known = if low > from { (low - 1) * START_EVERY + 1 - self.first } else { 0 };
        known..behind
    }

    /// How many entries, of a beginning of the list, are before something, if the end of that beginning lies in `range`.
    pub fn partition(
        &self,
        range: std::ops::Range<usize>,
        mut is_before: impl FnMut(usize) -> Result<bool, Error>,
    ) -> Result<usize, Error> {
        let (mut low, mut high) = (range.start, range.end);
        while low < high {
            let middle = (low + high) / 2;
            if is_before(middle)? {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }
}
