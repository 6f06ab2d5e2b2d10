//! Breakpoints and watchpoints: nothing is ever inserted into memory, so any number of any size will do.
//!
//! Setting what is set already changes at most its conditions, as the protocol has it: gdb sends a breakpoint again when they change.
//!
//! gdbstub reads over the conditions in a packet, so they are taken out of it before ([`Debuggee::note_conditions`]).

use gdbstub::target::TargetResult;
use gdbstub::target::ext::breakpoints::{
    Breakpoints, HwBreakpoint, HwBreakpointOps, HwWatchpoint, HwWatchpointOps, SwBreakpoint, SwBreakpointOps, WatchKind as GdbKind,
};
use replayer::{Condition, WatchKind, Watchpoint};

use super::Debuggee;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Software,
    Hardware,
}

/// gdb's breakpoints.
#[derive(Clone, Debug, Default)]
pub struct Placed {
    all: Vec<Breakpoint>,
    /// What the packet that is about to be handled says beyond what gdbstub takes from it.
    coming: Vec<Vec<u8>>,
}

#[derive(Clone, Debug)]
struct Breakpoint {
    kind: Kind,
    pc: u64,
    /// None: it stops always.
    conditions: Vec<Vec<u8>>,
}

impl Placed {
    pub fn has_hardware(&self, pc: u64) -> bool {
        self.all.iter().any(|placed| (placed.kind, placed.pc) == (Kind::Hardware, pc))
    }
}

/// The conditions in `Z0,address,kind;X3,220127X…`: bytecode of gdb's agent expressions.
fn conditions(packet: &str) -> Vec<Vec<u8>> {
    let lists = packet.split(';').skip(1).filter(|list| list.starts_with('X'));
    lists.flat_map(|list| list.split('X').skip(1)).filter_map(|condition| bytes(condition.split_once(',')?.1)).collect()
}

fn bytes(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

impl Debuggee {
    /// To be told of each packet before gdbstub handles it.
    pub(crate) fn note_conditions(&mut self, packet: &str) {
        self.placed.coming = if packet.starts_with(['Z']) { conditions(packet) } else { Vec::new() };
    }

    fn place(&mut self, kind: Kind, pc: u64) {
        let conditions = std::mem::take(&mut self.placed.coming);
        match self.placed.all.iter_mut().find(|placed| (placed.kind, placed.pc) == (kind, pc)) {
            Some(placed) => placed.conditions = conditions,
            None => self.placed.all.push(Breakpoint { kind, pc, conditions }),
        }
        self.take_over();
    }

    /// Whether there was one.
    fn take_away(&mut self, kind: Kind, pc: u64) -> bool {
        let before = self.placed.all.len();
        self.placed.all.retain(|placed| (placed.kind, placed.pc) != (kind, pc));
        self.take_over();
        self.placed.all.len() < before
    }

    /// Makes the timeline's points those that are placed.
    fn take_over(&mut self) {
        let all = &self.placed.all;
        self.points.breakpoints = all.iter().map(|placed| placed.pc).collect();
        self.points.breakpoints.sort_unstable();
        self.points.breakpoints.dedup();
        let always = |pc: u64| all.iter().any(|placed| placed.pc == pc && placed.conditions.is_empty());
        let conditional = all.iter().filter(|placed| !always(placed.pc));
        self.points.conditions =
            conditional.flat_map(|placed| placed.conditions.iter().map(|code| Condition { pc: placed.pc, code: code.clone() })).collect();
    }
}

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
        self.place(Kind::Software, address);
        Ok(true)
    }

    fn remove_sw_breakpoint(&mut self, address: u64, _kind: usize) -> TargetResult<bool, Self> {
        Ok(self.take_away(Kind::Software, address))
    }
}

impl HwBreakpoint for Debuggee {
    fn add_hw_breakpoint(&mut self, address: u64, _kind: usize) -> TargetResult<bool, Self> {
        self.place(Kind::Hardware, address);
        Ok(true)
    }

    fn remove_hw_breakpoint(&mut self, address: u64, _kind: usize) -> TargetResult<bool, Self> {
        Ok(self.take_away(Kind::Hardware, address))
    }
}

impl HwWatchpoint for Debuggee {
    fn add_hw_watchpoint(&mut self, address: u64, length: u64, kind: GdbKind) -> TargetResult<bool, Self> {
        let point = watchpoint(address, length, kind);
        if !self.points.watchpoints.contains(&point) {
            self.points.watchpoints.push(point);
        }
        Ok(true)
    }

    fn remove_hw_watchpoint(&mut self, address: u64, length: u64, kind: GdbKind) -> TargetResult<bool, Self> {
        let (point, before) = (watchpoint(address, length, kind), self.points.watchpoints.len());
        self.points.watchpoints.retain(|other| *other != point);
        Ok(self.points.watchpoints.len() < before)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_read() {
        assert_eq!(conditions("Z0,400003,1"), Vec::<Vec<u8>>::new());
        assert_eq!(conditions("Z0,400003,1;X3,220127"), [[0x22, 1, 0x27]]);
        assert_eq!(conditions("Z1,400003,1;X3,220127X2,2827;cmds:1,X1,27"), [vec![0x22, 1, 0x27], vec![0x28, 0x27]]);
    }
}
