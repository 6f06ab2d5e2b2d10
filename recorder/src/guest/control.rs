//! The pages that the recorded process and its snapshot share: requests one way, results the other, and whatever the snapshot must
//! know of the recording's end.
//!
//! Written by the recorded process: everything but `ready`, `done`, `result` and `progress`. The word `request` is a counter; the snapshot answers
//! by making `done` equal to it. Release stores of the two words order the fields they speak of.

use core::sync::atomic::{AtomicU32, Ordering};

use engine::{arena, sys};
use recording::Registers;

use super::failure::Failure;
use super::state::Path;

pub const REGIONS_MAX: usize = 64;
pub const PATH_MAX: usize = 4096;
pub const XSAVE_MAX: usize = 16 << 10;
pub const LINE_MAX: usize = 512;

#[repr(C, align(64))]
pub struct Control {
    /// 1 once the snapshot exists and has closed its descriptors.
    pub ready: AtomicU32,
    pub request: AtomicU32,
    pub done: AtomicU32,
    /// 0 or a [`Failure`].
    pub result: AtomicU32,
    /// 0 to 100.
    pub progress: AtomicU32,
    /// Grows with everything that the snapshot is to look at.
    pub calls: AtomicU32,
    pub snapshot_pid: u32,
    /// The recorded process; its unrecorded children have these pages too.
    pub owner: u32,
    /// What is asked for: [`SAVE`], [`REPORT`], [`KEEP`] or [`QUIT`].
    pub what: AtomicU32,
    /// 1: the save that is being written is given up.
    pub given_up: AtomicU32,
    /// 1: the recorded process has ended its recording and is about to become another program.
    pub executing: AtomicU32,
    /// Whether saves hold the files with debug information.
    pub include_symbol_files: bool,
    /// Where history ends now.
    pub bbcount: u64,
    pub registers: Registers,
    pub end_reason: u32,
    pub end_status: i32,
    pub message_length: u32,
    pub message: [u8; 256],
    /// Where a save goes, ending in zero.
    pub path: [u8; PATH_MAX],
    /// Where the snapshot saves if the recorded process is killed; empty: nowhere.
    pub path_if_killed: [u8; PATH_MAX],
    /// A line for the user.
    pub line: [u8; LINE_MAX],
    pub line_length: u32,
    pub region_count: u32,
    pub regions: [(u64, u64); REGIONS_MAX],
    pub xsave_length: u32,
    /// The vector state at the start.
    pub xsave: XsaveArea,
}

#[repr(C, align(64))]
pub struct XsaveArea(pub [u8; XSAVE_MAX]);

pub const SAVE: u32 = 1;
pub const QUIT: u32 = 2;
/// The history is kept beyond its recording.
pub const KEEP: u32 = 4;
/// Write `line` to the standard error that the program had at the start.
pub const REPORT: u32 = 3;

const _: () = assert!(size_of::<Control>() as u64 <= arena::CONTROL_SIZE);

/// The control pages of the recording that runs.
pub fn control() -> &'static mut Control {
    at(arena::CONTROL)
}

/// Control pages at their own place or, of a history that is kept, at another.
pub fn at(address: u64) -> &'static mut Control {
    // SAFETY: mapped before the recording starts and not unmapped while anybody knows of the recording; a process has one thread that
    // uses it, and what several processes touch at a time is atomic.
    unsafe { &mut *(address as *mut Control) }
}

impl Control {
    /// Posts a request and returns its number.
    pub fn post(&mut self, what: u32) -> u32 {
        self.what.store(what, Ordering::Relaxed);
        let number = self.request.load(Ordering::Relaxed) + 1;
        self.progress.store(0, Ordering::Relaxed);
        self.request.store(number, Ordering::Release);
        self.call();
        number
    }

    /// Wakes the snapshot.
    pub fn call(&self) {
        self.calls.fetch_add(1, Ordering::Release);
        sys::futex_wake(&self.calls);
    }

    /// Waits for the answer to request `number`.
    pub fn wait(&self, number: u32) -> Result<(), Failure> {
        loop {
            let done = self.done.load(Ordering::Acquire);
            if self.is_done(number) {
                return self.answer(number);
            }
            sys::futex_wait(&self.done, done, 1);
        }
    }

    /// Whether request `number`, the last one, has been answered or will never be.
    pub fn is_done(&self, number: u32) -> bool {
        self.done.load(Ordering::Acquire) == number || !self.snapshot_alive()
    }

    /// The answer to request `number`, which [`Self::is_done`].
    pub fn answer(&self, number: u32) -> Result<(), Failure> {
        if self.done.load(Ordering::Acquire) != number {
            return Err(Failure::gone());
        }
        Failure::from_word(self.result.load(Ordering::Relaxed)).map_or(Ok(()), Err)
    }

    pub fn is_quitting(&self) -> bool {
        self.what.load(Ordering::Relaxed) == QUIT
    }

    /// Ends the snapshot, which gives up what it is writing, and waits for that.
    pub fn dismiss(&mut self) {
        self.given_up.store(1, Ordering::Relaxed);
        let number = self.post(QUIT);
        let _ = self.wait(number);
        super::histories::reap(self.snapshot_pid as i32);
    }

    pub fn snapshot_alive(&self) -> bool {
        // A zombie answers signal 0 too, so look whether it can still be waited for with nothing to say.
        let mut info = [0u64; 16];
        let flags = sys::raw::WEXITED | sys::raw::WNOHANG | sys::raw::WNOWAIT | sys::raw::__WALL;
        let args = [u64::from(sys::raw::P_PID), u64::from(self.snapshot_pid), info.as_mut_ptr() as u64, u64::from(flags), 0, 0];
        // SAFETY: waitid writes at most 128 bytes to `info`.
        let result = unsafe { sys::syscall(u64::from(sys::raw::__NR_waitid), args) };
        result == 0 && info[0] == 0
    }

    /// Copies a path to where the snapshot finds it should the process be killed; `None`: nothing is to be saved then.
    pub fn set_path_if_killed(&mut self, path: Option<&Path>) {
        match path {
            Some(path) => {
                let bytes = path.with_zero();
                self.path_if_killed[..bytes.len()].copy_from_slice(bytes);
            }
            None => self.path_if_killed[0] = 0,
        }
    }
}
