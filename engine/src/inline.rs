//! What emitted code must know to perform an access to shared memory and log it without leaving translated code.
//!
//! ```text
//!   site ──► cell ──► Window of the mapping it touched last ──► alias, known copy, place in the log
//! ```
//!
//! The host owns cells and windows. Emitted code reads them; the host changes them only while it is asked something, so never in the
//! middle of an access. A difference from the known copy becomes an event. Whatever does not fit (another mapping, a full block) leaves
//! for the host as before.

/// One shared mapping, for accesses with given rights.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// Guest address.
    pub start: u64,
    /// For accesses of 1, 2, 4 … 64 bytes: how far behind `start` they may begin.
    pub reach: [u64; 7],
    /// Distance to the real pages, to the known copy.
    pub alias: u64,
    pub known: u64,
    /// What makes a guest address the first word of a record.
    pub place: u64,
    /// Factor of the hash that finds a line's clock.
    pub hash: u64,
}

impl Window {
    /// No address lies in it.
    pub const NONE: Self = Self { start: 1 << 63, reach: [0; 7], alias: 0, known: 0, place: 0, hash: 0 };
}

pub mod window {
    use super::Window;
    use core::mem::offset_of;

    pub const START: i32 = offset_of!(Window, start) as i32;
    pub const fn reach(size: u32) -> i32 {
        offset_of!(Window, reach) as i32 + 8 * size.trailing_zeros() as i32
    }
    pub const ALIAS: i32 = offset_of!(Window, alias) as i32;
    pub const KNOWN: i32 = offset_of!(Window, known) as i32;
    pub const PLACE: i32 = offset_of!(Window, place) as i32;
    pub const HASH: i32 = offset_of!(Window, hash) as i32;
}

/// The words of a log that emitted code appends to. The addresses must be in reach of gs (the first 2 GB of the arena).
#[derive(Clone, Copy, Debug)]
pub struct LogWords {
    /// Addresses of the writer's words: next slot, last slot with room for a record, bbcount base, slots beyond one a record, clocks.
    pub cursor: u64,
    pub limit: u64,
    pub base: u64,
    pub extra_slots: u64,
    pub clocks: u64,
    pub clock_shift: u8,
    /// Bytes from a clock's counter to the word that says whether its last tick is open.
    pub clock_open: i32,
    /// Offsets in a slot.
    pub slot_place: i32,
    pub slot_interval: i32,
    pub slot_value: i32,
    pub slot_commit: i32,
    pub slot_bytes: i32,
    /// What marks a record of two slots, and a long one, in the commit word.
    pub double: u32,
    pub long: u32,
    /// `pause` instructions after a contended locked access.
    pub pauses: u32,
}

/// The words of an event log to which emitted code appends what another process wrote: events with one memory write. The addresses
/// must be in reach of gs.
#[derive(Clone, Copy, Debug)]
pub struct EventWords {
    /// Addresses of three words: where the next event goes, the last such place for an event of any operand, and a pointer to the
    /// number of bytes in the log.
    pub next: u64,
    pub last: u64,
    pub used: u64,
    /// Addresses of three words: the last event, if a vector read may add to it, else 0; the length in its last write; and the end of that
    /// write's bytes in the known copies. Whatever writes to shared memory, or appends or hashes events, sets the first to 0.
    pub open: u64,
    pub open_length: u64,
    pub open_end: u64,
    /// What the event's kind is, at offset `kind` of 8 bytes.
    pub what: u32,
    /// Offsets in an event. The size is stored last; the words of `zero` are 0.
    pub size: i32,
    pub kind: i32,
    pub bbcount: i32,
    pub pc: i32,
    pub zero: [i32; 2],
    pub address: i32,
    pub length: i32,
    pub bytes: i32,
}

/// One site.
#[derive(Clone, Copy, Debug)]
pub struct InlineSite {
    pub log: LogWords,
    pub events: EventWords,
    /// Address of the word that points to the [`Window`]; in reach of gs.
    pub cell: u64,
    /// The site's number in the log, below 2^30.
    pub number: u32,
    /// Second word of a long record by this site, for accesses of more than 8 bytes.
    pub long_head: u64,
}
