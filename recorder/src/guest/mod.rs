//! Inside the recorded program.
//!
//! ```text
//!   undolr_start ─► start ─► engine.run ──────────────► host: system calls ─► events
//!                    │                                        shared sites ─► known copies, access log, events
//!                    └► snapshot (a copy-on-write child)      signals ──────► events
//!                          └► writes the .undo file when asked
//! ```
//!
//! Everything that changes lies in the engine's area (`engine::arena`); this library has no mutable statics.

mod access;
mod api;
mod borrowed;
mod bounce;
mod calls;
mod code_ranges;
mod control;
mod end;
mod events;
mod exec;
mod failure;
mod frames;
mod freed;
mod guest_bytes;
mod hashes;
mod histories;
mod host;
mod maps;
mod memory_calls;
mod message;
mod own_memory;
mod packer;
mod pages;
mod performed;
mod preload;
mod robust;
mod save;
mod shared;
mod signals;
mod snapshot;
mod start;
mod state;
mod strings;
mod vdso;
mod windows;

/// A bug of ours must not end the recorded program: it is reported, and the guest goes on natively from its last known state.
#[panic_handler]
fn panic(info: &core::panic::PanicInfo) -> ! {
    message::report(format_args!("internal error, recording ends: {info}"));
    end::abandon()
}
