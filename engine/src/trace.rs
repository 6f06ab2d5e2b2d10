//! Choosing what to translate together: a trace is a run of guest instructions that is entered only at its first one.
//!
//! It follows direct jumps and calls, other branches the way that [`Limits::usual`] and [`Limits::only`] tell, returns to calls within
//! it, and itself once more around a small loop. It ends at anything else, at a size limit, and where it would leave the code region.
//! How code is cut into traces never shows in `bbcount`.

use alloc::vec::Vec;

use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register};

use crate::flags::{self, Liveness};
use crate::host::Nondeterministic;
use crate::memory::read_guest;
use crate::vsyscall;

/// At most this many control transfers in one trace: `count` relies on it.
pub const MAX_TRANSFERS: u32 = 16;
const MAX_INSTRUCTIONS: usize = 96;
/// A loop is unrolled up to this size.
const MAX_UNROLLED: usize = 64;
/// The length of code that stands in for what is in memory.
pub const OVERLAY_BYTES: usize = 8;
const MAX_LOOKAHEAD: usize = 16;

/// One guest instruction with its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Insn {
    pub instruction: Instruction,
    pub bytes: [u8; 15],
    /// Where the 32-bit displacement of a RIP-relative operand lies in `bytes`.
    pub displacement: Option<u8>,
}

impl Insn {
    pub fn pc(&self) -> u64 {
        self.instruction.ip()
    }

    pub fn next(&self) -> u64 {
        self.instruction.next_ip()
    }

    pub fn raw(&self) -> &[u8] {
        &self.bytes[..self.instruction.len()]
    }
}

#[derive(Clone, Copy, Debug)]
pub enum Item {
    Plain(Insn),
    /// A conditional branch that goes on in the trace if it is taken, or if it is not.
    SideExit(Insn, bool),
    /// A direct jump whose target follows in the trace.
    Jump(Insn),
    /// A direct call whose target follows in the trace.
    Call(Insn),
    /// An indirect branch, call or return that goes on in the trace if it leads to this address.
    Guarded(Insn, u64),
}

impl Item {
    pub fn insn(&self) -> &Insn {
        match self {
            Self::Plain(insn) | Self::SideExit(insn, _) | Self::Jump(insn) | Self::Call(insn) | Self::Guarded(insn, _) => insn,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub enum End {
    /// Cut before this address, no transfer.
    Cut(u64),
    Jump(Insn),
    Call(Insn),
    /// Any conditional branch, `loop` and `jrcxz` included.
    Conditional(Insn),
    IndirectJump(Insn),
    IndirectCall(Insn),
    Return(Insn),
    SystemCall(Insn),
    /// xsave and its variants, xgetbv: see `vector`.
    VectorState(Insn),
    Nondeterministic(Insn, Nondeterministic),
    /// A breakpoint is set here; only as the first thing of a trace.
    Breakpoint(u64),
    /// int3.
    Trap(Insn),
    Unsupported(Insn, &'static str),
    /// No readable or decodable instruction here.
    Undecodable(u64),
}

#[derive(Debug)]
pub struct Trace {
    pub start: u64,
    pub items: Vec<Item>,
    pub end: End,
}

/// Where traces must not reach.
pub struct Limits<'a> {
    pub max_transfers: u32,
    pub max_instructions: usize,
    /// Cut before this address, except at the start.
    pub cut: Option<u64>,
    pub breakpoints: &'a dyn Fn(u64) -> bool,
    /// Whether code at this address may be translated into the same region.
    pub in_region: &'a dyn Fn(u64) -> bool,
    /// Where the conditional branch at this address usually leads.
    pub usual: &'a dyn Fn(u64) -> Option<u64>,
    /// Where the indirect branch at this address nearly always leads.
    pub only: &'a dyn Fn(u64) -> Option<u64>,
    /// Whether the indirect branch at this address may be followed at all.
    pub may_guard: &'a dyn Fn(u64) -> bool,
}

impl Trace {
    /// The guest bytes that decided how the trace ends.
    pub fn end_range(&self) -> (u64, u64) {
        match &self.end {
            End::Jump(insn)
            | End::Call(insn)
            | End::Conditional(insn)
            | End::IndirectJump(insn)
            | End::IndirectCall(insn)
            | End::Return(insn)
            | End::SystemCall(insn)
            | End::VectorState(insn)
            | End::Trap(insn)
            | End::Nondeterministic(insn, _)
            | End::Unsupported(insn, _) => (insn.pc(), insn.next()),
            End::Cut(pc) | End::Breakpoint(pc) | End::Undecodable(pc) => (*pc, pc + 1),
        }
    }
}

impl Limits<'_> {
    pub const TRACE: (u32, usize) = (MAX_TRANSFERS, MAX_INSTRUCTIONS);
}

/// Decodes guest instructions one after another from wherever it is sent.
pub struct Fetcher {
    window: [u8; 64],
    start: u64,
    length: usize,
    /// Code that stands in the guest's eyes at these addresses, whatever is in memory.
    overlays: Vec<(u64, [u8; OVERLAY_BYTES])>,
}

impl Default for Fetcher {
    fn default() -> Self {
        Self { window: [0; 64], start: 0, length: 0, overlays: Vec::new() }
    }
}

impl Fetcher {
    /// Forgets what it has read: the guest may have run since.
    pub fn refresh(&mut self) {
        self.length = 0;
    }

    /// From here on `code` is what is fetched at `address`.
    pub fn overlay(&mut self, address: u64, code: [u8; OVERLAY_BYTES]) {
        self.overlays.push((address, code));
        self.refresh();
    }

    fn apply_overlays(&mut self) {
        let (start, end) = (self.start, self.start + self.length as u64);
        for &(address, code) in self.overlays.iter().filter(|&&(address, _)| address < end && start < address + OVERLAY_BYTES as u64) {
            for (at, byte) in (address..).zip(code).filter(|&(at, _)| (start..end).contains(&at)) {
                self.window[(at - start) as usize] = byte;
            }
        }
    }

    /// `None`: nothing readable or decodable at `pc`.
    pub fn fetch(&mut self, pc: u64) -> Option<Insn> {
        let inside = pc >= self.start && pc < self.start + self.length as u64;
        if !inside || pc + 15 > self.start + self.length as u64 {
            self.start = pc;
            self.length = vsyscall::fetch(pc, &mut self.window).unwrap_or_else(|| read_guest(pc, &mut self.window));
            self.apply_overlays();
        }
        let at = (pc - self.start) as usize;
        let mut decoder = Decoder::with_ip(64, &self.window[at..self.length], pc, DecoderOptions::NONE);
        let instruction = decoder.decode();
        if instruction.is_invalid() {
            return None;
        }
        let mut bytes = [0; 15];
        bytes[..instruction.len()].copy_from_slice(&self.window[at..at + instruction.len()]);
        let displacement =
            instruction.is_ip_rel_memory_operand().then(|| decoder.get_constant_offsets(&instruction).displacement_offset() as u8);
        Some(Insn { instruction, bytes, displacement })
    }
}

/// Are the status flags dead at `pc`? `false` also where the answer is out of sight.
pub fn flags_dead_at(fetcher: &mut Fetcher, mut pc: u64) -> bool {
    let mut liveness = Liveness::new();
    for _ in 0..MAX_LOOKAHEAD {
        let Some(insn) = fetcher.fetch(pc) else { return false };
        if let Some(answer) = liveness.feed(flags::effect(&insn.instruction)) {
            return answer;
        }
        match insn.instruction.flow_control() {
            FlowControl::Next => pc = insn.next(),
            FlowControl::UnconditionalBranch | FlowControl::Call if is_near_direct(&insn.instruction) => {
                pc = insn.instruction.near_branch_target()
            }
            _ => return false,
        }
    }
    false
}

fn is_near_direct(instruction: &Instruction) -> bool {
    instruction.op_count() == 1 && instruction.op0_kind() == OpKind::NearBranch64
}

/// Where a trace has been.
struct Path {
    start: u64,
    /// Index of the first item of this time around the loop.
    round: usize,
    transfers: u32,
    max_transfers: u32,
}

impl Path {
    /// Whether one more transfer, to `target`, may be made part of the trace; `items` are those before it.
    fn follow(&mut self, target: u64, items: &[Item]) -> bool {
        if self.transfers + 1 >= self.max_transfers {
            return false;
        }
        if target == self.start {
            // Once more around, if all of it fits.
            let transfers = items[self.round..].iter().filter(|item| !matches!(item, Item::Plain(_))).count() as u32 + 1;
            let length = items.len() + 1 - self.round;
            if items.len() + 1 + length > MAX_UNROLLED || self.transfers + 1 + transfers > self.max_transfers {
                return false;
            }
            self.round = items.len() + 1;
        } else if items[self.round..].iter().any(|item| item.insn().pc() == target) {
            return false;
        }
        self.transfers += 1;
        true
    }
}

pub fn build(fetcher: &mut Fetcher, start: u64, limits: &Limits) -> Trace {
    let mut items = Vec::with_capacity(limits.max_instructions.min(MAX_INSTRUCTIONS));
    let mut path = Path { start, round: 0, transfers: 0, max_transfers: limits.max_transfers };
    let mut returns = Vec::new();
    let mut pc = start;
    let end = loop {
        let first = items.is_empty();
        if (limits.breakpoints)(pc) {
            break if first { End::Breakpoint(pc) } else { End::Cut(pc) };
        }
        if !first && (limits.cut == Some(pc) || items.len() >= limits.max_instructions || !(limits.in_region)(pc)) {
            break End::Cut(pc);
        }
        let Some(insn) = fetcher.fetch(pc) else {
            break if first { End::Undecodable(pc) } else { End::Cut(pc) };
        };
        if let Some(what) = unsupported(&insn.instruction) {
            break End::Unsupported(insn, what);
        }
        if is_vector_state(&insn.instruction) {
            break End::VectorState(insn);
        }
        if let Some(what) = nondeterministic(&insn.instruction) {
            break End::Nondeterministic(insn, what);
        }
        let mut follow = |target: u64, items: &[Item]| (limits.in_region)(target) && path.follow(target, items);
        match insn.instruction.flow_control() {
            FlowControl::Interrupt if insn.instruction.mnemonic() == Mnemonic::Int3 => break End::Trap(insn),
            FlowControl::Call if insn.instruction.code() == Code::Syscall => break End::SystemCall(insn),
            FlowControl::UnconditionalBranch => {
                let target = insn.instruction.near_branch_target();
                if !follow(target, &items) {
                    break End::Jump(insn);
                }
                items.push(Item::Jump(insn));
                pc = target;
            }
            FlowControl::Call => {
                let target = insn.instruction.near_branch_target();
                if !follow(target, &items) {
                    break End::Call(insn);
                }
                returns.push(insn.next());
                items.push(Item::Call(insn));
                pc = target;
            }
            FlowControl::ConditionalBranch => {
                let target = insn.instruction.near_branch_target();
                let usual = (limits.usual)(pc).filter(|&usual| usual == target || usual == insn.next());
                let Some(usual) = usual.filter(|&usual| insn.instruction.is_jcc_short_or_near() && follow(usual, &items)) else {
                    break End::Conditional(insn);
                };
                items.push(Item::SideExit(insn, usual == target));
                pc = usual;
            }
            FlowControl::IndirectBranch | FlowControl::IndirectCall | FlowControl::Return => {
                let control = insn.instruction.flow_control();
                let known = match control {
                    FlowControl::Return => returns.pop(),
                    _ => (limits.only)(pc),
                };
                let Some(target) = known.filter(|&target| (limits.may_guard)(pc) && follow(target, &items)) else {
                    break match control {
                        FlowControl::IndirectBranch => End::IndirectJump(insn),
                        FlowControl::IndirectCall => End::IndirectCall(insn),
                        _ => End::Return(insn),
                    };
                };
                if control == FlowControl::IndirectCall {
                    returns.push(insn.next());
                }
                items.push(Item::Guarded(insn, target));
                pc = target;
            }
            FlowControl::Next | FlowControl::Interrupt | FlowControl::Exception => {
                items.push(Item::Plain(insn));
                pc = insn.next();
            }
            FlowControl::XbeginXabortXend => break End::Unsupported(insn, "transactional memory"),
        }
    };
    Trace { start, items, end }
}

/// Instructions that tell which components the processor has in use, which depends on the kernel's whims.
fn is_vector_state(instruction: &Instruction) -> bool {
    use Mnemonic::*;
    matches!(instruction.mnemonic(), Xsave | Xsave64 | Xsavec | Xsavec64 | Xsaveopt | Xsaveopt64 | Xgetbv)
}

fn nondeterministic(instruction: &Instruction) -> Option<Nondeterministic> {
    Some(match instruction.mnemonic() {
        Mnemonic::Rdtsc => Nondeterministic::Rdtsc,
        Mnemonic::Rdtscp => Nondeterministic::Rdtscp,
        Mnemonic::Rdrand => Nondeterministic::Rdrand,
        Mnemonic::Rdseed => Nondeterministic::Rdseed,
        Mnemonic::Cpuid => Nondeterministic::Cpuid,
        Mnemonic::Rdpid => Nondeterministic::Rdpid,
        _ => return None,
    })
}

/// What the engine has no rule for. Everything else that faults natively faults translated too.
fn unsupported(instruction: &Instruction) -> Option<&'static str> {
    if instruction.segment_prefix() == Register::GS && instruction.mnemonic() != Mnemonic::Nop {
        return Some("a memory operand in the gs segment");
    }
    match instruction.mnemonic() {
        Mnemonic::Wrgsbase | Mnemonic::Rdgsbase => Some("the gs base"),
        Mnemonic::Sysenter => Some("sysenter"),
        Mnemonic::Int if instruction.immediate8() == 0x80 => Some("int 0x80"),
        Mnemonic::Rdpmc => Some("rdpmc"),
        Mnemonic::Retf | Mnemonic::Iret | Mnemonic::Iretd | Mnemonic::Iretq => Some("a far return"),
        _ if instruction.is_call_far()
            || instruction.is_jmp_far()
            || instruction.is_call_far_indirect()
            || instruction.is_jmp_far_indirect() =>
        {
            Some("a far branch")
        }
        _ => None,
    }
}
