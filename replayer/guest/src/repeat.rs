//! The part of a repeated string instruction that was executed before a fault.
//!
//! The signal's event is at the instruction's time, which is before its first repetition. How many there were is in the event's
//! registers; they are executed here, by the same instruction on the same memory.

use core::arch::asm;

use engine::{Context, read_guest, reg};

const STATUS: u64 = 0x8d5;
const DIRECTION: u64 = 0x400;

/// A repeated string instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repeated {
    opcode: u8,
    while_equal: bool,
    /// Bytes of an element.
    size: u64,
}

impl Repeated {
    /// The instruction at `pc`, if it is one of the guest's plain address space.
    pub fn at(pc: u64) -> Option<Self> {
        let mut bytes = [0u8; 15];
        let length = read_guest(pc, &mut bytes);
        Self::decode(&bytes[..length])
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (mut repeats, mut is_short, mut is_long) = (None, false, false);
        for &byte in bytes {
            match byte {
                0xf2 | 0xf3 => repeats = Some(byte == 0xf3),
                0x66 => is_short = true,
                // What does not stand right before the opcode has no effect.
                0x40..=0x4f => is_long = byte & 8 != 0,
                0xa4..=0xa7 | 0xaa..=0xaf => {
                    let size = match (byte & 1, is_long, is_short) {
                        (0, ..) => 1,
                        (_, true, _) => 8,
                        (_, _, true) => 2,
                        _ => 4,
                    };
                    return repeats.map(|while_equal| Self { opcode: byte & !1, while_equal, size });
                }
                _ => return None,
            }
            is_long &= (0x40..=0x4f).contains(&byte);
        }
        None
    }

    fn range(&self, from: u64, count: u64, backwards: bool) -> Option<(u64, u64)> {
        let length = count.checked_mul(self.size)?;
        let start = if backwards { from.checked_add(self.size)?.checked_sub(length)? } else { from };
        Some((start, length))
    }

    /// What `count` repetitions write: address and length.
    pub fn written(&self, context: &Context, count: u64) -> Option<(u64, u64)> {
        let writes = [0xa4, 0xaa].contains(&self.opcode);
        if writes { self.range(context.gpr[reg::RDI], count, context.rflags & DIRECTION != 0) } else { None }
    }

    /// What they read.
    pub fn read(&self, context: &Context, count: u64) -> [Option<(u64, u64)>; 2] {
        let backwards = context.rflags & DIRECTION != 0;
        let source = self.range(context.gpr[reg::RSI], count, backwards).filter(|_| ![0xaa, 0xae].contains(&self.opcode));
        let target = self.range(context.gpr[reg::RDI], count, backwards).filter(|_| [0xa6, 0xae].contains(&self.opcode));
        [source, target]
    }

    /// Executes `count` repetitions.
    ///
    /// # Safety
    /// What they read and write is the guest's, and mapped with these rights.
    pub unsafe fn perform(&self, context: &mut Context, count: u64) {
        let mut left = count;
        let mut flags = context.rflags & (STATUS | DIRECTION);
        let [mut rax, mut rsi, mut rdi] = [context.gpr[reg::RAX], context.gpr[reg::RSI], context.gpr[reg::RDI]];
        macro_rules! execute {
            ($instruction:literal) => {
                // SAFETY: the caller's promise; the direction flag is cleared again.
                unsafe {
                    asm!("push {flags}", "popfq", $instruction, "pushfq", "pop {flags}", "cld", flags = inout(reg) flags,
                        inout("rcx") left, inout("rsi") rsi, inout("rdi") rdi, inout("rax") rax)
                }
            };
        }
        match (self.opcode, self.size, self.while_equal) {
            (0xa4, 1, _) => execute!("rep movsb"),
            (0xa4, 2, _) => execute!("rep movsw"),
            (0xa4, 4, _) => execute!("rep movsd"),
            (0xa4, ..) => execute!("rep movsq"),
            (0xaa, 1, _) => execute!("rep stosb"),
            (0xaa, 2, _) => execute!("rep stosw"),
            (0xaa, 4, _) => execute!("rep stosd"),
            (0xaa, ..) => execute!("rep stosq"),
            (0xac, 1, _) => execute!("rep lodsb"),
            (0xac, 2, _) => execute!("rep lodsw"),
            (0xac, 4, _) => execute!("rep lodsd"),
            (0xac, ..) => execute!("rep lodsq"),
            (0xa6, 1, true) => execute!("repe cmpsb"),
            (0xa6, 2, true) => execute!("repe cmpsw"),
            (0xa6, 4, true) => execute!("repe cmpsd"),
            (0xa6, _, true) => execute!("repe cmpsq"),
            (0xa6, 1, false) => execute!("repne cmpsb"),
            (0xa6, 2, false) => execute!("repne cmpsw"),
            (0xa6, 4, false) => execute!("repne cmpsd"),
            (0xa6, _, false) => execute!("repne cmpsq"),
            (_, 1, true) => execute!("repe scasb"),
            (_, 2, true) => execute!("repe scasw"),
            (_, 4, true) => execute!("repe scasd"),
            (_, _, true) => execute!("repe scasq"),
            (_, 1, false) => execute!("repne scasb"),
            (_, 2, false) => execute!("repne scasw"),
            (_, 4, false) => execute!("repne scasd"),
            (_, _, false) => execute!("repne scasq"),
        }
        context.rflags = context.rflags & !STATUS | flags & STATUS;
        context.gpr[reg::RCX] -= count - left;
        (context.gpr[reg::RAX], context.gpr[reg::RSI], context.gpr[reg::RDI]) = (rax, rsi, rdi);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(bytes: &[u8]) -> Option<(u8, bool, u64)> {
        Repeated::decode(bytes).map(|repeated| (repeated.opcode, repeated.while_equal, repeated.size))
    }

    #[test]
    fn prefixes_say_what_is_repeated() {
        assert_eq!(decode(&[0xf3, 0xa4]), Some((0xa4, true, 1)));
        assert_eq!(decode(&[0xf3, 0x48, 0xa5]), Some((0xa4, true, 8)));
        assert_eq!(decode(&[0x66, 0xf3, 0xab]), Some((0xaa, true, 2)));
        assert_eq!(decode(&[0xf2, 0xae]), Some((0xae, false, 1)));
        assert_eq!(decode(&[0x48, 0xf3, 0xa7]), Some((0xa6, true, 4)));
        // Not repeated; relative to a segment; with 32-bit addresses; no string instruction.
        for bytes in [&[0xa4][..], &[0xf3, 0x65, 0xa4], &[0x67, 0xf3, 0xa4], &[0xf3, 0x90], &[0xf3]] {
            assert_eq!(decode(bytes), None);
        }
    }

    #[test]
    fn a_part_is_executed() {
        let from: [u32; 6] = [1, 2, 3, 4, 5, 6];
        let mut to = [0u32; 6];
        // SAFETY: all zero is a context.
        let mut context: Context = unsafe { core::mem::zeroed() };
        context.gpr[reg::RCX] = 6;
        context.gpr[reg::RSI] = from.as_ptr() as u64;
        context.gpr[reg::RDI] = to.as_mut_ptr() as u64;
        let repeated = Repeated::decode(&[0xf3, 0xa5]).unwrap();
        assert_eq!(repeated.written(&context, 4), Some((to.as_ptr() as u64, 16)));
        // SAFETY: the arrays above.
        unsafe { repeated.perform(&mut context, 4) };
        assert_eq!((to, context.gpr[reg::RCX]), ([1, 2, 3, 4, 0, 0], 2));
        assert_eq!(context.gpr[reg::RSI], &raw const from[4] as u64);
        assert_eq!(context.gpr[reg::RDI], &raw const to[4] as u64);
    }
}
