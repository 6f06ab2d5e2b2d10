//! The event log: every piece of non-determinism that one process met, in order.
//!
//! Why this shape: the recorder appends events to one big region while the program runs, the saver copies that region into the file, the
//! replay host walks it in place. So there is one encoding, it needs no parsing pass and no allocation at either end, and a
//! 100 MB memory write goes from the guest's memory straight into the region.
//!
//! ```text
//!  0   8  size         bytes of the whole event, a multiple of 8; 0: nothing was committed here
//!  8   2  kind         EventKind
//! 10   2  flags        EventFlags
//! 12   4  thread       0 for the first thread
//! 16   8  timestamp    time stamp counter; 0: not taken
//! 24   8  bbcount  ┐   the event belongs to the instruction at pc and
//! 32   8  pc       ┘   happens when that instruction executes
//! 40   8  state hash   of the registers just before and of the events before, see RunningHash; 0: not taken
//! 48      the kind's fixed part, see Body
//!         memory writes up to the end of the event: (addr u64, len u64, bytes, padding to 8)…
//! ```
//!
//! E1. Every event starts at a multiple of 8 in its log and is a multiple of 8 long; all padding is zero.
//! E2. The size word is stored last. Whoever reads a region that is still being written (the saver, after the program
//!     was killed at any instruction) sees each event whole or sees 0 where its size would be.
//! E3. Behind the last committed event stands a zero word, or the end of the region.
//! E4. Memory writes take effect in the order in which they stand.
//! E5. The last event of a finished recording is an `End`; nothing comes after it.
//!
//! The recorder writes and is alone in that; the saver reads what a copy-on-write clone of the process shows, the replay host reads a
//! finished log. A crash leaves behind at most one event without its size, which reads as the end of the log (E2, E3).

mod body;
mod builder;
mod check;
mod reader;

pub use body::{
    Body, End, EndReason, EventKind, Instruction, MemoryHash, Nondet, RegisterValues, SIGINFO_BYTES, Signal, SignalAction, Syscall,
};
pub use builder::{EventBuilder, Full};
pub use check::check_events;
pub use reader::{EventRef, Events, MemoryWrite, Ranges, Writes};

use crate::Time;

pub(crate) use body::{REGISTERS_BYTES, decode_registers, encode_registers};

/// Bytes before an event's fixed part.
pub const EVENT_HEADER_BYTES: usize = 48;

pub mod offset {
    //! Where the header's fields lie in an event, in bytes, and those of a memory write right behind it: for code that is emitted
    //! elsewhere and appends a [`ShmemFixup`](super::EventKind::ShmemFixup). What that does not store is 0; it stores the size last,
    //! and before it a zero word behind the event.
    pub const SIZE: usize = 0;
    pub const KIND: usize = SIZE + 8;
    pub(crate) const FLAGS: usize = KIND + 2;
    pub(crate) const THREAD: usize = FLAGS + 2;
    pub const TIMESTAMP: usize = THREAD + 4;
    pub const BBCOUNT: usize = TIMESTAMP + 8;
    pub const PC: usize = BBCOUNT + 8;
    pub const STATE_HASH: usize = PC + 8;
    pub const WRITE_ADDRESS: usize = super::EVENT_HEADER_BYTES;
    pub const WRITE_LENGTH: usize = WRITE_ADDRESS + 8;
    pub const WRITE_BYTES: usize = WRITE_LENGTH + 8;
    const _: () = assert!(STATE_HASH + 8 == super::EVENT_HEADER_BYTES);
}

/// More about an event than its kind says. Unknown bits are kept and mean nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventFlags(pub u16);

impl EventFlags {
    pub const NONE: Self = Self(0);
    /// A `Syscall` that the program made by calling a vdso function; its pc is that function's entry.
    pub const VDSO: Self = Self(1);
    /// A `Syscall` that was interrupted by a signal, or a `Signal` that interrupted one.
    pub const INTERRUPTED: Self = Self(2);

    /// Whether all bits of `other` are set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl core::ops::BitOr for EventFlags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// What every event says of itself, whatever its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventHeader {
    /// The state just before the instruction to which the event belongs.
    pub time: Time,
    /// Of the registers at that time and of the events before, see [`RunningHash`](crate::RunningHash); 0 if not taken.
    pub state_hash: u64,
    /// Time stamp counter when the event was recorded; 0 if it was not read.
    pub timestamp: u64,
    pub thread: u32,
    pub flags: EventFlags,
}

impl EventHeader {
    /// The header of an event of the first thread, without time stamp or flags.
    pub const fn new(time: Time, state_hash: u64) -> Self {
        Self { time, state_hash, timestamp: 0, thread: 0, flags: EventFlags::NONE }
    }
}

#[cfg(test)]
mod tests;
