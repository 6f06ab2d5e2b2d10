//! The engine itself: from an exit of translated code to the next unit to run.
//!
//! ```text
//!   unit ──exit──► gate ──► dispatch ──► settle the count, ask the host ──► next_entry ──► unit
//! ```
//!
//! # Invariants
//! E1. Whenever a host method runs, the context holds the guest's exact state at `rip`, and `bbcount()` is its count.
//! E2. Code is installed, linked or cleared only here, never while a unit is between two of its exits (`SharedBefore`/`SharedAfter`,
//!     `Watch`): those return into the unit at once.
//! E3. A stop set for time T is met exactly: far from it traces run and a budget is dealt; near it exact units run.

use alloc::boxed::Box;
use alloc::vec::Vec;

use hashbrown::{HashMap, HashSet};
use iced_x86::{Decoder, Encoder, InstructionInfoFactory, Mnemonic};

use crate::arena;
use crate::cache::Cache;
use crate::context::{Context, reg};
use crate::count;
use crate::fault::FaultInfo;
use crate::flags::{self, Liveness};
use crate::gate;
use crate::guard::CodeGuard;
use crate::host::{After, Before, Flow, Host};
use crate::indirect;
use crate::memory;
use crate::site::Site;
use crate::trace::{self, Fetcher, Limits};
use crate::translate::{self, SiteMode, Style};
use crate::unit::{Exit, ExitKind, Spill, Unit};
use crate::vector;
use crate::watch::{self, Wanted};

/// A unit never needs more code bytes than this.
const UNIT_BYTES_MAX: u64 = 32 << 10;
/// Exact units kept before they are thrown away together.
const EXACT_UNITS_MAX: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Accesses at shared sites are redirected by the host; else they are only announced.
    pub redirect_sites: bool,
}

/// Why [`Host::stopped`] is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// The stop's time has come.
    Time,
    /// One instruction was executed, as asked.
    Stepped,
    /// The instruction at rip has a breakpoint and has not run.
    Breakpoint,
    /// The instruction at rip touches `length` bytes at `address` near something watched, and has not run. A length of 0: the
    /// instruction must be looked at after it has run.
    Watch { address: u64, length: u32 },
    /// [`Context::attention`] was set.
    Attention,
}

/// The state of a single step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    None,
    Wanted,
    /// Its instruction is running or has run.
    Running,
}

/// See the module's head.
pub struct Engine<H: Host> {
    context: *mut Context,
    host: Option<Box<H>>,
    /// Where the host lies, also while one of its methods runs.
    host_address: *mut H,
    options: Options,
    cache: Cache,
    units: Vec<Unit>,
    by_pc: HashMap<u64, usize>,
    /// (pc, cut, instructions) → index in `units`.
    exact: HashMap<(u64, u64, usize), usize>,
    exits: Vec<Exit>,
    sites: Vec<Site>,
    shared_pcs: HashSet<u64>,
    /// Shared site → number the host gave it.
    tags: HashMap<u64, u32>,
    breakpoints: HashSet<u64>,
    watch: Option<Wanted>,
    /// Guest pages (address / 4096) that code was translated from.
    source_pages: HashSet<u64>,
    guard: CodeGuard,
    /// Counts flushes.
    generation: u64,
    base: u64,
    stop: Option<(u64, u64)>,
    step: Step,
    /// The next instruction runs even if it has a breakpoint or is watched.
    passing: bool,
    /// The status flags in the context are not the guest's; they are dead and will be overwritten.
    dirty: Option<Liveness>,
    fetcher: Fetcher,
    factory: InstructionInfoFactory,
    buffer: Vec<u8>,
    /// General registers and flags at the last SharedBefore, for running the instruction again.
    registers_before: ([u64; 16], u64),
    pub(crate) fault: Option<FaultInfo>,
}

impl<H: Host> Engine<H> {
    /// Sets the engine up in the arena. The context's registers and rip must be set before [`Self::run`].
    pub fn new(host: H, options: Options) -> Box<Self> {
        warm_up();
        let mut host = Box::new(host);
        let context = arena::CONTEXT as *mut Context;
        let mut engine = Box::new(Self {
            context,
            host_address: &raw mut *host,
            host: Some(host),
            options,
            cache: Cache::default(),
            units: Vec::new(),
            by_pc: HashMap::new(),
            exact: HashMap::new(),
            exits: Vec::new(),
            sites: Vec::new(),
            shared_pcs: HashSet::new(),
            breakpoints: HashSet::new(),
            watch: None,
            source_pages: HashSet::new(),
            guard: CodeGuard::default(),
            generation: 0,
            base: 1,
            stop: None,
            step: Step::None,
            passing: false,
            tags: HashMap::new(),
            dirty: None,
            fetcher: Fetcher::default(),
            factory: InstructionInfoFactory::new(),
            buffer: Vec::new(),
            registers_before: ([0; 16], 0),
            fault: None,
        });
        let address = &raw mut *engine as u64;
        let context = engine.context();
        context.engine_rsp = arena::ENGINE_STACK_TOP;
        context.this = arena::CONTEXT;
        context.dispatch = dispatch::<H> as *const () as u64;
        context.engine = address;
        context.exit = u64::from(gate::EXIT_RESUME);
        count::deal(context, &mut 0, count::UNLIMITED);
        engine.base = 1;
        engine
    }

    pub fn context(&mut self) -> &mut Context {
        // SAFETY: the context lies in the arena for the life of the process; only one thread runs engine code.
        unsafe { &mut *self.context }
    }

    pub fn bbcount(&self) -> u64 {
        // SAFETY: as in `context`.
        count::bbcount(unsafe { &*self.context }, self.base)
    }

    /// Gives the host's own methods access to both halves.
    pub fn host(&mut self) -> &mut H {
        match &mut self.host {
            Some(host) => host,
            None => unreachable!("the host is only taken while one of its own methods runs"),
        }
    }

    /// The host, also from within one of its own methods or a signal handler; the caller answers for not using both at once.
    pub fn host_even_if_taken(&self) -> *mut H {
        self.host_address
    }

    /// Starts again at bbcount 1, as a new recording, behind the system call that the host is performing.
    pub fn restart_count_behind_call(&mut self) {
        count::deal(self.context(), &mut 0, count::UNLIMITED);
        self.base = 0;
    }

    /// Runs the guest from the context's registers; comes back never.
    pub fn run(mut self: Box<Self>) -> ! {
        gate::set_gs();
        if self.cache.regions.is_empty() {
            self.add_region(arena::FAR_CODE, arena::FAR_CODE_SIZE);
        }
        let entry = self.cache.regions.first().map(|region| region.gate.dispatch);
        self.context().exit = u64::from(gate::EXIT_RESUME);
        Box::leak(self);
        match entry {
            // SAFETY: gs points to the context, which `new` and the caller have filled.
            Some(dispatch) => unsafe { gate::enter(dispatch) },
            None => crate::sys::exit_group(127),
        }
    }

    /// General registers and flags as they were before the instruction at the shared site that runs now.
    pub fn registers_before(&self) -> ([u64; 16], u64) {
        self.registers_before
    }

    /// Adds a code region at a known place.
    pub fn add_region(&mut self, base: u64, size: u64) -> bool {
        let first = self.cache.regions.is_empty();
        let added = self.cache.add(base, size).is_ok();
        if first && added {
            indirect::reset(self.cache.regions[0].gate.indirect_miss);
        }
        added
    }

    /// Unmaps all code, for good: this engine will not run again.
    pub fn release_regions(&mut self) {
        self.flush();
        for region in self.cache.regions.drain(..) {
            crate::sys::munmap(region.base, region.size);
        }
    }

    /// Base and size of every code region.
    pub fn regions(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.cache.regions.iter().map(|region| (region.base, region.size))
    }

    /// Calls [`Host::stopped`] when the time (bbcount, pc) comes, or at once if it has passed.
    pub fn set_stop(&mut self, stop: Option<(u64, u64)>) {
        self.stop = stop;
    }

    /// Calls [`Host::stopped`] after the next instruction.
    pub fn set_step(&mut self) {
        self.step = Step::Wanted;
    }

    /// Lets the next instruction run even if it has a breakpoint or is watched.
    pub fn pass(&mut self) {
        self.passing = true;
    }

    /// What [`Site::tag`] is to be for the site at `pc`.
    pub fn set_tag(&mut self, pc: u64, tag: u32) {
        self.tags.insert(pc, tag);
        for site in self.sites.iter_mut().filter(|site| site.pc == pc) {
            site.tag = tag;
        }
    }

    pub fn set_breakpoints(&mut self, pcs: impl Iterator<Item = u64>) {
        self.breakpoints.clear();
        self.breakpoints.extend(pcs);
        self.flush();
    }

    /// Watches the given (address, length) ranges.
    pub fn set_watch(&mut self, wanted: Option<Wanted>, ranges: &[(u64, u64)]) {
        watch::mark(ranges);
        if self.watch != wanted {
            self.watch = wanted;
            self.flush();
        }
    }

    /// Makes `pc` a shared site.
    pub fn add_shared_pc(&mut self, pc: u64) -> bool {
        if !self.shared_pcs.insert(pc) {
            return false;
        }
        self.discard_at(pc);
        true
    }

    /// Forgets all shared sites: a recording of its own starts, which must find them itself.
    pub fn forget_shared_pcs(&mut self) {
        self.shared_pcs.clear();
        self.tags.clear();
        self.flush();
    }

    /// Throws away translations made from guest code in [start, end).
    pub fn discard(&mut self, start: u64, end: u64) {
        self.guard.forget(start, end);
        let pages = (end >> 12).saturating_sub(start >> 12);
        let touched = if pages > self.source_pages.len() as u64 {
            self.source_pages.iter().any(|&page| page >= start >> 12 && page <= (end.max(1) - 1) >> 12)
        } else {
            (start >> 12..=(end.max(1) - 1) >> 12).any(|page| self.source_pages.contains(&page))
        };
        if touched {
            self.flush();
        }
    }

    /// Copies `bytes` to guest memory as far as it is mapped writable, and returns how many were; code in it is translated anew.
    pub fn write_guest(&mut self, address: u64, bytes: &[u8]) -> usize {
        let mut done = 0;
        loop {
            done += memory::write_guest(address + done as u64, &bytes[done..]);
            if done == bytes.len() || !self.guard.open(address + done as u64) {
                return done;
            }
            self.flush();
        }
    }

    /// Lets others than the guest's instructions write to code in [start, end) as well; `true` if that changed anything.
    pub fn open_code(&mut self, start: u64, end: u64) -> bool {
        let opened = self.guard.open_range(start, end);
        if opened {
            self.flush();
        }
        opened
    }

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
    fn discard_at(&mut self, pc: u64) {
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

    /// With the host out of the engine, so that both can be borrowed. Not for use from the host's own methods.
    pub fn with_host<R>(&mut self, question: impl FnOnce(&mut H, &mut Self) -> R) -> R {
        let mut host = match self.host.take() {
            Some(host) => host,
            None => unreachable!("host methods do not nest"),
        };
        let answer = question(&mut host, self);
        self.host = Some(host);
        answer
    }

    fn settle(&mut self, counter: u8, transfers: i64) {
        count::settle(self.context(), counter, transfers);
    }

    /// Counts a transfer that the host performed (a signal's delivery).
    pub fn count_transfer(&mut self) {
        self.settle(0, 1);
    }

    fn restore_spilled(&mut self) {
        let context = self.context();
        context.gpr[reg::RCX] = context.spill[0];
        context.gpr[reg::RAX] = context.spill[1];
    }

    fn handle_exit(&mut self) -> u64 {
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
            ExitKind::Link { patch } => {
                let generation = self.generation;
                let host = self.next_entry();
                // Only if the unit for exactly this pc comes next, and nothing was cleared meanwhile.
                let is_unit = self.by_pc.get(&exit.pc).is_some_and(|&unit| self.units[unit].host == host);
                if is_unit && generation == self.generation {
                    self.cache.link(patch, host);
                }
                return host;
            }
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
            ExitKind::SharedString { site } => {
                let site = self.sites[site as usize];
                self.with_host(|host, engine| host.shared_string(engine, &site))
            }
            ExitKind::Breakpoint => self.with_host(|host, engine| host.stopped(engine, Stopped::Breakpoint)),
            ExitKind::Unsupported { what } => self.with_host(|host, engine| host.unsupported(engine, what)),
            ExitKind::Trap => self.with_host(|host, engine| host.fault(engine, &FaultInfo::trap())),
            ExitKind::Undecodable => self.with_host(|host, engine| host.fault(engine, &FaultInfo::execute(exit.pc))),
            ExitKind::UnlinkedIndirect => {
                let target = self.context().gpr[reg::RCX];
                self.restore_spilled();
                self.context().rip = target;
                Flow::Continue
            }
            _ => Flow::Continue,
        };
        self.go(flow)
    }

    fn go(&mut self, flow: Flow) -> u64 {
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
            // The host wants to stop somewhere else, or to have this instruction alone: the rest of the unit may not run.
            Before::Use(_) if self.stop != stop || self.step != step => {
                if exit.unsettled < 0 {
                    self.dirty = Some(Liveness::new());
                }
                self.next_entry()
            }
            Before::Use(address) => {
                self.settle(exit.counter, -i64::from(exit.unsettled));
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

    /// The host address at which the guest goes on; asks the host first if there is a reason to.
    fn next_entry(&mut self) -> u64 {
        loop {
            let pc = self.context().rip;
            if let Some(mut liveness) = self.dirty {
                self.fetcher.refresh();
                // Run single instructions until the flags are the guest's again; see `flags_dirty`.
                self.dirty = match self.fetcher.fetch(pc).map(|insn| liveness.feed(flags::effect(&insn.instruction))) {
                    Some(None) => Some(liveness),
                    _ => None,
                };
                return self.exact_unit(pc, 0, 1);
            }
            let stopped = if self.step == Step::Running {
                self.step = Step::None;
                Stopped::Stepped
            } else if self.context().attention != 0 {
                self.context().attention = 0;
                self.deal(count::UNLIMITED);
                Stopped::Attention
            } else if core::mem::take(&mut self.passing) {
                return self.exact_unit(pc, 0, 1);
            } else if self.step == Step::Wanted {
                self.step = Step::Running;
                return self.exact_unit(pc, 0, 1);
            } else {
                let Some((stop, stop_pc)) = self.stop else { return self.entry() };
                let now = self.bbcount();
                if now > stop || (now == stop && (pc == stop_pc || stop_pc == 0)) {
                    self.stop = None;
                    Stopped::Time
                } else if now == stop {
                    return self.exact_unit(pc, stop_pc, usize::MAX);
                } else if stop - now <= count::NEAR {
                    return self.exact_unit(pc, 0, usize::MAX);
                } else {
                    self.deal(stop - now - count::NEAR);
                    return self.entry();
                }
            };
            if self.with_host(|host, engine| host.stopped(engine, stopped)) == Flow::Leave {
                return self.go(Flow::Leave);
            }
        }
    }

    fn deal(&mut self, budget: u64) {
        let mut base = self.base;
        count::deal(self.context(), &mut base, budget);
        self.base = base;
    }

    fn entry(&mut self) -> u64 {
        let pc = self.context().rip;
        if self.guard.is_volatile(pc) {
            return self.make(pc, None, usize::MAX, false);
        }
        match self.by_pc.get(&pc) {
            Some(&unit) => self.units[unit].host,
            None => self.make(pc, None, usize::MAX, true),
        }
    }

    fn exact_unit(&mut self, pc: u64, cut: u64, instructions: usize) -> u64 {
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

    fn make(&mut self, pc: u64, cut: Option<u64>, instructions: usize, linked: bool) -> u64 {
        self.fetcher.refresh();
        let region = self.region_for(pc);
        if !self.cache.has_room(region, UNIT_BYTES_MAX) {
            self.flush();
        }
        let serves = |pc: u64| (self.cache.regions[region].serves(pc) || region == 0) && !self.guard.is_volatile(pc);
        let is_breakpoint = |at: u64| instructions != 1 && self.breakpoints.contains(&at);
        let (max_transfers, max_instructions) = if linked { Limits::TRACE } else { (1, Limits::TRACE.1) };
        let limits = Limits {
            max_transfers,
            max_instructions: max_instructions.min(instructions),
            cut: cut.filter(|&cut| cut != 0),
            breakpoints: &is_breakpoint,
            in_region: &serves,
        };
        let trace = trace::build(&mut self.fetcher, pc, &limits);
        let shared = |pc: u64| self.shared_pcs.contains(&pc);
        let index = self.units.len();
        let style = Style {
            gate: self.cache.regions[region].gate,
            counter: (index % crate::context::COUNTERS) as u8,
            linked,
            precise_flags: self.watch.is_some() || !self.breakpoints.is_empty(),
            sites: if self.options.redirect_sites { SiteMode::Redirect(&shared) } else { SiteMode::Announce(&shared) },
            watch: if instructions == 1 { None } else { self.watch },
            first_exit: gate::FIRST_EXIT + self.exits.len() as u32,
            first_site: self.sites.len() as u32,
        };
        let base = self.cache.regions[region].cursor();
        let buffer = core::mem::take(&mut self.buffer);
        let output = translate::translate(&trace, base, buffer, &style, &mut self.fetcher, &mut self.factory);
        let counter = style.counter;
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
            if self.source_pages.insert(page) && self.with_host(|host, _| host.is_writable_code(page << 12)) {
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
}

impl<H: Host> Engine<H> {
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

/// iced-x86 builds its tables when first used and remembers that in statics. Those lie in the guest's address space, so it is done
/// before a start state is taken: from then on they do not change.
fn warm_up() {
    let instruction = Decoder::new(64, &[0x48, 0x89, 0xc3], 0).decode();
    let mut encoder = Encoder::new(64);
    let encoded = encoder.encode(&instruction, 0);
    debug_assert!(encoded.is_ok());
    let site = Site::analyse(&instruction, &mut InstructionInfoFactory::new());
    debug_assert!(site.is_none());
}

/// What the gate calls.
extern "C" fn dispatch<H: Host>(context: *mut Context) -> u64 {
    // SAFETY: `Engine::new` stored the address of an engine for this host, which lives as long as the process.
    let engine = unsafe { &mut *((*context).engine as *mut Engine<H>) };
    engine.handle_exit()
}
