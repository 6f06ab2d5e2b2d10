//! From a trace to machine code.
//!
//! Guest instructions are copied byte for byte; a RIP-relative displacement is adjusted. Re-encoding is for the few that need another
//! operand. A unit looks like this:
//!
//! ```text
//!   instructions …  jcc exit1  instructions …  [sub counter; js limit]  instructions …  end          among the hot code
//!   exits: exit number; jmp gate                                                                     among the cold
//!   constants: return addresses for calls                                                            in a place of their own
//! ```
//!
//! All transfers up to the end of the unit are subtracted at one place where the status flags are dead (just before an instruction
//! that overwrites them), the last there is; where there is none, at the end with the flags saved. `Row::unsettled` keeps every point
//! exact. A way out that has counted more or fewer transfers than were subtracted makes up for it in a stub of its own, which is made
//! when it is first taken and stands before the unit it leads to, if that is made at the same time.
//!
//! Safe code: it only computes bytes.

mod branch;
mod ends;
mod inline;
mod shared;

pub use ends::exit_code;
use ends::{settle_place, transfers};

use alloc::vec::Vec;

use iced_x86::{Encoder, Instruction, InstructionInfoFactory, MemoryOperand, Mnemonic, Register};

use crate::context::{offset, reg};
use crate::emit::{Assembler, cond};
use crate::gate::Gate;
use crate::inline::InlineSite;
use crate::site::Site;
use crate::trace::{Fetcher, Insn, Item, Trace};
use crate::unit::{Exit, ExitKind, Row, Spill};

/// How this unit is to be made.
pub struct Style<'a> {
    pub gate: Gate,
    pub counter: u8,
    /// Exits may be linked to other units. Exact units always come back.
    pub linked: bool,
    /// Every exit must show the guest's own status flags, dead or not.
    pub precise_flags: bool,
    pub sites: SiteMode<'a>,
    /// Exit before every access of the matching kinds that passes the watch filter.
    pub watch: Option<crate::watch::Wanted>,
    /// Number of the first exit and site that this unit may use.
    pub first_exit: u32,
    pub first_site: u32,
}

pub enum SiteMode<'a> {
    /// Accesses at these addresses are redirected by the host, or inline where it has an answer to `inline`.
    Redirect { is_site: &'a dyn Fn(u64) -> bool, inline: &'a dyn Fn(&Site) -> Option<InlineSite> },
    /// The host is told before the instruction at these addresses, which then runs as it is.
    Announce(&'a dyn Fn(u64) -> bool),
}

/// A finished translation, not yet installed.
pub struct Output {
    pub bytes: Vec<u8>,
    pub cold: Vec<u8>,
    pub constants: Vec<u64>,
    /// Where the unit begins in `bytes`, behind the stub that leads into it.
    pub entry: usize,
    pub rows: Vec<Row>,
    pub exits: Vec<Exit>,
    pub sites: Vec<Site>,
}

/// What a program does that steps through itself.
pub const TRAP_FLAG: &str = "setting the trap flag";

/// Bytes that [`Translator::leave`] emits.
const LEAVE_BYTES: u8 = 18;

/// What a way into a unit has to subtract on its way.
#[derive(Clone, Copy, Debug)]
pub struct LeadIn {
    pub settle: i8,
    pub counter: u8,
}

/// Where code is to stand, and buffers for it.
pub struct Place {
    pub base: u64,
    pub cold_base: u64,
    pub constants_base: u64,
    pub buffers: (Vec<u8>, Vec<u8>),
}

pub struct Translator<'a> {
    asm: Assembler,
    cold: Assembler,
    constants: Vec<u64>,
    constants_base: u64,
    style: &'a Style<'a>,
    fetcher: &'a mut Fetcher,
    factory: &'a mut InstructionInfoFactory,
    rows: Vec<Row>,
    exits: Vec<Exit>,
    sites: Vec<Site>,
    cold_sites: Vec<inline::ColdSite>,
    /// The unit waits for another process, as it seems: it has a pause and an access to shared memory.
    waits: bool,
    counted: i32,
    settled: i32,
    start: u64,
}

/// Assembles `trace` to stand at `place`, with a stub before it if something is to lead into it.
pub fn translate<'a>(
    trace: &Trace,
    lead_in: Option<LeadIn>,
    place: Place,
    style: &'a Style<'a>,
    fetcher: &'a mut Fetcher,
    factory: &'a mut InstructionInfoFactory,
) -> Output {
    let mut translator = Translator::new(place, style, fetcher, factory);
    if let Some(lead_in) = lead_in {
        translator.lead_in(lead_in, trace.start);
        translator.start = translator.asm.here();
    }
    let entry = translator.asm.len();
    translator.run(trace);
    translator.finish(entry)
}

/// Assembles a stub that makes up for `lead_in` and goes on to the unit for `pc` at `host`.
pub fn stub<'a>(
    lead_in: LeadIn,
    (pc, host): (u64, u64),
    place: Place,
    style: &'a Style<'a>,
    fetcher: &'a mut Fetcher,
    factory: &'a mut InstructionInfoFactory,
) -> Output {
    let mut translator = Translator::new(place, style, fetcher, factory);
    translator.lead_in(lead_in, pc);
    let onward = translator.asm.jump();
    translator.asm.bind(onward, host);
    translator.finish(0)
}

impl<'a> Translator<'a> {
    fn new(place: Place, style: &'a Style<'a>, fetcher: &'a mut Fetcher, factory: &'a mut InstructionInfoFactory) -> Self {
        Self {
            asm: Assembler::new(place.buffers.0, place.base),
            cold: Assembler::new(place.buffers.1, place.cold_base),
            constants: Vec::new(),
            constants_base: place.constants_base,
            style,
            fetcher,
            factory,
            rows: Vec::with_capacity(16),
            exits: Vec::new(),
            sites: Vec::new(),
            cold_sites: Vec::new(),
            waits: false,
            counted: 0,
            settled: 0,
            start: place.base,
        }
    }

    fn finish(self, entry: usize) -> Output {
        Output {
            bytes: self.asm.into_bytes(),
            cold: self.cold.into_bytes(),
            constants: self.constants,
            entry,
            rows: self.rows,
            exits: self.exits,
            sites: self.sites,
        }
    }
}

impl Translator<'_> {
    fn run(&mut self, trace: &Trace) {
        let settle_at = if self.style.linked && !self.style.precise_flags { settle_place(trace) } else { None };
        let total = transfers(trace);
        self.waits = matches!(self.style.sites, SiteMode::Redirect { .. })
            && trace.items.iter().any(|item| item.insn().instruction.mnemonic() == Mnemonic::Pause)
            && trace.items.iter().any(|item| self.is_site(item.insn().pc()));
        for (index, item) in trace.items.iter().enumerate() {
            if settle_at == Some(index) {
                self.settle_ahead(item.insn().pc(), total);
            }
            self.item(item);
        }
        self.end(&trace.end);
        self.cold_sites();
        // A later redirection overwrites the first five bytes.
        while self.asm.here() < self.start + 5 {
            self.asm.raw(&[0xcc]);
        }
    }

    fn unsettled(&self) -> i8 {
        (self.counted - self.settled) as i8
    }

    fn counter(&self) -> u32 {
        offset::counter(self.style.counter as usize)
    }

    fn row(&mut self, pc: u64, spill: Spill) {
        self.rows.push(Row { host: (self.asm.here() - self.start) as u32, unsettled: self.unsettled(), spill, pc });
    }

    fn exit(&self, kind: ExitKind, pc: u64) -> Exit {
        Exit { kind, pc, unsettled: self.unsettled(), counter: self.style.counter }
    }

    /// Emits the jump to the gate for `exit`.
    fn leave(&mut self, exit: Exit) {
        self.asm.store_immediate(offset::EXIT, self.style.first_exit + self.exits.len() as u32);
        self.exits.push(exit);
        let branch = self.asm.jump();
        self.asm.bind(branch, self.style.gate.exit);
    }

    /// Emits the jump to the gate for `exit` among the cold code; returns its address.
    fn leave_cold(&mut self, exit: Exit) -> u64 {
        let at = self.cold.here();
        self.cold.store_immediate(offset::EXIT, self.style.first_exit + self.exits.len() as u32);
        self.exits.push(exit);
        let branch = self.cold.jump();
        self.cold.bind(branch, self.style.gate.exit);
        at
    }

    fn settle_ahead(&mut self, pc: u64, total: i32) {
        self.asm.subtract(self.counter(), (total - self.settled) as i8);
        let branch = self.asm.jump_if(cond::SIGN);
        let exit = self.exit(ExitKind::Limit { undo: (total - self.settled) as u8, flags_dirty: true }, pc);
        let limit = self.leave_cold(exit);
        self.asm.bind(branch, limit);
        self.settled = total;
    }

    fn item(&mut self, item: &Item) {
        match item {
            Item::Plain(insn) => self.plain(insn),
            Item::SideExit(insn, taken) => {
                self.row(insn.pc(), Spill::None);
                let (out, other) = (insn.instruction.near_branch_target(), insn.next());
                let (invert, target) = if *taken { (1, other) } else { (0, out) };
                let branch = self.asm.jump_if(condition(insn) ^ invert);
                self.counted += 1;
                self.link(branch, Some(insn.pc()), target);
            }
            Item::Guarded(insn, target) => self.guarded(insn, *target),
            Item::Jump(_) => self.counted += 1,
            Item::Call(insn) => {
                self.call(insn);
                self.counted += 1;
            }
        }
    }

    /// A direct call, up to its jump.
    fn call(&mut self, insn: &Insn) {
        self.watch_branch(insn);
        if !self.branch_site(insn) {
            self.row(insn.pc(), Spill::None);
            self.push_return_address(insn);
        }
    }

    fn push_return_address(&mut self, insn: &Insn) {
        let branch = self.asm.push_constant();
        self.asm.bind(branch, self.constants_base + 8 * self.constants.len() as u64);
        self.constants.push(insn.next());
    }

    fn plain(&mut self, insn: &Insn) {
        let instrumented = self.is_site(insn.pc());
        if (instrumented || self.style.watch.is_some())
            && let Some(site) = Site::analyse(&insn.instruction, self.factory)
        {
            if instrumented {
                self.site(insn, site);
                return;
            }
            if self.style.watch.is_some_and(|wanted| wanted.matches(site.kind)) {
                self.watch(insn, site);
            }
        }
        self.row(insn.pc(), Spill::None);
        match insn.instruction.mnemonic() {
            Mnemonic::Popf | Mnemonic::Popfq => self.refuse_trap_flag(insn),
            Mnemonic::Pause if self.waits => self.wait_longer(),
            _ => {}
        }
        self.copy(insn);
    }

    /// Before popf, which gives all flags a new value: leaves if the trap flag is in what it pops.
    fn refuse_trap_flag(&mut self, insn: &Insn) {
        self.asm.raw(&[0xf6, 0x44, 0x24, 0x01, 0x01]); // test byte [rsp + 1], 1
        let branch = self.asm.jump_if(cond::NOT_ZERO);
        let exit = self.exit(ExitKind::Unsupported { what: TRAP_FLAG }, insn.pc());
        let leave = self.leave_cold(exit);
        self.asm.bind(branch, leave);
    }

    /// Copies an instruction as it is, but for a RIP-relative displacement.
    fn copy(&mut self, insn: &Insn) {
        let Some(at) = insn.displacement else {
            self.asm.raw(insn.raw());
            return;
        };
        let target = insn.instruction.ip_rel_memory_address();
        let next = self.asm.here() + insn.raw().len() as u64;
        match i32::try_from(target.wrapping_sub(next) as i64) {
            Ok(displacement) if insn.instruction.memory_base() == Register::RIP => {
                let mut bytes = insn.bytes;
                bytes[at as usize..at as usize + 4].copy_from_slice(&displacement.to_le_bytes());
                self.asm.raw(&bytes[..insn.raw().len()]);
            }
            _ => self.copy_far(insn, target),
        }
    }

    /// As [`Self::copy`] where the operand is out of reach: through a register that the instruction does not use.
    fn copy_far(&mut self, insn: &Insn, target: u64) {
        if insn.instruction.mnemonic() == Mnemonic::Lea {
            let register = insn.instruction.op0_register();
            let mask = if register.size() == 8 { u64::MAX } else { 0xffff_ffff };
            self.asm.load_immediate(register.full_register().number(), target & mask);
            return;
        }
        let scratch = self.scratch(&insn.instruction);
        self.asm.store(offset::SPILL_RCX, scratch);
        self.asm.load_immediate(scratch, target);
        self.row(insn.pc(), Spill::One(scratch as u8));
        self.reencode(&through(&insn.instruction, scratch), false);
        self.row(insn.next(), Spill::One(scratch as u8));
        self.asm.load(scratch, offset::SPILL_RCX);
    }

    /// A general register that the instruction neither reads nor writes; a low one if possible, so that ah…bh stay encodable.
    fn scratch(&mut self, instruction: &Instruction) -> usize {
        let info = self.factory.info(instruction);
        let used = |number: usize| {
            info.used_registers()
                .iter()
                .any(|used| used.register().full_register().is_gpr64() && used.register().full_register().number() == number)
        };
        [reg::RCX, reg::RAX, reg::RDX, reg::RBX, reg::RSI, reg::RDI, reg::RBP, 8, 9, 10, 11]
            .into_iter()
            .find(|&number| !used(number))
            .unwrap_or(12)
    }

    fn reencode(&mut self, instruction: &Instruction, unlock: bool) {
        let mut instruction = *instruction;
        if unlock {
            instruction.set_has_lock_prefix(false);
        }
        let mut encoder = Encoder::new(64);
        if encoder.encode(&instruction, self.asm.here()).is_ok() {
            let bytes = encoder.take_buffer();
            self.asm.raw(&bytes);
        } else {
            // ud2: an encoding that the library refuses must not pass silently.
            self.asm.raw(&[0x0f, 0x0b]);
        }
    }
}

/// The same instruction with its memory operand at `[scratch]`.
fn through(instruction: &Instruction, scratch: usize) -> Instruction {
    let registers = [
        Register::RAX,
        Register::RCX,
        Register::RDX,
        Register::RBX,
        Register::RSP,
        Register::RBP,
        Register::RSI,
        Register::RDI,
        Register::R8,
        Register::R9,
        Register::R10,
        Register::R11,
        Register::R12,
    ];
    let mut changed = *instruction;
    changed.set_memory_base(registers[scratch]);
    changed.set_memory_index(Register::None);
    changed.set_memory_displacement64(0);
    changed.set_memory_displ_size(0);
    changed.set_segment_prefix(Register::None);
    changed
}

fn operand(instruction: &Instruction) -> MemoryOperand {
    MemoryOperand::new(
        instruction.memory_base(),
        instruction.memory_index(),
        instruction.memory_index_scale(),
        instruction.memory_displacement64() as i64,
        instruction.memory_displ_size(),
        false,
        instruction.segment_prefix(),
    )
}

fn condition(insn: &Insn) -> u8 {
    let bytes = insn.raw();
    let opcode = bytes.iter().position(|&byte| byte == 0x0f);
    match opcode {
        Some(at) if insn.instruction.len() >= at + 6 => bytes[at + 1] & 0xf,
        _ => bytes[insn.instruction.len() - 2] & 0xf,
    }
}
