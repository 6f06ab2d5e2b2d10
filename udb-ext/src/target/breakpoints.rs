//! Breakpoints and watchpoints: nothing is ever inserted into memory, so any number of any size will do.

use gdbstub::target::TargetResult;
use gdbstub::target::ext::breakpoints::{
    Breakpoints, HwBreakpoint, HwBreakpointOps, HwWatchpoint, HwWatchpointOps, SwBreakpoint, SwBreakpointOps, WatchKind as GdbKind,
};
use replayer::{WatchKind, Watchpoint};

use super::Debuggee;

impl Breakpoints for Debuggee {
    fn support_sw_breakpoint(&mut self) -> Option<SwBreakpointOps<'_, Self>> {
        Some(self)
    }

    fn support_hw_breakpoint(&mut self) -> Option<HwBreakpointOps<'_, Self>> {
        Some(self)
    }

    fn support_hw_watchpoint(&mut self) -> Option<HwWatchpointOps<'_, Self>> {
        Some(self)
    }
}

impl SwBreakpoint for Debuggee {
    fn add_sw_breakpoint(&mut self, address: u64, _kind: usize) -> TargetResult<bool, Self> {
        self.points.breakpoints.push(address);
        Ok(true)
    }

    fn remove_sw_breakpoint(&mut self, address: u64, _kind: usize) -> TargetResult<bool, Self> {
        Ok(remove(&mut self.points.breakpoints, &address))
    }
}

impl HwBreakpoint for Debuggee {
    fn add_hw_breakpoint(&mut self, address: u64, _kind: usize) -> TargetResult<bool, Self> {
        self.points.breakpoints.push(address);
        self.hardware.push(address);
        Ok(true)
    }

    fn remove_hw_breakpoint(&mut self, address: u64, _kind: usize) -> TargetResult<bool, Self> {
        Ok(remove(&mut self.hardware, &address) && remove(&mut self.points.breakpoints, &address))
    }
}

impl HwWatchpoint for Debuggee {
    fn add_hw_watchpoint(&mut self, address: u64, length: u64, kind: GdbKind) -> TargetResult<bool, Self> {
        self.points.watchpoints.push(watchpoint(address, length, kind));
        Ok(true)
    }

    fn remove_hw_watchpoint(&mut self, address: u64, length: u64, kind: GdbKind) -> TargetResult<bool, Self> {
        Ok(remove(&mut self.points.watchpoints, &watchpoint(address, length, kind)))
    }
}

fn watchpoint(address: u64, length: u64, kind: GdbKind) -> Watchpoint {
    let kind = match kind {
        GdbKind::Write => WatchKind::Write,
        GdbKind::Read => WatchKind::Read,
        GdbKind::ReadWrite => WatchKind::Access,
    };
    Watchpoint { address, length, kind }
}

/// Removes one of possibly several equal points: gdb may set the same one twice.
fn remove<T: PartialEq>(points: &mut Vec<T>, point: &T) -> bool {
    match points.iter().position(|other| other == point) {
        Some(index) => {
            points.swap_remove(index);
            true
        }
        None => false,
    }
}
