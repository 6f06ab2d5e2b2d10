//! The event log: segments of shared memory, so that the snapshot has all events even if this process is killed.
//!
//! ```text
//!   this process:  events ──► open segment ──full──► closed segments ──► snapshot: compressed, kept in memory of its own
//!                                  ▲                                        │
//!                                  └──────────── free again ◄───────────────┘
//! ```
//!
//! A segment is a slot of [`SLOT_BYTES`] or, for one event that is longer, a piece of the area behind the slots. The same few slots are
//! used again and again, so they stay in the cache and take no page faults.
//!
//! # Invariants
//! V1. `open` numbers the segment that is written; the segments before it are closed. A segment is closed by the same store that opens
//!     the next one, which then holds a whole event: the last event is always in the open segment.
//! V2. `used` of the open segment is stored after the event that it covers.
//! V3. Emitted code appends too, by way of `next` and `used_at`, as long as `next` is at most `last`. What it appended goes into the
//!     running hash when this process appends something itself. That is not long after: `last` is never far away, so there is always
//!     an event near that notes hashes and time.
//! V4. Emitted code may lengthen the event that it appended last, until that is hashed or this process writes to shared memory.
//! V5. A slot's bit in `busy` is set here and cleared by the snapshot, when it has compressed the segment.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use engine::inline::EventWords;
use engine::{arena, sys, sys::raw};
use recording::{Body, EventBuilder, EventHeader, EventKind, Events, Full, RunningHash, event_offset};

use super::control::control;
use super::state::Path;

/// LZ4 looks back 64 KiB, and two of these fit into a processor's own cache.
pub const SLOT_BYTES: u64 = 256 << 10;
/// As many as `busy` has bits.
const SLOTS: u64 = 64;
/// Segments that may wait for the snapshot, and the open one.
const QUEUE: u64 = 128;
/// Emitted code appends no more bytes than this in a row.
const EMITTED_MAX: u64 = 64 << 10;
/// Bytes of an event of the widest operand, and of the zero word behind it.
const EMITTED_EVENT: u64 = event_offset::WRITE_BYTES as u64 + 64 + 8;
/// Kept free in small logs for what cannot be undone when it does not fit.
const SMALLEST: u64 = 64 << 10;

const FIRST_SLOT: u64 = arena::EVENT_LOG + (1 << 20);
const LONG: u64 = arena::EVENT_LOG + (64 << 20);
const LONG_MAX: u64 = 32 << 30;
/// Where the snapshot keeps what it has compressed: memory of its own, or a part of the log's file.
pub const PACKED: u64 = arena::EVENT_LOG + (33 << 30);
const PACKED_MAX: u64 = 66 << 30;

/// Length of that area: chunks are no longer than what they hold, bound events may exceed the limit, and the last needs room to be tried.
pub fn packed_bytes(limit: u64) -> u64 {
    (limit + (20 << 20)).min(PACKED_MAX) & !4095
}

const _: () = assert!(FIRST_SLOT + SLOTS * SLOT_BYTES <= LONG && LONG + LONG_MAX <= PACKED && PACKED + PACKED_MAX <= arena::ACCESS_LOG);

/// Where a segment lies, how many bytes of whole events it holds, and the running hash of all events before it.
#[repr(C)]
pub struct Segment {
    pub address: AtomicU64,
    pub used: AtomicU64,
    running: AtomicU64,
}

/// The log's first page.
#[repr(C)]
pub struct Shared {
    /// The most that the log may take, in bytes.
    pub limit: AtomicU64,
    open: AtomicU64,
    busy: AtomicU64,
    /// Segments that the snapshot is done with, their bytes, and what it has made of them.
    pub packed: AtomicU64,
    pub packed_from: AtomicU64,
    pub packed_to: AtomicU64,
    /// Grows with `packed`, for waiting.
    steps: AtomicU32,
    is_awaited: AtomicU32,
    /// The snapshot has no memory to compress to.
    pub broken: AtomicU32,
    is_file: AtomicU32,
    segments: [Segment; QUEUE as usize],
}

const _: () = assert!(size_of::<Shared>() <= 4096);

/// The log of the recording that runs.
pub fn shared() -> &'static Shared {
    // SAFETY: mapped before a recording starts and not unmapped; all fields are atomic.
    unsafe { &*(arena::EVENT_LOG as *const Shared) }
}

impl Shared {
    pub fn open(&self) -> u64 {
        self.open.load(Ordering::Acquire)
    }

    /// The running hash of all events before the open segment.
    pub fn running_at_open(&self) -> RunningHash {
        RunningHash::from_value(self.segment(self.open()).running.load(Ordering::Relaxed))
    }

    pub fn segment(&self, number: u64) -> &Segment {
        &self.segments[(number % QUEUE) as usize]
    }

    /// Whether the log is a file, its area for what is compressed included.
    pub fn is_file(&self) -> bool {
        self.is_file.load(Ordering::Relaxed) != 0
    }

    /// The events of a segment.
    pub fn events(&self, number: u64) -> &'static [u8] {
        let segment = self.segment(number);
        let used = segment.used.load(Ordering::Acquire) as usize;
        // SAFETY: the segment is mapped, and what lies below `used` does not change any more.
        unsafe { core::slice::from_raw_parts(segment.address.load(Ordering::Relaxed) as *const u8, used) }
    }

    /// In the snapshot: the next segment has been compressed to `to` bytes in all, and its memory is free.
    pub fn release(&self, number: u64, to: u64) {
        let segment = self.segment(number);
        let (address, used) = (segment.address.load(Ordering::Relaxed), segment.used.load(Ordering::Relaxed));
        if address < LONG {
            self.busy.fetch_and(!(1 << ((address - FIRST_SLOT) / SLOT_BYTES)), Ordering::Release);
        } else if !self.is_file() {
            sys::madvise(address & !4095, (used + 4095) & !4095, raw::MADV_REMOVE);
        }
        self.packed_from.fetch_add(used, Ordering::Relaxed);
        self.packed_to.store(to, Ordering::Relaxed);
        self.packed.store(number + 1, Ordering::Release);
        self.steps.fetch_add(1, Ordering::Release);
        if self.is_awaited.swap(0, Ordering::AcqRel) != 0 {
            sys::futex_wake(&self.steps);
        }
    }
}

#[derive(Debug)]
pub struct EventLog {
    /// Words of emitted code (`EventWords`): where the next event goes, the last such place, the address of the open segment's `used`.
    next: u64,
    last: u64,
    used_at: u64,
    /// More such words: the last event, if it may grow, else 0; where the length of its last write stands; where that ends.
    open_event: u64,
    open_length: u64,
    open_end: u64,
    /// The open segment: its number, address, and length.
    number: u64,
    address: u64,
    room: u64,
    slot_bytes: u64,
    limit: u64,
    long_bytes: u64,
    /// Bytes of the area for long events that were given out, and the last segment that lies there.
    long_used: u64,
    long_last: Option<u64>,
    /// Bytes in closed segments.
    closed: u64,
    /// Of all events below `hashed`, and of those before the open segment.
    running: RunningHash,
    hashed: u64,
    running_at_open: RunningHash,
    /// This process is not recorded: what it appends goes nowhere.
    muted: bool,
}

/// A place in the log, see [`EventLog::mark`].
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    number: u64,
    used: u64,
    running: RunningHash,
}

type Writes<'a> = &'a mut dyn FnMut(&mut EventBuilder) -> Result<(), Full>;

/// A segment to write to.
struct Room {
    address: u64,
    length: u64,
}

impl Room {
    /// The event's length; `running` goes on behind it.
    fn build(&self, running: &mut RunningHash, header: &EventHeader, body: &Body, writes: Writes) -> Result<u64, Full> {
        // SAFETY: only this process writes to the segment and holds no other reference into it.
        let bytes = unsafe { core::slice::from_raw_parts_mut(self.address as *mut u8, self.length as usize) };
        let header = EventHeader { state_hash: running.note(header.state_hash), ..*header };
        let mut builder = EventBuilder::begin(bytes, &header, body)?;
        writes(&mut builder)?;
        let length = builder.finish();
        running.add(&bytes[..length]);
        Ok(length as u64)
    }
}

impl EventLog {
    /// Maps an empty log of at most `limit` bytes in place of any earlier one; in a file without name if a directory is given.
    pub fn create(limit: u64, directory: &Path) -> Result<Self, i64> {
        let limit = limit.max(SMALLEST);
        let long_bytes = (limit & !4095).min(LONG_MAX);
        let length = LONG - arena::EVENT_LOG + long_bytes;
        let packed = packed_bytes(limit);
        sys::munmap(PACKED, PACKED_MAX);
        let is_file = !directory.is_empty();
        let fd = if is_file { file(directory, length + packed)? } else { -1 };
        let map = |address, length, offset| {
            let kind = if is_file { 0 } else { raw::MAP_ANONYMOUS };
            let flags = raw::MAP_SHARED | raw::MAP_NORESERVE | raw::MAP_FIXED | kind;
            let got = sys::mmap(address, length, raw::PROT_READ | raw::PROT_WRITE, flags, fd, offset);
            if got == address as i64 { Ok(()) } else { Err(got) }
        };
        let mut mapped = map(arena::EVENT_LOG, length, 0);
        if is_file {
            mapped = mapped.and_then(|()| map(PACKED, packed, length));
            sys::close(fd);
        }
        mapped?;
        let slot_bytes = (limit / 4).min(SLOT_BYTES) & !4095;
        let shared = shared();
        shared.limit.store(limit, Ordering::Relaxed);
        shared.busy.store(1, Ordering::Relaxed);
        shared.is_file.store(u32::from(is_file), Ordering::Relaxed);
        shared.segment(0).address.store(FIRST_SLOT, Ordering::Release);
        let mut events = Self {
            next: FIRST_SLOT,
            last: 0,
            used_at: shared.segment(0).used.as_ptr() as u64,
            open_event: 0,
            open_length: 0,
            open_end: 0,
            number: 0,
            address: FIRST_SLOT,
            room: slot_bytes,
            slot_bytes,
            limit,
            long_bytes,
            long_used: 0,
            long_last: None,
            closed: 0,
            running: RunningHash::new(),
            hashed: FIRST_SLOT,
            running_at_open: RunningHash::new(),
            muted: false,
        };
        events.admit();
        Ok(events)
    }

    /// What emitted code needs to append events by itself, as long as this stays where it is.
    pub fn words(&self) -> EventWords {
        EventWords {
            next: core::ptr::from_ref(&self.next) as u64,
            last: core::ptr::from_ref(&self.last) as u64,
            used: core::ptr::from_ref(&self.used_at) as u64,
            open: core::ptr::from_ref(&self.open_event) as u64,
            open_length: core::ptr::from_ref(&self.open_length) as u64,
            open_end: core::ptr::from_ref(&self.open_end) as u64,
            what: u32::from(EventKind::ShmemFixup.raw()),
            size: event_offset::SIZE as i32,
            kind: event_offset::KIND as i32,
            bbcount: event_offset::BBCOUNT as i32,
            pc: event_offset::PC as i32,
            zero: [event_offset::TIMESTAMP as i32, event_offset::STATE_HASH as i32],
            address: event_offset::WRITE_ADDRESS as i32,
            length: event_offset::WRITE_LENGTH as i32,
            bytes: event_offset::WRITE_BYTES as i32,
        }
    }

    /// Emitted code may append, up to the segment's end or `EMITTED_MAX`.
    fn admit(&mut self) {
        self.close_event();
        let end = (self.address + self.room).min(self.next + EMITTED_MAX);
        self.last = if self.muted { 0 } else { end.saturating_sub(EMITTED_EVENT) };
    }

    /// Emitted code asks the host for each event.
    pub fn leave_to_host(&mut self) {
        self.last = 0;
        self.close_event();
    }

    /// The last event stays as it is. To be called before this process writes to shared memory.
    pub fn close_event(&mut self) {
        self.open_event = 0;
    }

    /// Bytes of events in the open segment.
    fn used(&self) -> u64 {
        self.next - self.address
    }

    /// Takes what emitted code has appended into the running hash.
    #[inline]
    fn hash_emitted(&mut self) {
        self.close_event();
        if self.hashed != self.next {
            self.hash_rest();
        }
    }

    #[cold]
    fn hash_rest(&mut self) {
        // SAFETY: whole events of the open segment, which nobody changes.
        let rest = unsafe { core::slice::from_raw_parts(self.hashed as *const u8, (self.next - self.hashed) as usize) };
        Events::new(rest).filter_map(Result::ok).for_each(|event| self.running.add(event.bytes()));
        self.hashed = self.next;
    }

    /// The open segment's events end at `next` now.
    fn set_next(&mut self, next: u64) {
        (self.next, self.hashed) = (next, next);
        shared().segment(self.number).used.store(self.used(), Ordering::Release);
        self.admit();
    }

    /// From here on this process, a child that borrows a recorded one's memory, is not recorded.
    pub fn mute(&mut self) {
        self.muted = true;
        self.leave_to_host();
    }

    pub fn is_muted(&self) -> bool {
        self.muted
    }

    /// Whether so many bytes are free, and an event goes anywhere at all.
    pub fn has_room(&self, bytes: u64) -> bool {
        !self.muted && self.bytes() + bytes <= self.limit
    }

    /// How much there is. To be followed by events of the recording's end.
    pub fn mark(&mut self) -> Mark {
        self.hash_emitted();
        // They are to be in the open segment or in a later one as a whole.
        if self.room - self.used() < SMALLEST {
            self.room = self.used();
            self.admit();
        }
        Mark { number: self.number, used: self.used(), running: self.running }
    }

    /// Forgets the end that was appended since a mark. A memory hash in a segment of its own may stay: it is true at any time.
    pub fn rewind(&mut self, mark: Mark) {
        let (used, running) = if self.number == mark.number { (mark.used, mark.running) } else { (0, self.running_at_open) };
        self.running = running;
        self.set_next(self.address + used);
    }

    /// Appends an event; the header's state hash is that of the registers alone. `writes` adds its memory writes, and is called again if the event needs another segment.
    #[inline]
    pub fn append(
        &mut self,
        header: &EventHeader,
        body: &Body,
        mut writes: impl FnMut(&mut EventBuilder) -> Result<(), Full>,
    ) -> Result<(), Full> {
        if self.muted {
            return Ok(());
        }
        self.hash_emitted();
        let room = Room { address: self.next, length: self.room - self.used() };
        match room.build(&mut self.running, header, body, &mut writes) {
            Ok(length) => {
                self.set_next(self.next + length);
                Ok(())
            }
            Err(full) => self.append_elsewhere(full.needed_bytes, header, body, &mut writes),
        }
    }

    #[cold]
    fn append_elsewhere(&mut self, needed: u64, header: &EventHeader, body: &Body, writes: Writes) -> Result<(), Full> {
        // What ends a recording, and signals, cannot be undone when they do not fit: they may exceed the limit.
        let is_bound = !matches!(body, Body::Signal(_) | Body::MemoryHash(_) | Body::End(_));
        let mut running = self.running;
        if needed <= self.slot_bytes {
            let slot = self.take_slot(is_bound)?;
            if let Ok(used) = slot.build(&mut running, header, body, writes) {
                self.open(slot.address, slot.length, used, running);
                return Ok(());
            }
            shared().busy.fetch_and(!(1 << ((slot.address - FIRST_SLOT) / SLOT_BYTES)), Ordering::Relaxed);
        }
        loop {
            let (room, is_all) = self.take_long(is_bound)?;
            match room.build(&mut running, header, body, writes) {
                Ok(used) => {
                    self.open(room.address, used, used, running);
                    self.long_used += (used + 4095) & !4095;
                    self.long_last = Some(self.number);
                    return Ok(());
                }
                Err(full) if is_all => return Err(full),
                Err(_) => self.wait()?,
            }
        }
    }

    /// Closes the open segment; the next one, which holds its first event already, is open.
    fn open(&mut self, address: u64, room: u64, used: u64, running: RunningHash) {
        let shared = shared();
        self.running_at_open = core::mem::replace(&mut self.running, running);
        self.closed += self.used();
        self.number += 1;
        let segment = shared.segment(self.number);
        segment.address.store(address, Ordering::Relaxed);
        segment.running.store(self.running_at_open.value(), Ordering::Relaxed);
        (self.address, self.room, self.used_at) = (address, room, segment.used.as_ptr() as u64);
        self.set_next(address + used);
        shared.open.store(self.number, Ordering::Release);
        control().call();
    }

    /// Bytes that the log takes: events that the snapshot has not compressed yet, and what it has made of the others.
    fn bytes(&self) -> u64 {
        let shared = shared();
        self.closed + self.used() - shared.packed_from.load(Ordering::Relaxed) + shared.packed_to.load(Ordering::Relaxed)
    }

    /// Whether the snapshot has compressed all that it can.
    fn is_settled(&self) -> bool {
        shared().packed.load(Ordering::Acquire) == self.number
    }

    fn take_slot(&self, is_bound: bool) -> Result<Room, Full> {
        let shared = shared();
        loop {
            let steps = shared.steps.load(Ordering::Acquire);
            let settled = self.is_settled();
            let fits = !is_bound || self.bytes() + self.slot_bytes <= self.limit;
            if !fits && settled {
                return Err(Full { needed_bytes: self.slot_bytes, available_bytes: self.limit.saturating_sub(self.bytes()) });
            }
            let free = (!shared.busy.load(Ordering::Acquire)).trailing_zeros();
            let queued = self.number - shared.packed.load(Ordering::Acquire);
            if fits && u64::from(free) < SLOTS && queued + 2 < QUEUE {
                shared.busy.fetch_or(1 << free, Ordering::Relaxed);
                return Ok(Room { address: FIRST_SLOT + u64::from(free) * SLOT_BYTES, length: self.slot_bytes });
            }
            self.wait_since(steps)?;
        }
    }

    /// Room for one long event, and whether there will not be more.
    fn take_long(&mut self, is_bound: bool) -> Result<(Room, bool), Full> {
        let shared = shared();
        while self.number - shared.packed.load(Ordering::Acquire) + 2 >= QUEUE {
            self.wait()?;
        }
        let settled = self.is_settled();
        // The open segment may be one of them.
        let in_use = self.long_last.is_some_and(|last| shared.packed.load(Ordering::Acquire) <= last);
        if !in_use {
            self.long_used = 0;
        }
        let left = if is_bound { self.limit.saturating_sub(self.bytes()) } else { u64::MAX };
        let length = (self.long_bytes - self.long_used).min(left) & !7;
        let last_is_open = self.long_last == Some(self.number);
        Ok((Room { address: LONG + self.long_used, length }, settled && (!in_use || last_is_open)))
    }

    /// Waits until the snapshot has compressed one more segment.
    fn wait(&self) -> Result<(), Full> {
        let steps = shared().steps.load(Ordering::Acquire);
        if self.is_settled() { Ok(()) } else { self.wait_since(steps) }
    }

    fn wait_since(&self, steps: u32) -> Result<(), Full> {
        let shared = shared();
        shared.is_awaited.store(1, Ordering::Release);
        sys::futex_wait(&shared.steps, steps, 1);
        if shared.broken.load(Ordering::Relaxed) != 0 || !control().snapshot_alive() {
            return Err(Full { needed_bytes: self.slot_bytes, available_bytes: 0 });
        }
        Ok(())
    }
}

/// A file without name. Its blocks are there from the start, so that a full disk shows now and not as a fault later.
fn file(directory: &Path, length: u64) -> Result<i32, i64> {
    let fd = sys::open(directory.with_zero(), raw::O_TMPFILE | raw::O_RDWR | raw::O_CLOEXEC, 0o600);
    if fd < 0 {
        return Err(fd);
    }
    // SAFETY: concerns only the file.
    let mut result = unsafe { sys::syscall(u64::from(raw::__NR_fallocate), [fd as u64, 0, 0, length, 0, 0]) };
    if result == -i64::from(sys::errno::EOPNOTSUPP) {
        // SAFETY: as above.
        result = unsafe { sys::syscall(u64::from(raw::__NR_ftruncate), [fd as u64, length, 0, 0, 0, 0]) };
    }
    if result < 0 {
        sys::close(fd as i32);
        return Err(result);
    }
    Ok(fd as i32)
}
