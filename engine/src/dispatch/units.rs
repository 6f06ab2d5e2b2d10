//! Finding, making and throwing away translations.

use alloc::vec::Vec;
use core::cell::RefCell;

use super::{Engine, UNIT_BYTES_MAX};
use crate::context::reg;
use crate::flags;
use crate::gate;
use crate::host::{CodeRange, Host};
use crate::indirect;
use crate::memory;
use crate::site::Site;
use crate::trace::{self, End, Limits, Trace};
use crate::translate::{self, SiteMode, Style};
use crate::unit::{Exit, ExitKind, Spill, Unit};
use crate::vsyscall;

/// Exact units kept before they are thrown away together.
const EXACT_UNITS_MAX: usize = 4096;

impl<H: Host> Engine<H> {
    /// Throws all translations away.
    pub fn flush(&mut self) {
        self.generation += 1;
        self.units.clear();
        self.by_pc.clear();
        self.exact.clear();
        self.exits.clear();
        self.sites.clear();
        self.source_pages.clear();
        self.cache.clear();
        if let Some(region) = self.cache.regions.first() {
            indirect::reset(region.gate.indirect_miss);
        }
    }

    /// Retranslates every unit that contains `pc`.
    pub(super) fn discard_at(&mut self, pc: u64) {
        for index in 0..self.units.len() {
            let unit = &self.units[index];
            if !unit.sources.iter().any(|&(start, end)| (start..end).contains(&pc)) || self.by_pc.get(&unit.pc) != Some(&index) {
                continue;
            }
            let (start, entry, counter) = (unit.pc, unit.host, unit.counter);
            self.by_pc.remove(&start);
            let Some(region) = self.cache.region_containing(entry) else { continue };
            if !self.cache.has_room(region, UNIT_BYTES_MAX) {
                self.flush();
                return;
            }
            // The old entry becomes a jump: first to an exit, later (by linking) to the new unit.
            let number = gate::FIRST_EXIT + self.exits.len() as u32;
            self.exits.push(Exit { kind: ExitKind::Link { patch: entry + 1 }, pc: start, unsettled: 0, counter });
            let code = translate::exit_code(self.cache.regions[region].cursor(), number, &self.cache.regions[region].gate);
            let at = self.cache.install(region, &code);
            self.cache.redirect(entry, at);
        }
        self.exact.clear();
    }

    pub(super) fn entry(&mut self) -> u64 {
        let pc = self.context().rip;
        if self.guard.is_volatile(pc) {
            return self.make(pc, None, usize::MAX, false);
        }
        match self.by_pc.get(&pc) {
            Some(&unit) => self.units[unit].host,
            None => self.make(pc, None, usize::MAX, true),
        }
    }

    pub(super) fn exact_unit(&mut self, pc: u64, cut: u64, instructions: usize) -> u64 {
        if self.exact.len() > EXACT_UNITS_MAX {
            self.flush();
        }
        if let Some(&unit) = self.exact.get(&(pc, cut, instructions)) {
            return self.units[unit].host;
        }
        let host = self.make(pc, Some(cut), instructions, false);
        self.exact.insert((pc, cut, instructions), self.units.len() - 1);
        host
    }

    fn region_for(&mut self, pc: u64) -> usize {
        if let Some(region) = self.cache.region_serving(pc) {
            return region;
        }
        let placed = self.with_host(|host, _| host.place_region(pc));
        if let Some((base, size)) = placed
            && self.add_region(base, size)
        {
            return self.cache.regions.len() - 1;
        }
        0
    }

    /// The executable memory around `pc`; empty where there is none.
    pub(super) fn code_at(&mut self, pc: u64) -> CodeRange {
        if vsyscall::PAGE.contains(&pc) {
            return CodeRange { start: vsyscall::PAGE.start, end: vsyscall::PAGE.end, writable: false };
        }
        self.with_host(|host, _| host.code_at(pc)).unwrap_or(CodeRange { start: pc, end: pc, writable: false })
    }

    fn make(&mut self, pc: u64, cut: Option<u64>, instructions: usize, linked: bool) -> u64 {
        self.fetcher.refresh();
        let region = self.region_for(pc);
        if !self.cache.has_room(region, UNIT_BYTES_MAX) {
            self.flush();
        }
        let code = self.code_at(pc);
        let serves = |pc: u64| code.contains(pc) && (self.cache.regions[region].serves(pc) || region == 0) && !self.guard.is_volatile(pc);
        let is_breakpoint = |at: u64| instructions != 1 && self.breakpoints.contains(&at);
        let (max_transfers, max_instructions) = if linked { Limits::TRACE } else { (1, Limits::TRACE.1) };
        let limits = Limits {
            max_transfers,
            max_instructions: max_instructions.min(instructions),
            cut: cut.filter(|&cut| cut != 0),
            breakpoints: &is_breakpoint,
            in_region: &serves,
        };
        let trace = if code.contains(pc) {
            trace::build(&mut self.fetcher, pc, &limits)
        } else {
            Trace { items: Vec::new(), end: End::Undecodable(pc) }
        };
        let shared = |pc: u64| self.shared_pcs.contains(&pc);
        let index = self.units.len();
        // The host is asked for inline sites while the rest of the engine is in use.
        let host = RefCell::new(self.host.take());
        let inline = |site: &Site| host.borrow_mut().as_mut().and_then(|host| host.inline_site(site));
        let style = Style {
            gate: self.cache.regions[region].gate,
            counter: (index % crate::context::COUNTERS) as u8,
            linked,
            precise_flags: self.watch.is_some() || !self.breakpoints.is_empty(),
            sites: if self.options.redirect_sites {
                SiteMode::Redirect { is_site: &shared, inline: &inline }
            } else {
                SiteMode::Announce(&shared)
            },
            watch: if instructions == 1 { None } else { self.watch },
            first_exit: gate::FIRST_EXIT + self.exits.len() as u32,
            first_site: self.sites.len() as u32,
        };
        let base = self.cache.regions[region].cursor();
        let buffer = core::mem::take(&mut self.buffer);
        let output = translate::translate(&trace, base, buffer, &style, &mut self.fetcher, &mut self.factory);
        let counter = style.counter;
        self.host = host.into_inner();
        let host = self.cache.install(region, &output.bytes);
        let mut sources: Vec<(u64, u64)> = Vec::new();
        let mut add = |start: u64, end: u64| match sources.last_mut() {
            Some(last) if last.1 == start => last.1 = end,
            _ => sources.push((start, end)),
        };
        for item in &trace.items {
            add(item.insn().pc(), item.insn().next());
        }
        let (start, end) = trace.end_range();
        add(start, end);
        for page in sources.iter().flat_map(|&(start, end)| (start >> 12)..=((end - 1) >> 12)) {
            if self.source_pages.insert(page) && code.writable {
                self.guard.guard(page);
            }
        }
        self.exits.extend_from_slice(&output.exits);
        self.sites.extend(output.sites.iter().map(|site| Site { tag: self.tags.get(&site.pc).copied().unwrap_or(0), ..*site }));
        self.units.push(Unit { pc, host, length: output.bytes.len() as u32, counter, rows: output.rows.into_boxed_slice(), sources });
        self.buffer = output.bytes;
        if linked {
            self.by_pc.insert(pc, index);
        }
        host
    }

    /// If `host_pc` lies in translated code, puts the guest's state at the instruction it belongs to into the context, from the
    /// processor state of a signal frame. Returns the address of the gate's dispatch.
    pub(crate) fn recover_state(&mut self, host_pc: u64, gpr: &[u64; 16], rflags: u64) -> Option<u64> {
        let region = self.cache.region_containing(host_pc)?;
        let dispatch = self.cache.regions[region].gate.dispatch;
        let unit = self.units.iter().find(|unit| (unit.host..unit.host + u64::from(unit.length)).contains(&host_pc))?;
        let row = *unit.row_at(host_pc)?;
        let counter = unit.counter;
        let context = self.context();
        context.gpr = *gpr;
        context.rflags = rflags;
        context.rip = row.pc;
        match row.spill {
            Spill::None => {}
            Spill::Inline { set, flags, undo } => {
                if let Some((register, size)) = undo {
                    let old = context.old_value.map(u64::to_le_bytes);
                    memory::write_guest(gpr[register as usize], &old.as_flattened()[..size as usize]);
                }
                for register in (0..16).filter(|register| set >> register & 1 != 0) {
                    context.gpr[register] = context.saved[register];
                }
                if flags {
                    context.rflags = flags::put_back(rflags, context.saved_flags);
                }
            }
            Spill::One(register) => context.gpr[register as usize] = context.spill[0],
            Spill::RcxRax => {
                context.gpr[reg::RCX] = context.spill[0];
                context.gpr[reg::RAX] = context.spill[1];
            }
        }
        context.exit = u64::from(gate::EXIT_RESUME);
        self.settle(counter, i64::from(row.unsettled));
        Some(dispatch)
    }
}
