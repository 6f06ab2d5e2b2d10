//! What an instruction is about to touch, exactly: for watchpoints, once the filter has let it pass.

use alloc::vec::Vec;

use engine::sys;
use engine::{Context, reg};
use iced_x86::{Decoder, DecoderOptions, Instruction, InstructionInfoFactory, OpAccess, Register};

/// One range of memory that an instruction touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touch {
    pub address: u64,
    pub length: u64,
    pub reads: bool,
    pub writes: bool,
}

impl Touch {
    pub fn overlaps(&self, address: u64, length: u64) -> bool {
        self.address < address.saturating_add(length) && address < self.address.saturating_add(self.length)
    }
}

/// Bytes of processor state that xsave and its kin may touch; the exact number does not matter to anyone.
const STATE_BYTES: u64 = 4096;

pub struct Toucher {
    factory: InstructionInfoFactory,
}

impl Toucher {
    pub fn new() -> Self {
        Self { factory: InstructionInfoFactory::new() }
    }

    /// What the instruction at the context's rip touches, given its bytes.
    pub fn touches(&mut self, code: &[u8], context: &Context) -> Vec<Touch> {
        let instruction = Decoder::with_ip(64, code, context.rip, DecoderOptions::NONE).decode();
        if instruction.is_invalid() {
            return Vec::new();
        }
        let (count, backwards) = repetitions(&instruction, context);
        let info = self.factory.info(&instruction);
        let mut touches = Vec::new();
        for memory in info.used_memory() {
            let (reads, writes) = match memory.access() {
                OpAccess::Read | OpAccess::CondRead => (true, false),
                OpAccess::Write | OpAccess::CondWrite => (false, true),
                OpAccess::ReadWrite | OpAccess::ReadCondWrite => (true, true),
                OpAccess::None | OpAccess::NoMemAccess => continue,
            };
            // Gathers name a vector register as their index, which is not at hand: all that follows from the base.
            let address = memory.virtual_address(0, |register, _, _| Some(value(context, register)));
            let Some(address) = address else { continue };
            // Of a repeated string instruction the factory does not say how wide one repetition is.
            let size = if instruction.is_string_instruction() { instruction.memory_size() } else { memory.memory_size() };
            let size = if size.size() == 0 { STATE_BYTES } else { size.size() as u64 };
            let length = size.saturating_mul(count);
            let address = if backwards { address.saturating_sub(length - size) } else { address };
            if length > 0 {
                touches.push(Touch { address, length, reads, writes });
            }
        }
        touches
    }
}

/// How often a string instruction repeats at most, and whether addresses go down.
fn repetitions(instruction: &Instruction, context: &Context) -> (u64, bool) {
    if !instruction.is_string_instruction() {
        return (1, false);
    }
    let repeated = instruction.has_rep_prefix() || instruction.has_repne_prefix();
    (if repeated { context.gpr[reg::RCX] } else { 1 }, context.rflags & 0x400 != 0)
}

fn value(context: &Context, register: Register) -> u64 {
    if register == Register::FS {
        let mut base = 0u64;
        sys::arch_prctl(sys::ARCH_GET_FS, (&raw mut base) as u64);
        return base;
    }
    if register == Register::RIP {
        return context.rip;
    }
    let full = register.full_register();
    let value = if full.is_gpr64() { context.gpr[full.number()] } else { 0 };
    match register.size() {
        4 if register.is_gpr32() => value & 0xffff_ffff,
        2 if register.is_gpr16() => value & 0xffff,
        _ => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touches(code: &[u8], set: impl Fn(&mut Context)) -> Vec<Touch> {
        // SAFETY: a context is plain numbers.
        let mut context: Context = unsafe { core::mem::zeroed() };
        context.rip = 0x1000;
        set(&mut context);
        Toucher::new().touches(code, &context)
    }

    #[test]
    fn operands_are_evaluated() {
        let store = touches(&[0x48, 0x89, 0x44, 0x8b, 0x10], |c| (c.gpr[reg::RBX], c.gpr[reg::RCX]) = (0x5000, 2));
        assert_eq!(store, [Touch { address: 0x5018, length: 8, reads: false, writes: true }]);
        let load = touches(&[0x8b, 0x05, 0x10, 0, 0, 0], |_| {});
        assert_eq!(load, [Touch { address: 0x1016, length: 4, reads: true, writes: false }]);
        assert!(touches(&[0x48, 0x8d, 0x03], |_| {}).is_empty(), "lea");
    }

    #[test]
    fn calls_push_and_returns_pop() {
        let call = touches(&[0xe8, 0, 0, 0, 0], |c| c.gpr[reg::RSP] = 0x7008);
        assert_eq!(call, [Touch { address: 0x7000, length: 8, reads: false, writes: true }]);
        let ret = touches(&[0xc3], |c| c.gpr[reg::RSP] = 0x7000);
        assert_eq!(ret, [Touch { address: 0x7000, length: 8, reads: true, writes: false }]);
    }

    #[test]
    fn repeated_strings_touch_all_at_once() {
        let set = |c: &mut Context| (c.gpr[reg::RCX], c.gpr[reg::RDI], c.gpr[reg::RSI]) = (16, 0x9000, 0x8000);
        let mut moved = touches(&[0xf3, 0xa4], set);
        moved.sort_by_key(|touch| touch.address);
        assert_eq!(moved.iter().map(|t| (t.address, t.length, t.writes)).collect::<Vec<_>>(), [(0x8000, 16, false), (0x9000, 16, true)]);
        let down = touches(&[0xf3, 0xaa], |c| {
            set(c);
            c.rflags = 0x400;
        });
        assert_eq!((down[0].address, down[0].length), (0x9000 - 15, 16));
        assert!(touches(&[0xf3, 0xaa], |_| {}).is_empty(), "no repetition");
    }
}
