//! The recorder as the engine's host.

use alloc::vec::Vec;

use engine::inline::InlineSite;
use engine::lanes::{self, Vectors};
use engine::sys::{UContext, raw};
use engine::{
    After, Before, CodeRange, Engine, FaultInfo, Flow, Host, Nondeterministic, SignalContext, Site, SiteKind, Stopped, arena, reg,
};
use recording::{Body, EndReason, EventHeader, Instruction, Nondet, RegisterValues, Registers, Time, state_hash};
use shmem_log::{Kind, Origin, SiteIndex, Token};

use super::access::{self, AccessLog};
use super::bounce::{self, Bounce, Bounced};
use super::code_ranges::CodeRanges;
use super::events::EventLog;
use super::guest_bytes;
use super::hashes::{self, Hashes};
use super::shared::SharedMaps;
use super::signals::{self, Signals};
use super::vdso::Vdso;
use super::{calls, end};

pub type Guest = Engine<Recorder>;

/// The widest explicit operand.
const WIDEST: usize = 64;

/// An instrumented write between its two halves.
enum Pending {
    Direct(Direct),
    Bounced(Bounced),
}

/// It runs on the known copy.
struct Direct {
    token: Option<Token>,
    /// The guest's address.
    address: u64,
    alias: u64,
    known: u64,
    size: usize,
    /// What was there before the instruction.
    old: [u8; WIDEST],
}

pub struct Recorder {
    pub events: EventLog,
    pub shared: SharedMaps,
    pub log: Option<AccessLog>,
    pub signals: Signals,
    pub vdso: Vdso,
    /// Mappings that the guest may both write and execute.
    pub code: CodeRanges,
    pub fs_base: u64,
    pub uuid: [u8; 16],
    pub hashes: Hashes,
    /// The mappings of this library.
    pub image: Vec<(u64, u64)>,
    pending: Option<Pending>,
    /// An event was lost: the log is full.
    pub overflow: bool,
    bounce: alloc::boxed::Box<Bounce>,
    vector_layout: Option<lanes::Layout>,
}

impl Recorder {
    pub fn new(
        events: EventLog,
        shared: SharedMaps,
        log: Option<AccessLog>,
        signals: Signals,
        vdso: Vdso,
        fs_base: u64,
        uuid: [u8; 16],
    ) -> Self {
        Self {
            events,
            shared,
            log,
            signals,
            vdso,
            code: CodeRanges::default(),
            fs_base,
            uuid,
            hashes: Hashes::new(),
            image: Vec::new(),
            pending: None,
            overflow: false,
            bounce: Bounce::new(),
            vector_layout: None,
        }
    }

    pub fn registers(&self, engine: &mut Guest) -> Registers {
        let context = engine.context();
        Registers { gpr: context.gpr, rip: context.rip, rflags: context.rflags, fs_base: self.fs_base, gs_base: 0 }
    }

    pub fn vector_layout(&mut self) -> lanes::Layout {
        *self.vector_layout.get_or_insert_with(lanes::Layout::of_processor)
    }

    /// A copy of the vector registers.
    pub fn vectors(&mut self) -> Vectors {
        Vectors::save(self.vector_layout())
    }

    /// The header of an event that happens now.
    pub fn header(&self, engine: &mut Guest) -> EventHeader {
        // Dead status flags depend on how code was cut into translations, so no flags are compared.
        let registers = Registers { rflags: 0, ..self.registers(engine) };
        let time = Time { bbcount: engine.bbcount(), pc: registers.rip };
        // SAFETY: rdtsc has no preconditions.
        let timestamp = unsafe { core::arch::x86_64::_rdtsc() };
        EventHeader { timestamp, thread: 0, ..EventHeader::new(time, state_hash(&registers)) }
    }

    /// Appends an event without memory writes; `false` if the log is full.
    pub fn event(&mut self, header: &EventHeader, body: &Body) -> bool {
        !self.overflow && self.events.append(header, body, |_| Ok(())).is_ok()
    }

    /// The event that happens now does not fit: history ends just before it. The context must still be what it was then.
    pub fn log_full(&mut self, engine: &mut Guest) -> Flow {
        end::finish(self, engine, EndReason::LogFull, 0, format_args!("the event log is full"));
        end::say(engine, format_args!("the event log is full"));
        end::detach(self);
        end::leave_history();
        Flow::Leave
    }

    /// Brings the known copy of the bytes at the guest's `address` up to date with what was `seen` there, and notes it if they were
    /// different. `false` if the event log is full.
    pub fn refresh(&mut self, engine: &mut Guest, address: u64, seen: &[u8], known: u64) -> bool {
        // SAFETY: the known copy is mapped there, private to this process, and longer than the access.
        let known = unsafe { core::slice::from_raw_parts_mut(known as *mut u8, seen.len()) };
        if known == seen {
            return true;
        }
        if self.overflow {
            return false;
        }
        let header = self.header(engine);
        known.copy_from_slice(seen);
        self.events.append(&header, &Body::ShmemFixup, |builder| builder.push_write(address, seen)).is_ok()
    }

    /// Prepares the second try of a locked instruction whose first try lost: `pending.old` is what is there now.
    fn again(&mut self, engine: &mut Guest, pending: Direct, pc: u64) -> After {
        let seen = &pending.old[..pending.size];
        // The event is the instruction's, so its state is the one before it; and it is noted even if the lost result in the known
        // copy happens to look the same.
        let (gpr, _) = engine.registers_before();
        let registers = Registers { gpr, rip: pc, rflags: 0, fs_base: self.fs_base, gs_base: 0 };
        let header = EventHeader::new(Time { bbcount: engine.bbcount(), pc }, state_hash(&registers));
        let fits = self.events.append(&header, &Body::ShmemFixup, |builder| builder.push_write(pending.address, seen)).is_ok();
        // SAFETY: as in `refresh`.
        unsafe { core::slice::from_raw_parts_mut(pending.known as *mut u8, seen.len()) }.copy_from_slice(seen);
        if !fits {
            // The next exit finds the log full as well and ends the recording there.
            self.overflow = true;
            self.events.leave_to_host();
        }
        self.pending = Some(Pending::Direct(pending));
        After::Again
    }

    fn site_index(&mut self, engine: &mut Guest, site: &Site) -> Option<SiteIndex> {
        if site.tag != 0 {
            return SiteIndex::new(site.tag);
        }
        if let Some(index) = self.shared.windows().number(site.pc) {
            engine.set_tag(site.pc, index.get());
            return Some(index);
        }
        let index = self.log.as_ref()?.register_site(site.pc, site.kind, site.size)?;
        engine.set_tag(site.pc, index.get());
        Some(index)
    }
}

/// A registered site, or where there was no room for it its address.
fn origin(site: Option<SiteIndex>, pc: u64) -> Origin {
    site.map_or(Origin::Pc { pc, by_kernel: false }, Origin::Site)
}

/// Reads real shared memory with single accesses of the operand's own size, as the instruction would.
pub fn load(alias: u64, buffer: &mut [u8]) {
    // SAFETY: the alias is mapped readable over the whole operand; unaligned volatile reads of plain integers.
    unsafe {
        match buffer.len() {
            1 => buffer[0] = (alias as *const u8).read_volatile(),
            2 => buffer.copy_from_slice(&read_once::<u16>(alias).to_le_bytes()),
            4 => buffer.copy_from_slice(&read_once::<u32>(alias).to_le_bytes()),
            8 => buffer.copy_from_slice(&read_once::<u64>(alias).to_le_bytes()),
            _ => {
                let mut chunks = buffer.chunks_exact_mut(8);
                let mut at = alias;
                for chunk in &mut chunks {
                    chunk.copy_from_slice(&read_once::<u64>(at).to_le_bytes());
                    at += 8;
                }
                for byte in chunks.into_remainder() {
                    *byte = (at as *const u8).read_volatile();
                    at += 1;
                }
            }
        }
    }
}

/// One machine load, whatever the alignment.
unsafe fn read_once<T: Copy>(address: u64) -> T {
    // SAFETY: the caller answers for the address; x86-64 loads need no alignment, and the compiler turns this into one load.
    unsafe { core::ptr::read_unaligned(core::hint::black_box(address) as *const T) }
}

/// Writes real shared memory with single accesses of the operand's own size.
pub fn store(alias: u64, bytes: &[u8]) {
    // SAFETY: the alias is mapped writable over the whole operand.
    unsafe {
        match bytes {
            [byte] => (alias as *mut u8).write_volatile(*byte),
            [a, b] => write_once(alias, u16::from_le_bytes([*a, *b])),
            [a, b, c, d] => write_once(alias, u32::from_le_bytes([*a, *b, *c, *d])),
            _ => {
                let mut at = alias;
                let mut chunks = bytes.chunks_exact(8);
                for chunk in &mut chunks {
                    write_once(at, access::word(chunk));
                    at += 8;
                }
                for &byte in chunks.remainder() {
                    (at as *mut u8).write_volatile(byte);
                    at += 1;
                }
            }
        }
    }
}

/// One machine store, whatever the alignment.
unsafe fn write_once<T: Copy>(address: u64, value: T) {
    // SAFETY: the caller answers for the address.
    unsafe { core::ptr::write_unaligned(core::hint::black_box(address) as *mut T, value) }
}

/// Replaces `old` by `new` atomically; `false` if something else was there.
fn compare_exchange(alias: u64, old: &[u8], new: &[u8]) -> bool {
    macro_rules! exchange {
        ($register:literal, $type:ty) => {{
            let wanted = access::word(old) as $type;
            let found: $type;
            // SAFETY: the alias is mapped writable; a locked cmpxchg works at any alignment.
            unsafe {
                core::arch::asm!(concat!("lock cmpxchg [{1}], {0:", $register, "}"), in(reg) access::word(new) as $type, in(reg) alias,
                    inlateout("rax") wanted => found, options(nostack));
            }
            found == wanted
        }};
    }
    match old.len() {
        1 => {
            let (wanted, found): (u8, u8) = (old[0], {
                let found: u8;
                // SAFETY: as above.
                unsafe {
                    core::arch::asm!("lock cmpxchg [{1}], {0}", in(reg_byte) new[0], in(reg) alias, inlateout("al") old[0] => found, options(nostack));
                }
                found
            });
            found == wanted
        }
        2 => exchange!("x", u16),
        4 => exchange!("e", u32),
        8 => exchange!("r", u64),
        16 => {
            let (found_low, found_high): (u64, u64);
            let (low, high) = (access::word(&old[..8]), access::word(&old[8..]));
            // SAFETY: as above; cmpxchg16b demands the alignment that the guest's own instruction demands. rbx is saved around it.
            unsafe {
                core::arch::asm!("xchg rbx, {new_low}", "lock cmpxchg16b [{address}]", "mov rbx, {new_low}", new_low = inout(reg) access::word(&new[..8]) => _,
                    address = in(reg) alias, inlateout("rax") low => found_low, inlateout("rdx") high => found_high,
                    in("rcx") access::word(&new[8..]), options(nostack));
            }
            (found_low, found_high) == (low, high)
        }
        _ => {
            store(alias, new);
            true
        }
    }
}

impl Recorder {
    /// Gives an operand that does not lie in one mapping as a whole, or of which only parts are touched, a place of its own.
    fn bounce_before(&mut self, engine: &mut Guest, site: &Site, address: u64, size: usize) -> Before {
        match bounce::before(self, engine, site, address, size) {
            Ok((at, bounced)) => {
                self.pending = bounced.map(Pending::Bounced);
                Before::Use(at)
            }
            Err(refused) => Before::Instead(signals::fault(self, engine, &refused.fault())),
        }
    }

    fn bounce_after(&mut self, engine: &mut Guest, site: &Site, bounced: &Bounced) -> After {
        bounce::after(self, engine, site, bounced);
        After::Done
    }

    /// If an inline access met a fault at an alias or in the log: nothing has happened yet.
    fn inline_fault(&mut self, engine: &mut Guest, fault: &FaultInfo) -> Option<Flow> {
        self.shared.windows().number(engine.context().rip)?;
        // With no window open it is an address of the guest's own making.
        if !self.shared.windows().close() {
            return None;
        }
        let object = self.shared.iter().find_map(|map| map.object);
        if let (Some(log), Some(object)) = (&mut self.log, object)
            && (arena::ALIASES..arena::KNOWN).contains(&fault.address)
        {
            // The instruction comes again, finds no window, and meets the fault where it is looked for.
            log.abandon_begun(object);
            return Some(Flow::Continue);
        }
        // Its pages are gone: the file was cut, or its disk is full.
        self.log = None;
        Some(end::stop_unsupported(self, engine, format_args!("the log of shared memory accesses cannot be written")))
    }

    pub fn bounce_buffer(&mut self) -> &mut Bounce {
        &mut self.bounce
    }
}

impl Host for Recorder {
    fn system_call(&mut self, engine: &mut Guest, length: u64) -> Flow {
        self.events.close_event();
        hashes::note_some(self, engine);
        calls::system_call(self, engine, length)
    }

    fn nondeterministic(&mut self, engine: &mut Guest, what: Nondeterministic, operand: (usize, usize), length: u64) -> Flow {
        let header = self.header(engine);
        let before = engine.context().rflags;
        let (values, instruction) = perform(what, operand, engine.context());
        let rflags = core::mem::replace(&mut engine.context().rflags, before);
        let body = Body::Nondet(Nondet { instruction, registers: values, rflags });
        let flow = if self.event(&header, &body) { Flow::Continue } else { self.log_full(engine) };
        let context = engine.context();
        for (register, value) in values.iter() {
            context.gpr[register as usize] = value;
        }
        context.rflags = rflags;
        context.rip += length;
        flow
    }

    fn shared_before(&mut self, engine: &mut Guest, site: &Site, address: u64) -> Before {
        self.pending = None;
        self.events.close_event();
        let size = bounce::operand_size(self, site);
        let Some(map) = self.shared.find(address).copied().filter(|map| address + size as u64 <= map.end) else {
            return match self.shared.overlaps(address, address + size as u64) {
                true => self.bounce_before(engine, site, address, size),
                false => Before::Use(address),
            };
        };
        if site.masked || size > WIDEST {
            return self.bounce_before(engine, site, address, size);
        }
        if let Err(refused) = guest_bytes::check(&map, address, size, site.kind != SiteKind::Read) {
            return Before::Instead(signals::fault(self, engine, &refused.fault()));
        }
        let (alias, known) = (map.to_alias(address), map.to_known(address));
        if bounce::is_no_access(site) {
            return Before::Use(alias);
        }
        let access = access::kind(site.kind);
        let tag = if map.object.is_some() { self.site_index(engine, site) } else { None };
        let mut token = match (map.object, &mut self.log) {
            (Some(object), Some(log)) => Some(log.begin(access, site.locked, object, map.to_object(address), size as u64)),
            _ => None,
        };
        let mut old = [0; WIDEST];
        if site.kind != SiteKind::Write {
            load(alias, &mut old[..size]);
            if site.kind == SiteKind::Read
                && let (Some(token), Some(log)) = (token.take(), &mut self.log)
            {
                log.commit(token, origin(tag, site.pc), engine.bbcount(), Kind::Read, &old[..size], &[]);
            }
            if !self.refresh(engine, address, &old[..size], known) {
                return Before::Instead(self.log_full(engine));
            }
        }
        let is_robust = site.locked && size == size_of::<u32>() && self.shared.robust.starts(address, alias);
        if let (Some(object), Some(_), false) = (map.object, tag, is_robust) {
            self.shared.windows().bind(site.pc, &map, object);
        }
        if site.kind != SiteKind::Read {
            self.pending = Some(Pending::Direct(Direct { token, address, alias, known, size, old }));
        }
        Before::Use(known)
    }

    fn shared_after(&mut self, engine: &mut Guest, site: &Site) -> After {
        let mut pending = match self.pending.take() {
            Some(Pending::Direct(pending)) => pending,
            Some(Pending::Bounced(bounced)) => return self.bounce_after(engine, site, &bounced),
            None => return After::Done,
        };
        let (mut new, size) = ([0; WIDEST], pending.size);
        let new = &mut new[..size];
        load(pending.known, new);
        let old = pending.old;
        let old = &old[..size];
        if site.locked {
            if !compare_exchange(pending.alias, old, new) {
                // Another process came between: what it wrote becomes known, and the instruction runs once more on that.
                load(pending.alias, &mut pending.old[..size]);
                return self.again(engine, pending, site.pc);
            }
            self.shared.robust.ends(access::word(new) as u32);
        } else {
            store(pending.alias, new);
        }
        if let (Some(token), Some(log)) = (pending.token, &mut self.log) {
            let access = access::kind(site.kind);
            let tag = SiteIndex::new(site.tag).filter(|_| site.tag != 0);
            log.commit(token, origin(tag, site.pc), engine.bbcount(), access, old, new);
        }
        After::Done
    }

    fn shared_whole(&mut self, engine: &mut Guest, site: &Site) -> Flow {
        self.events.close_event();
        super::performed::perform(self, engine, site)
    }

    fn inline_site(&mut self, site: &Site) -> Option<InlineSite> {
        let log = self.log.as_ref()?;
        let (cell, number) = self.shared.windows().cell(site.pc, || log.register_site(site.pc, site.kind, site.size))?;
        let long_head = access::long_head(site.kind, site.size);
        Some(InlineSite { log: log.words(), events: self.events.words(), cell, number: number.get(), long_head })
    }

    fn inline_dropped(&mut self) {
        if let Some(log) = &mut self.log {
            log.drop_begun();
        }
    }

    fn fault(&mut self, engine: &mut Guest, fault: &FaultInfo) -> Flow {
        self.events.close_event();
        if arena::contains(fault.address)
            && let Some(flow) = self.inline_fault(engine, fault)
        {
            return flow;
        }
        let pc = engine.context().rip;
        if fault.signal == raw::SIGSEGV as i32 && self.shared.find(fault.address).is_some() {
            if !engine.add_shared_pc(pc) {
                // Its translation has come here again: there is no rule for the operand that lies in shared memory.
                return super::performed::no_rule(self, engine, pc);
            }
            let header = self.header(engine);
            let fits = self.event(&header, &Body::SitesAdded { pc });
            return if fits { Flow::Continue } else { self.log_full(engine) };
        }
        signals::fault(self, engine, fault)
    }

    fn stopped(&mut self, engine: &mut Guest, _why: Stopped) -> Flow {
        let flow = signals::deliver_pending(self, engine);
        if flow == Flow::Continue && self.log.as_ref().is_some_and(AccessLog::is_lost) {
            return end::stop_unsupported(self, engine, format_args!("the log of shared memory accesses cannot be written"));
        }
        flow
    }

    fn unsupported(&mut self, engine: &mut Guest, what: &str) -> Flow {
        end::stop_unsupported(self, engine, format_args!("{what}"))
    }

    fn code_at(&mut self, address: u64) -> Option<CodeRange> {
        self.code.find(address)
    }

    fn place_region(&mut self, near: u64) -> Option<(u64, u64)> {
        super::start::place_region(near)
    }

    fn broken(fault: &FaultInfo) -> ! {
        super::message::report(format_args!(
            "internal error: signal {} at {:#x} for address {:#x}; recording ends",
            fault.signal, fault.trapno, fault.address
        ));
        end::abandon()
    }

    fn mend(address: u64) -> bool {
        let Some(state) = super::state::existing().filter(|state| state.recording && !state.engine.is_null()) else { return false };
        // SAFETY: the engine lives as long as the process.
        let host = unsafe { (*state.engine).host_even_if_taken() };
        // SAFETY: the host exists even while one of its methods runs; the log is only replaced while nothing is appended.
        unsafe { (*host).log.as_ref() }.is_some_and(|log| log.mend(address))
    }

    fn on_signal(signal: &SignalContext, frame: &mut UContext) -> bool {
        signals::on_signal(signal, frame)
    }
}

/// Executes the instruction itself and says what it gave.
fn perform(what: Nondeterministic, operand: (usize, usize), context: &mut engine::Context) -> (RegisterValues, Instruction) {
    use core::arch::x86_64::{__cpuid_count, _rdtsc};
    let halves = |value: u64| (value & 0xffff_ffff, value >> 32);
    let pairs = |pairs: &[(u8, u64)]| RegisterValues::new(pairs).unwrap_or_default();
    let (register, size) = operand;
    let merge = |old: u64, new: u64| {
        if size == 2 {
            old & !0xffff | new & 0xffff
        } else if size == 4 {
            new & 0xffff_ffff
        } else {
            new
        }
    };
    match what {
        Nondeterministic::Rdtsc => {
            // SAFETY: no preconditions.
            let (low, high) = halves(unsafe { _rdtsc() });
            (pairs(&[(reg::RAX as u8, low), (reg::RDX as u8, high)]), Instruction::Rdtsc)
        }
        Nondeterministic::Rdtscp => {
            let (low, high, processor): (u64, u64, u64);
            // SAFETY: the processor has it, the guest relies on that.
            unsafe { core::arch::asm!("rdtscp", out("rax") low, out("rdx") high, out("rcx") processor, options(nomem, nostack)) };
            (pairs(&[(reg::RAX as u8, low), (reg::RCX as u8, processor), (reg::RDX as u8, high)]), Instruction::Rdtscp)
        }
        Nondeterministic::Cpuid => {
            let leaf = __cpuid_count(context.gpr[reg::RAX] as u32, context.gpr[reg::RCX] as u32);
            let values = [
                (reg::RAX as u8, u64::from(leaf.eax)),
                (reg::RCX as u8, u64::from(leaf.ecx)),
                (reg::RDX as u8, u64::from(leaf.edx)),
                (reg::RBX as u8, u64::from(leaf.ebx)),
            ];
            (pairs(&values), Instruction::Cpuid)
        }
        Nondeterministic::Rdpid => {
            let (_low, _high, processor): (u64, u64, u64);
            // SAFETY: as for rdtscp, which gives the same number.
            unsafe { core::arch::asm!("rdtscp", out("rax") _low, out("rdx") _high, out("rcx") processor, options(nomem, nostack)) };
            (pairs(&[(register as u8, processor)]), Instruction::Rdpid)
        }
        Nondeterministic::Rdrand | Nondeterministic::Rdseed => {
            let (value, carry): (u64, u8);
            let seed = what == Nondeterministic::Rdseed;
            // SAFETY: the guest relies on the processor having it.
            unsafe {
                if seed {
                    core::arch::asm!("rdseed {}", "setc {}", out(reg) value, out(reg_byte) carry, options(nomem, nostack));
                } else {
                    core::arch::asm!("rdrand {}", "setc {}", out(reg) value, out(reg_byte) carry, options(nomem, nostack));
                }
            }
            // The instructions set the carry and clear the other status flags.
            context.rflags = context.rflags & !0x8d5 | u64::from(carry);
            let value = merge(context.gpr[register], if carry == 0 { 0 } else { value });
            (pairs(&[(register as u8, value)]), if seed { Instruction::Rdseed } else { Instruction::Rdrand })
        }
    }
}
