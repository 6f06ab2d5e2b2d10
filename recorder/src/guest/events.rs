//! The event log: a shared anonymous mapping, so that the snapshot can save it even if this process is killed.

use core::sync::atomic::Ordering;

use engine::{arena, sys, sys::raw};
use recording::{Body, EventBuilder, EventHeader, Full, RunningHash};

use super::control::control;
use super::state::Path;

/// Kept free for what ends a recording and for signals, which cannot be undone when they do not fit.
const RESERVE: u64 = 32 << 10;

#[derive(Debug)]
pub struct EventLog {
    used: u64,
    capacity: u64,
    /// Of all events so far.
    running: RunningHash,
    /// This process is not recorded: what it appends goes nowhere.
    muted: bool,
}

/// A place in the log.
pub struct Mark {
    used: u64,
    running: RunningHash,
}

impl EventLog {
    /// Maps an empty log of `capacity` bytes in place of any earlier one; in a file without name if a directory is given.
    pub fn create(capacity: u64, directory: &Path) -> Result<Self, i64> {
        let capacity = capacity.max(2 * RESERVE);
        let (fd, kind) = if directory.is_empty() { (-1, raw::MAP_ANONYMOUS) } else { (file(directory, capacity)?, 0) };
        let flags = raw::MAP_SHARED | raw::MAP_NORESERVE | raw::MAP_FIXED | kind;
        let got = sys::mmap(arena::EVENT_LOG, capacity, raw::PROT_READ | raw::PROT_WRITE, flags, fd, 0);
        if fd >= 0 {
            sys::close(fd);
        }
        if got != arena::EVENT_LOG as i64 {
            return Err(got);
        }
        Ok(Self { used: 0, capacity, running: RunningHash::new(), muted: false })
    }

    /// How much there is.
    pub fn mark(&self) -> Mark {
        Mark { used: self.used, running: self.running }
    }

    /// Forgets what was appended since a mark.
    pub fn rewind(&mut self, mark: Mark) {
        (self.used, self.running) = (mark.used, mark.running);
        control().events_used.store(self.used, Ordering::Release);
    }

    /// From here on this process, a child that borrows a recorded one's memory, is not recorded.
    pub fn mute(&mut self) {
        self.muted = true;
    }

    pub fn is_muted(&self) -> bool {
        self.muted
    }

    /// Whether so many bytes are free, and an event goes anywhere at all.
    pub fn has_room(&self, bytes: u64) -> bool {
        !self.muted && self.used + bytes <= self.capacity
    }

    /// Appends an event; `writes` adds its memory writes. The header's state hash is that of the registers alone.
    pub fn append(
        &mut self,
        header: &EventHeader,
        body: &Body,
        writes: impl FnOnce(&mut EventBuilder) -> Result<(), Full>,
    ) -> Result<(), Full> {
        if self.muted {
            return Ok(());
        }
        let reserve = if matches!(body, Body::Signal(_) | Body::MemoryHash(_) | Body::End(_)) { 0 } else { RESERVE };
        if self.used + reserve >= self.capacity {
            return Err(Full { needed_bytes: reserve, available_bytes: self.capacity - self.used });
        }
        // SAFETY: the log is mapped with `capacity` bytes; only this process writes to it and holds no other reference into it.
        let tail = unsafe {
            core::slice::from_raw_parts_mut((arena::EVENT_LOG + self.used) as *mut u8, (self.capacity - self.used - reserve) as usize)
        };
        let header = EventHeader { state_hash: self.running.note(header.state_hash), ..*header };
        let mut builder = EventBuilder::begin(tail, &header, body)?;
        writes(&mut builder)?;
        let length = builder.finish();
        self.running.add(&tail[..length]);
        self.used += length as u64;
        control().events_used.store(self.used, Ordering::Release);
        Ok(())
    }
}

/// A file without name. Its blocks are there from the start, so that a full disk shows now and not as a fault later.
fn file(directory: &Path, length: u64) -> Result<i32, i64> {
    let fd = sys::open(directory.with_zero(), raw::O_TMPFILE | raw::O_RDWR | raw::O_CLOEXEC, 0o600);
    if fd < 0 {
        return Err(fd);
    }
    // SAFETY: concerns only the file.
    let mut result = unsafe { sys::syscall(u64::from(raw::__NR_fallocate), [fd as u64, 0, 0, length, 0, 0]) };
    if result == -i64::from(sys::errno::EOPNOTSUPP) {
        // SAFETY: as above.
        result = unsafe { sys::syscall(u64::from(raw::__NR_ftruncate), [fd as u64, length, 0, 0, 0, 0]) };
    }
    if result < 0 {
        sys::close(fd as i32);
        return Err(result);
    }
    Ok(fd as i32)
}
