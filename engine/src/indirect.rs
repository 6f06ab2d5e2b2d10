//! The sieve: where indirect branches find their target.
//!
//! An indirect branch jumps through a table indexed by the low 16 bits of its target. Each entry leads to a chain of stubs, one per
//! target, that compare all 64 bits and jump to the unit; the last of a chain leads to the gate. (The structure is that of the sieve in
//! HDTrans, Sridhar et al. 2006.)

use alloc::vec::Vec;

use crate::arena;
use crate::context::{offset, reg};
use crate::emit::Assembler;

const TABLE: u64 = arena::CONTEXT + arena::INDIRECT_TABLE_OFFSET as u64;
const ENTRIES: usize = 1 << 16;

fn entry(target: u64) -> *mut u64 {
    (TABLE as *mut u64).wrapping_add(target as usize % ENTRIES)
}

/// Makes every entry lead to `miss`.
pub fn reset(miss: u64) {
    // SAFETY: the table lies in the arena, which is mapped; emitted code reads it only between engine calls.
    unsafe { core::slice::from_raw_parts_mut(TABLE as *mut u64, ENTRIES) }.fill(miss);
}

/// The first stub on `target`'s chain.
pub fn head(target: u64) -> u64 {
    // SAFETY: in the table, see `reset`.
    unsafe { entry(target).read() }
}

/// Puts the stub at `stub` first on `target`'s chain.
pub fn set_head(target: u64, stub: u64) {
    // SAFETY: in the table, see `reset`.
    unsafe { entry(target).write(stub) }
}

/// Assembles the stub for `target`, to stand at `base`, that leads to `host` and else to `next`. It leaves the flags alone: they may
/// be live at another target on the same chain.
pub fn stub(buffer: Vec<u8>, base: u64, target: u64, host: u64, next: u64) -> Vec<u8> {
    let mut asm = Assembler::new(buffer, base);
    asm.load_immediate(reg::R11, target.wrapping_neg());
    asm.raw(&[0x4a, 0x8d, 0x0c, 0x19]); // lea rcx, [rcx + r11]
    let at = asm.len();
    asm.jump_if_rcx_zero(0);
    asm.load_immediate(reg::R11, target);
    asm.raw(&[0x4a, 0x8d, 0x0c, 0x19]); // lea rcx, [rcx + r11]
    asm.jump_absolute(next);
    asm.set_byte(at + 1, (asm.len() - at - 2) as u8);
    asm.load(reg::RCX, offset::SPILL_RCX);
    asm.load(reg::R11, offset::SPILL_R11);
    let branch = asm.jump();
    asm.bind(branch, host);
    asm.into_bytes()
}
