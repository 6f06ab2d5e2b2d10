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
use crate::record::{LineSpan, Record, RecordOrder, order};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

/// How many contended rows further on a row is compared with others for its place.
const NEAR: usize = 256;
const MAX_DEPTH: u32 = 200;
/// So many writes back the last ones before a read are sought. If they are further away, its value decides nothing.
const FAR: usize = 1024;
/// Recordings that a log can have, and so accesses that can be under way at once; only a forged one has more.
const MAX_OPEN: usize = 4096;

/// Rows from the oldest to the youngest, and what is known of their order.
struct Rows<'a> {
    rows: &'a [&'a Record],
    range: Range,
    /// Of rows that touch one line: that, and when.
    single: Vec<Option<LineSpan>>,
    /// Of a row, other recordings' that overlap it in time on some line.
    overlapping: Vec<SmallVec<[u32; 4]>>,
    /// Whether a row may be concurrent with another recording's that it conflicts with.
    contended: Vec<bool>,
    decided: FxHashSet<(usize, usize)>,
}

impl<'a> Rows<'a> {
    fn new(rows: &'a [&'a Record], range: Range) -> Rows<'a> {
        let single: Vec<_> = rows.iter().map(|record| record.lines.first().copied().filter(|_| record.lines.len() == 1)).collect();
        let overlapping = overlapping(rows);
        // Two reads need no order; but if both reach beyond a line, the other lines may tell one.
        let matters = |row: usize| rows[row].kind.writes() || single[row].is_none();
        let is_contended = |row: usize| overlapping[row].iter().any(|other| matters(row) || matters(*other as usize));
        let contended = (0..rows.len()).map(is_contended).collect();
        Rows { rows, range, single, overlapping, contended, decided: FxHashSet::default() }
    }

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

    #[inline]
    fn order(&self, a: usize, b: usize) -> RecordOrder {
        match (self.single[a], self.single[b]) {
            (Some(x), Some(y)) if x.line == y.line && self.rows[a].recording != self.rows[b].recording => {
                if x.interval.precedes(&y.interval) {
                    RecordOrder::Before
                } else if y.interval.precedes(&x.interval) {
                    RecordOrder::After
                } else {
                    RecordOrder::Concurrent
                }
            }
            _ => order(self.rows[a], self.rows[b]),
        }
    }

    fn known_before(&self, a: usize, b: usize) -> bool {
        self.order(a, b) == RecordOrder::Before || !self.decided.is_empty() && self.decided.contains(&(a, b))
    }

    fn contended(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.rows.len()).filter(|row| self.contended[*row])
    }

    fn decide(&mut self, at: usize) {
        let read = self.rows[at];
        let (offset, len) = self.extent(at);
        let writes = |other: &usize| *other != at && self.rows[*other].kind.writes() && self.conflict(*other, at);
        let others = self.overlapping[at].iter().map(|other| *other as usize);
        let concurrent: SmallVec<[usize; 8]> =
            others.filter(writes).filter(|other| self.order(*other, at) == RecordOrder::Concurrent).collect();
        if concurrent.is_empty() {
            return;
        }
        // The last of the writes known to be before it: none of them is known to be before another.
        let mut last: SmallVec<[usize; 8]> = SmallVec::new();
        let from = (at + NEAR).min(self.rows.len());
        for (count, other) in (0..from).rev().filter(writes).enumerate() {
            if self.order(other, at) != RecordOrder::Before {
                continue;
            }
            if count > FAR {
                return;
            }
            if !last.iter().any(|write| self.order(other, *write) == RecordOrder::Before) {
                last.retain(|write| self.order(*write, other) != RecordOrder::Before);
                last.push(other);
            }
            let (from, covered) = self.extent(other);
            if !self.contended[other] && from <= offset && from + covered >= offset + len {
                break;
            }
        }
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

/// Of each row, those of other recordings whose intervals overlap its own on some line.
///
/// A recording makes one access at a time, so as many are open at once as there are recordings: the pairs are few, however long a row
/// lasts.
fn overlapping(rows: &[&Record]) -> Vec<SmallVec<[u32; 4]>> {
    let mut spans: Vec<(u64, u64, u64, u32)> = Vec::with_capacity(rows.len());
    for (row, record) in rows.iter().enumerate() {
        spans.extend(record.lines.iter().map(|span| (span.line, span.interval.start, span.interval.end, row as u32)));
    }
    spans.sort_unstable();
    let mut pairs: Vec<SmallVec<[u32; 4]>> = vec![SmallVec::new(); rows.len()];
    let mut open: Vec<(u64, u32)> = Vec::new();
    for line in spans.chunk_by(|a, b| a.0 == b.0) {
        open.clear();
        for (_, start, end, row) in line {
            open.retain(|(end, _)| end >= start);
            for (_, other) in &open {
                let (a, b) = (*row as usize, *other as usize);
                if rows[a].recording != rows[b].recording && !pairs[a].contains(other) {
                    pairs[a].push(*other);
                    pairs[b].push(*row);
                }
            }
            open.push((*end, *row));
            if open.len() > MAX_OPEN {
                open.remove(0);
            }
        }
    }
    pairs
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
    let mut rows = Rows::new(all, range);
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
    let is_open = |row: usize| rows.overlapping[row].iter().any(|other| open(row, *other as usize));
    sequence.into_iter().filter(|row| *row >= hidden).map(|row| (row, is_open(row))).collect()
}
