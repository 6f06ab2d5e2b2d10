//! Memory hashes: the recording's, computed again, and one of everything for whoever compares two moments.

use recording::{MemoryHash, MemoryHasher, PAGE_BYTES};

use crate::control::Slot;
use crate::vm::Vm;

/// Hashes [start, start + length); pages that cannot be read count as nothing.
fn add(hasher: &mut MemoryHasher, vm: &Vm, slot: Slot, start: u64, length: u64) {
    let mut page = [0u8; PAGE_BYTES];
    let end = start.saturating_add(length);
    let mut address = start & !(PAGE_BYTES as u64 - 1);
    while address < end {
        slot.beat();
        // What is not mapped is skipped whole: a range from outside may be long.
        match vm.space.within(address, end).next() {
            Some(map) => address = map.start,
            None => return,
        }
        if vm.read(address, &mut page) == PAGE_BYTES {
            hasher.add_page(address, &page);
        }
        address += PAGE_BYTES as u64;
    }
}

/// Whether memory is as the event says; else what it is: (hash, pages).
pub fn compare(vm: &Vm, slot: Slot, expected: &MemoryHash<'_>) -> Result<(), (u64, u64)> {
    let mut hasher = MemoryHasher::new();
    for (start, length) in expected.ranges.iter() {
        add(&mut hasher, vm, slot, start, length);
    }
    if (hasher.finish(), hasher.pages()) == (expected.hash, expected.pages) {
        return Ok(());
    }
    Err((hasher.finish(), hasher.pages()))
}

/// A hash of all that can be read.
pub fn hash_all(vm: &Vm, slot: Slot) -> u64 {
    let mut hasher = MemoryHasher::new();
    for map in vm.space.maps() {
        if map.prot & 1 != 0 {
            add(&mut hasher, vm, slot, map.start, map.end - map.start);
        }
    }
    hasher.finish()
}
