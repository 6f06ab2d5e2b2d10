//! The `.undo` file: one process's history, complete in itself.
//!
//! The recorder writes it from inside the recorded program (`no_std`, over a [`Sink`]); the replayer, the correlator and the
//! debugger read it (feature `std`). Events have one encoding, in memory and in the file: [`EventBuilder`] appends them to a region
//! while the program runs, [`Events`] reads them in place.
//!
//! The format itself, byte by byte, is in `docs/undo-format.md`.
#![cfg_attr(not(any(feature = "std", test)), no_std)]
#![forbid(unsafe_code)]
// Each encoding stands beside its decoding, which only the reader uses.
#![cfg_attr(not(feature = "std"), allow(dead_code))]

extern crate alloc;

mod api;
#[cfg(feature = "std")]
mod backed;
#[cfg(feature = "std")]
mod error;
mod event;
mod format;
mod hash;
mod meta;
#[cfg(feature = "std")]
mod reader;
#[cfg(feature = "std")]
mod scan;
mod tagged;
mod types;
mod wire;
mod writer;

pub use api::{API_FIRST, api_name};
#[cfg(feature = "std")]
pub use error::Error;
pub use event::{
    Body, EVENT_HEADER_BYTES, End, EndReason, EventBuilder, EventFlags, EventHeader, EventKind, EventRef, Events, Full, Instruction,
    MemoryHash, MemoryWrite, Nondet, Ranges, RegisterValues, SIGINFO_BYTES, Signal, SignalAction, Syscall, Writes, check_events,
    offset as event_offset,
};
pub use format::{CHUNK_BYTES, ChunkKind, FIRST_WITH_RUNNING_HASH, MAGIC, VERSION};
pub use hash::{MemoryHasher, NotWholePages, PAGE_BYTES, RFLAGS_COMPARED, RunningHash, state_hash};
pub use meta::{Area, CpuidLeaf, FileHead, MAX_META_BYTES, Mapping, MappingFlags, Metadata};
#[cfg(feature = "std")]
pub use reader::{Recording, StoredFile, quick_metadata};
pub use types::{Registers, Time};
pub use wire::{DecodeError, Expected};
#[cfg(feature = "std")]
pub use writer::IoSink;
pub use writer::{FileWriter, PACKED_BYTES_MAX, Packed, Sink, WriteError, pack};
