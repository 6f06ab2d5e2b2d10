//! What we say to the user, on the guest's standard error, unless asked to be quiet.
//!
//! Programs close standard error, or reuse its number for a file of theirs, and lines of ours must not get into that. So the descriptor
//! is looked at first; where it is not what it was at the start, the snapshot says the line, which kept the original. It keeps files and
//! terminals only: a pipe whose reader waits for its end must not be held open.

use core::fmt::{self, Write};

use engine::sys::{self, raw};

use super::control::{LINE_MAX, REPORT, control};
use super::state;

/// What a descriptor leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    device: u64,
    inode: u64,
    mode: u32,
}

impl Descriptor {
    pub fn of(fd: i32) -> Option<Self> {
        let mut status = [0u64; 18];
        // SAFETY: struct stat is 144 bytes.
        let result = unsafe { sys::syscall(u64::from(raw::__NR_fstat), [fd as u64, status.as_mut_ptr() as u64, 0, 0, 0, 0]) };
        (result == 0).then_some(Self { device: status[0], inode: status[1], mode: status[3] as u32 })
    }

    /// Whether nobody waits for it to be closed.
    pub fn may_be_kept(self) -> bool {
        [raw::S_IFREG, raw::S_IFCHR].contains(&(self.mode & raw::S_IFMT))
    }
}

/// A line of bounded length, so that nothing is allocated.
struct Line {
    bytes: [u8; LINE_MAX],
    length: usize,
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = self.bytes.len() - 1 - self.length;
        let taken = text.len().min(room);
        self.bytes[self.length..self.length + taken].copy_from_slice(&text.as_bytes()[..taken]);
        self.length += taken;
        Ok(())
    }
}

/// Writes `undo: …` and a line end to standard error in one system call.
pub fn report(arguments: fmt::Arguments) {
    let mut line = Line { bytes: [0; LINE_MAX], length: 0 };
    let _ = write!(line, "undo: {arguments}");
    line.bytes[line.length] = b'\n';
    let line = &line.bytes[..=line.length];
    let original = state::existing().and_then(|state| state.standard_error);
    if original.is_none() || Descriptor::of(2) == original {
        sys::write(2, line);
    } else if super::end::is_owner() {
        let control = control();
        control.line[..line.len()].copy_from_slice(line);
        control.line_length = line.len() as u32;
        let number = control.post(REPORT);
        // There is nobody left to tell.
        let _ = control.wait(number);
    }
}
