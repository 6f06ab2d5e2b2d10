//! Finding, making and throwing away translations.

use alloc::vec::Vec;
use core::cell::{Cell, RefCell};

use super::{Engine, UNIT_BYTES_MAX};
use crate::context::reg;
use crate::flags;
use crate::gate;
use crate::host::{CodeRange, Host};
use crate::indirect;
use crate::memory;
use crate::profile::Advice;
use crate::site::Site;
use crate::trace::{self, End, Limits, Trace};
use crate::translate::{self, LeadIn, SiteMode, Style};
use crate::unit::{Exit, ExitKind, Spill, Unit};
use crate::vsyscall;

/// Exact units kept before they are thrown away together.
const EXACT_UNITS_MAX: usize = 4096;

/// What a unit is to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    /// Up to the first transfer.
    Block,
    /// Up to the first transfer that may lead to more than one place.
    Run,
    /// As much as is likely to run, linked to others.
    Trace,
}

impl<H: Host> Engine<H> {
    /// Throws all translations away.
    pub fn flush(&mut self) {
        self.generation += 1;
        self.units.clear();
        self.by_pc.clear();
        self.profile.forget_units();
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
            if !unit.sources.iter().any(|&(start, end)| (start..end).contains(&pc)) {
                continue;
            }
            self.profile.forget_unit(unit.pc, index);
            if self.by_pc.get(&unit.pc) != Some(&index) {
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
            let code = translate::exit_code(self.cache.regions[region].cold_cursor(), number, &self.cache.regions[region].gate);
            let at = self.cache.install_cold(region, &code, &[]);
            self.cache.redirect(entry, at);
        }
        self.exact.clear();
    }

    pub(super) fn entry(&mut self) -> u64 {
        let pc = self.context().rip;
        if self.guard.is_volatile(pc) {
            return self.make(pc, None, usize::MAX, Scope::Block);
        }
        if let Some(&unit) = self.by_pc.get(&pc) {
            return self.units[unit].host;
        }
        match self.profile.enter(pc) {
            Advice::Trace => self.make(pc, None, usize::MAX, Scope::Trace),
            Advice::Unit(unit) => self.units[unit].host,
            Advice::Block => {
                let host = self.make(pc, None, usize::MAX, Scope::Run);
                self.profile.set_unit(pc, self.units.len() - 1);
                host
            }
        }
    }

    pub(super) fn exact_unit(&mut self, pc: u64, cut: u64, instructions: usize) -> u64 {
        if self.exact.len() > EXACT_UNITS_MAX {
            self.flush();
        }
        if self.guard.is_volatile(pc) {
            return self.make(pc, Some(cut), instructions, Scope::Block);
        }
        if let Some(&unit) = self.exact.get(&(pc, cut, instructions)) {
            return self.units[unit].host;
        }
        let host = self.make(pc, Some(cut), instructions, Scope::Block);
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

    fn style<'a>(&self, region: usize, linked: bool, sites: SiteMode<'a>) -> Style<'a> {
        Style {
            gate: self.cache.regions[region].gate,
            counter: (self.units.len() % crate::context::COUNTERS) as u8,
            linked,
            precise_flags: self.watch.is_some() || !self.breakpoints.is_empty(),
            sites,
            watch: self.watch,
            first_exit: gate::FIRST_EXIT + self.exits.len() as u32,
            first_site: self.sites.len() as u32,
        }
    }

    /// A stub by which a way out leads to the unit for `pc` at `host`; `None` if there is no room for it.
    pub(super) fn make_stub(&mut self, lead_in: LeadIn, pc: u64, host: u64) -> Option<u64> {
        let region = self.cache.region_containing(host)?;
        if !self.cache.has_room(region, UNIT_BYTES_MAX) {
            return None;
        }
        self.fetcher.refresh();
        let style = self.style(region, true, SiteMode::Announce(&|_| false));
        let place = self.cache.place(region, core::mem::take(&mut self.buffers));
        let output = translate::stub(lead_in, (pc, host), place, &style, &mut self.fetcher, &mut self.factory);
        let at = self.cache.install(region, &output.bytes);
        self.cache.install_cold(region, &output.cold, &output.constants);
        self.exits.extend_from_slice(&output.exits);
        self.buffers = (output.bytes, output.cold);
        Some(at)
    }

    fn make(&mut self, pc: u64, cut: Option<u64>, instructions: usize, scope: Scope) -> u64 {
        let linked = scope == Scope::Trace;
        self.fetcher.refresh();
        let region = self.region_for(pc);
        if !self.cache.has_room(region, UNIT_BYTES_MAX) {
            self.flush();
        }
        let code = self.code_at(pc);
        let mut host = self.host.take();
        let (asked, also) = (RefCell::new(host.as_deref_mut()), Cell::new(code));
        // A trace may go on into another module, but not to or from code that may change under it.
        let executable = |pc: u64| {
            if !code.contains(pc)
                && !also.get().contains(pc)
                && let Some(range) = asked.borrow_mut().as_mut().and_then(|host| host.code_at(pc))
                && !(code.writable || range.writable)
            {
                also.set(range);
            }
            code.contains(pc) || also.get().contains(pc)
        };
        let serves = |pc: u64| executable(pc) && (self.cache.regions[region].serves(pc) || region == 0) && !self.guard.is_volatile(pc);
        let is_breakpoint = |at: u64| instructions != 1 && self.breakpoints.contains(&at);
        let (max_transfers, max_instructions) = if scope == Scope::Block { (1, Limits::TRACE.1) } else { Limits::TRACE };
        let limits = Limits {
            max_transfers,
            max_instructions: max_instructions.min(instructions),
            cut: cut.filter(|&cut| cut != 0),
            breakpoints: &is_breakpoint,
            in_region: &serves,
            usual: &|at| if linked { self.profile.usual(at) } else { None },
            only: &|at| if linked { self.profile.only(at) } else { None },
            may_guard: &|at| linked && self.watch.is_none() && !self.shared_pcs.contains(&at),
        };
        let trace = if code.contains(pc) {
            trace::build(&mut self.fetcher, pc, &limits)
        } else {
            Trace { start: pc, items: Vec::new(), end: End::Undecodable(pc) }
        };
        self.host = host;
        let shared = |pc: u64| self.shared_pcs.contains(&pc);
        let index = self.units.len();
        // The host is asked for inline sites while the rest of the engine is in use.
        let asked = RefCell::new(self.host.take());
        let inline = |site: &Site| asked.borrow_mut().as_mut().and_then(|host| host.inline_site(site));
        let sites = if self.options.redirect_sites {
            SiteMode::Redirect { is_site: &shared, inline: &inline }
        } else {
            SiteMode::Announce(&shared)
        };
        let style = Style { watch: if instructions == 1 { None } else { self.watch }, ..self.style(region, linked, sites) };
        let counter = style.counter;
        let lead_in = if linked { self.lead_in.take() } else { None };
        let place = self.cache.place(region, core::mem::take(&mut self.buffers));
        let output = translate::translate(&trace, lead_in, place, &style, &mut self.fetcher, &mut self.factory);
        self.host = asked.into_inner();
        let at = self.cache.install(region, &output.bytes);
        self.cache.install_cold(region, &output.cold, &output.constants);
        let host = at + output.entry as u64;
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
        let length = (output.bytes.len() - output.entry) as u32;
        self.units.push(Unit { pc, host, lead_in: at, length, counter, rows: output.rows.into_boxed_slice(), sources });
        self.buffers = (output.bytes, output.cold);
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
            Spill::RcxR11 => {
                context.gpr[reg::RCX] = context.spill[0];
                context.gpr[reg::R11] = context.spill[1];
            }
        }
        context.exit = u64::from(gate::EXIT_RESUME);
        self.settle(counter, i64::from(row.unsettled));
        Some(dispatch)
    }
}
