//! The engine's host that answers from the recording.
//!
//! # Invariants
//! H1. Nothing that the guest asks for is executed, but changes of its own address space and of its fs base.
//! H2. Every event is compared with the moment at which it is consumed: kind, time, state hash, and what the guest asked. The first
//!     difference ends the replay: [`ReplayHost::diverge`] does not come back.
//! H3. Whenever the engine runs freely, its stop is not later than the next event that no instruction asks for (a signal, a memory
//!     hash, the end), see `drive`.

use alloc::format;
use alloc::string::String;

use engine::sys::{self, UContext, raw};
use engine::{After, Before, CodeRange, Context, Engine, FaultInfo, Flow, Host, Nondeterministic, SignalContext, Site, Stopped, reg};
use recording::{Body, EventKind, EventRef, Instruction, Registers, Signal, SignalAction, Time, Writes, state_hash};

use crate::control::Slot;
use crate::drive::Drive;
use crate::log::{Log, Next};
use crate::repeat::Repeated;
use crate::status::Accesses;
use crate::touch::Toucher;
use crate::vm::{Refused, Vm};
use crate::watch::{Hit, Pending, Points};
use crate::{start, validate};

/// CF PF AF ZF SF OF.
const STATUS_FLAGS: u64 = 0x8d5;
/// The kernel takes it from every handler.
const TRAP_FLAG: u64 = 0x100;

pub type Guest = Engine<ReplayHost>;

pub struct ReplayHost {
    pub slot: Slot,
    pub controller: i32,
    pub log: Log,
    /// See [`crate::plan::Head`].
    pub registers_mask: u64,
    pub vm: Vm,
    pub accesses: Accesses,
    pub fs_base: u64,
    pub points: Points,
    pub drive: Drive,
    /// The instruction that is being executed alone may hit a watchpoint.
    pub pending: Option<Pending>,
    pub toucher: Toucher,
    /// Memory hashes that were compared.
    pub hashes: u64,
}

pub fn now(engine: &mut Guest) -> Time {
    Time { bbcount: engine.bbcount(), pc: engine.context().rip }
}

impl ReplayHost {
    pub fn registers(&self, context: &Context) -> Registers {
        Registers { gpr: context.gpr, rip: context.rip, rflags: context.rflags, fs_base: self.fs_base, gs_base: 0 }
    }

    /// The next event, which must be of this kind and happen now. What differs ends the replay.
    fn expect(&mut self, engine: &mut Guest, kind: EventKind, what: &dyn Fn() -> String) -> EventRef<'static> {
        let time = now(engine);
        match self.log.next() {
            None => self.diverge(engine, format!("the program makes {}, but the recording has no more events", what())),
            Some(next) if next.time != time || next.kind != kind => {
                let text = format!("the program makes {}, but the next recorded event is {} at {}", what(), next.kind.name(), next.time);
                self.diverge(engine, text)
            }
            Some(next) => self.check_state(engine, &next),
        }
        self.event(engine)
    }

    fn event(&mut self, engine: &mut Guest) -> EventRef<'static> {
        match self.log.event() {
            Ok(Some(event)) => event,
            Ok(None) => self.diverge(engine, "the recording has no more events".into()),
            Err(error) => self.diverge(engine, format!("{error}")),
        }
    }

    fn check_state(&mut self, engine: &mut Guest, next: &Next) {
        let expected = next.state_hash & self.registers_mask;
        if expected == 0 {
            return;
        }
        // Status flags that no instruction reads again may differ, so none are compared.
        let registers = Registers { rflags: 0, ..self.registers(engine.context()) };
        if state_hash(&registers) & self.registers_mask != expected {
            self.diverge(engine, format!("the registers differ at {}; here they are {registers:x?}", next.kind.name()))
        }
    }

    fn advance(&mut self, engine: &mut Guest) {
        self.slot.beat();
        if let Err(error) = self.log.advance() {
            self.diverge(engine, format!("{error}"))
        }
    }

    fn body(&mut self, engine: &mut Guest, event: &EventRef<'static>) -> (Body<'static>, Writes<'static>) {
        match event.body_and_writes() {
            Ok(parts) => parts,
            Err(error) => self.diverge(engine, format!("{error}")),
        }
    }

    fn apply_writes(&mut self, engine: &mut Guest, writes: Writes<'static>, time: Time) {
        for write in writes {
            self.slot.beat();
            let write = match write {
                Ok(write) => write,
                Err(error) => self.diverge(engine, format!("{error}")),
            };
            let length = write.bytes.len() as u64;
            engine.open_code(write.addr, write.addr.saturating_add(length));
            if self.vm.write(write.addr, write.bytes) != write.bytes.len() {
                let text = format!("it writes {length} bytes to {:#x}, which is not mapped", write.addr);
                self.diverge(engine, text)
            }
            self.note_written(engine, write.addr, length, time);
        }
    }

    /// Memory has been changed otherwise than by translated code.
    fn note_written(&mut self, engine: &mut Guest, address: u64, length: u64, time: Time) {
        engine.discard(address, address.saturating_add(length));
        if self.vm.space.find(address).is_some_and(|map| map.shared != 0) {
            self.accesses.note(address, length, time);
        }
        if let Some(pending) = &mut self.pending
            && pending.touched.is_none()
        {
            pending.touched = self.points.kernel_touch(address, length);
        }
    }

    fn refused(&mut self, engine: &mut Guest, refused: Refused) -> ! {
        let text = format!("cannot do {} at {:#x} again: error {}", refused.what, refused.address, -refused.error);
        self.diverge(engine, text)
    }

    /// Consumes what happens at this very moment before the instruction itself: updates of shared memory and memory hashes.
    fn catch_up(&mut self, engine: &mut Guest) {
        let time = now(engine);
        while let Some(next) = self.log.next().filter(|next| next.time == time) {
            match next.kind {
                EventKind::ShmemFixup => self.fixup(engine, &next),
                EventKind::MemoryHash => self.memory_hash(engine),
                _ => return,
            }
        }
    }

    fn fixup(&mut self, engine: &mut Guest, next: &Next) {
        self.check_state(engine, next);
        let event = self.event(engine);
        let (_, writes) = self.body(engine, &event);
        self.apply_writes(engine, writes, next.time);
        self.advance(engine);
    }

    pub fn memory_hash(&mut self, engine: &mut Guest) {
        let event = self.event(engine);
        if let (Body::MemoryHash(expected), _) = self.body(engine, &event) {
            if let Err((hash, pages)) = validate::compare(&self.vm, self.slot, &expected) {
                let text = format!(
                    "memory differs: {} pages with hash {:#x} were recorded, {pages} with {hash:#x} are here",
                    expected.pages, expected.hash
                );
                self.diverge(engine, text)
            }
            self.hashes += 1;
        }
        self.advance(engine);
    }

    /// Does what the signal event that is due did. `true`: a handler begins.
    pub fn signal(&mut self, engine: &mut Guest) -> bool {
        let event = self.event(engine);
        let (Body::Signal(signal), writes) = self.body(engine, &event) else { return false };
        self.repeat_up_to(engine, &signal);
        if let Some(next) = self.log.next() {
            self.check_state(engine, &next);
        }
        let handler = signal.action == SignalAction::Handler;
        if handler {
            self.enter_handler(engine, &signal, writes);
        }
        self.advance(engine);
        handler
    }

    /// A repeated string instruction that faulted half-way: its repetitions until then. A handler begins with the count at the fault.
    fn repeat_up_to(&mut self, engine: &mut Guest, signal: &Signal<'_>) {
        let context = engine.context();
        let count = context.gpr[reg::RCX].wrapping_sub(signal.registers.gpr[reg::RCX]);
        if count == 0 || count >= context.gpr[reg::RCX] {
            return;
        }
        let Some(repeated) = Repeated::at(context.rip) else { return };
        let (written, read) = (repeated.written(context, count), repeated.read(context, count));
        let touched = || written.into_iter().chain(read.into_iter().flatten());
        if touched().any(|(address, length)| self.vm.space.mapped_length(address, length) != length) {
            return;
        }
        if let Some((address, length)) = written {
            engine.open_code(address, address + length);
        }
        // SAFETY: it is the guest's memory, and where the guest's rights do not allow it the replay ends with the fault.
        unsafe { repeated.perform(engine.context(), count) };
        let time = now(engine);
        if let Some((address, length)) = written {
            self.note_written(engine, address, length, time);
        }
        for (address, length) in read.into_iter().flatten() {
            if self.vm.space.find(address).is_some_and(|map| map.shared != 0) {
                self.accesses.note(address, length, time);
            }
        }
    }

    fn enter_handler(&mut self, engine: &mut Guest, signal: &Signal<'_>, writes: Writes<'static>) {
        if signal.registers.rflags & TRAP_FLAG != 0 {
            let text = format!("a handler's first instruction: expected no trap flag, found rflags {:#x}", signal.registers.rflags);
            self.diverge(engine, text)
        }
        let time = now(engine);
        self.apply_writes(engine, writes, time);
        let context = engine.context();
        context.gpr = signal.registers.gpr;
        context.rip = signal.registers.rip;
        context.rflags = signal.registers.rflags;
        engine::vector::reset();
        engine.count_transfer();
    }

    /// Hits by what a system call or signal wrote.
    fn watch_before(&mut self, engine: &mut Guest) -> bool {
        let alone = self.pending.is_some();
        if !alone && self.drive.looks_at_points() && !self.points.watches.is_empty() {
            let (time, vm) = (now(engine), &self.vm);
            self.pending = Some(self.points.before(time, &[], |address, to| vm.read(address, to)));
            return true;
        }
        false
    }

    /// The counterpart of [`Self::watch_before`], if that noted anything.
    fn watch_after(&mut self, engine: &mut Guest) {
        if let Some((time, index)) = self.take_hit() {
            self.drive.hit = Some((time, Hit::Watch(index)));
            engine.set_stop(Some((0, 0)));
        }
    }

    /// Which watchpoint the instruction that ran alone hit.
    pub fn take_hit(&mut self) -> Option<(Time, usize)> {
        let pending = self.pending.take()?;
        let vm = &self.vm;
        self.points.after(&pending, |address, to| vm.read(address, to)).map(|index| (pending.time, index))
    }

    /// What the guest's instruction at rip is about to touch.
    pub fn touches(&mut self, engine: &mut Guest) -> alloc::vec::Vec<crate::touch::Touch> {
        let mut code = [0u8; 15];
        let context = engine.context();
        let got = engine::read_guest(context.rip, &mut code);
        self.toucher.touches(&code[..got], context)
    }

    fn note_access(&mut self, engine: &mut Guest, site: &Site, address: u64) {
        let time = now(engine);
        if address != 0 {
            if self.vm.space.find(address).is_some_and(|map| map.shared != 0) {
                self.accesses.note(address, u64::from(site.size), time);
            }
            return;
        }
        for touch in self.touches(engine) {
            if self.vm.space.find(touch.address).is_some_and(|map| map.shared != 0) {
                self.accesses.note(touch.address, touch.length, time);
            }
        }
    }

    /// What the kernel did for the call: to the address space, to memory, to the fs base.
    fn apply_call(&mut self, engine: &mut Guest, event: &EventRef<'static>, call: &recording::Syscall, writes: Writes<'static>) {
        let nr = u64::from(call.number);
        let mut changed = match self.vm.apply(nr, &call.args, call.result, event.offset()) {
            Ok(changed) => changed,
            Err(error) => self.refused(engine, error),
        };
        // Where only the kernel knew how far a call reaches, the event's first write stands, empty, at the end.
        if let Some(Ok(end)) = writes.clone().next().filter(|write| write.as_ref().is_ok_and(|write| write.bytes.is_empty())) {
            let reached = self.vm.apply_up_to(call.number, &call.args, call.result, end.addr, &mut changed);
            if let Err(error) = reached {
                self.refused(engine, error)
            }
        }
        for &(start, end) in &changed.ranges {
            engine.discard(start, end);
            self.accesses.forget(start, end);
        }
        let time = event.time();
        self.apply_writes(engine, writes, time);
        if let Err(error) = self.vm.finish(&changed) {
            self.refused(engine, error)
        }
        if call.number == raw::__NR_arch_prctl && call.args[0] as u32 == sys::ARCH_SET_FS && call.result == 0 {
            sys::arch_prctl(sys::ARCH_SET_FS, call.args[1]);
            self.fs_base = call.args[1];
        }
    }
}

impl Host for ReplayHost {
    fn system_call(&mut self, engine: &mut Guest, length: u64) -> Flow {
        let gpr = engine.context().gpr;
        let number = gpr[reg::RAX] as u32;
        let args = [gpr[reg::RDI], gpr[reg::RSI], gpr[reg::RDX], gpr[reg::R10], gpr[8], gpr[9]];
        let watching = self.watch_before(engine);
        self.catch_up(engine);
        let event = self.expect(engine, EventKind::Syscall, &|| format!("system call {number}"));
        let (Body::Syscall(call), writes) = self.body(engine, &event) else {
            self.diverge(engine, "a system call event without a system call".into())
        };
        if (call.number, call.args) != (number, args) {
            self.diverge(engine, format!("recorded system call {} {:x?}, here {number} {args:x?}", call.number, call.args))
        }
        self.apply_call(engine, &event, &call, writes);
        if number == raw::__NR_rt_sigreturn {
            if !start::restore_frame(engine) {
                self.diverge(engine, "a return from a signal handler without a frame".into())
            }
        } else {
            let context = engine.context();
            context.gpr[reg::RAX] = call.result as u64;
            context.rip += length;
            context.gpr[reg::RCX] = context.rip;
            context.gpr[reg::R11] = context.rflags;
        }
        self.advance(engine);
        // A signal that the call itself let through comes before the call's own transfer is counted.
        while let Some(next) = self.log.next()
            && next.kind == EventKind::Signal
            && next.time == now(engine)
        {
            self.signal(engine);
        }
        self.plan(engine);
        if watching {
            self.watch_after(engine);
        }
        Flow::Continue
    }

    fn nondeterministic(&mut self, engine: &mut Guest, what: Nondeterministic, _operand: (usize, usize), length: u64) -> Flow {
        self.catch_up(engine);
        let event = self.expect(engine, EventKind::Nondet, &|| format!("{what:?}"));
        let (Body::Nondet(nondet), _) = self.body(engine, &event) else {
            self.diverge(engine, "an instruction's event without an instruction".into())
        };
        let instruction = match what {
            Nondeterministic::Rdtsc => Instruction::Rdtsc,
            Nondeterministic::Rdtscp => Instruction::Rdtscp,
            Nondeterministic::Rdrand => Instruction::Rdrand,
            Nondeterministic::Rdseed => Instruction::Rdseed,
            Nondeterministic::Cpuid => Instruction::Cpuid,
            Nondeterministic::Rdpid => Instruction::Rdpid,
        };
        if nondet.instruction != instruction {
            self.diverge(engine, format!("recorded {}, here {}", nondet.instruction.name(), instruction.name()))
        }
        let context = engine.context();
        for (register, value) in nondet.registers.iter() {
            context.gpr[usize::from(register)] = value;
        }
        // No such instruction changes others.
        context.rflags = context.rflags & !STATUS_FLAGS | nondet.rflags & STATUS_FLAGS;
        context.rip += length;
        self.advance(engine);
        self.plan(engine);
        Flow::Continue
    }

    fn shared_before(&mut self, engine: &mut Guest, site: &Site, address: u64) -> Before {
        let alone = self.pending.is_some() || self.drive.is_stepping();
        let near = self.drive.looks_at_points() && !self.points.watches.is_empty() && {
            let size = u64::from(site.size);
            address == 0 || self.points.is_near(address, size.max(1)) || self.log.next().is_some_and(|next| next.time == now(engine))
        };
        if near && !alone {
            // The engine comes back here with this instruction alone.
            self.begin_alone(engine);
            return Before::Use(address);
        }
        self.note_access(engine, site, address);
        let before = self.log.consumed();
        self.catch_up(engine);
        if self.log.consumed() != before {
            self.plan(engine);
        }
        // Natively the access met a right that was missing or a file's end; here the memory is there.
        if self.log.next().is_some_and(|next| next.kind == EventKind::Signal && next.time == now(engine)) {
            self.signal(engine);
            self.plan(engine);
            return Before::Instead(Flow::Continue);
        }
        Before::Use(address)
    }

    fn shared_after(&mut self, _engine: &mut Guest, _site: &Site) -> After {
        After::Done
    }

    fn shared_whole(&mut self, engine: &mut Guest, _site: &Site) -> Flow {
        self.diverge(engine, "an instruction to perform, which replay never asks for".into())
    }

    /// Faults are signal events, which are stopped at before the instruction runs; a trap is behind its instruction.
    fn fault(&mut self, engine: &mut Guest, fault: &FaultInfo) -> Flow {
        if self.log.next().is_some_and(|next| next.kind == EventKind::Signal && next.time == now(engine)) {
            // The moment behind a trap is one to stop at: the signal happens when the guest is to go on from there.
            if fault.signal != raw::SIGTRAP as i32 {
                self.signal(engine);
            }
            self.plan(engine);
            return Flow::Continue;
        }
        let next = self.log.next().map_or_else(|| "none".into(), |next| format!("{} at {}", next.kind.name(), next.time));
        let text =
            format!("the program faults (signal {}, address {:#x}), but the next recorded event is {next}", fault.signal, fault.address);
        self.diverge(engine, text)
    }

    fn stopped(&mut self, engine: &mut Guest, why: Stopped) -> Flow {
        self.drive_on(engine, why)
    }

    fn unsupported(&mut self, engine: &mut Guest, what: &str) -> Flow {
        self.diverge(engine, format!("the program comes to {what}, which cannot be replayed"))
    }

    fn code_at(&mut self, address: u64) -> Option<CodeRange> {
        let map = self.vm.space.find(address)?;
        // Where executing is not among the rights that the program asked for, the recording tells whether the kernel let it.
        let faults = self.log.next().is_some_and(|next| next.kind == EventKind::Signal && next.time.pc == address);
        let may = map.prot & raw::PROT_EXEC != 0 || !faults;
        may.then_some(CodeRange { start: map.start, end: map.end, writable: map.prot & raw::PROT_WRITE != 0 })
    }

    fn place_region(&mut self, _near: u64) -> Option<(u64, u64)> {
        None
    }

    fn broken(fault: &FaultInfo) -> ! {
        start::crashed(fault)
    }

    fn on_signal(_signal: &SignalContext, _frame: &mut UContext) -> bool {
        false
    }
}
