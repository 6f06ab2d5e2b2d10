//! A timeline over a recording: any moment of a recorded execution, both ways.
//!
//! [`Timeline`] is the contract that the debugger is written against; [`Replay`] fulfils it by running the program again, in processes
//! of its own (`replay-guest`), with the recording's events for answers. It knows nothing of gdb.
//!
//! How replay works and what it promises is in `docs/replay.md`.

mod checkpoints;
mod cpu;
mod events;
mod image;
mod keeper;
mod process;
mod replay;
mod search;
pub mod timeline;
mod verify;

pub use replay::Replay;
pub use timeline::{
    Cancel, Condition, Direction, Error, Event, FileInRecording, MappingInfo, Points, Registers, SharedStatus, Stop, StopReason, Time,
    Timeline, WatchKind, Watchpoint,
};
pub use verify::{Progress, Verdict};
