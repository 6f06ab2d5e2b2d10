//! Line clocks: which accesses to the same bytes came before which.
//!
//! Each 64-byte line of each object has, by a hash, one of the log's counters. A write ticks it (adds one) before it touches the
//! memory and once more after; a read, which changes nothing that others see, only looks at it before and after.
//!
//! ```text
//!   write   b = add(clock, 1) ─ store ─ a = add(clock, 1)      interval [b, a]
//!   read    b = clock         ─ load  ─ a = clock              interval [b - ½, a - ½]: between tick b-1 and tick b
//! ```
//!
//! I1. If the interval of A ends before that of B begins, the hardware executed A before B. Otherwise nothing is claimed.
//! I2. Two lines may share a counter. That widens intervals, so it can only cost precision.
//! The argument, from the x86 memory model and from that of the language, is in `docs/log-ordering.md`; `src/models` checks it.
use crate::layout::{CLOCK_HASH, CLOCKS_PER_GROUP};
use crate::memory::Memory;
use crate::sync::{Ordering, fence};

/// Which of the log's clocks; below the count of the clock section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClockIndex(pub u32);

impl ClockIndex {
    /// The clock of a slot's first word (object << 48 | offset), by `clock_shift` of the layout.
    ///
    /// A page of an object has, by its hash, a group and a column in it. Each of the page's lines has a cache line of clocks to
    /// itself within the group, so that neighbours which the program padded against false sharing stay apart here too; the eight
    /// clocks in that cache line are for other pages.
    #[inline(always)]
    pub(crate) const fn of(word: u64, clock_shift: u32) -> ClockIndex {
        let hash = (word >> 12).wrapping_mul(CLOCK_HASH) >> (clock_shift & 63);
        let (group, column) = (hash >> 3, hash & 7);
        let line = (word >> 6) & 63;
        ClockIndex((group * CLOCKS_PER_GROUP + line * 8 + column) as u32)
    }
}

/// The stretch of a clock's life that contains an access, in half ticks. Only comparable within one clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    pub start: u64,
    pub end: u64,
}

impl Interval {
    /// From what the access saw on its clock before and after. None if it cannot have seen that.
    pub const fn new(writes: bool, before: u64, after: u64) -> Option<Interval> {
        let possible = if writes { before < after } else { before <= after };
        if !possible || after > u64::MAX / 2 - 1 {
            return None;
        }
        let half = writes as u64;
        Some(Interval { start: 2 * before + half, end: 2 * after + half })
    }

    /// True if this access came before the other for certain (I1).
    #[inline]
    pub const fn precedes(&self, other: &Interval) -> bool {
        self.end < other.start
    }

    /// True if nobody wrote to this clock's lines during the access.
    pub const fn is_quiet(&self, writes: bool) -> bool {
        self.end - self.start == if writes { 2 } else { 0 }
    }
}

/// To be called right before the access.
///
/// SeqCst on all clock operations costs nothing on x86 (`lock xadd`, `mov`) and makes chains over several lines sound; acquire and
/// release, which is all that loom sees in it, suffice for I1.
#[inline(always)]
pub(crate) fn before<M: Memory>(memory: &M, clock: usize, writes: bool) -> u64 {
    if writes {
        // Acquire, Release: [line-clock]
        let seen = memory.word(clock).fetch_add(1, Ordering::SeqCst);
        // Release: [line-tick]. Whoever sees the value that is about to be written sees this tick.
        fence(Ordering::Release);
        seen
    } else {
        // Acquire: [line-clock]
        memory.word(clock).load(Ordering::SeqCst)
    }
}

/// To be called right after the access.
#[inline(always)]
pub(crate) fn after<M: Memory>(memory: &M, clock: usize, writes: bool) -> u64 {
    if writes {
        // Acquire, Release: [line-clock]
        memory.word(clock).fetch_add(1, Ordering::SeqCst)
    } else {
        // Acquire: [line-tick]
        fence(Ordering::Acquire);
        memory.word(clock).load(Ordering::SeqCst)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn clock(word: u64) -> u64 {
        ClockIndex::of(word, 54).0.into()
    }

    #[test]
    fn lines_of_a_page_do_not_share_a_cache_line_of_clocks() {
        let mut seen: Vec<_> = (0..64).map(|line| clock(5 << 48 | 0x7000 | line << 6) / 8).collect();
        assert!(seen.iter().all(|line| line / 64 == seen[0] / 64), "one group");
        seen.dedup();
        assert_eq!(seen.len(), 64);
    }

    #[test]
    fn consecutive_pages_spread_over_the_clocks() {
        let mut seen: Vec<_> = (0..512).map(|page| clock(1 << 48 | page << 12)).collect();
        seen.sort();
        seen.dedup();
        assert!(seen.len() > 480, "{} clocks for 512 pages", seen.len());
        assert!(*seen.last().unwrap() < 1 << 16);
    }

    #[test]
    fn intervals_order_only_what_does_not_touch() {
        let write = |b, a| Interval::new(true, b, a).unwrap();
        let read = |b, a| Interval::new(false, b, a).unwrap();
        assert!(write(0, 1).precedes(&read(2, 2)));
        assert!(!write(0, 1).precedes(&read(1, 2)), "the read began before the second tick");
        assert!(read(2, 2).precedes(&write(2, 3)));
        assert!(!read(2, 3).precedes(&write(2, 3)));
        assert!(!read(2, 2).precedes(&read(2, 2)), "no tick between two reads");
        assert!(read(2, 2).precedes(&read(3, 3)));
        assert!(write(0, 1).precedes(&write(2, 3)));
        assert_eq!(Interval::new(true, 3, 3), None);
        assert_eq!(Interval::new(false, 3, 2), None);
        assert_eq!(Interval::new(false, u64::MAX, u64::MAX), None);
    }
}
