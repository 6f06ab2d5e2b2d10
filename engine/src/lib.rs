//! The in-process x86-64 translator: runs a program's real instructions from a code cache, counts its control transfers, and asks a
//! [`Host`] whatever the program cannot compute itself.
//!
//! Pipeline: `decode` (iced-x86) → [`trace`](self) a straight run of instructions → `emit` its translation → install it in the code
//! cache → run. The steps up to a finished piece of machine code are safe Rust; memory, the gate and fault handling are not.
//!
//! It knows no file format, no libc and no operating system beyond raw system calls; see `docs/engine.md`.
#![cfg_attr(target_os = "none", no_std)]

extern crate alloc;

pub mod arena;
mod cache;
mod context;
#[cfg(target_os = "none")]
mod copy;
mod count;
mod dispatch;
mod emit;
mod encode;
mod fault;
#[cfg(test)]
mod filetests;
mod flags;
mod gate;
mod guard;
#[cfg(target_os = "none")]
pub mod heap;
mod host;
mod indirect;
pub mod inline;
pub mod lanes;
mod memory;
mod plain;
mod profile;
mod site;
pub mod sys;
mod trace;
mod translate;
mod unit;
pub mod vector;
mod vsyscall;
mod watch;

pub use context::{Context, reg};
pub use count::UNLIMITED;
pub use dispatch::{Engine, Options, Stopped};
pub use fault::{FaultInfo, SignalContext, TRAP, install as install_handler, set_signal_stack};
pub use gate::{leave, set_gs};
pub use host::{After, Before, CodeRange, Flow, Host, Nondeterministic};
pub use memory::{is_readable, read_guest, write_guest};
pub use plain::is_plain;
pub use site::{Form as SiteForm, Kind as SiteKind, Site};
pub use trace::{Fetcher, OVERLAY_BYTES};
pub use translate::TRAP_FLAG;
pub use watch::Wanted as WatchWanted;
