//! Line clocks: which accesses to the same bytes came before which.
//!
//! Each 64-byte line of each object has, by a hash, one of the log's counters. What it shows before and after an access is the access's
//! interval; accesses that write tick it (add one), so that intervals of ordered ones lie apart.
//!
//! ```text
//!   write    s = tick + 1 ─ store ─ e = tick             a tick is a `lock xadd`, and returns what the clock showed before it
//!   locked   s = tick + 1, open = s ─ RMW ─ e = look     a locked instruction is a fence, so what is looked at after it is later
//!   read     s = look ─ load ─ e = look                  its first look becomes a tick (+ 1) if it finds the clock open
//! ```
//!
//! I1. If the interval of A ends before that of B starts, the hardware executed A before B. Otherwise nothing is claimed.
//! I2. Two lines may share a counter. That widens intervals, so it can only cost precision.
//! I3. `open` says that the clock's last tick belongs to a locked access, which no second tick has closed: a read that comes later
//! could not be told from one that comes at the same time. Like I2 it is about precision; whatever it holds, I1 holds.
//! The argument, from the x86 memory model and from that of the language, is in `docs/log-ordering.md`; `src/models` checks it.
use crate::layout::{CLOCK_BYTES, CLOCK_HASH, CLOCK_OPEN, CLOCKS_PER_GROUP};
use crate::memory::Memory;
use crate::sync::{Ordering, full_fence, loads_in_order};

/// Which of the log's clocks; below the count of the clock section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClockIndex(pub u32);

impl ClockIndex {
    /// The clock of a slot's first word (object << 48 | offset), by `clock_shift` of the layout.
    ///
    /// A page of an object has, by its hash, a group and a column in it. Each of the page's lines has a cache line of clocks to
    /// itself within the group, so that neighbours which the program padded against false sharing stay apart here too; the four
    /// clocks in that cache line are for other pages.
    #[inline(always)]
    pub(crate) const fn of(word: u64, clock_shift: u32) -> ClockIndex {
        let hash = (word >> 12).wrapping_mul(CLOCK_HASH) >> (clock_shift & 63);
        let (group, column) = (hash >> 2, hash & 3);
        let line = (word >> 6) & 63;
        ClockIndex((group * CLOCKS_PER_GROUP + line * 4 + column) as u32)
    }

    /// Bytes from the start of the clocks.
    #[inline(always)]
    pub(crate) const fn offset(self) -> usize {
        self.0 as usize * CLOCK_BYTES as usize
    }
}

/// The stretch of a clock's life that contains an access: what the clock showed right after the access's first event on it, and right
/// before its last. Only comparable within one clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    pub start: u64,
    pub end: u64,
}

impl Interval {
    /// None if it ends before it starts.
    pub const fn new(start: u64, end: u64) -> Option<Interval> {
        if end < start { None } else { Some(Interval { start, end }) }
    }

    /// True if this access came before the other for certain (I1).
    #[inline]
    pub const fn precedes(&self, other: &Interval) -> bool {
        self.end < other.start
    }

    /// True if nobody else ticked this clock during the access.
    pub const fn is_quiet(&self) -> bool {
        self.end == self.start
    }
}

/// What an access does to its clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Touch {
    Read,
    /// In any way, of any size.
    Write,
    /// A write or read/write whose last touch of the memory is a locked instruction (`lock`, `xchg`).
    Locked,
}

impl Touch {
    #[inline(always)]
    pub const fn of(writes: bool) -> Touch {
        if writes { Touch::Write } else { Touch::Read }
    }
}

/// To be called right before the access: the interval's start.
///
/// SeqCst on all clock operations costs nothing on x86 (`lock xadd`, `mov`) and makes chains over several lines sound; acquire and
/// release, which is all that loom sees in it, suffice for I1 together with the full fence that a locked instruction is.
#[inline(always)]
pub(crate) fn before<M: Memory>(memory: &M, clock: usize, touch: Touch) -> u64 {
    let open = memory.word(clock + CLOCK_OPEN as usize);
    if touch == Touch::Read {
        // Acquire: [line-clock]
        let seen = memory.word(clock).load(Ordering::SeqCst);
        // Relaxed: I3.
        if open.load(Ordering::Relaxed) != seen {
            loads_in_order();
            return seen;
        }
    }
    // Acquire, Release: [line-clock]
    let seen = memory.word(clock).fetch_add(1, Ordering::SeqCst).wrapping_add(1);
    // Release: [line-tick]. Whoever sees the value that is about to be written sees this tick; and who looked at the clock before
    // this tick, behind a full fence of its own, touched the memory before this access: [line-fence].
    full_fence();
    if touch == Touch::Locked {
        // Relaxed: I3. Before the access, so that those who see what it wrote usually see this.
        open.store(seen, Ordering::Relaxed);
    }
    seen
}

/// To be called right after the access: the interval's end.
#[inline(always)]
pub(crate) fn after<M: Memory>(memory: &M, clock: usize, touch: Touch) -> u64 {
    match touch {
        // Acquire, Release: [line-clock]
        Touch::Write => memory.word(clock).fetch_add(1, Ordering::SeqCst),
        Touch::Read => {
            // Acquire: [line-tick]
            loads_in_order();
            memory.word(clock).load(Ordering::SeqCst)
        }
        Touch::Locked => {
            // [line-fence]: by the caller's locked instruction, see `Touch::Locked`.
            full_fence();
            memory.word(clock).load(Ordering::SeqCst)
        }
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
        let mut seen: Vec<_> = (0..64).map(|line| clock(5 << 48 | 0x7000 | line << 6) / 4).collect();
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
        let interval = |start, end| Interval::new(start, end).unwrap();
        assert!(interval(1, 1).precedes(&interval(2, 2)));
        assert!(!interval(1, 2).precedes(&interval(2, 2)));
        assert!(!interval(2, 2).precedes(&interval(2, 2)));
        assert_eq!(Interval::new(3, 2), None);
    }

    /// What one process does in turn is told apart, except for reads with nothing between them.
    #[test]
    fn accesses_one_after_another_have_intervals_one_after_another() {
        use Touch::{Locked, Read, Write};
        let memory = crate::memory::model::Words::<1>::new(2);
        let touches = [Read, Write, Read, Read, Locked, Read, Read, Locked, Locked, Write, Locked, Write, Read];
        let intervals = touches.map(|touch| Interval::new(before(&memory, 0, touch), after(&memory, 0, touch)).unwrap());
        for at in 1..touches.len() {
            let (a, b) = (&intervals[at - 1], &intervals[at]);
            assert!(a.is_quiet() && !b.precedes(a));
            assert_eq!(a.precedes(b), (touches[at - 1], touches[at]) != (Read, Read), "{at}: {a:?} {b:?}");
        }
    }
}
