//! Processes that share memory with the test.
use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};

/// Words that forked processes share; never unmapped.
#[derive(Clone, Copy)]
pub struct Shared(&'static [AtomicU64]);

impl Shared {
    pub fn new(words: usize) -> Shared {
        let bytes = NonZeroUsize::new((words * 8).next_multiple_of(4096)).unwrap();
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping, anywhere.
        let address = unsafe { mmap_anonymous(None, bytes, protection, MapFlags::MAP_SHARED) }.unwrap();
        // SAFETY: mapped for that many words, zeroed, aligned, and never unmapped.
        Shared(unsafe { std::slice::from_raw_parts(address.as_ptr().cast(), words) })
    }

    pub fn word(&self, index: usize) -> &'static AtomicU64 {
        &self.0[index]
    }

    /// Waits until a word satisfies `ready`, which another process sees to. The watchdog of a test that hangs is its runner.
    pub fn wait(&self, index: usize, ready: impl Fn(u64) -> bool) -> u64 {
        loop {
            let value = self.word(index).load(Ordering::Acquire);
            if ready(value) {
                return value;
            }
            std::thread::yield_now();
        }
    }

    /// The same without giving the core away, for measurements.
    pub fn wait_spinning(&self, index: usize, ready: impl Fn(u64) -> bool) {
        while !ready(self.word(index).load(Ordering::Acquire)) {
            std::hint::spin_loop();
        }
    }

    pub fn set(&self, index: usize, value: u64) {
        self.word(index).store(value, Ordering::Release);
    }
}

/// Runs `body` in a forked child. It may only do what needs no lock that another thread of this process might hold.
pub fn spawn(body: impl FnOnce()) -> Pid {
    // SAFETY: the child runs `body`, which keeps to the above, and leaves without running anything of the parent's.
    match unsafe { fork() }.unwrap() {
        ForkResult::Parent { child } => child,
        ForkResult::Child => {
            // SAFETY: plain system call: whatever becomes of the test, this process does not stay.
            unsafe { nix::libc::prctl(nix::libc::PR_SET_PDEATHSIG, nix::libc::SIGKILL) };
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
            // SAFETY: ends the process, always allowed.
            unsafe { nix::libc::_exit(i32::from(result.is_err())) }
        }
    }
}

pub fn wait_ok(child: Pid) {
    assert_eq!(waitpid(child, None).unwrap(), WaitStatus::Exited(child, 0));
}

/// A small generator, for tests that must not depend on the time: xorshift64*.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % bound
    }
}
