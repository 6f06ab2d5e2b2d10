//! Creating a log, or joining the one that is there: race-free between processes, and no descriptor stays open.
//!
//! ```text
//!   open NAME ──exists──► check header ─► map ─► close          (join)
//!      │ENOENT                 │not ours: error, untouched
//!      ▼
//!   create NAME.new-PID-RANDOM, size it, fill in the header, map ─► link to NAME ──EEXIST──► throw it away, join
//! ```
//!
//! I1. A file is complete before it has the final name, so whoever opens that name finds a log or something that is none.
//! A crash in between leaves at most the file with the temporary name, which nobody reads.
use crate::header::{FIXED_WORDS, Header, HeaderError};
use crate::layout::*;
use crate::log::Mapped;
use crate::memory::Memory;
use crate::sync::Ordering;
use crate::{sys, time};
use core::ffi::CStr;
use linux_raw_sys::{errno, general as linux};

const MAX_PATH_BYTES: usize = 4096;
/// Clocks that get their storage when the log is created, bytes: all of a log of up to 64 MiB. More would not keep a log of few records
/// small; the others get it when they are first used, which on a full disk is a SIGBUS in the log.
const MAX_CLOCK_BYTES_AT_ONCE: u64 = 512 << 10;
/// How often the name may vanish between our finding it taken and our opening it.
const MAX_RACES: u32 = 100;

/// Why there is no log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// A system call failed with `errno`.
    System { call: &'static str, errno: i32 },
    /// The size asked for, rounded up to pages, is outside [`MIN_SIZE`]..=[`MAX_SIZE`].
    Size { size: u64, min: u64, max: u64 },
    /// Growing a file to this size would exceed RLIMIT_FSIZE and kill the process.
    FileSizeLimit { size: u64, limit: u64 },
    /// The path and the temporary name beside it do not fit into PATH_MAX.
    PathTooLong { length: usize, max: usize },
    /// The file exists and is no regular file.
    NotAFile { mode: u32 },
    /// The file exists, but its size is not that of any log.
    NotALogSize { size: u64 },
    /// The file exists and is not a log that this version can join.
    NotALog(HeaderError),
    /// The file appeared and vanished again and again.
    Unstable,
}

impl core::fmt::Display for OpenError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            OpenError::System { call, errno } => write!(f, "{call} failed: error {errno}"),
            OpenError::Size { size, min, max } => {
                write!(f, "size of the log: expected {min} to {max} bytes, found {size}")
            }
            OpenError::FileSizeLimit { size, limit } => {
                write!(f, "size of the log: expected at most the limit on file sizes, {limit} bytes, found {size}")
            }
            OpenError::PathTooLong { length, max } => {
                write!(f, "length of the path: expected at most {max} bytes, found {length}")
            }
            OpenError::NotAFile { mode } => {
                write!(f, "not an access log: type of file: expected {:#o} (a regular one), found {mode:#o}", linux::S_IFREG)
            }
            OpenError::NotALogSize { size } => {
                write!(
                    f,
                    "not an access log: file size: expected a multiple of {PAGE_BYTES} from {MIN_SIZE} to {MAX_SIZE} bytes, found {size}"
                )
            }
            OpenError::NotALog(error) => write!(f, "not an access log: {error}"),
            OpenError::Unstable => write!(f, "the file keeps appearing and vanishing"),
        }
    }
}

impl core::error::Error for OpenError {}

fn system(call: &'static str) -> impl Fn(i32) -> OpenError {
    move |errno| OpenError::System { call, errno }
}

/// A descriptor that closes when dropped, so on every way out.
struct Descriptor(i32);

impl Drop for Descriptor {
    fn drop(&mut self) {
        sys::close(self.0);
    }
}

/// A mapped log and what its header said; the bool tells whether we created it.
pub(crate) type Opened = (Mapped, Layout, Header, bool);

pub(crate) fn create_or_join(path: &CStr, max_size: u64, map_at: Option<usize>) -> Result<Opened, OpenError> {
    for _ in 0..MAX_RACES {
        match sys::open(path, linux::O_RDWR | linux::O_NOCTTY | linux::O_NONBLOCK, 0) {
            Ok(fd) => return join(&Descriptor(fd), map_at),
            Err(errno) if errno == errno::ENOENT as i32 => {}
            Err(errno) => return Err(system("open")(errno)),
        }
        if let Some(created) = create(path, max_size, map_at)? {
            return Ok(created);
        }
    }
    Err(OpenError::Unstable)
}

fn join(fd: &Descriptor, map_at: Option<usize>) -> Result<Opened, OpenError> {
    let (mode, size) = sys::stat(fd.0).map_err(system("fstat"))?;
    if mode != linux::S_IFREG {
        return Err(OpenError::NotAFile { mode });
    }
    let layout = Layout::for_size(size).ok_or(OpenError::NotALogSize { size })?;
    let mut words = [0; FIXED_WORDS];
    // They were complete before the file had its name (I1). Not by the mapping: a file that is cut just now is to be an error.
    sys::read_at(fd.0, &mut words, 0).map_err(system("pread"))?;
    let header = Header::check(&words, &layout).map_err(OpenError::NotALog)?;
    let address = sys::map(fd.0, size, map_at).map_err(system("mmap"))?;
    Ok((Mapped::new(address), layout, header, false))
}

/// None: somebody else was faster.
fn create(path: &CStr, max_size: u64, map_at: Option<usize>) -> Result<Option<Opened>, OpenError> {
    let asked = if max_size == 0 { DEFAULT_SIZE } else { max_size };
    let size = asked.checked_next_multiple_of(PAGE_BYTES).unwrap_or(u64::MAX);
    let layout = Layout::for_size(size).ok_or(OpenError::Size { size, min: MIN_SIZE, max: MAX_SIZE })?;
    let limit = sys::file_size_limit();
    if size > limit {
        return Err(OpenError::FileSizeLimit { size, limit });
    }
    let random = sys::random().map_err(system("getrandom"))?;
    let mut buffer = [0; MAX_PATH_BYTES];
    let temporary = temporary_name(path, random[0], &mut buffer)?;
    let flags = linux::O_RDWR | linux::O_CREAT | linux::O_EXCL | linux::O_NOFOLLOW;
    let fd = Descriptor(sys::open(temporary, flags, 0o600).map_err(system("open"))?);
    match fill(&fd, &layout, uuid(random), map_at) {
        Ok((mapped, header)) => match sys::publish(temporary, path) {
            Ok(()) => Ok(Some((mapped, layout, header, true))),
            Err(errno) => {
                sys::unlink(temporary);
                // SAFETY: mapped by `fill`, and known to nobody else.
                unsafe { sys::unmap(mapped.base(), size) };
                if errno == errno::EEXIST as i32 { Ok(None) } else { Err(system("link")(errno)) }
            }
        },
        Err(error) => {
            sys::unlink(temporary);
            Err(error)
        }
    }
}

fn fill(fd: &Descriptor, layout: &Layout, uuid: [u8; 16], map_at: Option<usize>) -> Result<(Mapped, Header), OpenError> {
    sys::truncate(fd.0, layout.size).map_err(system("ftruncate"))?;
    let address = sys::map(fd.0, layout.size, map_at).map_err(system("mmap"))?;
    let mapped = Mapped::new(address);
    let clocks = layout.clocks();
    let clock_bytes = (clocks.count * CLOCK_BYTES).min(MAX_CLOCK_BYTES_AT_ONCE);
    if !mapped.populate(address, (clocks.offset + clock_bytes) as usize) {
        // SAFETY: mapped above, and known to nobody else.
        unsafe { sys::unmap(address, layout.size) };
        return Err(system("madvise")(errno::ENOSPC as i32));
    }
    let tsc_hz = time::rate();
    let (created_tsc, created_ns) = time::now();
    let header = Header { uuid, created_tsc, created_ns, tsc_hz };
    for (index, word) in header.words(layout).into_iter().enumerate() {
        mapped.word(address + index * 8).store(word, Ordering::Relaxed);
    }
    Ok((mapped, header))
}

/// A version 4 UUID.
fn uuid(random: [u64; 2]) -> [u8; 16] {
    let mut uuid = (u128::from(random[0]) | u128::from(random[1]) << 64).to_le_bytes();
    uuid[6] = uuid[6] & 0x0f | 0x40;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    uuid
}

/// `PATH.new-PID-RANDOM`, in hexadecimal.
fn temporary_name<'a>(path: &CStr, random: u64, buffer: &'a mut [u8; MAX_PATH_BYTES]) -> Result<&'a CStr, OpenError> {
    let mut hex = [0u8; 24];
    let pid = sys::process_id();
    for (index, digit) in hex.iter_mut().enumerate() {
        let nibble = if index < 8 { pid >> (28 - index * 4) } else { (random >> (92 - index * 4)) as u32 } & 15;
        *digit = char::from_digit(nibble, 16).map_or(b'0', |digit| digit as u8);
    }
    let (pid, random) = hex.split_at(8);
    let mut length = 0;
    let parts = [path.to_bytes(), b".new-", pid, b"-", random, b"\0"];
    for byte in parts.into_iter().flatten() {
        let max = MAX_PATH_BYTES - 32;
        *buffer.get_mut(length).ok_or(OpenError::PathTooLong { length: path.to_bytes().len(), max })? = *byte;
        length += 1;
    }
    // The last byte is the only 0: a path has none.
    CStr::from_bytes_until_nul(buffer).map_err(|_| OpenError::PathTooLong { length, max: MAX_PATH_BYTES })
}
