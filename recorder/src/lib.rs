//! The recorder: what runs inside a recorded program (`guest`, the library behind `undolr.h`), and what it must know of system calls.
//!
//! The guest half exists only in builds for `x86_64-unknown-none`; see `docs/architecture.md`, "Two kinds of code".
#![cfg_attr(target_os = "none", no_std)]

#[cfg(target_os = "none")]
extern crate alloc;

#[cfg(not(target_os = "none"))]
pub mod attach;
#[cfg(not(target_os = "none"))]
pub mod executable;
#[cfg(not(target_os = "none"))]
mod image;
pub mod launch;
#[cfg(not(target_os = "none"))]
pub mod sessions;
pub mod syscalls;

#[cfg(target_os = "none")]
mod guest;
