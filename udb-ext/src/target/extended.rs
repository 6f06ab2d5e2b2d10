//! Extended mode: a connection that names its process. There is nothing to run, attach to or restart.

use gdbstub::common::Pid;
use gdbstub::target::ext::extended_mode::{Args, AttachKind, CurrentActivePid, CurrentActivePidOps, ExtendedMode, ShouldTerminate};
use gdbstub::target::{TargetError, TargetResult};

use super::{Debuggee, errno};

impl ExtendedMode for Debuggee {
    fn run(&mut self, _filename: Option<&[u8]>, _args: Args<'_, '_>) -> TargetResult<Pid, Self> {
        Err(TargetError::Errno(errno::EACCES))
    }

    fn attach(&mut self, _pid: Pid) -> TargetResult<(), Self> {
        Err(TargetError::Errno(errno::EACCES))
    }

    fn query_if_attached(&mut self, _pid: Pid) -> TargetResult<AttachKind, Self> {
        // As if started by us: then gdb does not ask before it quits.
        Ok(AttachKind::Run)
    }

    fn kill(&mut self, _pid: Option<Pid>) -> TargetResult<ShouldTerminate, Self> {
        Ok(ShouldTerminate::Yes)
    }

    fn restart(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }

    fn support_current_active_pid(&mut self) -> Option<CurrentActivePidOps<'_, Self>> {
        Some(self)
    }
}

impl CurrentActivePid for Debuggee {
    fn current_active_pid(&mut self) -> Result<Pid, Self::Error> {
        Ok(self.tid())
    }
}
