//! What values say where clocks do not: which of two concurrent accesses came first.
//!
//! A read, or the reading half of a read/write, saw what the last write before it left. Its possible sources are the last writes
//! known to be before it and all those concurrent with it. If exactly one of them has the value that it saw, that is the source:
//!
//! - V1. The source came before the read.
//! - V2. A concurrent write known to be younger than the source came after the read, which would have seen it otherwise.
//!
//! Nothing is concluded if a possible source covers only a part of what was read, or if no write is known to be before the read: its
//! value might be one from before the log begins. All this supposes that whoever writes is recorded; a value that nobody logged
//! leaves no matching source, and then nothing is concluded either.
use crate::merge::Range;
use crate::record::{Record, RecordOrder, order};
use rustc_hash::{FxHashMap, FxHashSet};

/// How many contended rows further on a row is compared with others for its place.
const NEAR: usize = 256;
const MAX_DEPTH: u32 = 200;

/// Rows from the oldest to the youngest, and what is known of their order.
struct Rows<'a> {
    rows: &'a [&'a Record],
    range: Range,
    /// Whether a row may be concurrent with another recording's that it conflicts with.
    contended: Vec<bool>,
    decided: FxHashSet<(usize, usize)>,
}

impl Rows<'_> {
    /// The part of a row's extent that lies in the range.
    fn extent(&self, row: usize) -> (u64, u64) {
        let record = self.rows[row];
        let from = record.offset.max(self.range.offset);
        (from, record.end().min(self.range.end()).saturating_sub(from))
    }

    fn conflict(&self, a: usize, b: usize) -> bool {
        let ((a_from, a_len), (b_from, b_len)) = (self.extent(a), self.extent(b));
        (self.rows[a].kind.writes() || self.rows[b].kind.writes()) && a_from < b_from + b_len && b_from < a_from + a_len
    }

    fn order(&self, a: usize, b: usize) -> RecordOrder {
        order(self.rows[a], self.rows[b])
    }

    fn known_before(&self, a: usize, b: usize) -> bool {
        self.decided.contains(&(a, b)) || self.order(a, b) == RecordOrder::Before
    }

    fn contended(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.rows.len()).filter(|row| self.contended[*row])
    }

    fn decide(&mut self, at: usize) {
        let read = self.rows[at];
        let (offset, len) = self.extent(at);
        let writes = |other: &usize| *other != at && self.rows[*other].kind.writes() && self.conflict(*other, at);
        let concurrent: Vec<usize> =
            self.contended().filter(writes).filter(|other| self.order(*other, at) == RecordOrder::Concurrent).collect();
        if concurrent.is_empty() {
            return;
        }
        let mut before = Vec::new();
        for other in (0..self.rows.len()).rev().filter(writes) {
            if self.order(other, at) != RecordOrder::Before {
                continue;
            }
            before.push(other);
            let (from, covered) = self.extent(other);
            if !self.contended[other] && from <= offset && from + covered >= offset + len {
                break;
            }
        }
        let is_last = |write: &usize| !before.iter().any(|other| self.order(*write, *other) == RecordOrder::Before);
        let last: Vec<usize> = before.iter().copied().filter(is_last).collect();
        if last.is_empty() {
            return;
        }
        let seen = read.part(&read.seen, offset, len);
        let mut source = None;
        for write in last.into_iter().chain(concurrent.iter().copied()) {
            let write_record = self.rows[write];
            let left = write_record.part(&write_record.written, offset, len);
            if left.len() != seen.len() {
                return;
            }
            if left == seen && source.replace(write).is_some() {
                return;
            }
        }
        let Some(source) = source else { return };
        for write in concurrent {
            if write == source {
                self.decided.insert((write, at));
            } else if self.order(source, write) == RecordOrder::Before {
                self.decided.insert((at, write));
            }
        }
    }
}

/// Which rows have, on some line of the range, an interval that overlaps another's with which they may conflict.
fn contended(rows: &[&Record]) -> Vec<bool> {
    let mut flags = vec![false; rows.len()];
    // Two reads need no order; but if both reach beyond a line, the other lines may tell one.
    let matters = |record: &Record| record.kind.writes() || record.lines.len() > 1;
    // By line: the latest end so far of writes, and of all; then the same from the other side.
    let mut ends: FxHashMap<u64, (u64, u64)> = FxHashMap::default();
    for (row, record) in rows.iter().enumerate() {
        for span in &record.lines {
            let (writes, all) = ends.entry(span.line).or_default();
            let other = if matters(record) { *all } else { *writes };
            flags[row] |= other != 0 && span.interval.start <= other;
            *all = span.interval.end.max(*all);
            if record.kind.writes() {
                *writes = span.interval.end.max(*writes);
            }
        }
    }
    let mut starts: FxHashMap<u64, (u64, u64)> = FxHashMap::default();
    for (row, record) in rows.iter().enumerate().rev() {
        for span in &record.lines {
            let (writes, all) = starts.entry(span.line).or_insert((u64::MAX, u64::MAX));
            let other = if matters(record) { *all } else { *writes };
            flags[row] |= span.interval.end >= other;
            *all = span.interval.start.min(*all);
            if record.kind.writes() {
                *writes = span.interval.start.min(*writes);
            }
        }
    }
    flags
}

/// What is known of the rows that are not there; it bounds what may be concluded from values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowsAre {
    /// None is missing but older ones.
    AllToTheEnd,
    /// Nor any that may have come before the last row.
    AllToTheLast,
    /// Writes that the last row cannot have seen are missing.
    WritesForTheLast,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Waiting,
    Entered,
    Done,
}

/// Brings rows into an order in which each follows all that are known to be before it; else they stay as they came.
struct Sorter<'a> {
    rows: &'a Rows<'a>,
    /// Of a row, those that came behind it though they are known to be before it.
    late: FxHashMap<usize, Vec<usize>>,
    state: Vec<State>,
    /// No row before it waits.
    first: usize,
    sequence: Vec<usize>,
}

impl Sorter<'_> {
    /// Real histories have no cycle; in a forged one, and beyond a depth that only such ones have, a row comes as it can.
    fn emit(&mut self, row: usize, depth: u32) {
        if self.state[row] != State::Waiting {
            return;
        }
        self.state[row] = State::Entered;
        if depth < MAX_DEPTH {
            for earlier in self.late.remove(&row).unwrap_or_default() {
                self.emit(earlier, depth + 1);
            }
            if depth > 0 {
                for earlier in self.first..row {
                    if self.state[earlier] == State::Waiting && self.rows.known_before(earlier, row) {
                        self.emit(earlier, depth + 1);
                    }
                }
            }
        }
        self.state[row] = State::Done;
        self.sequence.push(row);
        while self.state.get(self.first).is_some_and(|state| *state == State::Done) {
            self.first += 1;
        }
    }
}

/// Puts rows, oldest first, into the order that values decide, where nothing that is known for certain is against it.
///
/// The first `hidden` rows only help to decide. Unless they are a whole history, the youngest row is the one that the others lead up to: it
/// stays the last, and rows that came after it are dropped. Gives the rows by number, each with whether the log leaves open how it is
/// ordered to another one that it conflicts with.
pub(crate) fn arrange(all: &[&Record], hidden: usize, range: Range, rows_are: RowsAre) -> Vec<(usize, bool)> {
    let mut rows = Rows { contended: contended(all), rows: all, range, decided: FxHashSet::default() };
    let whole = rows_are == RowsAre::AllToTheEnd;
    let youngest = if whole { usize::MAX } else { all.len().wrapping_sub(1) };
    // Accesses behind the youngest row are not here, so a read that may have seen one of those decides nothing.
    let ends_before_youngest = |row: usize| {
        all[row]
            .lines
            .iter()
            .filter(|span| range.lines().contains(&span.line))
            .all(|span| all[youngest].interval(span.line).is_some_and(|last| span.interval.end <= last.end))
    };
    let counts = |row: &usize| {
        all[*row].kind.reads()
            && match rows_are {
                RowsAre::AllToTheEnd => true,
                RowsAre::AllToTheLast => *row == youngest || ends_before_youngest(*row),
                RowsAre::WritesForTheLast => *row == youngest,
            }
    };
    let reads: Vec<usize> = rows.contended().filter(counts).collect();
    for read in reads {
        rows.decide(read);
    }
    // A line outside the range may tell the order of two accesses that overlap in time on the lines inside, by which they came.
    let contended: Vec<usize> = rows.contended().collect();
    let mut late: FxHashMap<usize, Vec<usize>> = FxHashMap::default();
    for (at, row) in contended.iter().enumerate() {
        let before = contended[at + 1..].iter().take(NEAR).filter(|other| rows.known_before(**other, *row));
        let before: Vec<usize> = before.copied().collect();
        if !before.is_empty() {
            late.insert(*row, before);
        }
    }
    let mut state = vec![State::Waiting; all.len()];
    for row in contended.iter().filter(|row| rows.decided.contains(&(youngest, **row))) {
        state[*row] = State::Done;
    }
    let mut sorter = Sorter { rows: &rows, late, state, first: 0, sequence: Vec::with_capacity(all.len()) };
    for row in (0..all.len()).filter(|row| *row != youngest) {
        sorter.emit(row, 0);
    }
    let mut sequence = sorter.sequence;
    sequence.extend((youngest < all.len()).then_some(youngest));
    let open = |a: usize, b: usize| {
        a != b
            && rows.conflict(a, b)
            && rows.order(a, b) == RecordOrder::Concurrent
            && !rows.decided.contains(&(a, b))
            && !rows.decided.contains(&(b, a))
    };
    let is_open = |row: usize| rows.contended[row] && rows.contended().any(|other| open(row, other));
    sequence.into_iter().filter(|row| *row >= hidden).map(|row| (row, is_open(row))).collect()
}
