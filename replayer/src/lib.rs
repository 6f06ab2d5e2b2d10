//! A timeline over a recording: seek, step and search, both ways. Knows nothing of gdb.

mod timeline;

pub use timeline::{
    Cancel, Direction, Error, Event, FileInRecording, MappingInfo, Points, Registers, SharedStatus, Stop, StopReason, Time, Timeline,
    WatchKind, Watchpoint,
};
