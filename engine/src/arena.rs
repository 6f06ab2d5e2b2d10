//! The one reserved area of the address space that holds everything of ours inside a guest.
//!
//! It lies at a fixed address that neither the kernel's own choice of mappings nor the common sanitizers use, so that a recording
//! can be rebuilt around it in another process. There are no mutable statics anywhere in guest code: the guest's `.data` and `.bss`
//! stay the guest's.
//!
//! ```text
//! BASE + 0           context (gs points here)                     64 KiB
//!      + 64 KiB      indirect-branch table, 65,536 host addresses 512 KiB
//!      + 640 KiB     watch filter, one byte per granule hash      64 KiB
//!      + 1 MiB       engine stack (grows down from 2 MiB)         1 MiB - guard
//!      + 2 MiB       signal stack                                 256 KiB
//!      + 3 MiB       host state                                   1 MiB
//!      + 4 MiB       heap                                         1 GiB - 4 MiB, sparse
//!      + 1 GiB       far code cache                               64 MiB
//!      + 2 GiB       control pages shared with helper processes   16 MiB
//!      + 4 GiB       event log, shared                            up to 64 GiB, sparse
//!      + 128 GiB     access log                                   up to 512 GiB
//!      + 1 TiB       real aliases of shared mappings              2.5 TiB
//!      + 3.5 TiB     known copies of shared mappings              2.5 TiB
//!      + 6 TiB       nodes of the list of robust mutexes          2.5 TiB, sparse
//! ```

use alloc::vec::Vec;

use crate::sys::{self, raw};

pub const BASE: u64 = 0x6a00_0000_0000;
pub const END: u64 = BASE + (9 << 40);
/// Length of each of the areas that follow shared mappings, and place by place the same: aliases, known copies, nodes.
pub const VIEW_SIZE: u64 = 5 << 39;

pub const CONTEXT: u64 = BASE;
/// Offset of the indirect-branch table from the context.
pub const INDIRECT_TABLE_OFFSET: u32 = 64 << 10;
/// Offset of the watch filter from the context.
pub const WATCH_FILTER_OFFSET: u32 = 640 << 10;
pub const ENGINE_STACK_LOW: u64 = BASE + (1 << 20);
pub const ENGINE_STACK_TOP: u64 = BASE + (2 << 20);
pub const SIGNAL_STACK: u64 = BASE + (2 << 20);
pub const SIGNAL_STACK_SIZE: u64 = 256 << 10;
pub const HOST_STATE: u64 = BASE + (3 << 20);
pub const HEAP: u64 = BASE + (4 << 20);
pub const HEAP_END: u64 = BASE + (1 << 30);
pub const FAR_CODE: u64 = BASE + (1 << 30);
pub const FAR_CODE_SIZE: u64 = 64 << 20;
pub const CONTROL: u64 = BASE + (2 << 30);
pub const CONTROL_SIZE: u64 = 16 << 20;
pub const EVENT_LOG: u64 = BASE + (4 << 30);
pub const ACCESS_LOG: u64 = BASE + (128 << 30);
pub const ALIASES: u64 = BASE + (1 << 40);
pub const KNOWN: u64 = ALIASES + VIEW_SIZE;
pub const ROBUST: u64 = KNOWN + VIEW_SIZE;

/// Maps the private part (context to heap). Returns `-errno` if the area is taken.
pub fn map() -> Result<(), i64> {
    map_private(BASE, HEAP_END - BASE, raw::PROT_READ | raw::PROT_WRITE)?;
    // A guard page below the engine's stack.
    match sys::mprotect(ENGINE_STACK_LOW, 4096, raw::PROT_NONE) {
        0 => Ok(()),
        error => Err(error),
    }
}

/// Whether [`map`] has been done in this process (or its ancestor).
pub fn is_mapped() -> bool {
    // madvise answers ENOMEM for memory that is not mapped and does nothing else with this advice.
    sys::madvise(BASE, 4096, raw::MADV_NORMAL) == 0
}

/// Reserves private anonymous memory at exactly `address`.
pub fn map_private(address: u64, length: u64, prot: u32) -> Result<(), i64> {
    let flags = raw::MAP_PRIVATE | raw::MAP_ANONYMOUS | raw::MAP_NORESERVE | raw::MAP_FIXED_NOREPLACE;
    let got = sys::mmap(address, length, prot, flags, -1, 0);
    if got == address as i64 {
        return Ok(());
    }
    if got >= 0 {
        // A kernel that does not know MAP_FIXED_NOREPLACE took the address as a hint.
        sys::munmap(got as u64, length);
        return Err(-(sys::errno::EEXIST as i64));
    }
    Err(got)
}

pub fn contains(address: u64) -> bool {
    (BASE..END).contains(&address)
}

/// The parts of [start, end) that none of `areas` covers; ascending. The areas are ascending too.
pub fn outside(start: u64, end: u64, areas: impl IntoIterator<Item = (u64, u64)>) -> Vec<(u64, u64)> {
    let mut parts = Vec::new();
    let mut reached = start;
    for (low, high) in areas {
        if reached < low.min(end) {
            parts.push((reached, low.min(end)));
        }
        reached = reached.max(high);
    }
    if reached < end {
        parts.push((reached, end));
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::outside;

    #[test]
    fn what_is_outside_of_areas() {
        let areas = [(10, 20), (20, 25), (40, 50)];
        assert_eq!(outside(0, 100, areas), [(0, 10), (25, 40), (50, 100)]);
        assert_eq!(outside(12, 45, areas), [(25, 40)]);
        assert_eq!(outside(15, 22, areas), []);
        assert_eq!(outside(5, 8, areas), [(5, 8)]);
        assert_eq!(outside(60, 70, areas), [(60, 70)]);
        assert_eq!(outside(5, 10, areas), [(5, 10)]);
    }
}
