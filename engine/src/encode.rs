//! The instruction encodings that inline accesses are made of: general registers, one memory operand, 8 to 64 bits.

use crate::emit::{Assembler, Branch};

/// The operand that may be in memory.
#[derive(Clone, Copy, Debug)]
pub enum Place {
    /// gs:[offset]
    Gs(u32),
    /// [register + displacement]
    At(usize, i32),
    Register(usize),
}

/// Two-operand instructions with a register as the other operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// register = place
    Load,
    /// place = register
    Store,
    Add,
    Sub,
    Or,
    /// place -= register
    SubFrom,
    /// register - place, for the flags
    Compare,
    Multiply,
    /// register = address of place
    Address,
    /// Atomically: place += register, register = old.
    LockedExchangeAdd,
    /// Atomically, with rax.
    LockedCompareExchange,
}

impl Op {
    /// Opcode, and whether one for bytes comes just before it.
    fn opcode(self) -> &'static [u8] {
        match self {
            Self::Load => &[0x8b],
            Self::Store => &[0x89],
            Self::Add => &[0x03],
            Self::Sub => &[0x2b],
            Self::Or => &[0x0b],
            Self::SubFrom => &[0x29],
            Self::Compare => &[0x3b],
            Self::Multiply => &[0x0f, 0xaf],
            Self::Address => &[0x8d],
            Self::LockedExchangeAdd => &[0x0f, 0xc1],
            Self::LockedCompareExchange => &[0x0f, 0xb1],
        }
    }

    fn is_locked(self) -> bool {
        matches!(self, Self::LockedExchangeAdd | Self::LockedCompareExchange)
    }
}

/// Instructions with a small constant as the other operand, of which the encoding has /digit in place of the register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shift {
    Left = 4,
    Right = 5,
}

impl Assembler {
    /// `op` on `size` bytes (1, 2, 4 or 8). A 4-byte load zeroes the register's upper half, smaller ones are zero-extended.
    pub fn op(&mut self, op: Op, size: u32, register: usize, place: Place) {
        match (op, size) {
            (Op::Load, 1) => self.encode(&[0x0f, 0xb6], false, false, register, place),
            (Op::Load, 2) => self.encode(&[0x0f, 0xb7], false, false, register, place),
            _ => {
                let mut opcode = [0; 2];
                let bytes = op.opcode();
                opcode[..bytes.len()].copy_from_slice(bytes);
                if size == 1 {
                    opcode[bytes.len() - 1] -= 1;
                }
                if op.is_locked() {
                    self.raw(&[0xf0]);
                }
                if size == 2 {
                    self.raw(&[0x66]);
                }
                self.encode(&opcode[..bytes.len()], size == 8, size == 1, register, place);
            }
        }
    }

    pub fn op64(&mut self, op: Op, register: usize, place: Place) {
        self.op(op, 8, register, place);
    }

    /// `mov register, value` that keeps the flags.
    pub fn set(&mut self, register: usize, value: u32) {
        if register >= 8 {
            self.raw(&[0x41]);
        }
        self.raw(&[0xb8 | (register as u8 & 7)]);
        self.raw(&value.to_le_bytes());
    }

    pub fn shift(&mut self, shift: Shift, register: usize, by: u8) {
        self.encode(&[0xc1], true, false, shift as usize, Place::Register(register));
        self.raw(&[by]);
    }

    /// `and register, mask`; 32 bits, so the upper half becomes zero.
    pub fn mask(&mut self, register: usize, mask: u32) {
        self.encode(&[0x81], false, false, 4, Place::Register(register));
        self.raw(&mask.to_le_bytes());
    }

    /// `add place, value` of 64 bits.
    pub fn add_constant(&mut self, place: Place, value: i32) {
        self.encode(&[0x81], true, false, 0, place);
        self.raw(&value.to_le_bytes());
    }

    /// `prefetchw place`
    pub fn fetch_to_write(&mut self, place: Place) {
        self.encode(&[0x0f, 0x0d], false, false, 1, place);
    }

    /// `mov place, value` of 64 bits, the upper half 0; the value is below 2^31.
    pub fn store_constant(&mut self, place: Place, value: u32) {
        self.encode(&[0xc7], true, false, 0, place);
        self.raw(&value.to_le_bytes());
    }

    /// Compares 32 bits of the register with a constant.
    pub fn compare_constant32(&mut self, register: usize, value: u32) {
        self.encode(&[0x81], false, false, 7, Place::Register(register));
        self.raw(&value.to_le_bytes());
    }

    /// Compares 64 bits with a small constant.
    pub fn compare_small(&mut self, place: Place, value: i8) {
        self.encode(&[0x83], true, false, 7, place);
        self.raw(&[value as u8]);
    }

    /// `jcc` if, after a shift, something is left.
    pub fn jump_if_any(&mut self) -> Branch {
        self.jump_if(0x5)
    }

    fn encode(&mut self, opcode: &[u8], wide: bool, byte: bool, register: usize, place: Place) {
        let base = match place {
            Place::Gs(_) => {
                self.raw(&[0x65]);
                0
            }
            Place::At(base, _) | Place::Register(base) => base,
        };
        let byte_register = byte && (register >= 4 || matches!(place, Place::Register(4..)));
        let rex = u8::from(wide) << 3 | (register as u8 >> 3) << 2 | base as u8 >> 3;
        if rex != 0 || byte_register {
            self.raw(&[0x40 | rex]);
        }
        self.raw(opcode);
        let (reg, low) = ((register as u8 & 7) << 3, base as u8 & 7);
        match place {
            Place::Register(_) => self.raw(&[0xc0 | reg | low]),
            Place::Gs(offset) => {
                self.raw(&[0x04 | reg, 0x25]);
                self.raw(&offset.to_le_bytes());
            }
            Place::At(_, displacement) => {
                let small = i8::try_from(displacement).ok();
                self.raw(&[if small.is_some() { 0x40 } else { 0x80 } | reg | low]);
                if low == 4 {
                    self.raw(&[0x24]);
                }
                match small {
                    Some(byte) => self.raw(&[byte as u8]),
                    None => self.raw(&displacement.to_le_bytes()),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, Formatter, GasFormatter};
    use std::string::String;
    use std::vec::Vec;

    #[test]
    fn encodings_are_what_was_meant() {
        let mut asm = Assembler::new(Vec::new(), 0x1000);
        asm.op64(Op::Load, 12, Place::Gs(0x100));
        asm.op(Op::Load, 1, 6, Place::At(12, 0));
        asm.op(Op::Load, 4, 9, Place::At(13, -8));
        asm.op(Op::Store, 1, 6, Place::At(4, 4));
        asm.op(Op::Store, 2, 9, Place::At(3, 1000));
        asm.op(Op::Compare, 1, 5, Place::At(0, 0));
        asm.op(Op::Compare, 2, 1, Place::At(0, 0));
        asm.op64(Op::LockedExchangeAdd, 0, Place::At(15, 0));
        asm.op(Op::LockedCompareExchange, 1, 7, Place::At(1, 0));
        asm.op(Op::LockedCompareExchange, 2, 10, Place::At(1, 0));
        asm.op64(Op::Multiply, 3, Place::At(8, 16));
        asm.op64(Op::Address, 3, Place::At(8, 32));
        asm.op64(Op::Sub, 3, Place::Register(11));
        asm.op64(Op::SubFrom, 9, Place::At(0, 48));
        asm.store_constant(Place::At(12, 8), 3);
        asm.fetch_to_write(Place::At(9, 0));
        asm.set(10, 7);
        asm.shift(Shift::Left, 10, 48);
        asm.shift(Shift::Right, 2, 12);
        asm.mask(9, 0xfc0);
        asm.add_constant(Place::Gs(0x40), 64);
        asm.compare_constant32(14, 60);
        asm.compare_small(Place::Gs(0x48), 0);
        let bytes = asm.into_bytes();
        let mut decoder = Decoder::with_ip(64, &bytes, 0x1000, 0);
        let mut lines = Vec::new();
        while decoder.can_decode() {
            let mut line = String::new();
            GasFormatter::new().format(&decoder.decode(), &mut line);
            lines.push(line.split_whitespace().collect::<Vec<_>>().join(" "));
        }
        let expected = [
            "mov %gs:0x100,%r12",
            "movzbl (%r12),%esi",
            "mov -8(%r13),%r9d",
            "mov %sil,4(%rsp)",
            "mov %r9w,0x3E8(%rbx)",
            "cmp (%rax),%bpl",
            "cmp (%rax),%cx",
            "lock xadd %rax,(%r15)",
            "lock cmpxchg %dil,(%rcx)",
            "lock cmpxchg %r10w,(%rcx)",
            "imul 0x10(%r8),%rbx",
            "lea 0x20(%r8),%rbx",
            "sub %r11,%rbx",
            "sub %r9,0x30(%rax)",
            "movq $3,8(%r12)",
            "prefetchw (%r9)",
            "mov $7,%r10d",
            "shl $0x30,%r10",
            "shr $0xC,%rdx",
            "and $0xFC0,%r9d",
            "addq $0x40,%gs:0x40",
            "cmp $0x3C,%r14d",
            "cmpq $0,%gs:0x48",
        ];
        assert_eq!(lines, expected);
    }
}
