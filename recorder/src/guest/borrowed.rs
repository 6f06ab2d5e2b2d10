//! Children made by vfork and posix_spawn: natively they borrow their parent's memory until they execute a program or exit.
//!
//! Here such a child has a copy, as after fork, and goes on in translation without being recorded. Just before it executes or exits it
//! lays the pages that it has written into the control pages; the parent, which the kernel has kept asleep until then, takes over what is
//! different as memory writes of the call's event. So an exec that failed is reported where the program looks for it.

use alloc::vec::Vec;

use engine::sys::{self, raw};
use engine::{arena, read_guest};

use super::host::{Guest, Recorder};
use super::maps;
use super::message::report;

const PAGE: usize = 4096;
/// Behind the control structure: how many pages follow, then address and contents of each.
const LIST: u64 = arena::CONTROL + (1 << 20);
const ENTRY: u64 = 8 + PAGE as u64;
const PAGES_MAX: u64 = (arena::CONTROL + arena::CONTROL_SIZE - LIST - 8) / ENTRY;

fn count() -> *mut u64 {
    LIST as *mut u64
}

fn entry(index: u64) -> u64 {
    LIST + 8 + index * ENTRY
}

/// Before the child is made: nothing has been laid out.
pub fn prepare() {
    // SAFETY: the control pages are mapped while a recording runs.
    unsafe { count().write_volatile(0) };
}

/// In the child, before it executes a program or exits.
pub fn publish(engine: &Guest) {
    let pagemap = sys::open(b"/proc/self/pagemap\0", raw::O_RDONLY | raw::O_CLOEXEC, 0);
    if pagemap < 0 {
        return;
    }
    let regions: Vec<(u64, u64)> = engine.regions().collect();
    let mut found = 0;
    for map in maps::own() {
        let ours = arena::contains(map.start) || regions.iter().any(|&(base, size)| (base..base + size).contains(&map.start));
        if map.shared || ours || map.prot & raw::PROT_WRITE == 0 {
            continue;
        }
        for page in written_pages(pagemap as i32, map.start, map.end) {
            if found < PAGES_MAX {
                // SAFETY: the list lies in the control pages, which are this process's and its sleeping parent's alone.
                unsafe {
                    (entry(found) as *mut u64).write(page);
                    let contents = core::slice::from_raw_parts_mut((entry(found) + 8) as *mut u8, PAGE);
                    read_guest(page, contents);
                }
            }
            found += 1;
        }
    }
    sys::close(pagemap as i32);
    // SAFETY: as above.
    unsafe { count().write_volatile(found) };
}

/// The pages of [start, end) that belong to this process alone: those it has written since it was forked.
fn written_pages(pagemap: i32, start: u64, end: u64) -> Vec<u64> {
    /// Bits of a pagemap entry: present, mapped by nobody else.
    const OWN: u64 = 1 << 63 | 1 << 56;
    const BATCH: usize = 512;
    let mut pages = Vec::new();
    let mut at = start;
    while at < end {
        let wanted = (((end - at) / PAGE as u64) as usize).min(BATCH);
        let mut entries = [0u8; 8 * BATCH];
        let got = sys::pread(pagemap, &mut entries[..8 * wanted], at / PAGE as u64 * 8);
        for (index, entry) in entries[..got.max(0) as usize].chunks_exact(8).enumerate() {
            if super::access::word(entry) & OWN == OWN {
                pages.push(at + (index * PAGE) as u64);
            }
        }
        at += (wanted * PAGE) as u64;
    }
    pages
}

/// In the parent, when it goes on: takes over what the child wrote. Returns the pieces of memory that changed.
pub fn take_over(host: &Recorder, engine: &mut Guest) -> Vec<(u64, u64)> {
    // SAFETY: as in `publish`; the child has left the list behind.
    let found = unsafe { count().read_volatile() };
    if found > PAGES_MAX {
        report(format_args!("a vforked child wrote {found} pages; {PAGES_MAX} of them are seen by its parent"));
    }
    let mut changed = Vec::new();
    for index in 0..found.min(PAGES_MAX) {
        // SAFETY: as above.
        let (page, new) =
            unsafe { ((entry(index) as *const u64).read(), core::slice::from_raw_parts((entry(index) + 8) as *const u8, PAGE)) };
        let mut old = [0u8; PAGE];
        if read_guest(page, &mut old) != PAGE || host.shared.find(page).is_some() {
            continue;
        }
        let mut at = 0;
        while at < PAGE {
            if old[at] == new[at] {
                at += 1;
                continue;
            }
            let length = new[at..].iter().zip(&old[at..]).take_while(|(new, old)| new != old).count();
            if engine.write_guest(page + at as u64, &new[at..at + length]) == length {
                changed.push((page + at as u64, length as u64));
            }
            at += length;
        }
    }
    changed
}
