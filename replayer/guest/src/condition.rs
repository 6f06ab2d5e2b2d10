//! Conditions on breakpoints: programs in the bytecode of gdb's agent expressions (appendix F of its manual), as it compiles them from C.
//!
//! A program is a stack machine's: it ends with its value on top. What cannot be computed here (floating point, vector registers, memory that
//! is not mapped, a program that is not well-formed) has no value; the debugger, which can compute it, is then asked by stopping.

use alloc::vec::Vec;

use recording::Registers;

/// Deeper is no expression that a person wrote.
const DEEPEST: usize = 256;
/// Longer than this runs no expression: the bytecode can loop.
const STEPS: usize = 10_000;

/// gdb's numbers of the registers that a program may ask for, beside the sixteen general ones; as in the target description that the
/// debugger's server sends.
mod register {
    pub const RIP: u16 = 16;
    pub const EFLAGS: u16 = 17;
}

/// gdb numbers the general registers in another order than the processor.
const GENERAL: [usize; 16] = [0, 3, 1, 2, 6, 7, 5, 4, 8, 9, 10, 11, 12, 13, 14, 15];

/// A condition's state.
struct Machine<'a, R> {
    code: &'a [u8],
    at: usize,
    stack: Vec<u64>,
    registers: &'a Registers,
    read: R,
}

/// The value of `code` where the registers are these; `read` copies guest memory and returns how much of it is mapped.
pub fn value(code: &[u8], registers: &Registers, read: impl Fn(u64, &mut [u8]) -> usize) -> Option<u64> {
    let mut machine = Machine { code, at: 0, stack: Vec::with_capacity(16), registers, read };
    for _ in 0..STEPS {
        if machine.stack.len() > DEEPEST {
            return None;
        }
        if machine.step()? {
            return machine.pop();
        }
    }
    None
}

impl<R: Fn(u64, &mut [u8]) -> usize> Machine<'_, R> {
    /// An operand in the code: its bytes, most significant first.
    fn operand(&mut self, length: usize) -> Option<u64> {
        let bytes = self.code.get(self.at..self.at.checked_add(length)?)?;
        self.at += length;
        Some(bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    fn pop(&mut self) -> Option<u64> {
        self.stack.pop()
    }

    fn push(&mut self, value: u64) -> Option<bool> {
        self.stack.push(value);
        Some(false)
    }

    fn one(&mut self, result: impl Fn(u64) -> Option<u64>) -> Option<bool> {
        let top = self.pop()?;
        self.push(result(top)?)
    }

    /// Of the two on top, the upper one is the right operand.
    fn two(&mut self, result: impl Fn(u64, u64) -> Option<u64>) -> Option<bool> {
        let (right, left) = (self.pop()?, self.pop()?);
        self.push(result(left, right)?)
    }

    fn signed(&mut self, result: impl Fn(i64, i64) -> Option<i64>) -> Option<bool> {
        self.two(|left, right| result(left.cast_signed(), right.cast_signed()).map(i64::cast_unsigned))
    }

    fn shift(&mut self, result: impl Fn(u64, u32) -> Option<u64>) -> Option<bool> {
        self.two(|left, right| result(left, u32::try_from(right).ok()?))
    }

    fn memory(&mut self, length: usize) -> Option<bool> {
        let address = self.pop()?;
        let mut bytes = [0; 8];
        let whole = (self.read)(address, bytes.get_mut(..length)?) == length;
        if whole { self.push(u64::from_le_bytes(bytes)) } else { None }
    }

    fn register(&self, number: u16) -> Option<u64> {
        match number {
            register::RIP => Some(self.registers.rip),
            register::EFLAGS => Some(self.registers.rflags),
            _ => self.registers.gpr.get(*GENERAL.get(usize::from(number))?).copied(),
        }
    }

    /// One bytecode; whether it was the end.
    fn step(&mut self) -> Option<bool> {
        match self.operand(1)? {
            0x02 => self.two(|left, right| Some(left.wrapping_add(right))),
            0x03 => self.two(|left, right| Some(left.wrapping_sub(right))),
            0x04 => self.two(|left, right| Some(left.wrapping_mul(right))),
            0x05 => self.signed(i64::checked_div),
            0x06 => self.two(u64::checked_div),
            0x07 => self.signed(i64::checked_rem),
            0x08 => self.two(u64::checked_rem),
            0x09 => self.shift(u64::checked_shl),
            0x0a => self.shift(|left, right| left.cast_signed().checked_shr(right).map(i64::cast_unsigned)),
            0x0b => self.shift(u64::checked_shr),
            0x0e => self.one(|top| Some(u64::from(top == 0))),
            0x0f => self.two(|left, right| Some(left & right)),
            0x10 => self.two(|left, right| Some(left | right)),
            0x11 => self.two(|left, right| Some(left ^ right)),
            0x12 => self.one(|top| Some(!top)),
            0x13 => self.two(|left, right| Some(u64::from(left == right))),
            0x14 => self.signed(|left, right| Some(i64::from(left < right))),
            0x15 => self.two(|left, right| Some(u64::from(left < right))),
            // Sign extension from the bit with this number; then zero extension.
            0x16 => {
                let unused = 64u32.checked_sub(u32::try_from(self.operand(1)?).ok()?)?;
                self.one(|top| top.checked_shl(unused).map(|high| (high.cast_signed() >> unused).cast_unsigned()))
            }
            0x2a => {
                let unused = 64u32.checked_sub(u32::try_from(self.operand(1)?).ok()?)?;
                self.one(|top| top.checked_shl(unused).map(|high| high >> unused))
            }
            0x17 => self.memory(1),
            0x18 => self.memory(2),
            0x19 => self.memory(4),
            0x1a => self.memory(8),
            0x20 => {
                let target = self.operand(2)?;
                if self.pop()? != 0 {
                    self.at = target as usize;
                }
                Some(false)
            }
            0x21 => {
                self.at = self.operand(2)? as usize;
                Some(false)
            }
            opcode @ 0x22..=0x25 => {
                let constant = self.operand(1 << (opcode - 0x22))?;
                self.push(constant)
            }
            0x26 => {
                let number = self.operand(2)? as u16;
                self.push(self.register(number)?)
            }
            0x27 => Some(true),
            0x28 => self.push(*self.stack.last()?),
            0x29 => self.pop().map(|_| false),
            0x2b => {
                let (top, below) = (self.pop()?, self.pop()?);
                self.stack.push(top);
                self.push(below)
            }
            0x32 => {
                let depth = self.operand(1)? as usize;
                let index = self.stack.len().checked_sub(depth + 1)?;
                self.push(*self.stack.get(index)?)
            }
            // The top goes below the two under it.
            0x33 => {
                let (c, b, a) = (self.pop()?, self.pop()?, self.pop()?);
                self.stack.extend([c, a]);
                self.push(b)
            }
            // Floating point, trace variables, tracing, printf.
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMORY: u64 = 0x1000;
    const BYTES: [u8; 16] = [0xff, 0xfe, 0xfd, 0xfc, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];

    fn read(address: u64, to: &mut [u8]) -> usize {
        let from = address.checked_sub(MEMORY).and_then(|offset| BYTES.get(offset as usize..)).unwrap_or(&[]);
        let count = from.len().min(to.len());
        to[..count].copy_from_slice(&from[..count]);
        count
    }

    fn computed(code: &[u8]) -> Option<u64> {
        let mut registers = Registers { rip: 0x77, rflags: 0x246, ..Registers::default() };
        registers.gpr = core::array::from_fn(|index| 100 + index as u64);
        value(code, &registers, read)
    }

    fn of_two(left: i64, right: i64, opcode: u8) -> Option<i64> {
        let mut code = alloc::vec![0x25];
        code.extend(left.to_be_bytes());
        code.push(0x25);
        code.extend(right.to_be_bytes());
        code.extend([opcode, 0x27]);
        computed(&code).map(u64::cast_signed)
    }

    #[test]
    fn arithmetic_is_that_of_c() {
        let cases = [
            (2, 3, 0x02, 5),
            (2, 3, 0x03, -1),
            (-2, 3, 0x04, -6),
            (-7, 2, 0x05, -3),
            (-1, 2, 0x06, i64::MAX),
            (-7, 2, 0x07, -1),
            (-1, 16, 0x08, 15),
            (3, 4, 0x09, 48),
            (-16, 2, 0x0a, -4),
            (-1, 60, 0x0b, 15),
            (6, 3, 0x0f, 2),
            (6, 3, 0x10, 7),
            (6, 3, 0x11, 5),
            (6, 6, 0x13, 1),
            (6, 7, 0x13, 0),
            (-1, 1, 0x14, 1),
            (-1, 1, 0x15, 0),
            (1, 2, 0x15, 1),
        ];
        for (left, right, opcode, result) in cases {
            assert_eq!(of_two(left, right, opcode), Some(result), "{left} {opcode:#x} {right}");
        }
        assert_eq!(computed(&[0x22, 5, 0x0e, 0x27]), Some(0));
        assert_eq!(computed(&[0x22, 0, 0x0e, 0x27]), Some(1));
        assert_eq!(computed(&[0x22, 0, 0x12, 0x27]), Some(u64::MAX));
        assert_eq!(computed(&[0x22, 0x80, 0x16, 8, 0x27]), Some(0x80u8.cast_signed() as u64));
        assert_eq!(computed(&[0x24, 0x12, 0x34, 0x56, 0x78, 0x2a, 16, 0x27]), Some(0x5678));
        assert_eq!(computed(&[0x22, 9, 0x16, 64, 0x27]), Some(9));
    }

    #[test]
    fn memory_and_registers_are_read() {
        let at = |opcode| computed(&[0x23, 0x10, 0x00, opcode, 0x27]);
        assert_eq!([at(0x17), at(0x18), at(0x19), at(0x1a)], [Some(0xff), Some(0xfeff), Some(0xfcfd_feff), Some(0x0706_0504_fcfd_feff)]);
        let register = |number| computed(&[0x26, 0, number, 0x27]);
        // gdb: rax, rbx, rcx, rdx, rsi, rdi, rbp, rsp; the processor: rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi.
        let expected = [100, 103, 101, 102, 106, 107, 105, 104, 108, 109, 110, 111, 112, 113, 114, 115, 0x77, 0x246];
        let seen: Vec<u64> = (0..18).map(|number| register(number).unwrap()).collect();
        assert_eq!(seen, expected);
    }

    #[test]
    fn the_stack_is_rearranged() {
        let three = |rest: &[u8]| computed(&[&[0x22, 1, 0x22, 2, 0x22, 3][..], rest].concat());
        assert_eq!([three(&[0x28, 0x02, 0x27]), three(&[0x29, 0x27]), three(&[0x2b, 0x27])], [Some(6), Some(2), Some(2)]);
        assert_eq!([three(&[0x32, 0, 0x27]), three(&[0x32, 2, 0x27])], [Some(3), Some(1)]);
        // 1 2 3 becomes 3 1 2.
        assert_eq!([three(&[0x33, 0x27]), three(&[0x33, 0x29, 0x27]), three(&[0x33, 0x29, 0x29, 0x27])], [Some(2), Some(1), Some(3)]);
    }

    #[test]
    fn jumps_are_taken() {
        // if (X) 7 else 9
        let choice = |x| computed(&[0x22, x, 0x20, 0, 8, 0x22, 9, 0x27, 0x22, 7, 0x27]);
        assert_eq!([choice(1), choice(0)], [Some(7), Some(9)]);
        assert_eq!(computed(&[0x21, 0, 4, 0x27, 0x22, 3, 0x27]), Some(3));
    }

    #[test]
    fn what_cannot_be_computed_has_no_value() {
        let unmapped = [0x22, 0, 0x19, 0x27];
        let across_the_end = [0x23, 0x10, 0x0d, 0x19, 0x27];
        let division = [0x22, 1, 0x22, 0, 0x05, 0x27];
        let shift = [0x22, 1, 0x22, 64, 0x09, 0x27];
        let endless = [0x21, 0, 0];
        let deeper_and_deeper = [0x22, 1, 0x21, 0, 0];
        let vector = [0x26, 0, 40, 0x27];
        let programs: [&[u8]; 14] = [
            &[],
            &[0x27],
            &[0x02, 0x27],
            &[0x22],
            &[0x22, 1],
            &[0x01, 0x27],
            &[0xff, 0x27],
            &unmapped,
            &across_the_end,
            &division,
            &shift,
            &endless,
            &deeper_and_deeper,
            &vector,
        ];
        for code in programs {
            assert_eq!(computed(code), None, "{code:x?}");
        }
        assert_eq!(of_two(i64::MIN, -1, 0x05), None);
        assert_eq!(computed(&[0x22, 1, 0x32, 255, 0x27]), None);
        assert_eq!(computed(&[0x22, 1, 0x16, 65, 0x27]), None);
    }
}
