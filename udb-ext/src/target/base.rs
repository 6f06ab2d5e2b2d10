//! Registers, memory and the thread list. History is read only.

use gdbstub::common::Tid;
use gdbstub::target::ext::base::multithread::{MultiThreadBase, MultiThreadResumeOps};
use gdbstub::target::{TargetError, TargetResult};

use super::{Debuggee, errno};
use crate::arch::RegisterFile;

impl MultiThreadBase for Debuggee {
    fn read_registers(&mut self, registers: &mut RegisterFile, _tid: Tid) -> TargetResult<(), Self> {
        let general = self.timeline.registers().map_err(|_| TargetError::Errno(errno::EFAULT))?;
        // Without the vector state the rest is still worth showing.
        let image = self.timeline.xsave().unwrap_or_default();
        *registers = RegisterFile::new(&general, &image);
        Ok(())
    }

    fn write_registers(&mut self, _registers: &RegisterFile, _tid: Tid) -> TargetResult<(), Self> {
        Err(TargetError::Errno(errno::EACCES))
    }

    fn read_addrs(&mut self, start: u64, data: &mut [u8], _tid: Tid) -> TargetResult<usize, Self> {
        self.timeline.read_memory(start, data).map_err(|_| TargetError::Errno(errno::EFAULT))
    }

    fn write_addrs(&mut self, _start: u64, _data: &[u8], _tid: Tid) -> TargetResult<(), Self> {
        Err(TargetError::Errno(errno::EACCES))
    }

    fn list_active_threads(&mut self, thread_is_active: &mut dyn FnMut(Tid)) -> Result<(), Self::Error> {
        thread_is_active(self.tid());
        Ok(())
    }

    fn support_resume(&mut self) -> Option<MultiThreadResumeOps<'_, Self>> {
        Some(self)
    }
}
