//! The pages that the recorded process and its snapshot share: requests one way, results the other, and whatever the snapshot must
//! know of the recording's end.
//!
//! Written by the recorded process: everything but `ready`, `done` and `result`. The word `request` is a counter; the snapshot answers
//! by making `done` equal to it. Release stores of the two words order the fields they speak of.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use engine::{arena, sys};
use recording::Registers;

pub const REGIONS_MAX: usize = 64;
pub const PATH_MAX: usize = 4096;
pub const XSAVE_MAX: usize = 16 << 10;

#[repr(C, align(64))]
pub struct Control {
    /// 1 once the snapshot exists and has closed its descriptors.
    pub ready: AtomicU32,
    pub request: AtomicU32,
    pub done: AtomicU32,
    /// 0 or an errno.
    pub result: AtomicU32,
    /// 0 to 100.
    pub progress: AtomicU32,
    /// Bytes of the event log that are whole events.
    pub events_used: AtomicU64,
    pub snapshot_pid: u32,
    /// The recorded process; its unrecorded children have these pages too.
    pub owner: u32,
    /// What is asked for: [`SAVE`] or [`QUIT`].
    pub what: u32,
    /// Where history ends now.
    pub bbcount: u64,
    pub registers: Registers,
    pub end_reason: u32,
    pub end_status: i32,
    pub message_length: u32,
    pub message: [u8; 256],
    pub path: [u8; PATH_MAX],
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

const _: () = assert!(size_of::<Control>() as u64 <= arena::CONTROL_SIZE);

pub fn control() -> &'static mut Control {
    // SAFETY: mapped before the recording starts and never unmapped; a process has one thread that uses it, and what both
    // processes touch at a time is atomic.
    unsafe { &mut *(arena::CONTROL as *mut Control) }
}

impl Control {
    /// Posts a request and returns its number.
    pub fn post(&mut self, what: u32) -> u32 {
        self.what = what;
        let number = self.request.load(Ordering::Relaxed) + 1;
        self.progress.store(0, Ordering::Relaxed);
        self.request.store(number, Ordering::Release);
        sys::futex_wake(&self.request);
        number
    }

    /// Waits for the answer to request `number`: 0 or an errno. `ESRCH` if the snapshot is gone.
    pub fn wait(&self, number: u32) -> i32 {
        loop {
            let done = self.done.load(Ordering::Acquire);
            if done == number {
                return self.result.load(Ordering::Relaxed) as i32;
            }
            if !self.snapshot_alive() {
                return sys::errno::ESRCH as i32;
            }
            sys::futex_wait(&self.done, done, 1);
        }
    }

    fn snapshot_alive(&self) -> bool {
        // A zombie answers signal 0 too, so look whether it can still be waited for with nothing to say.
        let mut info = [0u64; 16];
        let flags = sys::raw::WEXITED | sys::raw::WNOHANG | sys::raw::WNOWAIT | sys::raw::__WALL;
        let args = [u64::from(sys::raw::P_PID), u64::from(self.snapshot_pid), info.as_mut_ptr() as u64, u64::from(flags), 0, 0];
        // SAFETY: waitid writes at most 128 bytes to `info`.
        let result = unsafe { sys::syscall(u64::from(sys::raw::__NR_waitid), args) };
        result == 0 && info[0] == 0
    }
}
