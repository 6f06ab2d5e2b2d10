//! An access as the reader shows it, and what is known of the order of two of them.
use super::file::word;
use crate::clock::{ClockIndex, Interval};
use crate::layout::*;
use crate::types::{Kind, ObjectIndex, Piece, RecordingIndex, SiteIndex};
use core::fmt;

/// Where a record stands in the log. Within one recording positions grow in program order; between recordings they follow the
/// order in which their blocks were begun, which is only roughly that of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Position(u64);

impl Position {
    const SLOT_BITS: u32 = SLOTS_PER_BLOCK.ilog2();

    /// `slot` is below [`SLOTS_PER_BLOCK`].
    pub fn new(ticket: u64, slot: u32) -> Position {
        Position(ticket << Self::SLOT_BITS | u64::from(slot))
    }

    /// Of the block, by age.
    pub fn ticket(self) -> u64 {
        self.0 >> Self::SLOT_BITS
    }

    /// In the block.
    pub fn slot(self) -> u32 {
        self.0 as u32 & (SLOTS_PER_BLOCK as u32 - 1)
    }

    /// As one number, in the same order.
    pub fn to_bits(self) -> u64 {
        self.0
    }

    /// The inverse of [`Position::to_bits`].
    pub fn from_bits(bits: u64) -> Position {
        Position(bits)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.ticket(), self.slot())
    }
}

/// What an access knows about one of the lines it touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineInterval {
    /// Offset in the object divided by 64.
    pub line: u64,
    pub clock: ClockIndex,
    pub interval: Interval,
}

/// One logged access; its bytes are borrowed from the block's buffer.
#[derive(Clone, Copy, Debug)]
pub struct Access<'a> {
    pub position: Position,
    pub recording: RecordingIndex,
    /// Counts the recording's records from 0; gaps are records that were overwritten.
    pub sequence: u64,
    /// None if it was made by the kernel or its instruction found no room in the registry.
    pub site: Option<SiteIndex>,
    pub pc: u64,
    pub bbcount: u64,
    pub kind: Kind,
    /// Made by the kernel in a system call.
    pub by_kernel: bool,
    pub object: ObjectIndex,
    /// Bytes from the object's start.
    pub offset: u64,
    /// Bytes that this record covers, at least 1.
    pub len: u32,
    /// Which part of the access this is. The pieces of one access follow each other in their recording.
    pub piece: Piece,
    /// Bytes of the whole access, saturating.
    pub total_len: u32,
    /// Roughly when, in time stamp counter ticks: see [`super::Reader::wallclock_ns`].
    pub tsc: u64,
    pub(super) seen: &'a [u8],
    pub(super) written: &'a [u8],
    pub(super) lines: Lines<'a>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Lines<'a> {
    One(ClockIndex, Interval),
    /// Pairs of words, checked when the record was decoded.
    Many(&'a [u8], u32),
}

impl<'a> Access<'a> {
    /// What it saw; empty for a write.
    pub fn seen(&self) -> &'a [u8] {
        self.seen
    }

    /// What it left there; empty for a read.
    pub fn written(&self) -> &'a [u8] {
        self.written
    }

    /// What was there after it: what it wrote, or saw.
    pub fn value(&self) -> &'a [u8] {
        if self.kind.writes() { self.written } else { self.seen }
    }

    /// The offset just behind it.
    pub fn end(&self) -> u64 {
        self.offset + u64::from(self.len)
    }

    /// Whether it touches a byte of `[offset, offset + len)` of the object.
    pub fn overlaps(&self, object: ObjectIndex, offset: u64, len: u64) -> bool {
        self.object == object && self.offset < offset.saturating_add(len) && offset < self.end()
    }

    /// The lines it touches, in order, with their clocks.
    pub fn lines(&self) -> impl Iterator<Item = LineInterval> + 'a {
        let Access { object, offset, len, lines, .. } = *self;
        let first = offset / LINE_BYTES;
        let count = crate::slot::lines(offset, len.into());
        (0..count).filter_map(move |index| {
            let line = first + index;
            match lines {
                Lines::One(clock, interval) => Some(LineInterval { line, clock, interval }),
                Lines::Many(words, shift) => {
                    let place = crate::slot::place(object.get(), line * LINE_BYTES);
                    let interval = Interval::new(word(words, index * 16), word(words, index * 16 + 8))?;
                    Some(LineInterval { line, clock: ClockIndex::of(place, shift), interval })
                }
            }
        })
    }

    /// Whether another recording touched any of its lines (or a line that shares a clock) while it was under way, in a way that is
    /// not two reads.
    pub fn is_contended(&self) -> bool {
        self.lines().any(|line| !line.interval.is_quiet())
    }
}

/// What the log knows about the order in which two accesses happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The first happened before the second.
    Before,
    /// The first happened after the second.
    After,
    /// Neither is known: they overlap, or they have no clock in common.
    Concurrent,
}

impl Order {
    /// The order of the two the other way round.
    pub fn reverse(self) -> Order {
        match self {
            Order::Before => Order::After,
            Order::After => Order::Before,
            Order::Concurrent => Order::Concurrent,
        }
    }
}

/// The order of two accesses of one log, by program order within a recording and by the lines' clocks between two.
///
/// It looks at these two alone. That A came before B may also follow from others between them (A before C by a clock, C before B
/// in one program); whoever needs that must follow the chain.
pub fn order(a: &Access<'_>, b: &Access<'_>) -> Order {
    if a.recording == b.recording {
        return match a.position.cmp(&b.position) {
            core::cmp::Ordering::Less => Order::Before,
            core::cmp::Ordering::Greater => Order::After,
            core::cmp::Ordering::Equal => Order::Concurrent,
        };
    }
    let mut result = Order::Concurrent;
    for x in a.lines() {
        for y in b.lines().filter(|y| y.clock == x.clock) {
            let this = if x.interval.precedes(&y.interval) {
                Order::Before
            } else if y.interval.precedes(&x.interval) {
                Order::After
            } else {
                continue;
            };
            if result != Order::Concurrent && result != this {
                // Only in a log that no writer wrote.
                return Order::Concurrent;
            }
            result = this;
        }
    }
    result
}
