//! What an instruction does to the memory that its operand names: the facts that instrumentation and watchpoints need.

use iced_x86::{Instruction, InstructionInfoFactory, InstructionInfoOptions, Mnemonic, OpAccess, OpKind, Register};

use crate::context::Context;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Read,
    Write,
    ReadWrite,
}

/// How the memory operand is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// One explicit operand: base, index, displacement.
    Explicit,
    /// movs, stos, lods, cmps, scas, with or without a repeat prefix.
    String,
    /// push, pop, call, ret, leave, enter: uses the stack, and may have an explicit operand too.
    Stack,
    /// Gathers and scatters: an address for each lane of a vector register.
    Lanes,
    /// Everything else: operands that the opcode implies.
    Other,
}

/// One instruction that touches memory.
#[derive(Clone, Copy, Debug)]
pub struct Site {
    pub pc: u64,
    pub kind: Kind,
    pub form: Form,
    /// Bytes touched (of one repetition, for string instructions).
    pub size: u32,
    /// Atomic: a lock prefix, or xchg.
    pub locked: bool,
    /// Writes only the elements that a mask register selects.
    pub masked: bool,
    /// bt and its kin with the bit's number in a register: what is touched may lie far from the operand's address.
    pub bit_offset: bool,
    pub instruction: Instruction,
    /// Number the host gave it (its site in the access log), 0 if none yet.
    pub tag: u32,
}

fn merge(kind: Option<Kind>, access: OpAccess) -> Option<Kind> {
    let new = match access {
        OpAccess::Read | OpAccess::CondRead => Kind::Read,
        OpAccess::Write | OpAccess::CondWrite => Kind::Write,
        OpAccess::ReadWrite | OpAccess::ReadCondWrite => Kind::ReadWrite,
        OpAccess::None | OpAccess::NoMemAccess => return kind,
    };
    match kind {
        None => Some(new),
        Some(old) if old == new => Some(old),
        Some(_) => Some(Kind::ReadWrite),
    }
}

impl Site {
    /// `None` if the instruction touches no memory.
    pub fn analyse(instruction: &Instruction, factory: &mut InstructionInfoFactory) -> Option<Self> {
        let info = factory.info_options(instruction, InstructionInfoOptions::NO_REGISTER_USAGE);
        let mut kind = None;
        let mut implicit = false;
        let mut size = 0;
        for memory in info.used_memory() {
            let access = merge(None, memory.access());
            if access.is_some() {
                size = size.max(memory.memory_size().size() as u32);
            }
            kind = merge(kind, memory.access());
        }
        let mut explicit = None;
        for index in 0..instruction.op_count() {
            match instruction.op_kind(index) {
                OpKind::Memory => explicit = Some(info.op_access(index)),
                kind if is_string_operand(kind) => implicit = true,
                _ => {}
            }
        }
        let kind = kind?;
        let single = info.used_memory().iter().filter(|memory| merge(None, memory.access()).is_some()).count() == 1;
        let bit_offset = explicit.is_some() && is_bit_test(instruction.mnemonic()) && instruction.op1_kind() == OpKind::Register;
        let form = if implicit && is_string(instruction.mnemonic()) {
            Form::String
        } else if is_stack(instruction.mnemonic()) {
            Form::Stack
        } else if instruction.is_vsib() {
            Form::Lanes
        } else if explicit.is_some() && single && instruction.mnemonic() != Mnemonic::Xlatb {
            Form::Explicit
        } else {
            Form::Other
        };
        let kind = match (form, explicit) {
            (Form::Explicit, Some(access)) => merge(None, access)?,
            _ => kind,
        };
        Some(Self {
            pc: instruction.ip(),
            kind,
            form,
            size: match form {
                // How much is touched depends on the count.
                Form::String => instruction.memory_size().size() as u32,
                _ if instruction.is_broadcast() => instruction.memory_size().element_size() as u32,
                _ => size,
            },
            locked: instruction.has_lock_prefix() || (instruction.mnemonic() == Mnemonic::Xchg && explicit.is_some()),
            masked: instruction.has_op_mask()
                || matches!(
                    instruction.mnemonic(),
                    Mnemonic::Vmaskmovps | Mnemonic::Vmaskmovpd | Mnemonic::Vpmaskmovd | Mnemonic::Vpmaskmovq
                ),
            bit_offset,
            instruction: *instruction,
            tag: 0,
        })
    }

    /// The site of an instruction that saves processor state, whatever its operand.
    pub fn of_state(instruction: &Instruction) -> Self {
        Self {
            pc: instruction.ip(),
            kind: Kind::Write,
            form: Form::Other,
            size: 0,
            locked: false,
            masked: false,
            bit_offset: false,
            instruction: *instruction,
            tag: 0,
        }
    }

    pub fn length(&self) -> u64 {
        self.instruction.len() as u64
    }

    /// The first byte that the explicit operand touches, with the registers in `context`; 0 if there is none.
    pub fn address(&self, context: &Context) -> u64 {
        let index = (0..self.instruction.op_count()).find(|&index| self.instruction.op_kind(index) == OpKind::Memory);
        // pop computes its operand's address with the stack pointer that it leaves behind.
        let moved = if self.instruction.mnemonic() == Mnemonic::Pop && self.instruction.memory_base() == Register::RSP {
            self.instruction.stack_pointer_increment() as u64
        } else {
            0
        };
        index
            .and_then(|index| self.instruction.virtual_address(index, 0, |register, _, _| Some(register_value(context, register))))
            .map_or(0, |address| address.wrapping_add(moved).wrapping_add(self.bit_displacement(context)))
    }

    /// How far from its operand's address a bit instruction touches memory.
    pub fn bit_displacement(&self, context: &Context) -> u64 {
        if !self.bit_offset {
            return 0;
        }
        let register = self.instruction.op1_register();
        let unused = 64 - 8 * register.size() as u32;
        let bit = (register_value(context, register) << unused) as i64 >> unused;
        let unit = register.size() as i64;
        (bit.div_euclid(8 * unit) * unit) as u64
    }

    /// Whether the operand that [`Self::address`] gives is all the memory it touches, and emitted code can compute its address.
    pub fn is_alone(&self) -> bool {
        self.form == Form::Explicit && !self.bit_offset && (1..=64).contains(&self.size)
    }

    /// A jump or call through a pointer in memory, as the read that it does.
    pub fn of_pointer(instruction: &Instruction) -> Self {
        Self { kind: Kind::Read, form: Form::Explicit, size: 8, ..Self::of_state(instruction) }
    }
}

/// The value of a general register or segment base.
pub fn register_value(context: &Context, register: Register) -> u64 {
    match register {
        Register::FS => segment_base(crate::sys::ARCH_GET_FS),
        Register::ES | Register::CS | Register::SS | Register::DS | Register::GS => 0,
        _ => {
            let full = register.full_register();
            let value = if full.is_gpr64() { context.gpr[full.number()] } else { 0 };
            match register.size() {
                4 => value & 0xffff_ffff,
                2 => value & 0xffff,
                _ => value,
            }
        }
    }
}

fn segment_base(which: u32) -> u64 {
    let mut base = 0u64;
    crate::sys::arch_prctl(which, (&raw mut base) as u64);
    base
}

fn is_string(mnemonic: Mnemonic) -> bool {
    use Mnemonic::*;
    matches!(
        mnemonic,
        Movsb
            | Movsw
            | Movsd
            | Movsq
            | Stosb
            | Stosw
            | Stosd
            | Stosq
            | Lodsb
            | Lodsw
            | Lodsd
            | Lodsq
            | Cmpsb
            | Cmpsw
            | Cmpsd
            | Cmpsq
            | Scasb
            | Scasw
            | Scasd
            | Scasq
    )
}

fn is_string_operand(kind: OpKind) -> bool {
    use OpKind::*;
    matches!(
        kind,
        MemorySegSI | MemorySegESI | MemorySegRSI | MemorySegDI | MemorySegEDI | MemorySegRDI | MemoryESDI | MemoryESEDI | MemoryESRDI
    )
}

fn is_bit_test(mnemonic: Mnemonic) -> bool {
    use Mnemonic::*;
    matches!(mnemonic, Bt | Bts | Btr | Btc)
}

fn is_stack(mnemonic: Mnemonic) -> bool {
    use Mnemonic::*;
    matches!(mnemonic, Push | Pop | Pushf | Pushfq | Popf | Popfq | Call | Ret | Leave | Enter)
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::Decoder;

    fn site(bytes: &[u8]) -> Option<Site> {
        let instruction = Decoder::new(64, bytes, 0).decode();
        Site::analyse(&instruction, &mut InstructionInfoFactory::new())
    }

    #[test]
    fn loads_stores_and_atomics_are_told_apart() {
        let load = site(&[0x8b, 0x03]).unwrap();
        assert_eq!((load.kind, load.size, load.form, load.locked), (Kind::Read, 4, Form::Explicit, false));
        let store = site(&[0x48, 0x89, 0x03]).unwrap();
        assert_eq!((store.kind, store.size), (Kind::Write, 8));
        let add = site(&[0x01, 0x03]).unwrap();
        assert_eq!((add.kind, add.locked), (Kind::ReadWrite, false));
        let xadd = site(&[0xf0, 0x0f, 0xc1, 0x03]).unwrap();
        assert_eq!((xadd.kind, xadd.locked), (Kind::ReadWrite, true));
        let xchg = site(&[0x87, 0x03]).unwrap();
        assert!(xchg.locked);
        assert!(site(&[0x48, 0x8d, 0x03]).is_none(), "lea touches nothing");
        assert!(site(&[0x48, 0x89, 0xc3]).is_none());
    }

    #[test]
    fn strings_and_stack_operands_have_their_own_forms() {
        assert_eq!(site(&[0xf3, 0xa4]).unwrap().form, Form::String);
        assert_eq!(site(&[0xf3, 0xa4]).unwrap().size, 1);
        assert_eq!(site(&[0xf3, 0x48, 0xab]).unwrap().size, 8);
        assert_eq!(site(&[0xa7]).unwrap().size, 4);
        assert_eq!(site(&[0x55]).unwrap().form, Form::Stack);
        assert_eq!(site(&[0xff, 0x33]).unwrap().form, Form::Stack, "push with a memory operand");
        assert_eq!(site(&[0xc4, 0xe2, 0x69, 0x90, 0x04, 0x08]).unwrap().form, Form::Lanes, "vpgatherdd");
        assert_eq!(site(&[0x0f, 0xae, 0x03]).unwrap().form, Form::Explicit, "fxsave");
        assert_eq!(site(&[0xd7]).unwrap().form, Form::Other, "xlat");
        assert!(site(&[0x62, 0xf1, 0x7f, 0x49, 0x7f, 0x07]).unwrap().masked, "vmovdqu8 with a mask register");
    }

    #[test]
    fn bit_numbers_in_registers_reach_far() {
        let bts = site(&[0x48, 0x0f, 0xab, 0x03]).unwrap();
        assert_eq!((bts.form, bts.bit_offset, bts.is_alone()), (Form::Explicit, true, false));
        // SAFETY: a context is plain numbers.
        let mut context: Context = unsafe { core::mem::zeroed() };
        context.gpr[3] = 0x1000;
        let mut at = |bit: i64| {
            context.gpr[0] = bit as u64;
            bts.address(&context)
        };
        assert_eq!([at(0), at(63), at(64), at(-1), at(-64), at(-65)], [0x1000, 0x1000, 0x1008, 0xff8, 0xff8, 0xff0]);
    }
}
