//! The watch filter: 65,536 bytes in the arena, one for each residue of an address's 256-byte granule. A zero says that nothing
//! watched lies there, so most accesses pass with two loads and a branch, flags untouched.

use crate::arena;
use crate::context::{offset, reg};
use crate::emit::Assembler;
use crate::site::Kind;

/// Which accesses need the filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    pub reads: bool,
    pub writes: bool,
}

impl Wanted {
    pub fn matches(self, kind: Kind) -> bool {
        match kind {
            Kind::Read => self.reads,
            Kind::Write => self.writes,
            Kind::ReadWrite => self.reads || self.writes,
        }
    }
}

const FILTER: u64 = arena::CONTEXT + arena::WATCH_FILTER_OFFSET as u64;
const GRANULES: usize = 1 << 16;
/// The widest access that emitted code passes through the filter: its first byte may lie this far before a watched one.
const WIDEST: u64 = 64;

/// rcx holds the address and is spilled: falls through with rcx restored if the filter has a mark, else skips that and `over` more bytes.
pub fn emit_filter(asm: &mut Assembler, over: u8) {
    asm.store(offset::ACCESS_ADDRESS, reg::RCX);
    // movzx ecx, word gs:[access_address + 1]: bits 8 to 23
    asm.raw(&[0x65, 0x0f, 0xb7, 0x0c, 0x25]);
    asm.raw(&(offset::ACCESS_ADDRESS + 1).to_le_bytes());
    // movzx ecx, byte gs:[rcx + filter]
    asm.raw(&[0x65, 0x0f, 0xb6, 0x89]);
    asm.raw(&arena::WATCH_FILTER_OFFSET.to_le_bytes());
    const LOAD_BYTES: u8 = 9;
    asm.jump_if_rcx_zero(LOAD_BYTES + over);
    asm.load(reg::RCX, offset::SPILL_RCX);
}

/// Marks exactly the granules of `ranges` (address, length).
pub fn mark(ranges: &[(u64, u64)]) {
    // SAFETY: the filter lies in the arena, which is mapped; emitted code reads it only between engine calls.
    let filter = unsafe { core::slice::from_raw_parts_mut(FILTER as *mut u8, GRANULES) };
    filter.fill(0);
    for &(address, length) in ranges {
        let first = address.saturating_sub(WIDEST - 1) >> 8;
        let last = address.saturating_add(length.max(1) - 1) >> 8;
        for granule in first..=last.min(first + GRANULES as u64) {
            filter[granule as usize % GRANULES] = 1;
        }
    }
}
