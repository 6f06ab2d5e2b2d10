//! The `.undo` file: one process's history, complete in itself.
//!
//! The recorder writes it from inside the recorded program (`no_std`, over a [`Sink`]); the replayer, the correlator and the
//! debugger read it (feature `std`).
#![cfg_attr(not(any(feature = "std", test)), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod types;

pub use types::{Registers, Time};
