//! The `.undo` file: one process's history, complete in itself.
//!
//! The recorder writes it from inside the recorded program (`no_std`, over a [`Sink`]); the replayer, the correlator and the
//! debugger read it (feature `std`). Events have one encoding, in memory and in the file: [`EventBuilder`] appends them to a region
//! while the program runs, [`Events`] reads them in place.
//!
//! The format itself, byte by byte, is in `docs/undo-format.md`.
#![cfg_attr(not(any(feature = "std", test)), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod event;
mod hash;
mod types;
mod wire;

pub use event::{
    Body, EVENT_HEADER_BYTES, End, EndReason, EventBuilder, EventFlags, EventHeader, EventKind, EventRef, Events, Full, Instruction,
    MemoryHash, MemoryWrite, Nondet, Ranges, RegisterValues, SIGINFO_BYTES, Signal, SignalAction, Syscall, Writes,
};
pub use hash::{MemoryHasher, NotWholePages, PAGE_BYTES, RFLAGS_COMPARED, state_hash};
pub use types::{Registers, Time};
pub use wire::{DecodeError, Expected};
