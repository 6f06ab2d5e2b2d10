//! Questions about a whole log, line by line: what is contended, what races, what nobody logged.
//!
//! Lines are independent of each other, so they are looked at in parallel; of a line, accesses are read youngest first, and only as many
//! are held at once as may overlap in time.
use crate::correlator::{Correlator, View};
use crate::error::Error;
use crate::index::Segment;
use crate::merge::{Backward, Range, streams};
use crate::record::{Record, RecordOrder, order};
use rayon::prelude::*;
use shmem_log::layout::LINE_BYTES;
use shmem_log::{ObjectIndex, RecordingIndex};
use std::collections::VecDeque;

/// Of a line's accesses, so many of the youngest are looked into for the alternations of its owner.
const ALTERNATIONS_OF: usize = 20_000;
/// Accesses held at once to find what overlaps; only a process that was stopped in the midst of an access makes it so many.
const WINDOW: usize = 4096;

/// A recording's part in a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    pub recording: RecordingIndex,
    pub accesses: u64,
    pub writes: u64,
    /// Which bytes of the line it touched, and wrote: bit 0 is the first. Of those accesses that were looked into.
    pub touched: u64,
    pub written: u64,
}

/// A cache line that several recordings use and at least one writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HotLine {
    pub object: ObjectIndex,
    /// Of the line in the object.
    pub offset: u64,
    pub accesses: u64,
    pub shares: Vec<Share>,
    /// How often the line's owner changed: an access by another recording than the one before, of which one wrote…
    pub alternations: u64,
    /// …among so many of its youngest accesses.
    pub looked_at: u64,
}

impl HotLine {
    /// Whether some recording writes bytes of it that another one, which uses the line too, never touches, and the other way round: then
    /// they get into each other's way though they share nothing.
    pub fn is_false_sharing(&self) -> bool {
        self.shares.iter().any(|a| {
            self.shares.iter().any(|b| a.recording != b.recording && a.written != 0 && b.touched != 0 && a.touched & b.touched == 0)
        })
    }
}

/// Two conflicting accesses that no order protects, older position first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Race {
    pub first: Record,
    pub second: Record,
}

/// A value that no logged access explains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unrecorded {
    /// The first byte of it.
    pub offset: u64,
    /// Bytes in a row that changed.
    pub len: u64,
    /// Someone wrote after this access…
    pub after: Record,
    /// …and before this one, which saw it.
    pub seen_by: Record,
    /// False if accesses of this log were lost, dropped or unreadable: then the writer may have been one of those.
    pub certain: bool,
}

impl Correlator {
    /// The most contended lines: used by several recordings and written by one, most accesses by others than the busiest first.
    pub fn hot_lines(&self, limit: usize) -> Result<Vec<HotLine>, Error> {
        self.ask(|view| {
            let mut all: Vec<HotLine> = view.each_line(is_shared, |range, shares| {
                let accesses = shares.iter().map(|share| share.accesses).sum();
                Ok(vec![HotLine { object: range.object, offset: range.offset, accesses, shares, alternations: 0, looked_at: 0 }])
            })?;
            let others = |line: &HotLine| line.accesses - line.shares.iter().map(|share| share.accesses).max().unwrap_or(0);
            all.sort_by_key(|line| (std::cmp::Reverse((others(line), line.accesses)), line.object, line.offset));
            all.truncate(limit);
            all.par_iter_mut().try_for_each(|line| view.look_into(line))?;
            Ok(all)
        })
    }

    /// Pairs of accesses by different recordings to common bytes, at least one a write, whose order no clock tells: they overlapped in
    /// time, so nothing in the program kept them apart. At most `limit`, in the order of objects and offsets.
    pub fn races(&self, limit: usize) -> Result<Vec<Race>, Error> {
        self.ask(|view| {
            let mut all = view.each_line(is_shared, |range, _| {
                let mut races = Vec::new();
                let mut backward = Backward::new(view.source, streams(view.index, range, false), &|_| true)?;
                // The younger ones that what is still to come may overlap.
                let mut open: VecDeque<Record> = VecDeque::new();
                while let Some(record) = backward.next()? {
                    let line = range.offset / LINE_BYTES;
                    if let Some(end) = record.interval(line).map(|interval| interval.end).max(backward.latest_end(line)) {
                        open.retain(|younger| younger.interval(line).is_some_and(|interval| interval.start <= end));
                    }
                    for younger in &open {
                        // Of accesses with several lines in common, count the pair once: on the first.
                        let is_first = common_lines(&record, younger).next() == Some(line);
                        let conflict = record.kind.writes() || younger.kind.writes();
                        let overlaps = record.overlaps(younger.object, younger.offset, younger.len.into());
                        if is_first && conflict && overlaps && order(&record, younger) == RecordOrder::Concurrent {
                            races.push(Race { first: record.clone(), second: younger.clone() });
                        }
                    }
                    if races.len() >= limit {
                        break;
                    }
                    open.push_front(record);
                    open.truncate(WINDOW);
                }
                races.reverse();
                Ok(races)
            })?;
            all.truncate(limit);
            Ok(all)
        })
    }

    /// Reads that saw what no logged access left there, with the interval in which somebody who was not recorded must have written.
    /// At most `limit`.
    ///
    /// A byte is explained if one of the accesses that may have been the last to it before the read wrote that value or saw it. The first
    /// access to a byte explains itself: nobody knows what was there before.
    pub fn unrecorded_writers(&self, limit: usize) -> Result<Vec<Unrecorded>, Error> {
        self.ask(|view| {
            let counts = view.source.reader.total_counts();
            let skipped = view.index.skipped();
            let certain = counts.lost == 0 && counts.dropped == 0 && counts.unfinished == 0 && skipped == Default::default();
            let mut all = view.each_line(
                |shares| !shares.is_empty(),
                |range, _| {
                    let mut found = Vec::new();
                    let mut backward = Backward::new(view.source, streams(view.index, range, false), &|_| true)?;
                    // Reads that wait for what explains them: which of their bytes in the line are still to be explained, and the youngest
                    // access known to be before them.
                    let mut waiting: VecDeque<Waiting> = VecDeque::new();
                    // The younger ones that what is still to come may overlap.
                    let line = range.offset / LINE_BYTES;
                    let mut younger: VecDeque<Record> = VecDeque::new();
                    while let Some(record) = backward.next()? {
                        if let Some(end) = record.interval(line).map(|interval| interval.end).max(backward.latest_end(line)) {
                            younger.retain(|younger| younger.interval(line).is_some_and(|interval| interval.start <= end));
                        }
                        let (mut kept, mut done) = (VecDeque::new(), Vec::new());
                        for mut read in waiting.drain(..) {
                            read.meet(&record, range.offset);
                            if read.open == 0 {
                                continue;
                            }
                            if backward.next_ones().all(|next| read.hidden_from(next) & read.open == read.open) {
                                done.push(read);
                            } else {
                                kept.push_back(read);
                            }
                        }
                        waiting = kept;
                        found.extend(done.into_iter().flat_map(|read| read.report(range.offset, certain)));
                        if found.len() >= limit {
                            break;
                        }
                        if record.kind.reads() {
                            let open = byte_mask(&record, range.offset);
                            let mut read = Waiting { read: record.clone(), open, unexplained: 0, after: None, settled: Vec::new() };
                            for other in younger.iter().filter(|other| order(other, &record) != RecordOrder::After) {
                                read.meet(other, range.offset);
                            }
                            if read.open != 0 {
                                waiting.push_back(read);
                            }
                        }
                        younger.push_front(record);
                        younger.truncate(WINDOW);
                        while waiting.len() > WINDOW {
                            waiting.pop_front();
                        }
                    }
                    found.extend(waiting.into_iter().flat_map(|read| read.report(range.offset, certain)));
                    found.reverse();
                    Ok(found)
                },
            )?;
            all.truncate(limit);
            Ok(all)
        })
    }
}

impl View<'_> {
    /// All lines, each once.
    fn lines(&self) -> Vec<(ObjectIndex, u64)> {
        let mut keys: Vec<u64> = self.index.segments.iter().flat_map(|segment: &Segment| segment.keys.iter()).collect();
        keys.par_sort_unstable();
        keys.dedup();
        keys.into_iter().filter_map(|key| Some((ObjectIndex::new((key >> 42) as u32)?, key & ((1 << 42) - 1)))).collect()
    }

    /// For each line that passes, what `look` makes of it.
    fn each_line<T: Send>(
        &self,
        passes: impl Fn(&[Share]) -> bool + Sync,
        look: impl Fn(Range, Vec<Share>) -> Result<Vec<T>, Error> + Sync,
    ) -> Result<Vec<T>, Error> {
        let all = self.lines().into_par_iter().map(|(object, line)| {
            let shares = self.shares(object, line);
            if !passes(&shares) {
                return Ok(Vec::new());
            }
            look(Range { object, offset: line * LINE_BYTES, len: LINE_BYTES }, shares)
        });
        Ok(all.collect::<Result<Vec<_>, Error>>()?.into_iter().flatten().collect())
    }

    /// Who uses a line, by the index alone.
    fn shares(&self, object: ObjectIndex, line: u64) -> Vec<Share> {
        let mut shares: Vec<Share> = Vec::new();
        for list in self.index.segments.iter().flat_map(|segment| segment.lists(crate::index::line_key(object, line))) {
            let (accesses, writes) = (list.len as u64, list.writes());
            match shares.iter_mut().find(|share| share.recording == list.recording) {
                Some(share) => {
                    share.accesses += accesses;
                    share.writes += writes;
                }
                None => shares.push(Share { recording: list.recording, accesses, writes, touched: 0, written: 0 }),
            }
        }
        shares
    }

    fn look_into(&self, line: &mut HotLine) -> Result<(), Error> {
        let range = Range { object: line.object, offset: line.offset, len: LINE_BYTES };
        let mut backward = Backward::new(self.source, streams(self.index, range, false), &|_| true)?;
        let mut younger: Option<Record> = None;
        while line.looked_at < ALTERNATIONS_OF as u64 {
            let Some(record) = backward.next()? else { break };
            line.looked_at += 1;
            let bytes = byte_mask(&record, line.offset);
            if let Some(share) = line.shares.iter_mut().find(|share| share.recording == record.recording) {
                share.touched |= bytes;
                share.written |= if record.kind.writes() { bytes } else { 0 };
            }
            let changes = |other: &Record| other.recording != record.recording && (other.kind.writes() || record.kind.writes());
            line.alternations += u64::from(younger.as_ref().is_some_and(changes));
            younger = Some(record);
        }
        Ok(())
    }
}

/// A read, until it is known what left the bytes that it saw.
struct Waiting {
    read: Record,
    /// Bytes of the line for which no access known to be before it was met, or for which others may still count.
    open: u64,
    /// Bytes for which accesses were met, none of which left the value seen.
    unexplained: u64,
    /// The youngest access to an unexplained byte.
    after: Option<Record>,
    /// Accesses known to be before the read that settle bytes, unless others are concurrent with them.
    settled: Vec<(Record, u64)>,
}

impl Waiting {
    /// Bytes that are settled by an access that this one came before.
    fn hidden_from(&self, other: &Record) -> u64 {
        let later = self.settled.iter().filter(|(settled, _)| order(other, settled) == RecordOrder::Before);
        later.fold(0, |all, (_, bytes)| all | bytes)
    }

    /// Takes note of an older access, or one at the same time.
    fn meet(&mut self, other: &Record, base: u64) {
        let common_before = byte_mask(other, base) & self.open & !self.hidden_from(other);
        let mut explained = 0;
        for bit in bits(common_before) {
            let offset = base + u64::from(bit);
            if value_of(other, other.value(), offset) == value_of(&self.read, &self.read.seen, offset) {
                explained |= 1 << bit;
            }
        }
        self.open &= !explained;
        self.unexplained &= !explained;
        if order(other, &self.read) == RecordOrder::Before {
            let missed = common_before & !explained;
            self.unexplained |= missed;
            if missed != 0 {
                self.settled.push((other.clone(), missed));
                self.after.get_or_insert_with(|| other.clone());
            }
        }
    }

    /// The runs of bytes that nothing explained.
    fn report(self, base: u64, certain: bool) -> Vec<Unrecorded> {
        let (Some(after), missed) = (self.after, self.unexplained & self.open) else { return Vec::new() };
        let Some(first) = bits(missed).next() else { return Vec::new() };
        let last = bits(missed).last().unwrap_or(first);
        vec![Unrecorded { offset: base + u64::from(first), len: u64::from(last - first) + 1, after, seen_by: self.read, certain }]
    }
}

fn value_of(record: &Record, bytes: &[u8], offset: u64) -> Option<u8> {
    bytes.get(usize::try_from(offset.checked_sub(record.offset)?).ok()?).copied()
}

fn bits(mask: u64) -> impl Iterator<Item = u32> {
    (0..64).filter(move |bit| mask >> bit & 1 == 1)
}

/// Used by several recordings, one of which writes.
fn is_shared(shares: &[Share]) -> bool {
    shares.len() > 1 && shares.iter().any(|share| share.writes > 0)
}

fn common_lines<'a>(a: &'a Record, b: &'a Record) -> impl Iterator<Item = u64> + 'a {
    a.lines.iter().map(|span| span.line).filter(|line| b.interval(*line).is_some())
}

/// Which bytes of the line at `base` an access touches.
fn byte_mask(record: &Record, base: u64) -> u64 {
    let from = record.offset.saturating_sub(base).min(LINE_BYTES);
    let to = record.end().saturating_sub(base).min(LINE_BYTES);
    if from >= to {
        return 0;
    }
    ((1u128 << to) - (1u128 << from)) as u64
}
