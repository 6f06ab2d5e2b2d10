//! A small assembler for the sequences that the translator itself emits. Guest instructions are copied, not assembled.
//!
//! Bytes go to a buffer whose final address is known from the start, so branches are resolved when both ends are.

use alloc::vec::Vec;

/// A branch whose target is not known yet: index of its 32-bit displacement in the buffer.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct Branch(usize);

/// Condition codes as in the instruction encoding.
pub mod cond {
    pub const SIGN: u8 = 0x8;
    pub const NOT_ZERO: u8 = 0x5;
}

#[derive(Debug)]
pub struct Assembler {
    bytes: Vec<u8>,
    base: u64,
}

impl Assembler {
    /// Starts over at `base`, reusing `bytes`.
    pub fn new(mut bytes: Vec<u8>, base: u64) -> Self {
        bytes.clear();
        Self { bytes, base }
    }

    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The address of the next byte.
    pub fn here(&self) -> u64 {
        self.base + self.bytes.len() as u64
    }

    pub fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub fn set_byte(&mut self, at: usize, byte: u8) {
        self.bytes[at] = byte;
    }

    pub fn u64(&mut self, value: u64) {
        self.raw(&value.to_le_bytes());
    }

    /// Pads with int3 until the next address is a multiple of `to`.
    pub fn align(&mut self, to: u64) {
        while !self.here().is_multiple_of(to) {
            self.bytes.push(0xcc);
        }
    }

    /// `op reg, gs:[offset]` for a one-byte opcode with 64-bit operands.
    fn gs64(&mut self, opcode: u8, reg: usize, offset: u32) {
        let rex = 0x48 | ((reg as u8 >> 3) << 2);
        self.raw(&[0x65, rex, opcode, 0x04 | ((reg as u8 & 7) << 3), 0x25]);
        self.raw(&offset.to_le_bytes());
    }

    pub fn store(&mut self, offset: u32, reg: usize) {
        self.gs64(0x89, reg, offset);
    }

    pub fn load(&mut self, reg: usize, offset: u32) {
        self.gs64(0x8b, reg, offset);
    }

    /// `mov qword gs:[offset], value` (sign-extended 32 bits); leaves flags alone.
    pub fn store_immediate(&mut self, offset: u32, value: u32) {
        self.raw(&[0x65, 0x48, 0xc7, 0x04, 0x25]);
        self.raw(&offset.to_le_bytes());
        self.raw(&value.to_le_bytes());
    }

    /// `sub qword gs:[offset], amount`; changes flags.
    pub fn subtract(&mut self, offset: u32, amount: i8) {
        self.raw(&[0x65, 0x48, 0x83, 0x2c, 0x25]);
        self.raw(&offset.to_le_bytes());
        self.raw(&amount.to_le_bytes());
    }

    pub fn jump_via(&mut self, offset: u32) {
        self.raw(&[0x65, 0xff, 0x24, 0x25]);
        self.raw(&offset.to_le_bytes());
    }

    pub fn call_via(&mut self, offset: u32) {
        self.raw(&[0x65, 0xff, 0x14, 0x25]);
        self.raw(&offset.to_le_bytes());
    }

    /// `jmp gs:[r11 * 8 + table]`
    pub fn jump_table_r11(&mut self, table: u32) {
        self.raw(&[0x65, 0x42, 0xff, 0x24, 0xdd]);
        self.raw(&table.to_le_bytes());
    }

    /// `mov reg, value`
    pub fn load_immediate(&mut self, reg: usize, value: u64) {
        self.raw(&[0x48 | (reg as u8 >> 3), 0xb8 | (reg as u8 & 7)]);
        self.u64(value);
    }

    pub fn jump(&mut self) -> Branch {
        self.raw(&[0xe9, 0, 0, 0, 0]);
        Branch(self.bytes.len() - 4)
    }

    pub fn jump_if(&mut self, condition: u8) -> Branch {
        self.raw(&[0x0f, 0x80 | condition, 0, 0, 0, 0]);
        Branch(self.bytes.len() - 4)
    }

    /// `jrcxz` over the next `distance` bytes.
    pub fn jump_if_rcx_zero(&mut self, distance: u8) {
        self.raw(&[0xe3, distance]);
    }

    /// `push qword [rip + …]`: pushes the constant stored where the branch is later bound.
    pub fn push_constant(&mut self) -> Branch {
        self.raw(&[0xff, 0x35, 0, 0, 0, 0]);
        Branch(self.bytes.len() - 4)
    }

    /// `jmp [rip + 0]` with the address behind it.
    pub fn jump_absolute(&mut self, target: u64) {
        self.raw(&[0xff, 0x25, 0, 0, 0, 0]);
        self.u64(target);
    }

    /// Makes `branch` lead to `target`. The target is within ±2 GB because everything emitted lies in one region.
    pub fn bind(&mut self, branch: Branch, target: u64) {
        let next = self.base + branch.0 as u64 + 4;
        let distance = target.wrapping_sub(next) as i64;
        debug_assert!(i32::try_from(distance).is_ok(), "branch out of the region");
        self.bytes[branch.0..branch.0 + 4].copy_from_slice(&(distance as i32).to_le_bytes());
    }

    pub fn bind_here(&mut self, branch: Branch) {
        self.bind(branch, self.here());
    }

    /// The address of `branch`'s displacement, for patching after installation.
    pub fn patch_address(&self, branch: Branch) -> u64 {
        self.base + branch.0 as u64
    }

    /// Saves the flags in rax: `lahf; seto al`.
    pub fn save_flags(&mut self) {
        self.raw(&[0x9f, 0x0f, 0x90, 0xc0]);
    }

    /// Restores the flags that [`Self::save_flags`] left in rax: `add al, 127; sahf`.
    pub fn restore_flags(&mut self) {
        self.raw(&[0x04, 0x7f, 0x9e]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;
    use iced_x86::{Decoder, Formatter, GasFormatter, Instruction};

    fn listing(asm: Assembler, base: u64) -> Vec<String> {
        let bytes = asm.into_bytes();
        let mut decoder = Decoder::with_ip(64, &bytes, base, 0);
        let mut formatter = GasFormatter::new();
        let mut lines = Vec::new();
        while decoder.can_decode() {
            let instruction: Instruction = decoder.decode();
            let mut line = String::new();
            formatter.format(&instruction, &mut line);
            lines.push(line);
        }
        lines
    }

    #[test]
    fn sequences_disassemble_to_what_was_meant() {
        let mut asm = Assembler::new(Vec::new(), 0x1000);
        asm.store(0x20, 1);
        asm.load(9, 0x28);
        asm.subtract(0x98, 3);
        let branch = asm.jump_if(cond::SIGN);
        asm.jump_table_r11(0x10000);
        asm.bind_here(branch);
        asm.load_immediate(10, 0x1122_3344_5566_7788);
        asm.store_immediate(0x30, 7);
        asm.jump_via(0x40);
        asm.call_via(0x48);
        let lines = listing(asm, 0x1000);
        let expected = [
            "mov %rcx,%gs:0x20",
            "mov %gs:0x28,%r9",
            "subq $3,%gs:0x98",
            "js 0x0000000000001028",
            "jmp *%gs:0x10000(,%r11,8)",
            "movabs $0x1122334455667788,%r10",
            "movq $7,%gs:0x30",
            "jmp *%gs:0x40",
            "call *%gs:0x48",
        ];
        assert_eq!(lines.len(), expected.len(), "{lines:#?}");
        for (line, expected) in lines.iter().zip(expected) {
            let squeezed: String = line.split_whitespace().collect::<Vec<_>>().join(" ").replace("$0x7,", "$7,").replace("$0x3,", "$3,");
            assert!(squeezed.starts_with(expected.split(' ').next().unwrap_or("")), "{squeezed} / {expected}");
        }
    }
}
