//! The auxiliary vector: from it gdb finds where the executable was loaded and, through its dynamic section, the list of libraries.

use gdbstub::target::TargetResult;
use gdbstub::target::ext::auxv::Auxv;

use super::{Debuggee, window};

impl Auxv for Debuggee {
    fn get_auxv(&self, offset: u64, length: usize, buffer: &mut [u8]) -> TargetResult<usize, Self> {
        Ok(window(&self.timeline.auxv(), offset, length, buffer))
    }
}
