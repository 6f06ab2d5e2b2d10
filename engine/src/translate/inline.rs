//! Accesses to shared memory without leaving translated code.
//!
//! ```text
//!   save registers and flags · address · window: real, known · line · slot · bbcount · clock
//!   read:    start · real → v ── v = known, or an event and known = v ── end ── record ── restore · instruction on the known copy
//!   write:   start ── instruction on the known copy ── known → real · end ── record ── restore
//!   change:  start · real → old ── old = known, or an event and known = old ── instruction on the known copy ── new → real (locked: only if still old) · end ── record
//! ```
//!
//! Wherever the answer is no, and where an address is in no window, the guest's registers and flags are put back as they were before the
//! instruction, and the host is asked as at any shared site. What an append consists of is written down in the log's format
//! (`docs/shmem-format.md`, "Emitting an append").
//!
//! I1. From the first register that is overwritten to the last that is restored every host instruction that may fault has a row that
//! leads back to the state before the instruction.
//! I2. The instruction itself runs with all registers it uses, and with the flags if it uses them.
//! I3. The record of a read is complete before its value is consumed, and it is the known copy that is consumed: what the log says, what
//! the instruction gets and what replay will show are one value.
//! I4. Between an event and the known copy that it speaks of nothing can fail: room is looked for first.
//! I5. An event may hold what several vector reads found, if they belong to one bbcount and this process wrote nothing to shared memory
//! between them: then no instruction can tell that replay brings them all up to date at the first. They are mostly the pieces of one copy.

use alloc::vec::Vec;

use iced_x86::{Code, Instruction, OpAccess, Register};

use super::{SiteMode, Translator, operand, through};
use crate::arena;
use crate::context::{COUNTERS, offset, reg};
use crate::emit::Branch;
use crate::encode::{Op, Place, Shift};
use crate::flags::STATUS;
use crate::inline::{InlineSite, LogWords, window};
use crate::site::{Form, Kind, Site};
use crate::trace::Insn;
use crate::unit::{ExitKind, Spill};

/// More in one unit ask the host each time: it has to stay below its size limit.
const SITES_MAX: usize = 16;
/// Not rax, which holds flags, and not the stack pointer; low ones first, so that ah…bh stay encodable.
const CANDIDATES: [usize; 14] = [reg::RCX, reg::RDX, reg::RBX, reg::RSI, reg::RDI, reg::RBP, 8, 9, 10, 11, 12, 13, 14, 15];
const LINE_MASK: u32 = 63;
const PAUSE: [u8; 2] = [0xf3, 0x90];
/// What one `pause` of the guest becomes near an access to shared memory.
const PAUSES: usize = 4;
const CONDITION_ABOVE: u8 = 0x7;
const CONDITION_NOT_EQUAL: u8 = 0x5;
const CONDITION_EQUAL: u8 = 0x4;

/// Registers that the sequence uses; the instruction uses none of them.
#[derive(Clone, Copy)]
struct Scratch {
    /// The guest's address, then that of the known copy: what the instruction's operand becomes.
    operand: usize,
    /// The window, then the value.
    value: usize,
    slot: usize,
    commit: usize,
    clock: usize,
    real: usize,
    start: usize,
}

/// What the instruction does to registers and flags.
#[derive(Clone, Copy)]
struct Uses {
    read: u16,
    written: u16,
    flags_read: bool,
    flags_written: bool,
}

/// Where an access finds what another process wrote: in `value`, but for a change in `old_value`.
#[derive(Default)]
struct Differences {
    branches: Vec<Branch>,
    /// Where to go on: behind the comparison.
    resume: u64,
}

/// What lies out of the straight way: events, and the exit to the host.
pub(super) struct ColdSite {
    branches: Vec<Branch>,
    differences: Differences,
    words: InlineSite,
    scratch: Scratch,
    insn: Insn,
    site: Site,
    number: u32,
    saved: u16,
    counted: i32,
    settled: i32,
    next: u64,
}

fn gs(address: u64) -> Place {
    Place::Gs(address.wrapping_sub(arena::CONTEXT) as u32)
}

fn in_reach(address: u64) -> bool {
    address.wrapping_sub(arena::CONTEXT) < 1 << 31
}

const RAX: u16 = 1 << reg::RAX;

impl Translator<'_> {
    /// Emits the whole access if there is a rule for it.
    pub(super) fn inline_site(&mut self, insn: &Insn, site: &Site, number: u32) -> bool {
        let SiteMode::Redirect { inline, .. } = self.style.sites else { return false };
        let fits = site.form == Form::Explicit
            && !site.masked
            && !site.bit_offset
            && ([1, 2, 4, 8].contains(&site.size) || ([16, 32, 64].contains(&site.size) && site.kind != Kind::ReadWrite))
            && insn.instruction.segment_prefix() == Register::None
            && self.cold_sites.len() < SITES_MAX;
        if !fits {
            return false;
        }
        let Some(words) = inline(site).filter(|words| in_reach(words.cell)) else { return false };
        let uses = self.uses(&insn.instruction);
        let Some(scratch) = scratch(&uses) else { return false };
        Sequence { t: self, insn, site, words, uses, s: scratch, saved: 0, branches: Vec::new(), differences: Differences::default() }
            .emit(number);
        true
    }

    fn uses(&mut self, instruction: &Instruction) -> Uses {
        let mut uses = Uses {
            read: 0,
            written: 0,
            flags_read: instruction.rflags_read() & STATUS != 0,
            flags_written: instruction.rflags_modified() & STATUS != 0,
        };
        for used in self.factory.info(instruction).used_registers() {
            let full = used.register().full_register();
            if !full.is_gpr64() {
                continue;
            }
            let bit = 1 << full.number();
            match used.access() {
                OpAccess::Read | OpAccess::CondRead => uses.read |= bit,
                OpAccess::None | OpAccess::NoMemAccess => {}
                // A narrow or conditional write leaves the rest, so it reads too.
                _ => {
                    uses.read |= bit;
                    uses.written |= bit;
                }
            }
        }
        uses
    }

    /// Before a `pause` of a loop that waits for another process. One round takes so much longer than unrecorded, and fetches
    /// the clock's line along with the word's, that without this the other process would get less done.
    pub(super) fn wait_longer(&mut self) {
        for _ in 1..PAUSES {
            self.asm.raw(&PAUSE);
        }
    }

    /// The exits to the host of all inline accesses.
    pub(super) fn cold_sites(&mut self) {
        for cold in core::mem::take(&mut self.cold_sites) {
            let (counted, settled) = (self.counted, self.settled);
            (self.counted, self.settled) = (cold.counted, cold.settled);
            let mut branches = cold.branches;
            if !cold.differences.branches.is_empty() {
                self.row(cold.insn.pc(), Spill::Inline { set: cold.saved, flags: true, undo: None });
                let full = self.fixup(&cold.insn, &cold.site, &cold.words, &cold.scratch, &cold.differences);
                branches.push(full);
            }
            for branch in branches {
                self.asm.bind_here(branch);
            }
            self.row(cold.insn.pc(), Spill::Inline { set: cold.saved, flags: true, undo: None });
            self.restore_saved_flags(offset::SAVED_FLAGS);
            self.restore_saved(cold.saved);
            self.row(cold.insn.pc(), Spill::None);
            self.explicit_site(cold.number, &cold.insn, &cold.site);
            let back = self.asm.jump();
            self.asm.bind(back, cold.next);
            (self.counted, self.settled) = (counted, settled);
        }
    }

    /// An event of what another process wrote, and the known copy brought up to date. Returns the branch taken if there is no room, when
    /// nothing has happened.
    fn fixup(&mut self, insn: &Insn, site: &Site, words: &InlineSite, s: &Scratch, differences: &Differences) -> Branch {
        let (events, size) = (words.events, site.size);
        let event = |offset: i32| Place::At(reg::RAX, offset);
        let bytes = events.bytes + size.next_multiple_of(8) as i32;
        differences.branches.iter().for_each(|&branch| self.asm.bind_here(branch));
        self.asm.op64(Op::Load, reg::RAX, gs(events.next));
        self.asm.op64(Op::Compare, reg::RAX, gs(events.last));
        let full = self.asm.jump_if(CONDITION_ABOVE);
        let is_vector = size > 8;
        if is_vector {
            self.join_fixup(words, s, size, differences.resume);
        }
        if site.kind == Kind::ReadWrite {
            self.asm.load(s.value, offset::OLD_VALUE);
        }
        self.fixup_bytes(s, size, events.bytes);
        self.asm.store_constant(event(events.kind), events.what);
        self.asm.store_constant(event(events.length), size);
        for offset in [events.zero[0], events.zero[1], bytes] {
            self.asm.store_constant(event(offset), 0);
        }
        self.fixup_address(words, s, events.address);
        self.asm.load_immediate(s.value, insn.pc());
        self.asm.op64(Op::Store, s.value, event(events.pc));
        self.bbcount_of(words, s);
        self.asm.op64(Op::Store, s.value, event(events.bbcount));
        self.asm.store_constant(event(events.size), bytes as u32);
        self.asm.op64(Op::Load, s.value, gs(events.used));
        self.asm.add_constant(Place::At(s.value, 0), bytes);
        self.asm.add_constant(gs(events.next), bytes);
        if is_vector {
            self.asm.op64(Op::Store, reg::RAX, gs(events.open));
            self.open_write(words, s, size, events.length);
        } else {
            self.asm.store_constant(gs(events.open), 0);
        }
        if site.kind == Kind::Read && size <= 8 {
            self.asm.op(Op::Load, size, s.value, Place::At(s.operand, 0));
        }
        let back = self.asm.jump();
        self.asm.bind(back, differences.resume);
        full
    }

    /// The known copy and, at `bytes` behind rax, the log are given what is there.
    fn fixup_bytes(&mut self, s: &Scratch, size: u32, bytes: i32) {
        for (at, part) in parts(size) {
            if size > 8 {
                // All of it again: what is noted is what counts.
                self.asm.op64(Op::Load, s.value, Place::At(s.real, at));
            }
            self.asm.op(Op::Store, part, s.value, Place::At(s.operand, at));
            self.asm.op64(Op::Store, s.value, Place::At(reg::RAX, bytes + at));
        }
    }

    /// The operand's guest address, at `address` behind rax.
    fn fixup_address(&mut self, words: &InlineSite, s: &Scratch, address: i32) {
        self.asm.op64(Op::Load, s.value, gs(words.cell));
        self.asm.op64(Op::Load, s.value, Place::At(s.value, window::KNOWN));
        self.asm.op64(Op::Store, s.operand, Place::At(reg::RAX, address));
        self.asm.op64(Op::SubFrom, s.value, Place::At(reg::RAX, address));
    }

    /// Adds to the last event if it may (I5), and goes on at `resume`. Before and behind it rax is where the next event goes.
    fn join_fixup(&mut self, words: &InlineSite, s: &Scratch, size: u32, resume: u64) {
        let events = words.events;
        let (length, bytes) = (events.length - events.address, events.bytes - events.address);
        self.asm.op64(Op::Load, reg::RAX, gs(events.open));
        self.asm.compare_small(Place::Register(reg::RAX), 0);
        let none = self.asm.jump_if(CONDITION_EQUAL);
        self.bbcount_of(words, s);
        self.asm.op64(Op::Compare, s.value, Place::At(reg::RAX, events.bbcount));
        self.asm.op64(Op::Load, reg::RAX, gs(events.next));
        let later = self.asm.jump_if(CONDITION_NOT_EQUAL);
        self.asm.op64(Op::Compare, s.operand, gs(events.open_end));
        let apart = self.asm.jump_if(CONDITION_NOT_EQUAL);
        self.fixup_bytes(s, size, 0);
        self.asm.store_constant(Place::At(reg::RAX, size as i32), 0);
        self.asm.op64(Op::Load, reg::RAX, gs(events.open_length));
        self.asm.add_constant(Place::At(reg::RAX, 0), size as i32);
        self.asm.add_constant(gs(events.open_end), size as i32);
        self.grow_event(words, s, size as i32, resume);
        self.asm.bind_here(apart);
        self.fixup_bytes(s, size, bytes);
        self.asm.store_constant(Place::At(reg::RAX, length), size);
        self.fixup_address(words, s, 0);
        self.asm.store_constant(Place::At(reg::RAX, bytes + size as i32), 0);
        self.open_write(words, s, size, length);
        self.grow_event(words, s, bytes + size as i32, resume);
        self.asm.bind_here(none);
        self.asm.op64(Op::Load, reg::RAX, gs(events.next));
        self.asm.bind_here(later);
    }

    /// The write whose length is at `length` behind rax is the last of the open event.
    fn open_write(&mut self, words: &InlineSite, s: &Scratch, size: u32, length: i32) {
        self.asm.op64(Op::Address, s.value, Place::At(reg::RAX, length));
        self.asm.op64(Op::Store, s.value, gs(words.events.open_length));
        self.asm.op64(Op::Address, s.value, Place::At(s.operand, size as i32));
        self.asm.op64(Op::Store, s.value, gs(words.events.open_end));
    }

    /// The open event has `by` bytes more. rax is lost.
    fn grow_event(&mut self, words: &InlineSite, s: &Scratch, by: i32, resume: u64) {
        let events = words.events;
        self.asm.op64(Op::Load, reg::RAX, gs(events.open));
        self.asm.add_constant(Place::At(reg::RAX, events.size), by);
        self.asm.op64(Op::Load, s.value, gs(events.used));
        self.asm.add_constant(Place::At(s.value, 0), by);
        self.asm.add_constant(gs(events.next), by);
        let back = self.asm.jump();
        self.asm.bind(back, resume);
    }

    /// value = the bbcount of this access.
    fn bbcount_of(&mut self, words: &InlineSite, s: &Scratch) {
        self.asm.op64(Op::Load, s.value, Place::Register(s.commit));
        self.asm.shift(Shift::Right, s.value, 32);
        self.asm.op64(Op::Add, s.value, gs(words.log.base));
    }

    fn restore_saved(&mut self, set: u16) {
        for register in (0..16).filter(|register| set >> register & 1 != 0) {
            self.asm.load(register, offset::saved(register));
        }
    }

    /// rax is lost.
    fn restore_saved_flags(&mut self, from: u32) {
        self.asm.load(reg::RAX, from);
        self.asm.restore_flags();
    }
}

/// Offset and size of the pieces in which an operand is read and written.
fn parts(size: u32) -> impl Iterator<Item = (i32, u32)> {
    (0..size).step_by(8).map(move |at| (at as i32, size.min(8)))
}

fn scratch(uses: &Uses) -> Option<Scratch> {
    let mut free = CANDIDATES.into_iter().filter(|register| (uses.read | uses.written) >> register & 1 == 0);
    Some(Scratch {
        operand: free.next()?,
        value: free.next()?,
        slot: free.next()?,
        commit: free.next()?,
        clock: free.next()?,
        real: free.next()?,
        start: free.next()?,
    })
}

struct Sequence<'t, 'a, 's> {
    t: &'t mut Translator<'a>,
    insn: &'s Insn,
    site: &'s Site,
    words: InlineSite,
    uses: Uses,
    s: Scratch,
    /// Registers whose guest value lies in the context.
    saved: u16,
    branches: Vec<Branch>,
    differences: Differences,
}

impl Sequence<'_, '_, '_> {
    fn emit(mut self, number: u32) {
        self.prepare();
        self.clock();
        match self.site.kind {
            Kind::Read => self.read(),
            Kind::Write => self.write(),
            Kind::ReadWrite => self.change(),
        }
        let cold = ColdSite {
            branches: self.branches,
            differences: self.differences,
            words: self.words,
            scratch: self.s,
            insn: *self.insn,
            site: *self.site,
            number,
            saved: self.saved,
            counted: self.t.counted,
            settled: self.t.settled,
            next: self.t.asm.here(),
        };
        self.t.cold_sites.push(cold);
    }

    fn log(&self) -> LogWords {
        self.words.log
    }

    fn save(&mut self, register: usize) {
        if self.saved >> register & 1 == 0 {
            self.saved |= 1 << register;
            self.t.asm.store(offset::saved(register), register);
        }
    }

    /// A row that leads back to the state before the instruction.
    fn row(&mut self, undo: Option<(u8, u8)>) {
        let (pc, set) = (self.insn.pc(), self.saved);
        self.t.row(pc, Spill::Inline { set, flags: true, undo });
    }

    fn op(&mut self, op: Op, register: usize, place: Place) {
        self.t.asm.op64(op, register, place);
    }

    /// Leaves for the host on this condition.
    fn leave_if(&mut self, condition: u8) {
        let branch = self.t.asm.jump_if(condition);
        self.branches.push(branch);
    }

    /// If what was just compared with the known copy is another process's, that becomes an event.
    fn differs(&mut self) {
        let branch = self.t.asm.jump_if(CONDITION_NOT_EQUAL);
        self.differences.branches.push(branch);
    }

    /// Here the known copy is what was read.
    fn all_known(&mut self) {
        self.differences.resume = self.t.asm.here();
    }

    /// Saves registers; the operand's address; is it in the window, within a line, is there room in the log, what is the bbcount.
    fn prepare(&mut self) {
        let (s, log, size) = (self.s, self.log(), self.site.size);
        self.t.row(self.insn.pc(), Spill::None);
        self.save(s.operand);
        let instruction = &self.insn.instruction;
        if instruction.is_ip_rel_memory_operand() {
            self.t.asm.load_immediate(s.operand, instruction.ip_rel_memory_address());
        } else if let Ok(lea) = Instruction::with2(Code::Lea_r64_m, register64(s.operand), operand(instruction)) {
            self.t.reencode(&lea, false);
        }
        self.save(reg::RAX);
        self.t.asm.save_flags();
        self.t.asm.store(offset::SAVED_FLAGS, reg::RAX);
        for register in [s.value, s.slot, s.commit, s.clock, s.real, s.start] {
            self.save(register);
        }
        if self.site.kind != Kind::Read {
            let written = self.uses.written;
            for register in (0..16).filter(|register| written >> register & 1 != 0) {
                self.save(register);
            }
        }
        self.row(None);
        self.op(Op::Load, s.value, gs(self.words.cell));
        self.op(Op::Load, reg::RAX, Place::Register(s.operand));
        self.op(Op::Sub, reg::RAX, Place::At(s.value, window::START));
        self.op(Op::Compare, reg::RAX, Place::At(s.value, window::reach(size)));
        self.leave_if(CONDITION_ABOVE);
        if size > 1 {
            self.t.asm.op(Op::Load, 4, reg::RAX, Place::Register(s.operand));
            self.t.asm.mask(reg::RAX, LINE_MASK);
            self.t.asm.compare_constant32(reg::RAX, LINE_MASK + 1 - size);
            self.leave_if(CONDITION_ABOVE);
        }
        self.op(Op::Load, s.slot, gs(log.cursor));
        if self.is_long() {
            // The limit is that of two slots.
            self.op(Op::Address, reg::RAX, Place::At(s.slot, (self.long_slots() - 2) * log.slot_bytes));
            self.op(Op::Compare, reg::RAX, gs(log.limit));
        } else {
            self.op(Op::Compare, s.slot, gs(log.limit));
        }
        self.leave_if(CONDITION_ABOVE);
        self.op(Op::Load, s.commit, Place::Gs(offset::COUNT_TOTAL));
        for counter in 0..COUNTERS {
            self.op(Op::Sub, s.commit, Place::Gs(offset::counter(counter)));
        }
        self.op(Op::Sub, s.commit, gs(log.base));
        let unsettled = self.t.unsettled();
        if unsettled != 0 {
            self.op(Op::Address, s.commit, Place::At(s.commit, i32::from(unsettled)));
        }
        // A signal handler may have changed the counters half-way; it sets this word first or last, and always before it returns.
        self.t.asm.compare_small(Place::Gs(offset::ATTENTION), 0);
        self.leave_if(CONDITION_NOT_EQUAL);
        self.op(Op::Load, reg::RAX, Place::Register(s.commit));
        self.t.asm.shift(Shift::Right, reg::RAX, 32);
        self.leave_if(CONDITION_NOT_EQUAL);
        self.t.asm.shift(Shift::Left, s.commit, 32);
        if self.is_long() {
            self.t.asm.load_immediate(reg::RAX, u64::from(self.words.number | log.long));
            self.op(Op::Add, s.commit, Place::Register(reg::RAX));
        } else {
            let shape = if self.site.kind == Kind::ReadWrite { log.double } else { 0 };
            self.op(Op::Address, s.commit, Place::At(s.commit, (self.words.number | shape) as i32));
        }
    }

    /// Marks the slot; the clock's address, those of the real and the known bytes.
    fn clock(&mut self) {
        let (s, log) = (self.s, self.log());
        self.op(Op::Load, reg::RAX, Place::Register(s.operand));
        self.op(Op::Add, reg::RAX, Place::At(s.value, window::PLACE));
        self.op(Op::Store, reg::RAX, Place::At(s.slot, log.slot_place));
        // h = (place >> 12) * hash >> shift; the clock is at h >> 2 << 12 | place & 0xfc0 | (h & 3) << 4.
        self.op(Op::Load, s.clock, Place::Register(reg::RAX));
        self.t.asm.shift(Shift::Right, s.clock, 12);
        self.op(Op::Multiply, s.clock, Place::At(s.value, window::HASH));
        self.t.asm.shift(Shift::Right, s.clock, log.clock_shift);
        self.t.asm.mask(reg::RAX, 0xfc0);
        self.op(Op::Load, s.start, Place::Register(s.clock));
        self.t.asm.mask(s.start, 3);
        self.t.asm.shift(Shift::Left, s.start, 4);
        self.t.asm.shift(Shift::Right, s.clock, 2);
        self.t.asm.shift(Shift::Left, s.clock, 12);
        self.op(Op::Or, s.clock, Place::Register(s.start));
        self.op(Op::Or, s.clock, Place::Register(reg::RAX));
        self.op(Op::Add, s.clock, gs(log.clocks));
        self.op(Op::Load, s.real, Place::At(s.value, window::ALIAS));
        self.op(Op::Add, s.real, Place::Register(s.operand));
        self.op(Op::Add, s.operand, Place::At(s.value, window::KNOWN));
    }

    /// More than a short record holds.
    fn is_long(&self) -> bool {
        self.site.size > 8
    }

    fn long_slots(&self) -> i32 {
        // The first slot, then the interval and the bytes.
        1 + (16 + self.site.size).div_ceil(self.log().slot_bytes as u32) as i32
    }

    /// A long record of what the known copy has now. `value`, `real` and rax are lost.
    fn long_record(&mut self, end: usize) {
        let (s, log) = (self.s, self.log());
        let payload = log.slot_bytes;
        self.op(Op::Store, s.start, Place::At(s.slot, payload));
        self.op(Op::Store, end, Place::At(s.slot, payload + 8));
        for (at, _) in parts(self.site.size) {
            self.op(Op::Load, s.value, Place::At(s.operand, at));
            self.op(Op::Store, s.value, Place::At(s.slot, payload + 16 + at));
        }
        self.t.asm.load_immediate(reg::RAX, self.words.long_head);
        self.op(Op::Store, reg::RAX, Place::At(s.slot, log.slot_interval));
        self.t.asm.load_immediate(reg::RAX, self.insn.pc());
        self.op(Op::Store, reg::RAX, Place::At(s.slot, log.slot_value));
        let slots = self.long_slots();
        self.t.asm.add_constant(gs(log.extra_slots), slots - 1);
        self.finish_record(slots);
    }

    /// start = what the tick made of the clock.
    fn tick(&mut self) {
        self.t.asm.set(self.s.start, 1);
        self.op(Op::LockedExchangeAdd, self.s.start, Place::At(self.s.clock, 0));
        self.op(Op::Address, self.s.start, Place::At(self.s.start, 1));
    }

    /// This process writes: what is read from here on belongs to another event (I5).
    fn close_event(&mut self) {
        self.t.asm.store_constant(gs(self.words.events.open), 0);
    }

    fn read(&mut self) {
        let s = self.s;
        self.op(Op::Load, s.start, Place::At(s.clock, 0));
        self.op(Op::Compare, s.start, Place::At(s.clock, self.log().clock_open));
        let closed = self.t.asm.jump_if(CONDITION_NOT_EQUAL);
        self.tick();
        self.t.asm.bind_here(closed);
        for (at, size) in parts(self.site.size) {
            self.t.asm.op(Op::Load, size, s.value, Place::At(s.real, at));
            self.t.asm.op(Op::Compare, size, s.value, Place::At(s.operand, at));
            self.differs();
        }
        self.all_known();
        // The end of the interval.
        self.op(Op::Load, s.clock, Place::At(s.clock, 0));
        if self.is_long() {
            self.long_record(s.clock);
        } else {
            let wide = self.interval(s.clock);
            self.branches.extend(wide);
            self.op(Op::Store, s.value, Place::At(s.slot, self.log().slot_value));
            self.finish_record(1);
        }
        self.t.restore_saved_flags(offset::SAVED_FLAGS);
        let rest = self.saved & !(1 << s.operand);
        self.t.restore_saved(rest);
        self.run(1 << s.operand, false);
        self.t.row(self.insn.next(), Spill::Inline { set: 1 << s.operand, flags: false, undo: None });
        self.t.restore_saved(1 << s.operand);
    }

    fn write(&mut self) {
        let s = self.s;
        // Both lines may be with another process; a tick alone would wait for them one after the other.
        self.t.asm.fetch_to_write(Place::At(s.real, 0));
        self.close_event();
        self.tick();
        // What a fault of the real store must put back.
        for (at, size) in parts(self.site.size) {
            self.t.asm.op(Op::Load, size, reg::RAX, Place::At(s.operand, at));
            self.t.asm.store(offset::OLD_VALUE + at as u32, reg::RAX);
        }
        self.perform();
        for (at, size) in parts(self.site.size) {
            self.t.asm.op(Op::Load, size, s.value, Place::At(s.operand, at));
            self.t.asm.op(Op::Store, size, s.value, Place::At(s.real, at));
        }
        self.last_tick();
        if self.is_long() {
            self.long_record(reg::RAX);
            self.restore_after();
            self.t.row(self.insn.next(), Spill::None);
            return;
        }
        let wide = self.interval(reg::RAX);
        self.op(Op::Store, s.value, Place::At(s.slot, self.log().slot_value));
        self.finish_record(1);
        self.finish(wide);
    }

    fn change(&mut self) {
        let (s, size) = (self.s, self.site.size);
        self.close_event();
        self.tick();
        if self.site.locked {
            self.op(Op::Store, s.start, Place::At(s.clock, self.log().clock_open));
        }
        self.t.asm.op(Op::Load, size, reg::RAX, Place::At(s.real, 0));
        self.t.asm.store(offset::OLD_VALUE, reg::RAX);
        self.t.asm.op(Op::Compare, size, reg::RAX, Place::At(s.operand, 0));
        self.differs();
        self.all_known();
        self.perform();
        self.t.asm.op(Op::Load, size, s.value, Place::At(s.operand, 0));
        if self.site.locked {
            self.t.asm.load(reg::RAX, offset::OLD_VALUE);
            self.t.asm.op(Op::LockedCompareExchange, size, s.value, Place::At(s.real, 0));
            let won = self.t.asm.jump_if(CONDITION_EQUAL);
            // Another process came between: as if the instruction had not run, and to the host.
            self.t.asm.load(reg::RAX, offset::OLD_VALUE);
            self.t.asm.op(Op::Store, size, reg::RAX, Place::At(s.operand, 0));
            let lost = self.t.asm.jump();
            self.branches.push(lost);
            self.t.asm.bind_here(won);
            self.op(Op::Load, reg::RAX, Place::At(s.clock, 0));
        } else {
            self.t.asm.op(Op::Store, size, s.value, Place::At(s.real, 0));
            self.last_tick();
        }
        let wide = self.interval(reg::RAX);
        let log = self.log();
        self.op(Op::Store, s.value, Place::At(s.slot, log.slot_bytes));
        self.op(Op::Load, s.value, Place::Gs(offset::OLD_VALUE));
        self.op(Op::Store, s.value, Place::At(s.slot, log.slot_value));
        self.t.asm.add_constant(gs(log.extra_slots), 1);
        self.finish_record(2);
        if self.site.locked {
            self.give_way();
        }
        self.finish(wide);
    }

    /// The instruction of a write, on the known copy, with what it needs of rax and the flags.
    fn perform(&mut self) {
        let (s, uses) = (self.s, self.uses);
        if uses.flags_read || uses.flags_written {
            self.t.restore_saved_flags(offset::SAVED_FLAGS);
        }
        if uses.read & RAX != 0 {
            self.t.asm.load(reg::RAX, offset::saved(reg::RAX));
        }
        let restored = if uses.read & RAX != 0 { RAX } else { 0 };
        let flags = uses.flags_read || uses.flags_written;
        self.run(self.saved & !restored & !uses.written, !flags);
        self.row(Some((s.operand as u8, self.site.size as u8)));
        if uses.written & RAX != 0 {
            self.t.asm.store(offset::RESULT_RAX, reg::RAX);
        }
        if uses.flags_written {
            self.t.asm.save_flags();
            self.t.asm.store(offset::RESULT_FLAGS, reg::RAX);
        }
    }

    /// The instruction itself, while the guest's values of `set` and perhaps the flags lie in the context.
    fn run(&mut self, set: u16, flags: bool) {
        self.t.row(self.insn.pc(), Spill::Inline { set, flags, undo: None });
        self.t.reencode(&through(&self.insn.instruction, self.s.operand), true);
    }

    /// rax = what the second tick of a plain write found.
    fn last_tick(&mut self) {
        self.t.asm.set(reg::RAX, 1);
        self.op(Op::LockedExchangeAdd, reg::RAX, Place::At(self.s.clock, 0));
    }

    /// Stores the interval from `start` to `end`, whose register is lost. Returns the branches taken if it does not fit a record.
    /// The operand's register is lost too, unless this is a read.
    fn interval(&mut self, end: usize) -> [Branch; 2] {
        let s = self.s;
        self.op(Op::Sub, end, Place::Register(s.start));
        // For `give_way`.
        let temporary = s.real;
        self.op(Op::Load, temporary, Place::Register(end));
        self.t.asm.shift(Shift::Right, temporary, 16);
        let wide = self.t.asm.jump_if_any();
        self.op(Op::Load, temporary, Place::Register(s.start));
        self.t.asm.shift(Shift::Right, temporary, 48);
        let late = self.t.asm.jump_if_any();
        self.t.asm.shift(Shift::Left, end, 48);
        self.op(Op::Or, s.start, Place::Register(end));
        self.op(Op::Store, s.start, Place::At(s.slot, self.log().slot_interval));
        [wide, late]
    }

    /// The commit word, and on to the next slot.
    fn finish_record(&mut self, slots: i32) {
        let (s, log) = (self.s, self.log());
        self.op(Op::Store, s.commit, Place::At(s.slot, log.slot_commit));
        self.op(Op::Address, s.slot, Place::At(s.slot, slots * log.slot_bytes));
        self.op(Op::Store, s.slot, gs(log.cursor));
    }

    /// After a locked access that met another one: a moment for that one.
    fn give_way(&mut self) {
        let s = self.s;
        self.t.asm.shift(Shift::Right, s.start, 48);
        let alone = self.t.asm.jump_if(CONDITION_EQUAL);
        self.t.asm.set(s.start, self.log().pauses);
        let again = self.t.asm.here();
        self.t.asm.raw(&PAUSE);
        self.op(Op::Address, s.start, Place::At(s.start, -1));
        self.t.asm.compare_small(Place::Register(s.start), 0);
        let more = self.t.asm.jump_if(CONDITION_NOT_EQUAL);
        self.t.asm.bind(more, again);
        self.t.asm.bind_here(alone);
    }

    /// Puts the guest's registers and flags in place, behind a write. `wide`: where the record did not fit.
    fn finish(&mut self, wide: [Branch; 2]) {
        self.restore_after();
        let over = self.t.asm.jump();
        for branch in wide {
            self.t.asm.bind_here(branch);
        }
        self.restore_after();
        let exit = self.t.exit(ExitKind::SharedDropped { next: 0 }, self.insn.next());
        let index = self.t.exits.len();
        self.t.leave(exit);
        self.t.exits[index].kind = ExitKind::SharedDropped { next: self.t.asm.here() };
        self.t.asm.bind_here(over);
        self.t.row(self.insn.next(), Spill::None);
    }

    fn restore_after(&mut self) {
        let uses = self.uses;
        self.t.restore_saved_flags(if uses.flags_written { offset::RESULT_FLAGS } else { offset::SAVED_FLAGS });
        if uses.written & RAX != 0 {
            self.t.asm.load(reg::RAX, offset::RESULT_RAX);
        }
        self.t.restore_saved(self.saved & !uses.written);
    }
}

fn register64(number: usize) -> Register {
    Register::RAX + number as u32
}
