//! What each kind of exit asks for.

use alloc::vec::Vec;

use iced_x86::Mnemonic;

use super::{Engine, Step, Stopped, UNIT_BYTES_MAX};
use crate::context::reg;
use crate::fault::FaultInfo;
use crate::flags::Liveness;
use crate::gate;
use crate::host::{After, Before, Flow, Host};
use crate::indirect;
use crate::memory;
use crate::site::Site;
use crate::sys;
use crate::translate::LeadIn;
use crate::unit::{Exit, ExitKind};
use crate::vector;

/// No instruction is longer.
const INSTRUCTION_BYTES_MAX: usize = 15;
const PAGE: u64 = 4096;

impl<H: Host> Engine<H> {
    /// What the processor makes of an attempt to execute at `pc`, where nothing could be decoded.
    fn why_undecodable(&mut self, pc: u64) -> FaultInfo {
        if !self.code_at(pc).contains(pc) {
            // Advice that changes nothing; the kernel refuses it where nothing is mapped.
            let mapped = sys::madvise(pc & !(PAGE - 1), PAGE, sys::raw::MADV_NORMAL) == 0;
            return if mapped { FaultInfo::no_execute(pc) } else { FaultInfo::execute(pc) };
        }
        let mut bytes = [0; INSTRUCTION_BYTES_MAX];
        match memory::read_guest(pc, &mut bytes) {
            INSTRUCTION_BYTES_MAX => FaultInfo::illegal(pc),
            readable => FaultInfo::execute(pc + readable as u64),
        }
    }

    pub(super) fn handle_exit(&mut self) -> u64 {
        let number = self.context().exit as u32;
        match number {
            gate::EXIT_INDIRECT_MISS => {
                let target = self.context().gpr[reg::RCX];
                self.restore_spilled();
                self.context().rip = target;
                return self.after_indirect(target);
            }
            gate::EXIT_RESUME => return self.after_resume(),
            _ => {}
        }
        let exit = self.exits[(number - gate::FIRST_EXIT) as usize];
        self.context().rip = exit.pc;
        match exit.kind {
            ExitKind::Link { patch } => return self.link(exit, patch),
            ExitKind::Limit { undo, flags_dirty } => {
                self.settle(exit.counter, -i64::from(undo));
                self.settle(exit.counter, i64::from(exit.unsettled));
                if flags_dirty {
                    self.dirty = Some(Liveness::new());
                }
                return self.next_entry();
            }
            ExitKind::LimitIndirect => {
                let target = self.context().gpr[reg::RCX];
                self.restore_spilled();
                self.context().rip = target;
                return self.next_entry();
            }
            ExitKind::SharedBefore { site, body } => return self.shared_before(exit, site, body),
            ExitKind::SharedDropped { next } => {
                self.with_host(|host, _| host.inline_dropped());
                return next;
            }
            ExitKind::SharedAfter { site, next, body } => return self.shared_after(exit, site, next, body),
            ExitKind::Watch { site, next } => return self.watched(exit, site, next),
            _ => {}
        }
        self.settle(exit.counter, i64::from(exit.unsettled));
        let flow = match exit.kind {
            ExitKind::SystemCall { length } => {
                let flow = self.with_host(|host, engine| host.system_call(engine, u64::from(length)));
                if flow != Flow::NotMade {
                    self.settle(exit.counter, 1);
                }
                flow
            }
            ExitKind::Nondeterministic { what, register, size, length } => {
                self.with_host(|host, engine| host.nondeterministic(engine, what, (register as usize, size as usize), u64::from(length)))
            }
            ExitKind::VectorState { site } => {
                let site = self.sites[site as usize];
                self.vector_state(&site)
            }
            ExitKind::SharedWhole { site, transfers } => {
                let site = self.sites[site as usize];
                let flow = self.with_host(|host, engine| host.shared_whole(engine, &site));
                if flow != Flow::NotMade {
                    self.settle(exit.counter, i64::from(transfers));
                }
                flow
            }
            ExitKind::Breakpoint => self.with_host(|host, engine| host.stopped(engine, Stopped::Breakpoint)),
            ExitKind::Unsupported { what } => self.with_host(|host, engine| host.unsupported(engine, what)),
            ExitKind::Trap => self.with_host(|host, engine| host.fault(engine, &FaultInfo::trap())),
            ExitKind::Undecodable => {
                let fault = self.why_undecodable(exit.pc);
                self.with_host(|host, engine| host.fault(engine, &fault))
            }
            ExitKind::UnlinkedIndirect { from } => {
                let target = self.context().gpr[reg::RCX];
                self.restore_spilled();
                self.context().rip = target;
                self.profile.saw(from, target);
                Flow::Continue
            }
            ExitKind::Unlinked { conditional: Some(from) } => {
                self.profile.saw(from, exit.pc);
                Flow::Continue
            }
            _ => Flow::Continue,
        };
        self.go(flow)
    }

    /// The way out at `patch` is taken for the first time, or the unit it leads to could not be linked.
    fn link(&mut self, exit: Exit, patch: u64) -> u64 {
        self.settle(exit.counter, i64::from(exit.unsettled));
        let generation = self.generation;
        self.lead_in = (exit.unsettled != 0).then_some(LeadIn { settle: exit.unsettled, counter: exit.counter });
        let host = self.next_entry();
        let lead_in = self.lead_in.take();
        // Only if the unit for exactly this pc comes next, and nothing was cleared meanwhile.
        let Some(unit) = self.by_pc.get(&exit.pc).map(|&unit| &self.units[unit]) else { return host };
        if unit.host != host || generation != self.generation {
            return host;
        }
        let to = match lead_in {
            _ if exit.unsettled == 0 => Some(host),
            // The stub was made along with the unit.
            None => Some(unit.lead_in),
            Some(lead_in) => self.make_stub(lead_in, exit.pc, host),
        };
        if let Some(to) = to {
            self.cache.link(patch, to);
        }
        host
    }

    pub(super) fn go(&mut self, flow: Flow) -> u64 {
        match flow {
            Flow::Continue | Flow::NotMade => self.next_entry(),
            Flow::Leave => {
                // SAFETY: H3: the context holds a state in which the guest goes on natively.
                unsafe { gate::leave(self.context) }
            }
        }
    }

    fn after_resume(&mut self) -> u64 {
        if let Some(fault) = self.fault.take() {
            if fault.is_write() && self.guard.open(fault.address) {
                self.flush();
                return self.next_entry();
            }
            let flow = self.with_host(|host, engine| host.fault(engine, &fault));
            return self.go(flow);
        }
        self.next_entry()
    }

    fn after_indirect(&mut self, target: u64) -> u64 {
        let host = self.next_entry();
        let Some(&index) = self.by_pc.get(&target) else { return host };
        if self.units[index].host != host {
            return host;
        }
        let Some(region) = self.cache.region_containing(host) else { return host };
        if self.cache.has_room(region, UNIT_BYTES_MAX) {
            let base = self.cache.regions[region].cursor();
            let code = indirect::stub(Vec::new(), base, target, host, indirect::head(target));
            self.cache.install(region, &code);
            indirect::set_head(target, base);
        }
        host
    }

    /// Performs xsave, a variant of it, or xgetbv, so that the outcome depends on the registers' values alone.
    fn vector_state(&mut self, site: &Site) -> Flow {
        let context = self.context();
        if site.instruction.mnemonic() == Mnemonic::Xgetbv {
            let mask = vector::xcr0() & if context.gpr[reg::RCX] as u32 == 1 { vector::in_use() } else { u64::MAX };
            context.gpr[reg::RAX] = mask & 0xffff_ffff;
            context.gpr[reg::RDX] = mask >> 32;
            context.rip += site.length();
            return Flow::Continue;
        }
        let compact = matches!(site.instruction.mnemonic(), Mnemonic::Xsavec | Mnemonic::Xsavec64);
        let wanted = context.gpr[reg::RDX] << 32 | context.gpr[reg::RAX] & 0xffff_ffff;
        let address = site.address(context);
        let mut header = [0u8; 8];
        memory::read_guest(address + vector::HEADER as u64, &mut header);
        let pieces = vector::image_for(wanted, compact, u64::from_le_bytes(header));
        for (offset, bytes) in &pieces {
            let at = address + *offset as u64;
            let done = self.write_guest(at, bytes);
            if done < bytes.len() {
                return self.with_host(|host, engine| host.fault(engine, &FaultInfo::write(at + done as u64)));
            }
        }
        self.context().rip += site.length();
        Flow::Continue
    }

    fn shared_before(&mut self, exit: Exit, site: u32, body: u64) -> u64 {
        let site = self.sites[site as usize];
        self.settle(exit.counter, i64::from(exit.unsettled));
        let context = self.context();
        let address = site.address(context);
        self.registers_before = (self.context().gpr, self.context().rflags);
        let (stop, step) = (self.stop, self.step);
        match self.with_host(|host, engine| host.shared_before(engine, &site, address)) {
            // The host wants to stop somewhere else, or to have this instruction alone: the rest of the unit may not run. There is no rest
            // if the instruction is alone already.
            Before::Use(_) if self.step != step || (self.stop != stop && step != Step::Running) => {
                if exit.unsettled < 0 {
                    self.dirty = Some(Liveness::new());
                }
                self.next_entry()
            }
            Before::Use(address) => {
                self.settle(exit.counter, -i64::from(exit.unsettled));
                // The instruction adds what its bit number adds by itself.
                let address = address.wrapping_sub(site.bit_displacement(self.context()));
                self.context().access_address = address;
                body
            }
            Before::Instead(flow) => self.go(flow),
        }
    }

    fn shared_after(&mut self, exit: Exit, site: u32, next: u64, body: u64) -> u64 {
        let site = self.sites[site as usize];
        self.settle(exit.counter, i64::from(exit.unsettled));
        let after = self.with_host(|host, engine| host.shared_after(engine, &site));
        self.settle(exit.counter, -i64::from(exit.unsettled));
        match after {
            After::Done => next,
            After::Again => {
                let (gpr, rflags) = self.registers_before;
                let context = self.context();
                context.gpr = gpr;
                context.rflags = rflags;
                body
            }
        }
    }

    fn watched(&mut self, exit: Exit, site: u32, next: u64) -> u64 {
        let site = self.sites[site as usize];
        self.settle(exit.counter, i64::from(exit.unsettled));
        let (address, length) = if site.is_alone() { (site.address(self.context()), site.size) } else { (0, 0) };
        let bbcount = self.bbcount();
        let flow = self.with_host(|host, engine| host.stopped(engine, Stopped::Watch { address, length }));
        let moved = self.context().rip != exit.pc || self.bbcount() != bbcount || self.step == Step::Wanted || self.passing;
        if flow == Flow::Continue && !moved {
            self.settle(exit.counter, -i64::from(exit.unsettled));
            return next;
        }
        self.go(flow)
    }
}
