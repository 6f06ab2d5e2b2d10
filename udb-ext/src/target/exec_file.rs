//! The executable's name, so that gdb needs no `file` command.

use gdbstub::common::Pid;
use gdbstub::target::TargetResult;
use gdbstub::target::ext::exec_file::ExecFile;

use super::{Debuggee, window};

impl ExecFile for Debuggee {
    fn get_exec_file(&self, _pid: Option<Pid>, offset: u64, length: usize, buffer: &mut [u8]) -> TargetResult<usize, Self> {
        Ok(window(self.timeline.executable().as_bytes(), offset, length, buffer))
    }
}
