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

mod exits;
mod units;

use alloc::boxed::Box;
use alloc::vec::Vec;

use hashbrown::{HashMap, HashSet};
use iced_x86::{Decoder, Encoder, InstructionInfoFactory};

use crate::arena;
use crate::cache::Cache;
use crate::context::{Context, reg};
use crate::count;
use crate::fault::FaultInfo;
use crate::flags::{self, Liveness};
use crate::gate;
use crate::guard::CodeGuard;
use crate::host::{Flow, Host};
use crate::indirect;
use crate::memory;
use crate::profile::Profile;
use crate::site::Site;
use crate::trace::{Fetcher, OVERLAY_BYTES};
use crate::translate::LeadIn;
use crate::unit::{Exit, Unit};
use crate::watch::{self, Wanted};

/// A unit never needs more code bytes than this.
const UNIT_BYTES_MAX: u64 = 32 << 10;

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
    profile: Profile,
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
    buffers: (Vec<u8>, Vec<u8>),
    /// To be made before the unit that is made next.
    lead_in: Option<LeadIn>,
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
            units: Vec::with_capacity(1 << 16),
            by_pc: HashMap::new(),
            profile: Profile::default(),
            exact: HashMap::new(),
            // Room that is never used is never touched; to move them as they grow would cost more than half of them again.
            exits: Vec::with_capacity(1 << 18),
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
            buffers: (Vec::new(), Vec::new()),
            lead_in: None,
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
        count::enter_engine(context);
        count::deal(context, &mut 0, count::UNLIMITED);
        engine.base = 1;
        count::set_total(engine.context(), 1);
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
        count::set_total(self.context(), 0);
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

    /// From here on the guest runs `code` where it runs `address`, whatever memory holds there. Before [`Self::run`].
    pub fn overlay(&mut self, address: u64, code: [u8; OVERLAY_BYTES]) {
        self.fetcher.overlay(address, code);
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
        context.gpr[reg::R11] = context.spill[1];
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
    count::enter_engine(engine.context());
    let entry = engine.handle_exit();
    count::leave_engine(engine.context());
    entry
}
