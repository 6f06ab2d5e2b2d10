//! The replay process: one recorded process's memory and registers, run by the engine, with the recording's events for answers.
//!
//! `start` rebuilds the address space; `host` is the engine's [`engine::Host`]; `drive` carries out what the controlling process asks
//! for through a [`control`] slot; `serve` answers its questions. A checkpoint is a fork of this process that waits.
//!
//! The crate is also the controlling process's view of what they share: [`control`], [`plan`] and [`space`].
#![cfg_attr(target_os = "none", no_std)]

extern crate alloc;

mod condition;
pub mod control;
mod drive;
mod host;
mod log;
pub mod plan;
mod repeat;
mod serve;
pub mod space;
mod start;
mod status;
mod touch;
mod validate;
mod vm;
pub mod watch;

pub use start::{main, panicked};

#[cfg(target_os = "none")]
#[panic_handler]
fn panic(info: &core::panic::PanicInfo) -> ! {
    panicked(info)
}
