//! The access log: one `.shmem` file that many recorded processes map, each logging its accesses to shared memory.
//!
//! Writers ([`Log`], [`Writer`]) run inside the recorded programs: no libc, no allocation, no lock, no panic, and on the append
//! path no system call. They build for `x86_64-unknown-none`. The [`Reader`] (feature `std`) runs in the tools; it trusts nothing
//! in the file and reads a log that is still being written.
//!
//! ```text
//!   Log ── register_recording / object / mapping / site         Reader ── recordings, objects, mappings, sites
//!    │                                                             │
//!   Writer ── begin → (the access) → commit                      Cursor / BlockView ── Access … order(a, b)
//! ```
//!
//! Where to read on: the bytes of the file are in `docs/shmem-format.md`, why an order that is claimed is the order that the
//! hardware executed in `docs/log-ordering.md`.
#![cfg_attr(any(target_os = "none", not(feature = "std")), no_std)]
// Under loom only the algorithms are built, not the file around them.
#![cfg_attr(loom, allow(dead_code))]

mod clock;
pub mod layout;
mod memory;
#[cfg(test)]
mod models;
mod objects;
mod ring;
#[cfg_attr(any(target_os = "none", not(feature = "std")), allow(dead_code, reason = "the reader's half"))]
mod slot;
mod sync;
mod types;

#[cfg(not(loom))]
mod create;
#[cfg(not(loom))]
mod header;
#[cfg(not(loom))]
mod log;
#[cfg(not(loom))]
mod registry;
#[cfg(not(loom))]
mod sys;
#[cfg(not(loom))]
mod time;
#[cfg(not(loom))]
mod writer;

#[cfg(all(feature = "std", not(target_os = "none"), not(loom)))]
mod reader;

pub use clock::{ClockIndex, Interval};
pub use types::{Kind, MappingIndex, ObjectIndex, Origin, Piece, RecordingIndex, RegistryFull, SiteIndex};

#[cfg(not(loom))]
pub use create::OpenError;
#[cfg(not(loom))]
pub use header::HeaderError;
#[cfg(not(loom))]
pub use log::Log;
#[cfg(not(loom))]
pub use registry::{MappingInfo, ObjectInfo, RecordingEnd, RecordingInfo};
#[cfg(not(loom))]
pub use writer::{LineTicks, MAX_BEGIN_BYTES, Token, WideToken, Writer};

#[cfg(all(feature = "std", not(target_os = "none"), not(loom)))]
pub use reader::{
    Access, BlockBuffer, BlockInfo, BlockTimes, BlockView, Counts, Cursor, Damage, Extent, LineInterval, Mapping, Mark, Object, Order,
    Position, ReadError, Reader, RecordContext, RecordHead, Recording, Site, Unfinished, order,
};
