//! The ring of blocks: claiming one, appending to it, releasing it.
//!
//! A writer owns a block from claim to release and nobody ever takes it away. Claiming walks the ring by tickets from a shared
//! cursor and skips blocks that are owned:
//!
//! ```text
//!            claim (CAS)          prepared              full, or finish
//!   FREE ─────────────► CLAIMED ───────────► ACTIVE ───────────────────► RELEASED ──┐
//!                          ▲                                                        │
//!                          └────────────────── claim, a later ticket (CAS) ─────────┘
//! ```
//!
//! I1. Only the owner writes into a block or moves its state on from CLAIMED and ACTIVE. So a writer that sleeps for any number of
//! laps wakes up in a block that is still its own, and one that dies costs the log this one block, which shows its last accesses.
//! I2. A record is committed by the last store to it, of its commit word, which is never 0; claiming zeroes the block.
//! I3. The tickets of a writer's blocks increase, and so do the tickets that a block goes through.
//! I4. Nothing here waits. A claim gives up after two laps, and then records are counted as dropped until a block is free again. There
//! are twice as many blocks as recordings, so that this takes more writers than recordings or a full disk.
use crate::clock::{self, Touch};
use crate::layout::*;
use crate::memory::Memory;
use crate::slot::{Commit, place};
use crate::sync::{Ordering, fence};
use core::ops::Range;

/// After a claim found nothing, how many records are dropped at most before the next try: a lap of a full ring is not cheap. The
/// first tries follow closely.
const MAX_DROPS_BETWEEN_TRIES: u64 = 1024;

/// Blocks that get their storage at once while the log is filled for the first time: 64 KiB.
const POPULATE_BLOCKS: u64 = 4;

pub(crate) const fn state_word(ticket: u64, recording: u32, state: u64) -> u64 {
    ticket << 18 | (recording as u64 & 0xffff) << 2 | state
}

/// Addresses of the ring's parts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ring {
    pub cursor: usize,
    pub headers: usize,
    pub blocks: usize,
    pub count: u64,
}

/// A block that this writer owns.
#[derive(Clone, Copy, Debug)]
struct Owned {
    ticket: u64,
    header: usize,
    start: usize,
}

/// Appends records of one recording. The first six fields are read by emitted machine code.
#[repr(C)]
pub(crate) struct Appender<M: Memory> {
    pub cursor: usize,
    pub limit: usize,
    pub bb_base: u64,
    pub extra_slots: u64,
    pub clocks: usize,
    pub clock_shift: u64,
    pub memory: M,
    ring: Ring,
    recording: u32,
    owned: Option<Owned>,
    /// Header page that is known to have storage behind it.
    header_page: usize,
    /// Blocks that are known to have storage behind them.
    populated: Range<u64>,
    /// Records of this recording in the blocks before the one that is owned.
    first_record: u64,
    dropped: u64,
    try_again_at: u64,
    patience: u64,
    /// Where the recording's counts are published.
    appended_at: usize,
    dropped_at: usize,
}

/// An access that has begun: what the second half needs to know.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun {
    pub place: u64,
    pub clock: usize,
    /// Of the interval.
    pub start: u64,
}

impl<M: Memory> Appender<M> {
    pub fn new(memory: M, ring: Ring, clocks: usize, clock_shift: u32, recording: u32, appended_at: usize, dropped_at: usize) -> Self {
        let first_record = memory.word(appended_at).load(Ordering::Relaxed);
        let dropped = memory.word(dropped_at).load(Ordering::Relaxed);
        Appender {
            cursor: 1,
            limit: 0,
            bb_base: 0,
            extra_slots: 0,
            clocks,
            clock_shift: clock_shift.into(),
            memory,
            ring,
            recording,
            owned: None,
            header_page: 0,
            populated: 0..0,
            first_record,
            dropped,
            try_again_at: 0,
            patience: 1,
            appended_at,
            dropped_at,
        }
    }

    #[inline(always)]
    pub fn clock_address(&self, place: u64) -> usize {
        self.clocks + clock::ClockIndex::of(place, self.clock_shift as u32).offset()
    }

    /// Begins an access within one line. None: there is no block to be had.
    #[inline(always)]
    pub fn begin(&mut self, touch: Touch, object: u32, offset: u64) -> Option<Begun> {
        if self.cursor > self.limit && !self.make_room(2) {
            return None;
        }
        let place = place(object, offset);
        self.mark_begun(place);
        let clock = self.clock_address(place);
        Some(Begun { place, clock, start: clock::before(&self.memory, clock, touch) })
    }

    /// Notes in the next slot that an access is under way, for the case that this process does not survive it.
    #[inline(always)]
    pub fn mark_begun(&mut self, place: u64) {
        self.memory.word(self.cursor + SLOT_WHERE as usize).store(place, Ordering::Relaxed);
    }

    /// Takes that note back: the access did not happen, or is not logged.
    pub fn unmark(&mut self) {
        if self.has_slot() {
            self.memory.word(self.cursor + SLOT_WHERE as usize).store(0, Ordering::Relaxed);
        }
    }

    /// Whether an access is under way.
    pub fn is_marked(&self) -> bool {
        self.has_slot() && self.memory.word(self.cursor + SLOT_WHERE as usize).load(Ordering::Relaxed) != 0
    }

    fn has_slot(&self) -> bool {
        self.owned.is_some_and(|owned| self.cursor < owned.start + M::SLOTS * SLOT_BYTES as usize)
    }

    /// A record of one slot. The caller has seen to it that the interval and delta fit.
    #[inline(always)]
    pub fn put_single(&mut self, place: u64, interval: u64, value: u64, commit: Commit) {
        let at = self.cursor;
        self.memory.word(at + SLOT_WHERE as usize).store(place, Ordering::Relaxed);
        self.memory.word(at + SLOT_INTERVAL as usize).store(interval, Ordering::Relaxed);
        self.memory.word(at + SLOT_VALUE as usize).store(value, Ordering::Relaxed);
        // Release: [publish-slot]
        self.memory.word(at + SLOT_COMMIT as usize).store(commit.word(), Ordering::Release);
        self.cursor = at + SLOT_BYTES as usize;
    }

    /// A record of two slots: the same, and a second value.
    #[inline(always)]
    pub fn put_double(&mut self, place: u64, interval: u64, old: u64, new: u64, commit: Commit) {
        self.memory.word(self.cursor + SLOT_BYTES as usize).store(new, Ordering::Relaxed);
        self.put_single(place, interval, old, commit);
        self.cursor += SLOT_BYTES as usize;
        self.extra_slots += 1;
    }

    /// Word `index` of the payload of the long record at the cursor; the caller has made room.
    pub fn put_payload(&mut self, index: u64, word: u64) {
        self.memory.word(self.cursor + (SLOT_BYTES + index * 8) as usize).store(word, Ordering::Relaxed);
    }

    /// Commits the long record at the cursor.
    pub fn put_long(&mut self, place: u64, head: u64, pc: u64, commit: Commit, slots: u64) {
        self.put_single(place, head, pc, commit);
        self.cursor += ((slots - 1) * SLOT_BYTES) as usize;
        self.extra_slots += slots - 1;
    }

    /// From here on bbcounts are relative to `bbcount`; also tells the time. False: no room.
    pub fn put_mark(&mut self, bbcount: u64) -> bool {
        if !self.make_room(2) {
            return false;
        }
        let ticks = self.memory.ticks();
        self.put_single(0, ticks, bbcount, Commit { site: 0, shape: SHAPE_MARK, delta: 0 });
        self.extra_slots += 1;
        self.bb_base = bbcount;
        true
    }

    /// Makes sure that `slots` slots are free at the cursor, in another block if need be. False: none is to be had, and the
    /// record must be dropped.
    pub fn make_room(&mut self, slots: u64) -> bool {
        if let Some(owned) = self.owned {
            let end = owned.start + M::SLOTS * SLOT_BYTES as usize;
            if self.cursor + (slots * SLOT_BYTES) as usize <= end {
                return true;
            }
        } else if self.dropped < self.try_again_at {
            return false;
        }
        self.next_block()
    }

    #[cold]
    #[inline(never)]
    fn next_block(&mut self) -> bool {
        self.release();
        let Some(owned) = self.claim() else {
            self.try_again_at = self.dropped + self.patience;
            self.patience = (self.patience * 2).min(MAX_DROPS_BETWEEN_TRIES);
            return false;
        };
        self.patience = 1;
        self.cursor = owned.start;
        self.limit = owned.start + (M::SLOTS - 2) * SLOT_BYTES as usize;
        self.owned = Some(owned);
        true
    }

    /// Takes the next block that nobody owns, zeroed and ready.
    fn claim(&mut self) -> Option<Owned> {
        let (ring, memory) = (self.ring, self.memory.clone());
        for _ in 0..2 * ring.count {
            // Relaxed: the ticket is a number; what it stands for is ordered by the state word.
            let ticket = memory.word(ring.cursor).fetch_add(1, Ordering::Relaxed).wrapping_add(1) & TICKET_MASK;
            // `max`: a cursor that somebody scribbled over may wrap.
            let index = (ticket.max(1) - 1) % ring.count.max(1);
            let header = ring.headers + (index * BLOCK_HEADER_BYTES) as usize;
            let start = ring.blocks + index as usize * M::SLOTS * SLOT_BYTES as usize;
            let page = header & !(PAGE_BYTES as usize - 1);
            // In every lap, as while a disk is full a log may be lapped without one block being taken.
            if page != self.header_page {
                if !memory.populate(page, PAGE_BYTES as usize) {
                    return None;
                }
                self.header_page = page;
            }
            let word = memory.word(header + BLK_STATE as usize);
            // Acquire: [release-block]
            let old = word.load(Ordering::Acquire);
            let recycled = match old & 3 {
                STATE_FREE => false,
                STATE_RELEASED => true,
                _ => continue,
            };
            if old >> 18 >= ticket {
                continue; // We slept, and a later ticket has been here (I3).
            }
            if !recycled && !self.populate_blocks(index) {
                return None;
            }
            let claimed = state_word(ticket, self.recording, STATE_CLAIMED);
            // Acquire: [release-block]; Release: [activate-block], for a reader that sees nothing later.
            if word.compare_exchange(old, claimed, Ordering::AcqRel, Ordering::Relaxed).is_err() {
                continue;
            }
            // A reader that sees anything of what follows sees that the block is no longer what it was: [recycle-block].
            fence(Ordering::Release);
            if recycled {
                memory.clear(start, M::SLOTS * SLOT_BYTES as usize);
            }
            let put = |at: u64, value| memory.word(header + at as usize).store(value, Ordering::Relaxed);
            put(BLK_BB_BASE, self.bb_base);
            put(BLK_TSC_FIRST, memory.ticks());
            put(BLK_FIRST_RECORD, self.first_record);
            put(BLK_TSC_LAST, 0);
            put(BLK_USED, 0);
            // Release: [activate-block]
            word.store(state_word(ticket, self.recording, STATE_ACTIVE), Ordering::Release);
            return Some(Owned { ticket, header, start });
        }
        None
    }

    /// Gives the blocks from `index` on storage, several at once, as that is cheaper.
    fn populate_blocks(&mut self, index: u64) -> bool {
        if self.populated.contains(&index) {
            return true;
        }
        let count = POPULATE_BLOCKS.min(self.ring.count - index);
        let block_bytes = M::SLOTS * SLOT_BYTES as usize;
        let done = self.memory.populate(self.ring.blocks + index as usize * block_bytes, count as usize * block_bytes);
        self.populated = index..index + if done { count } else { 0 };
        done
    }

    /// Gives the block back, complete, for readers to trust and others to overwrite.
    pub fn release(&mut self) {
        let Some(owned) = self.owned.take() else { return };
        let used = ((self.cursor - owned.start) as u64) / SLOT_BYTES;
        let records = used - self.extra_slots.min(used);
        self.first_record += records;
        self.memory.word(owned.header + BLK_TSC_LAST as usize).store(self.memory.ticks(), Ordering::Relaxed);
        self.memory.word(owned.header + BLK_USED as usize).store(used | records << 32, Ordering::Relaxed);
        self.memory.word(self.appended_at).store(self.first_record, Ordering::Relaxed);
        // Release: [release-block]
        self.memory
            .word(owned.header + BLK_STATE as usize)
            .store(state_word(owned.ticket, self.recording, STATE_RELEASED), Ordering::Release);
        self.cursor = 1;
        self.limit = 0;
        self.extra_slots = 0;
    }

    /// Counts a record that found no room.
    #[cold]
    pub fn drop_record(&mut self) {
        self.dropped += 1;
        self.memory.word(self.dropped_at).store(self.dropped, Ordering::Relaxed);
    }

    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    pub fn has_block(&self) -> bool {
        self.owned.is_some()
    }

    pub fn recording(&self) -> u32 {
        self.recording
    }
}

const TICKET_MASK: u64 = (1 << 46) - 1;
