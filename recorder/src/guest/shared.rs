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

use super::maps::Map;
use super::windows::Windows;

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
}

#[derive(Debug)]
pub struct SharedMaps {
    maps: Vec<SharedMap>,
    windows: Windows,
    next_alias: u64,
    next_known: u64,
}

impl SharedMaps {
    pub fn new() -> Self {
        Self { maps: Vec::new(), windows: Windows::default(), next_alias: arena::ALIASES, next_known: arena::KNOWN }
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
        self.windows.close();
        let length = map.end - map.start;
        let alias = sys::mremap(map.start, 0, length, raw::MREMAP_MAYMOVE | raw::MREMAP_FIXED, self.next_alias);
        if alias != self.next_alias as i64 {
            return Err(alias);
        }
        let known = self.next_known;
        if let Err(error) = arena::map_private(known, length, raw::PROT_READ | raw::PROT_WRITE) {
            sys::munmap(alias as u64, length);
            return Err(error);
        }
        sys::mprotect(map.start, length, raw::PROT_NONE);
        // A page between two views shows overruns of ours as faults.
        self.next_alias += length + 4096;
        self.next_known += length + 4096;
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

    /// Forgets [start, end), which the guest unmaps or maps anew; cut mappings keep their other parts.
    pub fn remove(&mut self, start: u64, end: u64) {
        self.windows.close();
        let mut rest = Vec::with_capacity(self.maps.len() + 1);
        for map in self.maps.drain(..) {
            if map.end <= start || end <= map.start {
                rest.push(map);
                continue;
            }
            let (low, high) = (map.start.max(start), map.end.min(end));
            sys::munmap(map.to_alias(low), high - low);
            sys::munmap(map.to_known(low), high - low);
            if map.start < low {
                rest.push(SharedMap { end: low, ..map });
            }
            if high < map.end {
                rest.push(SharedMap {
                    start: high,
                    offset: map.to_object(high),
                    alias: map.to_alias(high),
                    known: map.to_known(high),
                    ..map
                });
            }
        }
        self.maps = rest;
    }

    /// Gives all mappings back to the guest as it believes they are.
    pub fn release(&mut self) {
        self.windows.close();
        for map in &self.maps {
            sys::mprotect(map.start, map.length(), map.prot);
        }
    }

    /// Closes the guest addresses again after [`Self::release`].
    pub fn close(&mut self) {
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
