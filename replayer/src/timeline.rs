//! The timeline: what a debugger may ask of a recording.
//!
//! Why this trait exists: the debugger's server is written against it, so that it can be tested on timelines that are not replays,
//! and the replay can be tested without a debugger.
//!
//! # Contract
//! T1. A timeline is always *at* one [`Time`] between [`Timeline::begin`] and [`Timeline::end`], both inclusive.
//! T2. The state (registers, memory) at a time is the same however the time was reached.
//! T3. [`Timeline::seek`] to a time that exists ends exactly there. With no pc it ends at the first time of that bbcount. A pc that is
//!     never reached within that bbcount is an error and the timeline stays where it was, as it does after every error.
//! T4. [`Timeline::step`] forwards executes one instruction (a repeated string instruction is one; a system call is one, event included);
//!     backwards it goes to the time from which a step forwards leads here. At the end or begin it does not move and says so.
//! T5. [`Timeline::resume`] forwards moves at least one instruction, then stops at the first time whose pc has a breakpoint, or just
//!     *after* an instruction that touched a watchpoint, or at the end (with the signal, if one ended the program). Backwards it stops at the latest earlier time whose pc has a
//!     breakpoint, or at the latest earlier time just *before* an instruction that touched a watchpoint, or at begin. A `Write`
//!     watchpoint is touched only where the bytes watched change. A breakpoint's conditions are looked at in the state at its time.
//! T6. A cancelled search leaves the timeline at some time that it passed and reports [`StopReason::Cancelled`].
//! T7. Memory is what the recorded process knew: shared memory that others changed and this process did not read again has its old value.
//! T8. A replay that differs from the recording is an [`Error::Diverged`]; nothing after that time is ever shown.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub use recording::{Registers, Time};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Forward,
    Backward,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WatchKind {
    /// Stops when the bytes change.
    Write,
    Read,
    /// Read or write.
    Access,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Watchpoint {
    pub address: u64,
    pub length: u64,
    pub kind: WatchKind,
}

/// Where a search stops. Any number of each, any length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Points {
    pub breakpoints: Vec<u64>,
    pub watchpoints: Vec<Watchpoint>,
    /// A breakpoint with conditions, however many, stops where one of them is not 0 or cannot be computed.
    pub conditions: Vec<Condition>,
}

/// A program in the bytecode of gdb's agent expressions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The breakpoint's.
    pub pc: u64,
    pub code: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// A step or a seek arrived.
    Arrived,
    Breakpoint,
    Watchpoint(Watchpoint),
    /// The end, where this signal ended the program: reported by the resume forwards that comes there, once.
    Signal(i32),
    Begin,
    End,
    Cancelled,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop {
    pub time: Time,
    pub reason: StopReason,
}

/// Set from another thread to end a long search.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub fn reset(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// One piece of recorded non-determinism, as `uinfo events` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub time: Time,
    /// A system call's name, or `SHMEM_FIXUP`, `SIGNAL`, `RDTSC`, ….
    pub name: String,
    /// What the system call returned, else 0.
    pub result: i64,
    /// System call number.
    pub syscall: Option<u64>,
    /// Signal number, else 0.
    pub signum: i32,
    /// Base address of a shared memory update, else 0.
    pub address: u64,
    /// Thread switched to, else 0.
    pub tid: i32,
    /// Time stamp counter read, else 0.
    pub timestamp: u64,
    /// Size of the event in the log, bytes.
    pub size: u64,
}

/// A mapping of the guest at the current time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappingInfo {
    pub start: u64,
    pub end: u64,
    /// PROT_READ 1, PROT_WRITE 2, PROT_EXEC 4.
    pub prot: u32,
    pub shared: bool,
    /// File offset of `start`.
    pub offset: u64,
    /// Path or pseudo name (`[stack]`), empty for anonymous memory.
    pub name: String,
}

/// A file kept in the recording so that its symbols are at hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileInRecording {
    pub path: String,
    pub size: u64,
}

/// What a recording knows about a byte of shared memory at the current time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedStatus {
    /// Not in a shared mapping: always exact.
    Private,
    NeverAccessed,
    /// The last access by this process was at this time; another process may have written since.
    LastAccessed(Time),
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("time {wanted} is outside the recorded range [{begin} - {end}]")]
    OutOfRange { wanted: u64, begin: Time, end: Time },
    #[error("pc {pc:#x} is never reached at bbcount {bbcount}")]
    NoSuchTime { bbcount: u64, pc: u64 },
    #[error("address {address:#x} is not mapped at this time")]
    Unmapped { address: u64 },
    #[error("replay diverged from the recording at {time}: {what}")]
    Diverged { time: Time, what: String },
    #[error("{0}")]
    Recording(String),
    #[error("the replay process failed: {0}")]
    Process(String),
}

/// See the module's contract.
pub trait Timeline {
    fn begin(&self) -> Time;
    fn end(&self) -> Time;
    fn now(&self) -> Time;

    fn seek(&mut self, bbcount: u64, pc: Option<u64>) -> Result<Stop, Error>;
    fn step(&mut self, direction: Direction) -> Result<Stop, Error>;
    fn resume(&mut self, direction: Direction, points: &Points, cancel: &Cancel) -> Result<Stop, Error>;

    fn registers(&mut self) -> Result<Registers, Error>;
    /// The xsave image (legacy area, header, standard-format components) of the x87 and vector registers.
    fn xsave(&mut self) -> Result<Vec<u8>, Error>;
    /// Reads as many bytes as are mapped from `address` on; an error if the first is not.
    fn read_memory(&mut self, address: u64, buffer: &mut [u8]) -> Result<usize, Error>;
    fn mappings(&mut self) -> Result<Vec<MappingInfo>, Error>;
    fn shared_status(&mut self, address: u64, length: u64) -> Result<SharedStatus, Error>;
    fn auxv(&self) -> Vec<u8>;
    fn executable(&self) -> String;
    fn pid(&self) -> i32;
    fn recording_uuid(&self) -> [u8; 16];
    fn files(&self) -> Vec<FileInRecording>;
    fn file_contents(&self, path: &str) -> Option<Vec<u8>>;
    /// All events in order; index 0 is the oldest.
    fn event_count(&self) -> usize;
    fn event(&self, index: usize) -> Event;
    /// Index of the first event at or after `time` (by bbcount, then pc).
    fn first_event_at_or_after(&self, time: Time) -> usize;
}
