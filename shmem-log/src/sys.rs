//! The system calls that creating and mapping a log takes, raw: inside the recorded program there is no libc to ask, and its
//! `errno` is not ours to change.
use core::ffi::CStr;
use linux_raw_sys::{errno, general as linux};
use syscalls::{Errno, Sysno};

/// An error number of the kernel.
pub(crate) type Result<T> = core::result::Result<T, i32>;

fn number(error: Errno) -> i32 {
    error.into_raw()
}

macro_rules! call {
    ($number:ident $(, $argument:expr)*) => {
        // SAFETY: each use passes arguments that are valid for the call as its wrapper's signature and comment promise.
        unsafe { syscalls::syscall!(Sysno::$number $(, $argument)*) }.map_err(number)
    };
}

/// Opens, close-on-exec.
pub(crate) fn open(path: &CStr, flags: u32, mode: u32) -> Result<i32> {
    let flags = flags | linux::O_CLOEXEC;
    call!(openat, linux::AT_FDCWD, path.as_ptr(), flags, mode).map(|fd| fd as i32)
}

pub(crate) fn close(fd: i32) {
    let _ = call!(close, fd);
}

pub(crate) fn truncate(fd: i32, size: u64) -> Result<()> {
    call!(ftruncate, fd, size).map(drop)
}

/// Type bits of the mode, and size in bytes.
pub(crate) fn stat(fd: i32) -> Result<(u32, u64)> {
    // SAFETY: `stat` is a plain structure of integers, for which zero is a value.
    let mut stat: linux::stat = unsafe { core::mem::zeroed() };
    call!(fstat, fd, &raw mut stat)?;
    Ok((stat.st_mode & linux::S_IFMT, stat.st_size as u64))
}

/// Fills words from byte `offset` of the file on; tells how many bytes there were.
pub(crate) fn read_at(fd: i32, words: &mut [u64], offset: u64) -> Result<usize> {
    let bytes = core::mem::size_of_val(words);
    call!(pread64, fd, words.as_mut_ptr(), bytes, offset)
}

/// Maps the file shared, readable and writable; at exactly `at` if given, or EEXIST where something is mapped there.
pub(crate) fn map(fd: i32, size: u64, at: Option<usize>) -> Result<usize> {
    let fixed = if at.is_some() { linux::MAP_FIXED_NOREPLACE } else { 0 };
    let protection = linux::PROT_READ | linux::PROT_WRITE;
    let got = call!(mmap, at.unwrap_or(0), size, protection, linux::MAP_SHARED | fixed, fd, 0)?;
    if at.is_some_and(|at| at != got) {
        // A kernel older than MAP_FIXED_NOREPLACE took the address for a hint.
        // SAFETY: it was just mapped, and nobody knows of it.
        unsafe { unmap(got, size) };
        return Err(errno::EEXIST as i32);
    }
    Ok(got)
}

/// # Safety
/// Nothing may refer to the mapping any more.
pub(crate) unsafe fn unmap(address: usize, size: u64) {
    let _ = call!(munmap, address, size);
}

/// Gives whole pages of a mapping storage, so that a full disk is an error here and not a signal later. True where the kernel
/// cannot do it (before Linux 5.14).
pub(crate) fn populate(address: usize, bytes: usize) -> bool {
    match call!(madvise, address, bytes, linux::MADV_POPULATE_WRITE) {
        Ok(_) => true,
        Err(error) => error == errno::EINVAL as i32,
    }
}

/// Gives a file its final name unless that is taken (EEXIST); the old name is gone on success.
pub(crate) fn publish(from: &CStr, to: &CStr) -> Result<()> {
    let linked = call!(linkat, linux::AT_FDCWD, from.as_ptr(), linux::AT_FDCWD, to.as_ptr(), 0);
    match linked {
        Ok(_) => {
            unlink(from);
            Ok(())
        }
        Err(error) if error == errno::EEXIST as i32 => Err(error),
        // A file system without hard links.
        Err(_) => {
            let flags = linux::RENAME_NOREPLACE;
            call!(renameat2, linux::AT_FDCWD, from.as_ptr(), linux::AT_FDCWD, to.as_ptr(), flags).map(drop)
        }
    }
}

pub(crate) fn unlink(path: &CStr) {
    let _ = call!(unlinkat, linux::AT_FDCWD, path.as_ptr(), 0);
}

/// The soft limit on the size of files, bytes. Growing one beyond it is a signal, not an error.
pub(crate) fn file_size_limit() -> u64 {
    let mut limit = [u64::MAX; 2];
    match call!(prlimit64, 0, linux::RLIMIT_FSIZE, 0, &raw mut limit) {
        Ok(_) => limit[0],
        Err(_) => u64::MAX,
    }
}

pub(crate) fn process_id() -> u32 {
    call!(getpid).map_or(0, |pid| pid as u32)
}

/// Sixteen random bytes, as two words.
pub(crate) fn random() -> Result<[u64; 2]> {
    let mut bytes = [0u64; 2];
    // 16 bytes are never delivered in part.
    call!(getrandom, &raw mut bytes, 16, 0)?;
    Ok(bytes)
}

/// CLOCK_REALTIME, ns since 1970.
pub(crate) fn realtime_ns() -> u64 {
    clock_ns(linux::CLOCK_REALTIME)
}

/// CLOCK_MONOTONIC_RAW, ns.
pub(crate) fn monotonic_ns() -> u64 {
    clock_ns(linux::CLOCK_MONOTONIC_RAW)
}

fn clock_ns(clock: u32) -> u64 {
    let mut time = [0i64; 2];
    match call!(clock_gettime, clock, &raw mut time) {
        Ok(_) => time[0] as u64 * 1_000_000_000 + time[1] as u64,
        Err(_) => 0,
    }
}
