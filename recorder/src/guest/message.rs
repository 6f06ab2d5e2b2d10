//! What we say to the user, on the guest's standard error, unless asked to be quiet.

use core::fmt::{self, Write};

use engine::sys;

/// A line of bounded length, so that nothing is allocated.
struct Line {
    bytes: [u8; 512],
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
    let mut line = Line { bytes: [0; 512], length: 0 };
    let _ = write!(line, "undo: {arguments}");
    line.bytes[line.length] = b'\n';
    sys::write(2, &line.bytes[..=line.length]);
}
