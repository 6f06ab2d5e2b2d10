//! Children made by vfork and posix_spawn: natively they borrow their parent's memory until they execute a program or exit.
//!
//! Here such a child has a copy, as after fork, and goes on in translation without being recorded. Just before it executes or exits it
//! lays the pages that it has written into the control pages; the parent, which the kernel has kept asleep until then, takes over what is
//! different as memory writes of the call's event. So an exec that failed is reported where the program looks for it.
//!
//! What it maps or unmaps natively stays so for its parent. No event says that: the parent's recording ends, and the parent does the same.

use alloc::vec::Vec;

use engine::sys::{self, raw};
use engine::{arena, read_guest};

use super::host::{Guest, Recorder};
use super::maps::{self, Map};
use super::message::report;

const PAGE: usize = 4096;
/// Behind the control structure: how many pages follow, then address and contents of each.
const LIST: u64 = arena::CONTROL + (1 << 20);
const ENTRY: u64 = 8 + PAGE as u64;
const PAGES_MAX: u64 = (arena::CONTROL + arena::CONTROL_SIZE - LIST - 8) / ENTRY;

/// Before that, if the child has changed its address space: how many mappings it has, and those.
const SPACE: u64 = arena::CONTROL + (512 << 10);
const SPACE_MAX: u64 = (LIST - SPACE - size_of::<SpaceHead>() as u64) / size_of::<Mapping>() as u64;

const _: () = assert!(size_of::<super::control::Control>() as u64 <= SPACE - arena::CONTROL);

#[repr(C)]
struct SpaceHead {
    /// Whether it is different from the parent's at all.
    is_changed: u64,
    mappings: u64,
    brk: u64,
}

/// A mapping of the child's.
#[repr(C)]
#[derive(Clone, Copy)]
struct Mapping {
    start: u64,
    end: u64,
    prot: u64,
    shared: u64,
    offset: u64,
    device: u64,
    inode: u64,
    /// Zero-terminated; empty if it is too long.
    name: [u8; 200],
}

fn space() -> *mut SpaceHead {
    SPACE as *mut SpaceHead
}

fn count() -> *mut u64 {
    LIST as *mut u64
}

fn entry(index: u64) -> u64 {
    LIST + 8 + index * ENTRY
}

/// Before the child is made: nothing has been laid out.
pub fn prepare() {
    // SAFETY: the control pages are mapped while a recording runs.
    unsafe {
        count().write_volatile(0);
        (*space()).is_changed = 0;
    }
}

/// In the child: a call that changes the address space has succeeded.
pub fn note_change() {
    // SAFETY: as in `prepare`; the parent sleeps.
    unsafe { (*space()).is_changed = 1 };
}

/// In the parent, when it goes on: whether the child has changed what natively is their common address space.
pub fn is_space_changed() -> bool {
    // SAFETY: as in `prepare`; the child has left it behind.
    unsafe { (*space()).is_changed != 0 }
}

/// The guest's mappings, as it believes they are.
fn mappings(host: &Recorder, engine: &Guest) -> Vec<Map> {
    let regions: Vec<(u64, u64)> = engine.regions().collect();
    let is_ours = |map: &Map| arena::contains(map.start) || regions.iter().any(|&(base, size)| (base..base + size).contains(&map.start));
    let mut maps = host.shared.as_guest_sees(maps::own());
    // The stack grows by itself.
    maps.retain(|map| !is_ours(map) && map.name != b"[stack]");
    maps
}

fn brk(to: u64) -> u64 {
    // SAFETY: only the guest's own heap ends elsewhere.
    unsafe { sys::syscall(u64::from(raw::__NR_brk), [to, 0, 0, 0, 0, 0]) as u64 }
}

fn publish_space(host: &Recorder, engine: &Guest) {
    let maps = mappings(host, engine);
    for (index, map) in maps.iter().enumerate().take(SPACE_MAX as usize) {
        let mut name = [0; 200];
        if map.name.len() < name.len() {
            name[..map.name.len()].copy_from_slice(&map.name);
        }
        let mapping = Mapping {
            start: map.start,
            end: map.end,
            prot: map.prot.into(),
            shared: map.shared.into(),
            offset: map.offset,
            device: map.device,
            inode: map.inode,
            name,
        };
        // SAFETY: there is room for `SPACE_MAX`, and the parent sleeps.
        unsafe { ((SPACE + size_of::<SpaceHead>() as u64) as *mut Mapping).add(index).write(mapping) };
    }
    // SAFETY: as above.
    unsafe { ((*space()).mappings, (*space()).brk) = (maps.len() as u64, brk(0)) };
}

/// In the parent, which is not recorded any more: gives it the address space that its child has left.
pub fn follow_space(host: &Recorder, engine: &Guest) {
    // SAFETY: the child has left it behind.
    let (found, child_brk) = unsafe { ((*space()).mappings, (*space()).brk) };
    if found > SPACE_MAX {
        report(format_args!("a vforked child left {found} mappings; {SPACE_MAX} of them are seen by its parent"));
        return;
    }
    brk(child_brk);
    // SAFETY: as above; there are `found` of them.
    let theirs = unsafe { core::slice::from_raw_parts((SPACE + size_of::<SpaceHead>() as u64) as *const Mapping, found as usize) };
    let own = mappings(host, engine);
    let mut edges: Vec<u64> = own.iter().flat_map(|map| [map.start, map.end]).collect();
    edges.extend(theirs.iter().flat_map(|map| [map.start, map.end]));
    edges.sort_unstable();
    edges.dedup();
    for (&start, &end) in edges.iter().zip(edges.iter().skip(1)) {
        let here = own.iter().find(|map| map.start <= start && end <= map.end);
        let there = theirs.iter().find(|map| map.start <= start && end <= map.end);
        let is_same = |here: &Map, there: &Mapping| {
            (here.device, here.inode, u64::from(here.shared)) == (there.device, there.inode, there.shared)
                && (here.inode == 0 || here.offset.wrapping_sub(here.start) == there.offset.wrapping_sub(there.start))
        };
        match (here, there) {
            (None, None) => {}
            (Some(_), None) => {
                sys::munmap(start, end - start);
            }
            (Some(here), Some(there)) if is_same(here, there) => {
                if u64::from(here.prot) != there.prot {
                    sys::mprotect(start, end - start, there.prot as u32);
                }
            }
            (_, Some(there)) => map_again(there, start, end),
        }
    }
}

/// Maps a part of what the child had mapped. Where its file cannot be had by its name any more, memory takes its place.
fn map_again(there: &Mapping, start: u64, end: u64) {
    let prot = there.prot as u32;
    let kind = if there.shared != 0 { raw::MAP_SHARED } else { raw::MAP_PRIVATE };
    if there.inode != 0 && there.name[0] == b'/' {
        let flags = if there.shared != 0 && prot & raw::PROT_WRITE != 0 { raw::O_RDWR } else { raw::O_RDONLY };
        let fd = sys::open(&there.name, flags | raw::O_CLOEXEC | raw::O_NONBLOCK, 0);
        if fd >= 0 {
            let result = sys::mmap(start, end - start, prot, kind | raw::MAP_FIXED, fd as i32, there.offset + (start - there.start));
            sys::close(fd as i32);
            if result == start as i64 {
                return;
            }
        }
    }
    sys::mmap(start, end - start, prot, kind | raw::MAP_ANONYMOUS | raw::MAP_FIXED, -1, 0);
}

/// In the child, before it executes a program or exits.
pub fn publish(host: &Recorder, engine: &Guest) {
    if is_space_changed() {
        publish_space(host, engine);
    }
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
