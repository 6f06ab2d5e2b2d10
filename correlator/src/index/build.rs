//! Building a segment: count, then scatter, both in parallel.
//!
//! ```text
//!   blocks ─► parts (one per task) ─► each: a number for every list it meets, and for every entry its list, place, mask, start
//!                                       │
//!                                       └► all lists sorted; room for each part in each ─► each part puts its entries there
//! ```
use super::Skipped;
use super::column::Column;
use super::segment::{FAR, NEAR, START_EVERY, Segment, line_key, mask};
use crate::error::Error;
use crate::source::{Block, Source, walk};
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use shmem_log::layout::*;
use shmem_log::{BlockInfo, Extent, Mark, RecordHead};
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};

/// What a task found in its blocks.
#[derive(Default)]
struct Part {
    blocks: Vec<Block>,
    marks: Vec<Mark>,
    skipped: Skipped,
    /// By the part's own number of a list: line key, recording, entries.
    lists: Vec<(u64, u16, u32)>,
    /// By entry.
    list: Vec<u32>,
    place: Vec<u32>,
    mask: Vec<u16>,
    start: Vec<u64>,
}

/// Numbers the lists that a part meets, and counts their entries.
///
/// A page of an object has 64 lines: one look-up for all of them, and none while the program stays on it. Number and count lie together
/// as most of the time goes into waiting for memory.
#[derive(Default)]
struct Numbers {
    pages: FxHashMap<(u64, u16), u32>,
    /// By page: of the list of each line the number plus one, and the entries.
    lines: Vec<[(u32, u32); 64]>,
    last: Option<((u64, u16), u32)>,
}

impl Numbers {
    /// The list of one more entry.
    #[inline]
    fn list(&mut self, key: u64, recording: u16, lists: &mut Vec<(u64, u16, u32)>) -> u32 {
        let page_key = (key >> 6, recording);
        let page = match self.last {
            Some((last, page)) if last == page_key => page,
            _ => {
                let page = *self.pages.entry(page_key).or_insert_with(|| {
                    self.lines.push([(0, 0); 64]);
                    self.lines.len() as u32 - 1
                });
                self.last = Some((page_key, page));
                page
            }
        };
        let (number, entries) = &mut self.lines[page as usize][(key & 63) as usize];
        *entries += 1;
        if *number == 0 {
            lists.push((key, recording, 0));
            *number = lists.len() as u32;
        }
        *number - 1
    }

    /// Puts the numbers of entries where they belong.
    fn count(&self, lists: &mut [(u64, u16, u32)]) {
        for (number, entries) in self.lines.iter().flatten().filter(|(number, _)| *number != 0) {
            lists[*number as usize - 1].2 = *entries;
        }
    }
}

/// Builds a segment of these blocks; those that were overwritten since the snapshot are left out.
pub(super) fn build(source: &Source, infos: &[BlockInfo], progress: &(dyn Fn(u64) + Sync)) -> Result<Segment, Error> {
    // More tasks than threads, so that one that is late does not hold up all.
    let tasks = (rayon::current_num_threads() * 2).clamp(1, 64);
    let size = infos.len().div_ceil(tasks).max(1);
    let done = AtomicU64::new(0);
    let scan = |(number, infos): (usize, &[BlockInfo])| scan(source, infos, number * size, &done, progress);
    let parts: Vec<Part> = infos.par_chunks(size).enumerate().map(scan).collect::<Result<_, Error>>()?;

    let mut all: Vec<(u64, u16, u32, u32)> = Vec::new();
    for (number, part) in parts.iter().enumerate() {
        all.extend(part.lists.iter().zip(0..).map(|((key, recording, _), local)| (*key, *recording, number as u32, local)));
    }
    all.par_sort_unstable();
    let (mut keys, mut recordings, mut first_entry) = (Vec::new(), Vec::new(), Vec::new());
    // By part and its number of a list: where its entries go.
    let mut targets: Vec<Vec<u32>> = parts.iter().map(|part| vec![0; part.lists.len()]).collect();
    let mut entries = 0u32;
    for same in all.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
        keys.push(same[0].0);
        recordings.push(same[0].1);
        first_entry.push(entries);
        for (_, _, part, local) in same {
            targets[*part as usize][*local as usize] = entries;
            entries += parts[*part as usize].lists[*local as usize].2;
        }
    }
    first_entry.push(entries);
    drop(all);

    let place: Vec<AtomicU32> = zeroed(entries as usize);
    let masks: Vec<AtomicU16> = zeroed(entries as usize);
    let start: Vec<AtomicU64> = zeroed((entries as usize).div_ceil(START_EVERY));
    // Each entry has one writer; the atomics are there so that tasks may share the arrays, and cost nothing when relaxed.
    parts.par_iter().zip(targets.par_iter_mut()).for_each(|(part, targets)| {
        let both = part.list.iter().zip(&part.place).zip(part.mask.iter().zip(&part.start));
        for ((list, from), (mask, begin)) in both {
            let next = &mut targets[*list as usize];
            let at = *next as usize;
            place[at].store(*from, Relaxed);
            masks[at].store(*mask, Relaxed);
            if at.is_multiple_of(START_EVERY) {
                start[at / START_EVERY].store(*begin, Relaxed);
            }
            *next += 1;
        }
    });
    let masks: Vec<u16> = masks.into_iter().map(AtomicU16::into_inner).collect();
    let or = |masks: &[u16]| masks.iter().fold(0, |all, mask| all | mask);
    let near: Vec<u16> = masks.par_chunks(NEAR).map(or).collect();
    let mut segment = Segment {
        blocks: Vec::with_capacity(infos.len()),
        marks: Vec::new(),
        complete: infos.iter().all(|info| info.released),
        skipped: Skipped::default(),
        keys: Column::Whole(keys),
        recordings: Column::Whole(recordings),
        first_entry: Column::Whole(first_entry),
        place: Column::Whole(place.into_iter().map(AtomicU32::into_inner).collect()),
        mask: Column::Whole(masks),
        start: Column::Whole(start.into_iter().map(AtomicU64::into_inner).collect()),
        far: Column::Whole(near.chunks(FAR / NEAR).map(or).collect()),
        near: Column::Whole(near),
    };
    for part in &parts {
        let marks = segment.marks.len() as u32;
        segment.blocks.extend(part.blocks.iter().map(|block| Block { first_mark: block.first_mark + marks, ..*block }));
        segment.marks.extend(&part.marks);
        segment.skipped.add(&part.skipped);
    }
    // Giving the memory back takes time as well.
    parts.into_par_iter().for_each(drop);
    Ok(segment)
}

fn zeroed<T: Default>(count: usize) -> Vec<T> {
    let mut all = Vec::new();
    all.resize_with(count, T::default);
    all
}

/// Reads the blocks of a part, the first of which is the segment's number `first`.
fn scan(source: &Source, infos: &[BlockInfo], first: usize, done: &AtomicU64, progress: &(dyn Fn(u64) + Sync)) -> Result<Part, Error> {
    let mut part = Part::default();
    let expected = infos.iter().map(|info| info.records as usize).sum();
    part.list.reserve(expected);
    part.place.reserve(expected);
    part.mask.reserve(expected);
    part.start.reserve(expected);
    let mut numbers = Numbers::default();
    let mut bytes = vec![0; BLOCK_BYTES as usize];
    for (index, info) in infos.iter().enumerate() {
        source.reader.read_slots(info.ticket, 0, &mut bytes)?;
        let times = info.times(&[]);
        part.blocks.push(Block {
            ticket: info.ticket,
            records: info.records,
            recording: info.recording.get() as u16,
            bb_base: times.bb_base,
            bb_first: u64::MAX,
            bb_last: 0,
            tsc_first: times.tsc_first,
            tsc_last: times.tsc_last.unwrap_or(0),
            slots: times.slots.min(SLOTS_PER_BLOCK as u32),
            first_mark: part.marks.len() as u32,
        });
        scan_block(source, info, (first + index) as u32, &bytes, &mut part, &mut numbers);
        if index % 64 == 63 {
            let records = infos[index - 63..=index].iter().map(|info| u64::from(info.records)).sum::<u64>();
            progress(done.fetch_add(records, Relaxed) + records);
        }
    }
    numbers.count(&mut part.lists);
    // A block that was overwritten meanwhile may have shown anything; without records, nothing in it is looked at any more.
    if !source.confirm(infos.iter().map(|info| info.ticket))? {
        for block in &mut part.blocks {
            if !source.reader.is_current(block.ticket)? {
                block.records = 0;
            }
        }
    }
    Ok(part)
}

fn scan_block(source: &Source, info: &BlockInfo, number: u32, bytes: &[u8], part: &mut Part, numbers: &mut Numbers) {
    let mut bad = 0;
    let Some(block) = part.blocks.last().copied() else { return };
    let (mut base, mut bb_first, mut bb_last) = (block.bb_base, block.bb_first, block.bb_last);
    let each = |slot: u32, head: &RecordHead| {
        if let Some(mark) = head.mark(slot) {
            part.marks.push(mark);
            base = mark.bb_base;
            return;
        }
        let bbcount = base.wrapping_add(head.commit >> 32);
        (bb_first, bb_last) = (bb_first.min(bbcount), bb_last.max(bbcount));
        let place = number << SLOTS_PER_BLOCK.ilog2() | slot;
        let slots = &bytes[slot as usize * SLOT_BYTES as usize..];
        if add(source, info, place, slots, head, part, numbers).is_none() {
            bad += 1;
            if part.skipped.first.is_none() {
                part.skipped.first = Some(format!("slot {slot} of block {}: no record that a writer wrote", info.ticket));
            }
        }
    };
    let walked = walk(bytes, info.released.then_some(block.slots), info.records, each);
    if let Some(block) = part.blocks.last_mut() {
        (block.bb_first, block.bb_last) = (bb_first, bb_last);
    }
    part.skipped.records += bad;
    if let Err(slot) = walked {
        part.skipped.blocks += 1;
        let first = || format!("block {}: from slot {slot} on, expected a record, found none", info.ticket);
        part.skipped.first.get_or_insert_with(first);
    }
}

/// Adds a record to the lists of the lines that it touches; its slots are the first in `bytes`.
#[inline]
fn add(
    source: &Source,
    info: &BlockInfo,
    place: u32,
    bytes: &[u8],
    head: &RecordHead,
    part: &mut Part,
    numbers: &mut Numbers,
) -> Option<()> {
    let Extent { object, offset, len, kind } = source.reader.extent(head)?;
    let end = offset + u64::from(len);
    let (first, last) = (offset / LINE_BYTES, (end - 1) / LINE_BYTES);
    let mut intervals = head.intervals(bytes);
    for line in first..=last {
        let interval = intervals.next()?;
        let words = words(line * LINE_BYTES, offset, end);
        let list = numbers.list(line_key(object, line), info.recording.get() as u16, &mut part.lists);
        part.list.push(list);
        part.place.push(place);
        part.mask.push(mask(words, kind.writes()));
        part.start.push(interval.start);
    }
    Some(())
}

/// Which 8-byte words of the line at `base` the bytes `[offset, end)` touch.
#[inline]
pub(crate) fn words(base: u64, offset: u64, end: u64) -> u8 {
    let from = offset.saturating_sub(base).min(LINE_BYTES) / 8;
    let to = end.saturating_sub(base).min(LINE_BYTES).div_ceil(8);
    if from >= to {
        return 0;
    }
    ((1u32 << to) - (1u32 << from)) as u8
}
