//! From a trace to machine code.
//!
//! Guest instructions are copied byte for byte; a RIP-relative displacement is adjusted. Re-encoding is for the few that need another
//! operand. A unit looks like this:
//!
//! ```text
//!   instructions …  jcc stub1  instructions …  [sub counter; js limit]  instructions …  end
//!   stub1:  [save flags] sub counter; js limit1; [restore flags] jmp → next unit, at first the exit below
//!           exit number; jmp gate
//!   limit:  exit number; jmp gate
//!   constants: return addresses for calls
//! ```
//!
//! All transfers up to the end of the unit are subtracted at one place after the last side exit where the status flags are dead
//! (just before an instruction that overwrites them); where there is none, at the end with the flags saved. `Row::unsettled` keeps
//! every point in between exact.
//!
//! Safe code: it only computes bytes.

use alloc::vec::Vec;

use iced_x86::{Code, Encoder, Instruction, InstructionInfoFactory, MemoryOperand, Mnemonic, OpKind, Register};

use crate::arena;
use crate::context::{offset, reg};
use crate::emit::{Assembler, Branch, cond};
use crate::flags::{self, STATUS};
use crate::gate::Gate;
use crate::site::{Form, Kind, Site};
use crate::trace::{End, Fetcher, Insn, Item, Trace, flags_dead_at};
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
    /// Accesses at these addresses are redirected by the host.
    Redirect(&'a dyn Fn(u64) -> bool),
    /// The host is told before the instruction at these addresses, which then runs as it is.
    Announce(&'a dyn Fn(u64) -> bool),
}

/// A finished translation, not yet installed.
pub struct Output {
    pub bytes: Vec<u8>,
    pub rows: Vec<Row>,
    pub exits: Vec<Exit>,
    pub sites: Vec<Site>,
}

/// Bytes that [`Translator::leave`] emits.
const LEAVE_BYTES: u8 = 18;

struct Stub {
    /// What leads here; `None`: the code just before.
    branch: Option<Branch>,
    target: u64,
    /// Transfers to subtract on this way out.
    settle: i32,
}

struct Late {
    branch: Branch,
    exit: Exit,
    /// The flags lie saved in rax, rax in the context.
    flags_saved: bool,
}

pub struct Translator<'a> {
    asm: Assembler,
    style: &'a Style<'a>,
    fetcher: &'a mut Fetcher,
    factory: &'a mut InstructionInfoFactory,
    rows: Vec<Row>,
    exits: Vec<Exit>,
    sites: Vec<Site>,
    stubs: Vec<Stub>,
    late: Vec<Late>,
    constants: Vec<(Branch, u64)>,
    counted: i32,
    settled: i32,
    start: u64,
}

/// Assembles `trace` for the address `base`.
pub fn translate<'a>(
    trace: &Trace,
    base: u64,
    buffer: Vec<u8>,
    style: &'a Style<'a>,
    fetcher: &'a mut Fetcher,
    factory: &'a mut InstructionInfoFactory,
) -> Output {
    let mut translator = Translator {
        asm: Assembler::new(buffer, base),
        style,
        fetcher,
        factory,
        rows: Vec::with_capacity(trace.items.len() + 1),
        exits: Vec::new(),
        sites: Vec::new(),
        stubs: Vec::new(),
        late: Vec::new(),
        constants: Vec::new(),
        counted: 0,
        settled: 0,
        start: base,
    };
    translator.run(trace);
    Output { bytes: translator.asm.into_bytes(), rows: translator.rows, exits: translator.exits, sites: translator.sites }
}

impl Translator<'_> {
    fn run(&mut self, trace: &Trace) {
        let settle_at = if self.style.linked && !self.style.precise_flags { settle_place(trace) } else { None };
        let total = transfers(trace);
        for (index, item) in trace.items.iter().enumerate() {
            if settle_at == Some(index) {
                self.settle_ahead(item.insn().pc(), total);
            }
            self.item(item);
        }
        self.end(&trace.end);
        self.cold();
        // A later redirection overwrites the first five bytes.
        while self.asm.len() < 5 {
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

    fn settle_ahead(&mut self, pc: u64, total: i32) {
        self.asm.subtract(self.counter(), (total - self.settled) as u8);
        let branch = self.asm.jump_if(cond::SIGN);
        let exit = self.exit(ExitKind::Limit { undo: (total - self.settled) as u8, flags_dirty: true }, pc);
        self.late.push(Late { branch, exit, flags_saved: false });
        self.settled = total;
    }

    fn item(&mut self, item: &Item) {
        match item {
            Item::Plain(insn) => self.plain(insn),
            Item::SideExit(insn) => {
                self.row(insn.pc(), Spill::None);
                let branch = self.asm.jump_if(condition(insn));
                self.counted += 1;
                self.stubs.push(Stub {
                    branch: Some(branch),
                    target: insn.instruction.near_branch_target(),
                    settle: self.counted - self.settled,
                });
            }
            Item::Jump(_) => self.counted += 1,
            Item::Call(insn) => {
                self.watch_branch(insn);
                self.row(insn.pc(), Spill::None);
                self.push_return_address(insn);
                self.counted += 1;
            }
        }
    }

    fn push_return_address(&mut self, insn: &Insn) {
        let branch = self.asm.push_constant();
        self.constants.push((branch, insn.next()));
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
        self.copy(insn);
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

    /// An instruction at a shared site.
    fn site(&mut self, insn: &Insn, site: Site) {
        let number = self.style.first_site + self.sites.len() as u32;
        self.sites.push(site);
        self.row(insn.pc(), Spill::None);
        if matches!(self.style.sites, SiteMode::Announce(_)) {
            self.announce(number, insn);
            return;
        }
        match site.form {
            Form::String => {
                let exit = self.exit(ExitKind::SharedString { site: number }, insn.pc());
                self.leave(exit);
            }
            Form::Other => {
                let exit = self.exit(ExitKind::Unsupported { what: "an instruction of this kind on shared memory" }, insn.pc());
                self.leave(exit);
            }
            Form::Explicit => {
                self.before_site(number, insn.pc());
                let body = self.asm.here();
                let scratch = self.scratch(&insn.instruction);
                self.asm.store(offset::SPILL_RCX, scratch);
                self.asm.load(scratch, offset::ACCESS_ADDRESS);
                self.row(insn.pc(), Spill::One(scratch as u8));
                self.reencode(&through(&insn.instruction, scratch), true);
                self.row(insn.next(), Spill::One(scratch as u8));
                self.asm.load(scratch, offset::SPILL_RCX);
                if site.kind != Kind::Read {
                    let exit = self.exit(ExitKind::SharedAfter { site: number, next: 0, body }, insn.next());
                    let after = self.exits.len();
                    self.leave(exit);
                    self.exits[after].kind = ExitKind::SharedAfter { site: number, next: self.asm.here(), body };
                }
            }
        }
    }

    fn announce(&mut self, number: u32, insn: &Insn) {
        self.before_site(number, insn.pc());
        self.row(insn.pc(), Spill::None);
        self.copy(insn);
    }

    /// The exit in front of a shared site; its body follows.
    fn before_site(&mut self, number: u32, pc: u64) {
        let exit = self.exit(ExitKind::SharedBefore { site: number, body: 0 }, pc);
        let before = self.exits.len();
        self.leave(exit);
        self.exits[before].kind = ExitKind::SharedBefore { site: number, body: self.asm.here() };
    }

    fn is_site(&self, pc: u64) -> bool {
        match &self.style.sites {
            SiteMode::Redirect(is_site) | SiteMode::Announce(is_site) => is_site(pc),
        }
    }

    /// An exit before the coming instruction if the watch filter has a mark for the address it touches.
    fn watch(&mut self, insn: &Insn, site: Site) {
        let number = self.style.first_site + self.sites.len() as u32;
        self.sites.push(site);
        self.row(site.pc, Spill::None);
        let filtered = self.watch_address(insn, &site);
        if filtered {
            self.row(site.pc, Spill::One(reg::RCX as u8));
            crate::watch::emit_filter(&mut self.asm, LEAVE_BYTES);
        }
        let exit = self.exit(ExitKind::Watch { site: number, next: 0 }, site.pc);
        let index = self.exits.len();
        let before = self.asm.len();
        self.leave(exit);
        debug_assert_eq!(self.asm.len() - before, LEAVE_BYTES as usize);
        if filtered {
            self.asm.load(reg::RCX, offset::SPILL_RCX);
        }
        self.exits[index].kind = ExitKind::Watch { site: number, next: self.asm.here() };
    }

    /// Calls, returns and branches through memory touch it too.
    fn watch_branch(&mut self, insn: &Insn) {
        if let Some(wanted) = self.style.watch
            && let Some(site) = Site::analyse(&insn.instruction, self.factory)
            && wanted.matches(site.kind)
        {
            self.watch(insn, site);
        }
    }

    /// Spills rcx and computes the operand's address into it; `false` (and nothing emitted) if it cannot be done so simply.
    fn watch_address(&mut self, insn: &Insn, site: &Site) -> bool {
        let instruction = &insn.instruction;
        if instruction.mnemonic() == Mnemonic::Ret {
            self.asm.store(offset::SPILL_RCX, reg::RCX);
            self.asm.raw(&[0x48, 0x89, 0xe1]); // mov rcx, rsp
            return true;
        }
        let pushes = matches!(instruction.mnemonic(), Mnemonic::Push | Mnemonic::Call);
        if pushes && site.form == Form::Other && instruction.op0_kind() != OpKind::Memory {
            self.asm.store(offset::SPILL_RCX, reg::RCX);
            self.asm.raw(&[0x48, 0x8d, 0x4c, 0x24, 0xf8]); // lea rcx, [rsp - 8]
            return true;
        }
        if !site.is_alone() || instruction.segment_prefix() == Register::FS {
            return false;
        }
        if instruction.is_ip_rel_memory_operand() {
            self.asm.store(offset::SPILL_RCX, reg::RCX);
            self.asm.load_immediate(reg::RCX, instruction.ip_rel_memory_address());
            return true;
        }
        let Ok(lea) = Instruction::with2(Code::Lea_r64_m, Register::RCX, operand(instruction)) else { return false };
        self.asm.store(offset::SPILL_RCX, reg::RCX);
        self.reencode(&lea, false);
        true
    }

    fn end(&mut self, end: &End) {
        match end {
            End::Cut(pc) => self.go_on(*pc),
            End::Jump(insn) => {
                self.counted += 1;
                self.go_on(insn.instruction.near_branch_target());
            }
            End::Call(insn) => {
                self.watch_branch(insn);
                self.row(insn.pc(), Spill::None);
                self.push_return_address(insn);
                self.counted += 1;
                self.go_on(insn.instruction.near_branch_target());
            }
            End::Conditional(insn) => self.conditional(insn),
            End::IndirectJump(insn) | End::IndirectCall(insn) | End::Return(insn) => {
                self.indirect(insn, matches!(end, End::IndirectCall(_)))
            }
            End::VectorState(insn) => {
                let number = self.style.first_site + self.sites.len() as u32;
                self.sites.push(Site::of_state(&insn.instruction));
                self.simple_exit(insn.pc(), ExitKind::VectorState { site: number });
            }
            End::SystemCall(insn) => self.simple_exit(insn.pc(), ExitKind::SystemCall { length: insn.instruction.len() as u8 }),
            End::Nondeterministic(insn, what) => {
                let register = insn.instruction.op0_register();
                let kind = ExitKind::Nondeterministic {
                    what: *what,
                    register: if register.is_gpr() { register.full_register().number() as u8 } else { 0 },
                    size: register.size() as u8,
                    length: insn.instruction.len() as u8,
                };
                self.simple_exit(insn.pc(), kind);
            }
            End::Trap(insn) => self.simple_exit(insn.next(), ExitKind::Trap),
            End::Breakpoint(pc) => self.simple_exit(*pc, ExitKind::Breakpoint),
            End::Unsupported(insn, what) => self.simple_exit(insn.pc(), ExitKind::Unsupported { what }),
            End::Undecodable(pc) => self.simple_exit(*pc, ExitKind::Undecodable),
        }
    }

    fn simple_exit(&mut self, pc: u64, kind: ExitKind) {
        self.row(pc, Spill::None);
        let exit = self.exit(kind, pc);
        self.leave(exit);
    }

    /// Ends the unit by going to `target`.
    fn go_on(&mut self, target: u64) {
        let settle = self.counted - self.settled;
        self.stub(&Stub { branch: None, target, settle });
    }

    fn conditional(&mut self, insn: &Insn) {
        self.row(insn.pc(), Spill::None);
        let target = insn.instruction.near_branch_target();
        let branch = if insn.instruction.is_jcc_short_or_near() {
            self.asm.jump_if(condition(insn))
        } else {
            // loop, loope, loopne, jrcxz: only a short form exists. over: jmp rest; taken: jmp stub; rest:
            let bytes = insn.raw();
            self.asm.raw(&bytes[..bytes.len() - 1]);
            self.asm.raw(&[5]);
            let rest = self.asm.jump();
            let taken = self.asm.jump();
            self.asm.bind_here(rest);
            taken
        };
        self.counted += 1;
        let settle = self.counted - self.settled;
        self.stubs.push(Stub { branch: Some(branch), target, settle });
        self.go_on(insn.next());
    }

    fn indirect(&mut self, insn: &Insn, call: bool) {
        let instruction = &insn.instruction;
        self.watch_branch(insn);
        let shared = instruction.op_count() == 1 && instruction.op0_kind() == OpKind::Memory && self.is_site(insn.pc());
        if shared {
            let number = self.style.first_site + self.sites.len() as u32;
            self.sites.push(Site::of_pointer(instruction));
            self.row(insn.pc(), Spill::None);
            self.before_site(number, insn.pc());
        }
        self.asm.store(offset::SPILL_RCX, reg::RCX);
        self.asm.store(offset::SPILL_RAX, reg::RAX);
        self.row(insn.pc(), Spill::RcxRax);
        if shared && matches!(self.style.sites, SiteMode::Redirect(_)) {
            self.asm.load(reg::RCX, offset::ACCESS_ADDRESS);
            self.asm.raw(&[0x48, 0x8b, 0x09]); // mov rcx, [rcx]
        } else {
            self.load_target(instruction);
        }
        if call {
            self.push_return_address(insn);
        }
        self.counted += 1;
        if !self.style.linked {
            let exit = self.exit(ExitKind::UnlinkedIndirect, 0);
            self.leave(exit);
            return;
        }
        let settle = self.counted - self.settled;
        self.settled = self.counted;
        if settle > 0 {
            self.asm.save_flags();
            self.asm.subtract(self.counter(), settle as u8);
            let branch = self.asm.jump_if(cond::SIGN);
            self.late.push(Late { branch, exit: self.exit(ExitKind::LimitIndirect, 0), flags_saved: true });
            self.asm.restore_flags();
        }
        self.asm.raw(&[0x0f, 0xb7, 0xc1]); // movzx eax, cx
        self.asm.jump_table_rax(arena::INDIRECT_TABLE_OFFSET);
    }

    /// Loads the target of an indirect branch into rcx; rax may be lost as well.
    fn load_target(&mut self, instruction: &Instruction) {
        if instruction.mnemonic() == Mnemonic::Ret {
            self.asm.raw(&[0x59]); // pop rcx
            if instruction.op_count() == 1 {
                // lea rsp, [rsp + imm16]
                self.asm.raw(&[0x48, 0x8d, 0xa4, 0x24]);
                self.asm.raw(&u32::from(instruction.immediate16()).to_le_bytes());
            }
            return;
        }
        if instruction.op0_kind() == OpKind::Register {
            let from = instruction.op0_register().full_register();
            if from != Register::RCX
                && let Ok(mov) = Instruction::with2(Code::Mov_r64_rm64, Register::RCX, from)
            {
                self.reencode(&mov, false);
            }
            return;
        }
        if instruction.is_ip_rel_memory_operand() {
            let target = instruction.ip_rel_memory_address();
            self.asm.load_immediate(reg::RCX, target);
            self.asm.raw(&[0x48, 0x8b, 0x09]); // mov rcx, [rcx]
            return;
        }
        if let Ok(mov) = Instruction::with2(Code::Mov_r64_rm64, Register::RCX, operand(instruction)) {
            self.reencode(&mov, false);
        }
    }

    /// Everything that is not on the straight way.
    fn cold(&mut self) {
        for stub in core::mem::take(&mut self.stubs) {
            self.stub(&stub);
        }
        for late in core::mem::take(&mut self.late) {
            self.asm.bind_here(late.branch);
            if late.flags_saved {
                self.asm.restore_flags();
                if !matches!(late.exit.kind, ExitKind::LimitIndirect) {
                    self.asm.load(reg::RAX, offset::SPILL_RAX);
                }
            }
            self.leave(late.exit);
        }
        if !self.constants.is_empty() {
            self.asm.align(8);
        }
        for (branch, value) in core::mem::take(&mut self.constants) {
            self.asm.bind_here(branch);
            self.asm.u64(value);
        }
    }

    /// A way out to `stub.target`.
    fn stub(&mut self, stub: &Stub) {
        if let Some(branch) = stub.branch {
            self.asm.bind_here(branch);
        }
        let exit = Exit { kind: ExitKind::Unlinked, pc: stub.target, unsettled: 0, counter: self.style.counter };
        if !self.style.linked {
            self.leave(Exit { unsettled: stub.settle as i8, ..exit });
            return;
        }
        let mut patch = stub.branch;
        if stub.settle > 0 {
            let dead = !self.style.precise_flags && flags_dead_at(self.fetcher, stub.target);
            if !dead {
                self.asm.store(offset::SPILL_RAX, reg::RAX);
                self.asm.save_flags();
            }
            self.asm.subtract(self.counter(), stub.settle as u8);
            let branch = self.asm.jump_if(cond::SIGN);
            let limit = Exit { kind: ExitKind::Limit { undo: 0, flags_dirty: dead }, ..exit };
            self.late.push(Late { branch, exit: limit, flags_saved: !dead });
            if !dead {
                self.asm.restore_flags();
                self.asm.load(reg::RAX, offset::SPILL_RAX);
            }
            patch = None;
        }
        let patch = patch.unwrap_or_else(|| {
            let onward = self.asm.jump();
            self.asm.bind_here(onward);
            onward
        });
        let kind = ExitKind::Link { patch: self.asm.patch_address(patch) };
        self.leave(Exit { kind, ..exit });
    }
}

/// The code of an exit alone, to stand at `base`.
pub fn exit_code(base: u64, number: u32, gate: &Gate) -> Vec<u8> {
    let mut asm = Assembler::new(Vec::new(), base);
    asm.store_immediate(offset::EXIT, number);
    let branch = asm.jump();
    asm.bind(branch, gate.exit);
    asm.into_bytes()
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

/// Transfers that the whole trace executes if no side exit is taken.
fn transfers(trace: &Trace) -> i32 {
    let inside = trace.items.iter().filter(|item| !matches!(item, Item::Plain(_))).count() as i32;
    inside + i32::from(settles_at_end(&trace.end))
}

fn settles_at_end(end: &End) -> bool {
    matches!(end, End::Jump(_) | End::Call(_) | End::Conditional(_) | End::IndirectJump(_) | End::IndirectCall(_) | End::Return(_))
}

/// Where to subtract ahead: before the last item behind the last side exit that overwrites all status flags without reading any.
fn settle_place(trace: &Trace) -> Option<usize> {
    if !settles_at_end(&trace.end) && !matches!(trace.end, End::Cut(_)) || transfers(trace) == 0 {
        return None;
    }
    let behind = trace.items.iter().rposition(|item| matches!(item, Item::SideExit(_))).map_or(0, |at| at + 1);
    (behind..trace.items.len()).rev().find(|&index| {
        let effect = flags::effect(&trace.items[index].insn().instruction);
        let Item::Plain(insn) = trace.items[index] else { return false };
        // An instruction that may fault must find the guest's own flags.
        let faults = (0..insn.instruction.op_count()).any(|operand| insn.instruction.op_kind(operand) == OpKind::Memory);
        effect.reads == 0 && effect.kills == STATUS && !faults && !insn.instruction.is_string_instruction()
    })
}
