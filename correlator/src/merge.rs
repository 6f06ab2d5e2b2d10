//! The accesses to a range, youngest first, merged from the lists of lines and recordings.
//!
//! ```text
//!   list (line, recording) ─► Stream ─┐
//!                             Stream ─┴► a recording's accesses in program order ─┐
//!                             …                                                   ├► Backward::next
//!                                        another recording's                     ─┘
//! ```
//!
//! I1. Of two accesses whose order the log knows (program order, or the clock of a line both touched), the younger comes out first.
//! A recording's youngest is held back while another's remaining access to one of its lines is known to be younger. Real histories
//! have no cycle, so that one is always free; in a forged log the choice is arbitrary, but each access still comes out once.
//! I2. Where the order is not known, the clock of a common line decides, then the rough time. Such neighbours are reported as concurrent.
use crate::error::Error;
use crate::index::{Index, ListRef, line_key, wanted, words};
use crate::query::Moment;
use crate::record::{Record, RecordOrder, order};
use crate::source::Source;
use recording::Time;
use shmem_log::layout::LINE_BYTES;
use shmem_log::{Interval, ObjectIndex, RecordingIndex};
use smallvec::SmallVec;

/// A range of bytes of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub object: ObjectIndex,
    pub offset: u64,
    pub len: u64,
}

impl Range {
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.len)
    }

    pub fn lines(&self) -> std::ops::RangeInclusive<u64> {
        self.offset / LINE_BYTES..=(self.end() - 1) / LINE_BYTES
    }

    pub fn touches(&self, record: &Record) -> bool {
        record.overlaps(self.object, self.offset, self.len)
    }
}

/// The accesses of one recording to one line of the range, going back.
#[derive(Debug)]
pub(crate) struct Stream<'a> {
    pub line: u64,
    pub recording: RecordingIndex,
    range: Range,
    /// Entries with one of these bits in their mask may touch the range.
    wanted: u16,
    /// From the oldest segment to the youngest.
    lists: SmallVec<[ListRef<'a>; 4]>,
    /// The list that the next entry is to be sought in, plus one; and the entry, likewise.
    list: usize,
    entry: usize,
    pub current: Option<Record>,
}

/// The streams of a range: for each recording that touched one of its lines, those of the lines.
pub(crate) fn streams<'a>(index: &'a Index, range: Range, writes_only: bool) -> Vec<Stream<'a>> {
    let mut streams: Vec<Stream<'a>> = Vec::new();
    for line in range.lines() {
        let first = streams.len();
        let wanted = wanted(words(line * LINE_BYTES, range.offset, range.end()), writes_only);
        for list in index.segments.iter().flat_map(|segment| segment.lists(line_key(range.object, line))) {
            match streams[first..].iter_mut().find(|stream| stream.recording == list.recording) {
                Some(stream) => stream.lists.push(list),
                None => streams.push(Stream {
                    line,
                    recording: list.recording,
                    range,
                    wanted,
                    lists: SmallVec::from_iter([list]),
                    list: 0,
                    entry: 0,
                    current: None,
                }),
            }
        }
    }
    streams.iter_mut().for_each(Stream::seek_end);
    streams
}

impl<'a> Stream<'a> {
    fn set(&mut self, list: usize, entry: usize) {
        (self.list, self.entry, self.current) = (list, entry, None);
    }

    /// Behind the last entry.
    pub fn seek_end(&mut self) {
        let entry = self.lists.last().map_or(0, |list| list.len);
        self.set(self.lists.len(), entry);
    }

    /// Back to behind the entry that [`Stream::advance`] has just found, if it did.
    pub fn step_back_over(&mut self, found: bool) {
        self.entry += usize::from(found);
    }

    /// Behind the last entry before a moment of its recording.
    pub fn seek_moment(&mut self, source: &Source, moment: Moment) -> Result<(), Error> {
        match moment {
            Moment::At(time) => self.seek_time(source, time)?,
            Moment::End => self.seek_end(),
        }
        Ok(())
    }

    /// Behind the last entry whose interval does not start behind `clock`.
    pub fn seek_clock(&mut self, source: &Source, clock: u64) -> Result<(), Error> {
        let line = self.line;
        let is_before = |list: &ListRef<'a>, entry: usize| {
            let record = list.record(source, entry)?;
            Ok(record.and_then(|record| record.interval(line)).is_none_or(|interval| interval.start <= clock))
        };
        // By the starts that are noted it is in this list, or among the first few entries of those behind it: of a list, the first few
        // have none noted.
        let known = self.lists.iter().rposition(|list| list.around_clock(clock).start > 0).unwrap_or(0);
        let mut place = (0, 0);
        for (at, list) in self.lists.iter().enumerate().skip(known) {
            let range = list.around_clock(clock);
            let entry = match range.start {
                0 if range.end == 0 || !is_before(list, 0)? => 0,
                from => list.partition(from.max(1)..range.end, |entry| is_before(list, entry))?,
            };
            if entry > 0 {
                place = (at + 1, entry);
            }
            if entry < list.len {
                break;
            }
        }
        self.set(place.0, place.1);
        Ok(())
    }

    fn seek_time(&mut self, source: &Source, time: Time) -> Result<(), Error> {
        let is_before = |list: &ListRef<'a>, entry: usize| match list.block(entry) {
            Some(block) if block.bb_first > time.bbcount => Ok(false),
            Some(block) if block.bb_last < time.bbcount => Ok(true),
            // What cannot be read is taken to be before.
            _ => list.record(source, entry).map(|record| record.is_none_or(|record| record.time < time)),
        };
        for (at, list) in self.lists.iter().enumerate().rev() {
            if is_before(list, 0)? {
                let entry = list.partition(1..list.len, |entry| is_before(list, entry))?;
                self.set(at + 1, entry);
                return Ok(());
            }
        }
        self.seek_start();
        Ok(())
    }

    /// Before the first entry that is not known to have ended before an interval: a recording makes one access at a time, so of those that
    /// began at an earlier tick only the last may have ended later.
    pub fn seek_overlapping(&mut self, source: &Source, interval: Interval) -> Result<(), Error> {
        match interval.start.checked_sub(1) {
            Some(earlier) => self.seek_clock(source, earlier)?,
            None => self.seek_start(),
        }
        self.advance(source, &|_| true)?;
        self.current = None;
        Ok(())
    }

    /// Moves on to the next older access to the range, into `current`.
    pub fn advance(&mut self, source: &Source, accept: &dyn Fn(&Record) -> bool) -> Result<(), Error> {
        self.current = None;
        while let Some(at) = self.list.checked_sub(1) {
            let list = self.lists[at];
            let Some(entry) = list.last_before(self.entry, self.wanted) else {
                self.list = at;
                self.entry = at.checked_sub(1).map_or(0, |at| self.lists[at].len);
                continue;
            };
            self.entry = entry;
            if let Some(record) = list.record(source, entry)?
                && self.range.touches(&record)
                && accept(&record)
            {
                self.current = Some(record);
                return Ok(());
            }
        }
        Ok(())
    }

    /// The first access to the range that is accepted and not before the place where the stream stands, which stays there.
    pub fn following(&self, source: &Source, accept: &dyn Fn(&Record) -> bool) -> Result<Option<Record>, Error> {
        Ok(self.following_entry(source, accept)?.map(|(_, _, record)| record))
    }

    fn following_entry(&self, source: &Source, accept: &dyn Fn(&Record) -> bool) -> Result<Option<(usize, usize, Record)>, Error> {
        let (mut at, mut entry) = (self.list.saturating_sub(1), self.entry);
        while let Some(list) = self.lists.get(at) {
            while let Some(found) = list.first_from(entry, self.wanted) {
                if let Some(record) = list.record(source, found)?
                    && self.range.touches(&record)
                    && accept(&record)
                {
                    return Ok(Some((at + 1, found + 1, record)));
                }
                entry = found + 1;
            }
            (at, entry) = (at + 1, 0);
        }
        Ok(None)
    }

    /// Moves forward over the next access to the range and returns it.
    pub fn forward(&mut self, source: &Source) -> Result<Option<Record>, Error> {
        let Some((list, entry, record)) = self.following_entry(source, &|_| true)? else { return Ok(None) };
        self.set(list, entry);
        Ok(Some(record))
    }

    /// Before the first entry.
    pub fn seek_start(&mut self) {
        self.set(0, 0);
    }

    /// The very first access to the range, wherever the stream stands.
    pub fn first(&self, source: &Source) -> Result<Option<Record>, Error> {
        let start = Stream { lists: self.lists.clone(), list: 1, entry: 0, current: None, ..*self };
        start.following(source, &|_| true)
    }

    /// How many entries are still to come, at most.
    pub fn remaining(&self) -> u64 {
        let Some(at) = self.list.checked_sub(1) else { return 0 };
        self.lists[..at].iter().map(|list| list.len as u64).sum::<u64>() + self.entry as u64
    }
}

/// All accesses of the streams that `accept` lets through, youngest first.
pub(crate) struct Backward<'a, 'f> {
    source: &'a Source,
    streams: Vec<Stream<'a>>,
    accept: &'f dyn Fn(&Record) -> bool,
}

impl<'a, 'f> Backward<'a, 'f> {
    /// The streams stand where they are to begin.
    pub fn new(source: &'a Source, mut streams: Vec<Stream<'a>>, accept: &'f dyn Fn(&Record) -> bool) -> Result<Self, Error> {
        streams.sort_by_key(|stream| (stream.recording, stream.line));
        for stream in &mut streams {
            stream.advance(source, accept)?;
        }
        Ok(Backward { source, streams, accept })
    }

    pub fn next(&mut self) -> Result<Option<Record>, Error> {
        let mut best: Option<&Record> = None;
        let mut forced: Option<&Record> = None;
        for own in self.streams.chunk_by(|a, b| a.recording == b.recording) {
            let Some(youngest) = own.iter().filter_map(|stream| stream.current.as_ref()).max_by_key(|record| record.position) else {
                continue;
            };
            forced = later(forced, youngest);
            if self.is_free(youngest) {
                best = later(best, youngest);
            }
        }
        let Some(record) = best.or(forced).cloned() else { return Ok(None) };
        for stream in &mut self.streams {
            if stream.current.as_ref().is_some_and(|current| current.position == record.position) {
                stream.advance(self.source, self.accept)?;
            }
        }
        Ok(Some(record))
    }

    /// Whether no other recording's remaining access is known to be younger (I1).
    fn is_free(&self, record: &Record) -> bool {
        self.streams.iter().filter(|stream| stream.recording != record.recording).all(|stream| {
            let Some((mine, other)) = record.interval(stream.line).zip(stream.current.as_ref().and_then(|r| r.interval(stream.line)))
            else {
                return true;
            };
            !mine.precedes(&other)
        })
    }

    /// Where on a line's clock the last of what is still to come ends.
    pub fn latest_end(&self, line: u64) -> Option<u64> {
        let heads = self.streams.iter().filter(|stream| stream.line == line).filter_map(|stream| stream.current.as_ref());
        heads.filter_map(|head| Some(head.interval(line)?.end)).max()
    }

    /// What is the next of each recording on each line.
    pub fn next_ones(&self) -> impl Iterator<Item = &Record> {
        self.streams.iter().filter_map(|stream| stream.current.as_ref())
    }

    /// The youngest that each recording has left on each line; none at the end.
    pub fn heads(&self) -> Vec<Record> {
        let mut heads: Vec<Record> = self.streams.iter().filter_map(|stream| stream.current.clone()).collect();
        heads.sort_by_key(|head| head.position);
        heads.dedup_by_key(|head| head.position);
        heads
    }

    /// Whether each byte of the range has a write in `rows` that is known to be younger than all that is still to come to its line.
    pub fn is_settled(&self, range: Range, rows: &[Record]) -> bool {
        (range.offset..range.end()).all(|byte| {
            let line = byte / LINE_BYTES;
            let heads = || self.streams.iter().filter(|stream| stream.line == line).filter_map(|stream| stream.current.as_ref());
            rows.iter().any(|row| {
                row.kind.writes() && row.overlaps(range.object, byte, 1) && heads().all(|head| order(head, row) == RecordOrder::Before)
            })
        })
    }

    /// How many accesses are still to come, at most.
    pub fn remaining(&self) -> u64 {
        self.streams.iter().map(|stream| stream.remaining() + u64::from(stream.current.is_some())).sum()
    }
}

fn later<'a>(a: Option<&'a Record>, b: &'a Record) -> Option<&'a Record> {
    let Some(a) = a else { return Some(b) };
    let common = a.lines.iter().find_map(|span| Some((span.interval.start, b.interval(span.line)?.start)));
    let (mine, other) = common.unwrap_or((a.tsc, b.tsc));
    Some(if (mine, a.position) >= (other, b.position) { a } else { b })
}

/// Whether `x` is not known to have happened after `a`: by the log's order, or, where that does not compare them, by rough time.
pub(crate) fn not_after(x: &Record, a: &Record) -> bool {
    match order(x, a) {
        RecordOrder::Before | RecordOrder::Concurrent => true,
        RecordOrder::After => false,
        RecordOrder::Unrelated => x.tsc <= a.tsc,
    }
}
