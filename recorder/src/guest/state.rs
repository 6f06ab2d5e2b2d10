//! What the library remembers between calls of its C API: settings, and whether a recording runs.
//!
//! It lies at a fixed place in the engine's area, which the first call of any API function maps.

use engine::{arena, heap};

use super::histories::Histories;
use super::host::Guest;
use super::message::Descriptor;

/// A path from the user: bytes and a terminating zero.
#[derive(Clone, Copy)]
pub struct Path {
    bytes: [u8; Self::MAX],
    length: usize,
}

impl Path {
    pub const MAX: usize = 4096;

    pub const fn empty() -> Self {
        Self { bytes: [0; Self::MAX], length: 0 }
    }

    /// `None` if it does not fit.
    pub fn new(text: &[u8]) -> Option<Self> {
        let mut path = Self::empty();
        if text.is_empty() || text.len() >= Self::MAX {
            return None;
        }
        path.bytes[..text.len()].copy_from_slice(text);
        path.length = text.len();
        Some(path)
    }

    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    pub fn with_zero(&self) -> &[u8] {
        &self.bytes[..=self.length]
    }

    /// Relative to the current directory, made absolute.
    pub fn absolute(&self) -> Option<Self> {
        if self.bytes[0] == b'/' {
            return Some(*self);
        }
        let mut text = [0u8; Self::MAX];
        let args = [text.as_mut_ptr() as u64, Self::MAX as u64, 0, 0, 0, 0];
        // SAFETY: getcwd writes at most the given length.
        let length = unsafe { engine::sys::syscall(u64::from(engine::sys::raw::__NR_getcwd), args) };
        let length = usize::try_from(length).ok()?.checked_sub(1)?;
        let total = length + 1 + self.length;
        if total >= Self::MAX {
            return None;
        }
        text[length] = b'/';
        text[length + 1..total].copy_from_slice(self.as_bytes());
        Self::new(&text[..total])
    }
}

/// What becomes of children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFork {
    /// The parent's recording goes on, children run natively.
    Parent,
    /// The recording ends at the first fork, the child starts one.
    Child,
    Both,
}

/// Which ends of the program are worth a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SaveOn {
    Always,
    /// An exit status other than 0, or a signal.
    Error,
    Signal,
}

pub struct State {
    /// A recording runs: translated code is executing.
    pub recording: bool,
    /// The recording has ended before it was stopped; its history can still be had.
    pub ended: bool,
    pub histories: Histories,
    pub engine: *mut Guest,
    pub event_log_bytes: u64,
    pub access_log_path: Path,
    pub access_log_bytes: u64,
    pub save_path: Path,
    pub save_on: SaveOn,
    pub include_symbol_files: bool,
    pub on_fork: OnFork,
    pub quiet: bool,
    /// `live-record` started the recording.
    pub launched: bool,
    /// The library's file, if it was preloaded.
    pub library: Path,
    /// The file that `live-record` was given; those of other processes and programs are named after it.
    pub family_path: Path,
    /// The process that `live-record` became.
    pub first: u64,
    /// How many recorded programs this process has executed before this one.
    pub executed: u64,
    /// Where the event log is kept instead of in memory.
    pub temporary_directory: Path,
    /// What standard error was when the recording started.
    pub standard_error: Option<Descriptor>,
}

impl State {
    /// Where this process's recording goes, beside those of its family: `NAME.undo` for the first process, `NAME-PID.undo` for others, and
    /// with `.2`, `.3` … before the ending for the programs that it executes later.
    pub fn own_path(&self) -> Path {
        use core::fmt::Write;
        let Some(stem) = self.family_path.as_bytes().strip_suffix(b".undo") else { return self.family_path };
        let pid = engine::sys::getpid() as u64;
        let mut ending = alloc::string::String::new();
        if pid != self.first {
            let _ = write!(ending, "-{pid}");
        }
        if self.executed > 0 {
            let _ = write!(ending, ".{}", self.executed + 1);
        }
        ending.push_str(".undo");
        Path::new(&[stem, ending.as_bytes()].concat()).unwrap_or(self.family_path)
    }
}

pub const EVENT_LOG_DEFAULT: u64 = 1 << 30;
pub const EVENT_LOG_MAX: u64 = 64 << 30;

/// The state, if the area is mapped.
pub fn existing() -> Option<&'static mut State> {
    // SAFETY: if the area is mapped, `get` has initialised the state; one thread uses it.
    arena::is_mapped().then(|| unsafe { &mut *(arena::HOST_STATE as *mut State) })
}

/// The state; maps the area if need be.
pub fn get() -> Result<&'static mut State, i64> {
    if let Some(state) = existing() {
        return Ok(state);
    }
    arena::map()?;
    heap::init();
    // SAFETY: mapped just now, large enough, and nothing else lives there.
    unsafe {
        let state = arena::HOST_STATE as *mut State;
        state.write(State {
            recording: false,
            ended: false,
            histories: Histories::new(),
            engine: core::ptr::null_mut(),
            event_log_bytes: EVENT_LOG_DEFAULT,
            access_log_path: Path::empty(),
            access_log_bytes: 0,
            save_path: Path::empty(),
            save_on: SaveOn::Always,
            include_symbol_files: true,
            on_fork: OnFork::Parent,
            quiet: false,
            launched: false,
            library: Path::empty(),
            family_path: Path::empty(),
            first: 0,
            executed: 0,
            temporary_directory: Path::empty(),
            standard_error: None,
        });
        Ok(&mut *state)
    }
}

const _: () = assert!(size_of::<State>() < 1 << 20);
