//! An access, owned: what the queries compare and return.
use recording::Time;
use shmem_log::{Access, Interval, Kind, ObjectIndex, Piece, Position, RecordingIndex};
use smallvec::SmallVec;

/// The bytes of an access, inline where they are few.
pub type Bytes = SmallVec<[u8; 16]>;

/// When an access happened, by the clock of one of the cache lines that it touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineSpan {
    /// Offset in the object divided by 64.
    pub line: u64,
    pub interval: Interval,
}

/// One logged access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub position: Position,
    pub recording: RecordingIndex,
    /// The state just before the instruction that made it.
    pub time: Time,
    pub kind: Kind,
    /// Made by the kernel in a system call.
    pub by_kernel: bool,
    pub object: ObjectIndex,
    /// Bytes from the object's start.
    pub offset: u64,
    /// Bytes, at least 1.
    pub len: u32,
    /// Of an access longer than a record holds, this is one piece.
    pub piece: Piece,
    /// Bytes of the whole access.
    pub total_len: u32,
    /// Rough time, in ticks: see [`shmem_log::Reader::wallclock_ns`].
    pub tsc: u64,
    /// What it saw; empty for a write.
    pub seen: Bytes,
    /// What it left; empty for a read.
    pub written: Bytes,
    /// In order.
    pub lines: SmallVec<[LineSpan; 1]>,
}

impl Record {
    /// The offset just behind it.
    pub fn end(&self) -> u64 {
        self.offset + u64::from(self.len)
    }

    /// Whether it touches a byte of `[offset, offset + len)` of an object.
    pub fn overlaps(&self, object: ObjectIndex, offset: u64, len: u64) -> bool {
        self.object == object && self.offset < offset.saturating_add(len) && offset < self.end()
    }

    /// What was there after it: what it wrote, or saw.
    pub fn value(&self) -> &[u8] {
        if self.kind.writes() { &self.written } else { &self.seen }
    }

    /// The part of `bytes`, which are this access's, that lies at `[offset, offset + len)`; what is outside is left out.
    pub(crate) fn part<'a>(&self, bytes: &'a [u8], offset: u64, len: u64) -> &'a [u8] {
        let from = offset.saturating_sub(self.offset).min(bytes.len() as u64) as usize;
        let to = (offset.saturating_add(len)).saturating_sub(self.offset).min(bytes.len() as u64) as usize;
        &bytes[from..to.max(from)]
    }

    /// Its interval on the clock of a line, if it touched that.
    #[inline]
    pub fn interval(&self, line: u64) -> Option<Interval> {
        let first = self.lines.first()?.line;
        let span = self.lines.get(usize::try_from(line.checked_sub(first)?).ok()?)?;
        Some(span.interval)
    }
}

impl From<&Access<'_>> for Record {
    fn from(access: &Access<'_>) -> Record {
        Record {
            position: access.position,
            recording: access.recording,
            time: Time { bbcount: access.bbcount, pc: access.pc },
            kind: access.kind,
            by_kernel: access.by_kernel,
            object: access.object,
            offset: access.offset,
            len: access.len,
            piece: access.piece,
            total_len: access.total_len,
            tsc: access.tsc,
            seen: access.seen().into(),
            written: access.written().into(),
            lines: access.lines().map(|span| LineSpan { line: span.line, interval: span.interval }).collect(),
        }
    }
}

/// What is known of the order in which two accesses happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordOrder {
    Before,
    After,
    /// They overlap in time as far as the log can tell.
    Concurrent,
    /// By different recordings, and without a line in common: the log's clocks do not compare them.
    Unrelated,
}

/// The order of two accesses by program order within a recording, by the clocks of the lines that both touched otherwise.
///
/// [`shmem_log::order`] also compares different lines that happen to share a clock; here that would make answers depend on the
/// log's size.
pub fn order(a: &Record, b: &Record) -> RecordOrder {
    if a.recording == b.recording {
        return match a.position.cmp(&b.position) {
            std::cmp::Ordering::Less => RecordOrder::Before,
            std::cmp::Ordering::Greater => RecordOrder::After,
            std::cmp::Ordering::Equal => RecordOrder::Concurrent,
        };
    }
    if a.object != b.object {
        return RecordOrder::Unrelated;
    }
    let mut result = RecordOrder::Unrelated;
    for span in &a.lines {
        let Some(other) = b.interval(span.line) else { continue };
        let this = if span.interval.precedes(&other) {
            RecordOrder::Before
        } else if other.precedes(&span.interval) {
            RecordOrder::After
        } else {
            RecordOrder::Concurrent
        };
        result = match (result, this) {
            (RecordOrder::Unrelated | RecordOrder::Concurrent, _) => this,
            (_, RecordOrder::Concurrent) => result,
            (old, new) if old == new => old,
            // Only in a log that no writer wrote.
            _ => return RecordOrder::Concurrent,
        };
    }
    result
}
