//! The table of objects: an open hash table that any number of processes fill at once.
//!
//! I1. Who an entry belongs to is decided by one compare-and-swap of its key. So two processes that register the same object at
//! the same time get the same index, even while, or if for ever, one of them has yet to fill the entry in.
//! I2. Entries are never removed, so the first entry with a key, from the key's home on, is the only one.
use crate::layout::*;
use crate::memory::Memory;
use crate::sync::Ordering;

/// The key of an object. Exact for devices below 2^24 and inodes below 2^39 - 1, else a 63-bit hash; never 0.
pub(crate) const fn key(dev: u64, ino: u64) -> u64 {
    if dev < 1 << 24 && ino < (1 << 39) - 1 {
        return dev << 39 | (ino + 1);
    }
    let mixed = (dev.wrapping_mul(0xff51_afd7_ed55_8ccd) ^ ino).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    (mixed ^ mixed >> 29) | 1 << 63
}

/// Finds or adds an object; the index of its entry, or None if the table of `count` entries at `table` is full. `prepare` is called
/// with each entry's address before it is touched, and tells whether it may be; `fill` with that of a new one before it is published.
pub(crate) fn register<M: Memory>(
    memory: &M,
    table: usize,
    count: u64,
    dev: u64,
    ino: u64,
    prepare: impl Fn(usize) -> bool,
    fill: impl FnOnce(usize),
) -> Option<u64> {
    let key = key(dev, ino);
    let home = key.wrapping_mul(CLOCK_HASH) >> 40;
    for probe in 0..count {
        let index = (home + probe) % count.max(1);
        let entry = table + (index * OBJECT_BYTES) as usize;
        if !prepare(entry) {
            return None;
        }
        let word = |at: u64| memory.word(entry + at as usize);
        // Relaxed: the key alone says whose the entry is (I1).
        match word(OBJ_KEY).compare_exchange(0, key, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => {
                word(OBJ_DEV).store(dev, Ordering::Relaxed);
                word(OBJ_INO).store(ino, Ordering::Relaxed);
                fill(entry);
                // Release: [publish-entry]
                word(OBJ_STATE).store(ENTRY_READY, Ordering::Release);
                return Some(index);
            }
            Err(found) if found == key => {
                // Certain for exact keys. Hashes are compared in full once the entry is complete. Acquire: [publish-entry]
                let ready = word(OBJ_STATE).load(Ordering::Acquire) == ENTRY_READY;
                let same = || word(OBJ_DEV).load(Ordering::Relaxed) == dev && word(OBJ_INO).load(Ordering::Relaxed) == ino;
                if !ready || same() {
                    return Some(index);
                }
            }
            Err(_) => {}
        }
    }
    None
}
