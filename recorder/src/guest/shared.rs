//! The guest's shared mappings and their three views.
//!
//! ```text
//!   guest address   PROT_NONE: the first touch by an instruction faults and makes it a shared site
//!   alias           the real pages, with the guest's rights
//!   known           what this process last read or wrote there; private, sparse, zero where never accessed
//! ```

use alloc::vec::Vec;

use engine::arena;
use engine::sys::{self, raw};
use shmem_log::ObjectIndex;

use super::maps::{self, Map};
use super::robust::RobustList;
use super::windows::Windows;

/// Between two views: it shows overruns of ours as faults.
const GAP: u64 = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedMap {
    pub start: u64,
    pub end: u64,
    /// What the guest believes the rights are.
    pub prot: u32,
    /// Offset of `start` in the object.
    pub offset: u64,
    pub device: u64,
    pub inode: u64,
    pub alias: u64,
    pub known: u64,
    /// In the access log; `None` if its accesses are not logged.
    pub object: Option<ObjectIndex>,
}

impl SharedMap {
    pub fn length(&self) -> u64 {
        self.end - self.start
    }

    pub fn contains(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }

    pub fn to_alias(self, address: u64) -> u64 {
        address - self.start + self.alias
    }

    pub fn to_known(self, address: u64) -> u64 {
        address - self.start + self.known
    }

    pub fn to_object(self, address: u64) -> u64 {
        address - self.start + self.offset
    }

    /// Of the same object, as far as the kernel's list tells.
    pub fn is_of(&self, other: &Self) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }

    /// The part from `start` to `end`, which lie inside.
    pub fn part(&self, start: u64, end: u64) -> Self {
        Self { start, end, offset: self.to_object(start), alias: self.to_alias(start), known: self.to_known(start), ..*self }
    }

    /// Whether `next` goes on where this ends, in every view.
    fn is_continued_by(&self, next: &Self) -> bool {
        let length = self.length();
        let whole = Self { end: next.end, ..*self };
        *next == Self { start: self.end, offset: self.offset + length, alias: self.alias + length, known: self.known + length, ..whole }
    }
}

#[derive(Debug)]
pub struct SharedMaps {
    maps: Vec<SharedMap>,
    windows: Windows,
    pub robust: RobustList,
    /// Where the next views begin in their areas; behind it nothing was ever mapped.
    next: u64,
}

impl SharedMaps {
    pub fn new() -> Self {
        Self { maps: Vec::new(), windows: Windows::default(), robust: RobustList::new(), next: 0 }
    }

    pub fn is_empty(&self) -> bool {
        self.maps.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &SharedMap> {
        self.maps.iter()
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut SharedMap> {
        self.windows.close();
        self.maps.iter_mut()
    }

    pub fn find(&self, address: u64) -> Option<&SharedMap> {
        self.maps.iter().find(|map| map.contains(address))
    }

    /// Where the first mapping above `address` begins.
    pub fn next_start(&self, address: u64) -> u64 {
        self.maps.iter().map(|map| map.start).filter(|&start| start > address).min().unwrap_or(u64::MAX)
    }

    /// For accesses that emitted code performs by itself.
    pub fn windows(&mut self) -> &mut Windows {
        &mut self.windows
    }

    pub fn overlaps(&self, start: u64, end: u64) -> bool {
        self.maps.iter().any(|map| map.start < end && start < map.end)
    }

    /// Whether a mapping is one that other processes can change and that we can watch.
    pub fn is_candidate(map: &Map) -> bool {
        // Executable shared mappings are code; mappings of devices cannot be aliased and show themselves in `adopt`.
        map.shared && map.prot & raw::PROT_EXEC == 0 && !map.name.starts_with(b"[")
    }

    /// Takes over a mapping. `Err`: it cannot be aliased; it stays as it is.
    pub fn adopt(&mut self, map: &Map) -> Result<&mut SharedMap, i64> {
        self.adopt_beside(map, &[])
    }

    /// Where views of so many bytes can go, if not where `taken` has its own.
    fn place(&self, length: u64, taken: &[SharedMap]) -> Option<u64> {
        if self.next + length <= arena::VIEW_SIZE {
            return Some(self.next);
        }
        let mut used: Vec<_> = self.maps.iter().chain(taken).map(|map| (map.alias - arena::ALIASES, map.length() + GAP)).collect();
        used.push((arena::VIEW_SIZE, 0));
        used.sort_unstable();
        let mut free = 0;
        for (place, length_there) in used {
            if free + length <= place {
                return Some(free);
            }
            free = free.max(place + length_there);
        }
        None
    }

    fn adopt_beside(&mut self, map: &Map, taken: &[SharedMap]) -> Result<&mut SharedMap, i64> {
        self.windows.close();
        let length = map.end - map.start;
        let place = self.place(length + GAP, taken).ok_or(-i64::from(sys::errno::ENOMEM))?;
        let wanted = arena::ALIASES + place;
        let alias = sys::mremap(map.start, 0, length, raw::MREMAP_MAYMOVE | raw::MREMAP_FIXED, wanted);
        if alias != wanted as i64 {
            return Err(alias);
        }
        let known = arena::KNOWN + place;
        if let Err(error) = arena::map_private(known, length, raw::PROT_READ | raw::PROT_WRITE) {
            sys::munmap(alias as u64, length);
            return Err(error);
        }
        sys::mprotect(map.start, length, raw::PROT_NONE);
        self.next = self.next.max(place + length + GAP);
        self.maps.push(SharedMap {
            start: map.start,
            end: map.end,
            prot: map.prot,
            offset: map.offset,
            device: map.device,
            inode: map.inode,
            alias: alias as u64,
            known,
            object: None,
        });
        match self.maps.last_mut() {
            Some(map) => Ok(map),
            None => Err(0),
        }
    }

    /// The parts of mappings in [start, end), ascending.
    pub fn within(&self, start: u64, end: u64) -> Vec<SharedMap> {
        let touched = self.maps.iter().filter(|map| map.start < end && start < map.end);
        let mut parts: Vec<_> = touched.map(|map| map.part(map.start.max(start), map.end.min(end))).collect();
        parts.sort_by_key(|part| part.start);
        parts
    }

    /// Takes [start, end) off the list; what was cut off keeps its views.
    fn take(&mut self, start: u64, end: u64) -> Vec<SharedMap> {
        self.windows.close();
        let taken = self.within(start, end);
        let mut rest = Vec::with_capacity(self.maps.len() + 1);
        for map in self.maps.drain(..) {
            if map.end <= start || end <= map.start {
                rest.push(map);
                continue;
            }
            if map.start < start {
                rest.push(map.part(map.start, start));
            }
            if end < map.end {
                rest.push(map.part(end, map.end));
            }
        }
        self.maps = rest;
        taken
    }

    /// Forgets [start, end), which the guest unmaps or maps anew; cut mappings keep their other parts.
    pub fn remove(&mut self, start: u64, end: u64) {
        for part in self.take(start, end) {
            self.robust.forget(part.alias, part.length());
            sys::munmap(part.alias, part.length());
            sys::munmap(part.known, part.length());
        }
    }

    /// After a call that was to put something in place of [start, end) and failed: forgets what is no longer there.
    pub fn reconcile(&mut self, start: u64, end: u64) {
        for part in self.within(start, end) {
            if maps::find(part.start).is_none_or(|map| (map.device, map.inode) != (part.device, part.inode)) {
                self.remove(part.start, part.end);
            }
        }
    }

    /// The guest has set the rights of [start, end).
    pub fn protect(&mut self, start: u64, end: u64, prot: u32) {
        for part in self.take(start, end) {
            sys::mprotect(part.alias, part.length(), prot);
            sys::mprotect(part.start, part.length(), raw::PROT_NONE);
            self.maps.push(SharedMap { prot, ..part });
        }
        self.join();
    }

    /// Joins neighbours that one mapping was cut into, so that fewer operands lie across an edge.
    fn join(&mut self) {
        self.maps.sort_by_key(|map| map.start);
        self.maps.dedup_by(|next, kept| {
            let joins = kept.is_continued_by(next);
            if joins {
                kept.end = next.end;
            }
            joins
        });
    }

    /// The kernel has moved what was at `from` to where `map` is now, or mapped it there once more: the guest's own mapping is there and
    /// closed already. What is known of the contents goes along; where the guest keeps the old mapping nothing is known of that any more.
    pub fn moved(&mut self, from: (u64, u64), map: &Map, keeps: bool) -> Result<(), i64> {
        let parts = self.take(from.0, from.1);
        let result = self.adopt_beside(map, &parts).map(|new| *new);
        if let Ok(new) = &result {
            sys::mprotect(new.alias, new.length(), new.prot);
        }
        for part in &parts {
            let (at, length) = (part.start - from.0, part.length());
            if let Ok(new) = &result
                && at < new.length()
            {
                let kept = length.min(new.length() - at);
                sys::mremap(part.known, kept, kept, raw::MREMAP_MAYMOVE | raw::MREMAP_FIXED, new.known + at);
            }
            sys::munmap(part.known, length);
            if keeps && arena::map_private(part.known, length, raw::PROT_READ | raw::PROT_WRITE).is_ok() {
                self.maps.push(*part);
            } else {
                self.robust.forget(part.alias, length);
                sys::munmap(part.alias, length);
            }
        }
        if result.is_err() {
            // It cannot be watched: it is the guest's as it believes it is.
            sys::mprotect(map.start, map.end - map.start, map.prot);
        }
        result.map(|_| ())
    }

    /// Nothing is known any more of what [start, end) contains.
    pub fn forget_contents(&mut self, start: u64, end: u64) {
        for part in self.within(start, end) {
            sys::madvise(part.known, part.length(), raw::MADV_DONTNEED);
        }
    }

    /// Gives the guest its rights to [start, end), for a system call that is about the mappings themselves.
    pub fn open(&mut self, start: u64, end: u64) {
        for part in self.within(start, end) {
            sys::mprotect(part.start, part.length(), part.prot);
        }
    }

    /// After [`Self::open`].
    pub fn shut(&mut self, start: u64, end: u64) {
        for part in self.within(start, end) {
            sys::mprotect(part.start, part.length(), raw::PROT_NONE);
        }
    }

    /// The kernel's list of mappings as it would be without us.
    pub fn as_guest_sees(&self, own: Vec<Map>) -> Vec<Map> {
        let mut seen = Vec::with_capacity(own.len());
        for map in own {
            let parts = self.within(map.start, map.end);
            if parts.is_empty() {
                seen.push(map);
                continue;
            }
            let cut = |start: u64, end: u64, prot: u32| Map { start, end, prot, offset: map.offset + (start - map.start), ..map.clone() };
            let mut reached = map.start;
            for part in parts {
                if reached < part.start {
                    seen.push(cut(reached, part.start, map.prot));
                }
                seen.push(cut(part.start, part.end, part.prot));
                reached = part.end;
            }
            if reached < map.end {
                seen.push(cut(reached, map.end, map.prot));
            }
        }
        seen
    }

    /// Gives all mappings back to the guest as it believes they are.
    pub fn release(&mut self) {
        self.windows.close();
        for map in &self.maps {
            sys::mprotect(map.start, map.length(), map.prot);
        }
        self.robust.release();
    }

    /// Closes the guest addresses again after [`Self::release`].
    pub fn close(&mut self) {
        self.robust.resume();
        self.windows.close();
        for map in &self.maps {
            sys::mprotect(map.start, map.length(), raw::PROT_NONE);
        }
    }

    /// Forgets all mappings, which have been released, and unmaps our views of them.
    pub fn clear(&mut self) {
        self.maps.clear();
        sys::munmap(arena::ALIASES, arena::END - arena::ALIASES);
    }

    /// Forgets what is known of the contents: a new recording starts.
    pub fn forget(&mut self) {
        self.windows = Windows::default();
        for map in &self.maps {
            sys::madvise(map.known, map.length(), raw::MADV_DONTNEED);
        }
    }
}
