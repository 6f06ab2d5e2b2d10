//! Raw system calls and the few kernel structures that the engine and its hosts need. No errno, no libc.
//!
//! Every call returns what the kernel returned: a negative number is `-errno`.

use core::arch::asm;

pub use linux_raw_sys::{errno, general as raw};

/// Codes of `arch_prctl`.
pub const ARCH_SET_GS: u32 = 0x1001;
pub const ARCH_SET_FS: u32 = 0x1002;
pub const ARCH_GET_FS: u32 = 0x1003;
pub const ARCH_GET_GS: u32 = 0x1004;

/// Options of `prctl`.
pub const PR_SET_PDEATHSIG: u32 = 1;
pub const PR_SET_NAME: u32 = 15;

/// Performs any system call.
///
/// # Safety
/// As the system call itself: pointers among the arguments must be valid for what the kernel does with them, and the call must
/// not take away memory or descriptors that Rust code still uses.
#[inline]
pub unsafe fn syscall(nr: u64, args: [u64; 6]) -> i64 {
    let result: i64;
    // SAFETY: the kernel clobbers rax, rcx and r11 only; the rest is the caller's promise.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") nr as i64 => result,
            in("rdi") args[0],
            in("rsi") args[1],
            in("rdx") args[2],
            in("r10") args[3],
            in("r8") args[4],
            in("r9") args[5],
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack)
        );
    }
    result
}

macro_rules! call {
    ($nr:ident $(, $arg:expr)*) => {{
        let given = [$($arg as u64),*];
        let mut args = [0u64; 6];
        args[..given.len()].copy_from_slice(&given);
        // SAFETY: each wrapper below passes arguments of the kinds this system call takes.
        unsafe { syscall(raw::$nr as u64, args) }
    }};
}

pub fn mmap(address: u64, length: u64, prot: u32, flags: u32, fd: i32, offset: u64) -> i64 {
    call!(__NR_mmap, address, length, prot, flags, fd, offset)
}

pub fn munmap(address: u64, length: u64) -> i64 {
    call!(__NR_munmap, address, length)
}

pub fn mprotect(address: u64, length: u64, prot: u32) -> i64 {
    call!(__NR_mprotect, address, length, prot)
}

pub fn madvise(address: u64, length: u64, advice: u32) -> i64 {
    call!(__NR_madvise, address, length, advice)
}

pub fn mremap(address: u64, old: u64, new: u64, flags: u32, to: u64) -> i64 {
    call!(__NR_mremap, address, old, new, flags, to)
}

/// `path` ends in a zero byte.
pub fn open(path: &[u8], flags: u32, mode: u32) -> i64 {
    debug_assert_eq!(path.last(), Some(&0));
    call!(__NR_open, path.as_ptr(), flags, mode)
}

pub fn close(fd: i32) -> i64 {
    call!(__NR_close, fd)
}

pub fn read(fd: i32, buffer: &mut [u8]) -> i64 {
    call!(__NR_read, fd, buffer.as_mut_ptr(), buffer.len())
}

pub fn pread(fd: i32, buffer: &mut [u8], offset: u64) -> i64 {
    call!(__NR_pread64, fd, buffer.as_mut_ptr(), buffer.len(), offset)
}

pub fn write(fd: i32, buffer: &[u8]) -> i64 {
    call!(__NR_write, fd, buffer.as_ptr(), buffer.len())
}

pub fn getpid() -> i32 {
    call!(__NR_getpid) as i32
}

pub fn getppid() -> i32 {
    call!(__NR_getppid) as i32
}

pub fn gettid() -> i32 {
    call!(__NR_gettid) as i32
}

/// Sends `signal` to a thread of this process.
pub fn tgkill(pid: i32, tid: i32, signal: i32) -> i64 {
    call!(__NR_tgkill, pid, tid, signal)
}

pub fn exit_group(status: i32) -> ! {
    loop {
        call!(__NR_exit_group, status);
    }
}

/// `old` may be null.
///
/// # Safety
/// `action` must name a handler that may run at any instruction; `old` must be null or valid for writes.
pub unsafe fn rt_sigaction(signal: i32, action: *const SigAction, old: *mut SigAction) -> i64 {
    call!(__NR_rt_sigaction, signal, action, old, 8)
}

pub fn rt_sigprocmask(how: u32, set: Option<&u64>, old: Option<&mut u64>) -> i64 {
    let set = set.map_or(core::ptr::null(), core::ptr::from_ref);
    let old = old.map_or(core::ptr::null_mut(), core::ptr::from_mut);
    call!(__NR_rt_sigprocmask, how, set, old, 8)
}

/// Waits while `*word == expected`; with a timeout of `seconds` if that is not 0.
pub fn futex_wait(word: &core::sync::atomic::AtomicU32, expected: u32, seconds: u64) -> i64 {
    let timeout = [seconds, 0];
    let timeout_pointer = if seconds == 0 { core::ptr::null() } else { timeout.as_ptr() };
    call!(__NR_futex, word.as_ptr(), raw::FUTEX_WAIT, expected, timeout_pointer)
}

pub fn futex_wake(word: &core::sync::atomic::AtomicU32) -> i64 {
    call!(__NR_futex, word.as_ptr(), raw::FUTEX_WAKE, i32::MAX)
}

pub fn arch_prctl(code: u32, value: u64) -> i64 {
    call!(__NR_arch_prctl, code, value)
}

pub fn prctl(option: u32, value: u64) -> i64 {
    call!(__NR_prctl, option, value)
}

/// Seconds and nanoseconds of `clock`.
pub fn clock_gettime(clock: u32) -> [u64; 2] {
    let mut time = [0u64; 2];
    call!(__NR_clock_gettime, clock, time.as_mut_ptr());
    time
}

/// The kernel's `struct sigaction`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SigAction {
    pub handler: u64,
    pub flags: u64,
    pub restorer: u64,
    pub mask: u64,
}

/// The kernel's `stack_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SigAltStack {
    pub sp: u64,
    pub flags: i32,
    pub size: u64,
}

/// The kernel's `struct ucontext` up to the signal mask, as a signal handler finds it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct UContext {
    pub flags: u64,
    pub link: u64,
    pub stack: SigAltStack,
    /// r8 r9 r10 r11 r12 r13 r14 r15 rdi rsi rbp rbx rdx rax rcx rsp rip.
    pub gpr: [u64; 17],
    pub eflags: u64,
    pub segments: u64,
    pub err: u64,
    pub trapno: u64,
    pub oldmask: u64,
    pub cr2: u64,
    pub fpstate: u64,
    pub reserved: [u64; 8],
    pub sigmask: u64,
}

/// Where each register in encoding order lies in [`UContext::gpr`].
pub const UCONTEXT_ORDER: [usize; 16] = [13, 14, 12, 11, 15, 10, 9, 8, 0, 1, 2, 3, 4, 5, 6, 7];
/// Index of rip in [`UContext::gpr`].
pub const UCONTEXT_RIP: usize = 16;

const _: () = assert!(core::mem::offset_of!(UContext, gpr) == 40);
const _: () = assert!(core::mem::offset_of!(UContext, fpstate) == 224);
const _: () = assert!(core::mem::offset_of!(UContext, sigmask) == 296);
