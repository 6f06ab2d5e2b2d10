//! Code that is written at run time: pages that are both writable and executable are closed to writing once something was translated
//! from them; the write that faults throws the translations away and opens the page again.
//!
//! A page on which that happens often (code and the data it writes in one page) becomes volatile: nothing made from it is kept, each of
//! its blocks is translated anew every time. Code that is written while not executable needs none of this: mprotect and mmap tell.

use hashbrown::{HashMap, HashSet};

use crate::sys::{self, raw};

/// So many faults make a page volatile.
const FAULTS_MAX: u8 = 8;
const PAGE: u64 = 4096;

#[derive(Debug, Default)]
pub struct CodeGuard {
    guarded: HashSet<u64>,
    faults: HashMap<u64, u8>,
}

impl CodeGuard {
    /// Whether an instruction at `address` may lie, with its first byte or its last, in a volatile page.
    pub fn is_volatile(&self, address: u64) -> bool {
        const LONGEST: u64 = 15;
        let often = |address: u64| self.faults.get(&(address / PAGE)).is_some_and(|&faults| faults >= FAULTS_MAX);
        !self.faults.is_empty() && (often(address) || often(address.saturating_add(LONGEST - 1)))
    }

    /// Something was translated from this page, which the guest may write.
    pub fn guard(&mut self, page: u64) {
        if !self.is_volatile(page * PAGE) && self.guarded.insert(page) {
            sys::mprotect(page * PAGE, PAGE, raw::PROT_READ | raw::PROT_EXEC);
        }
    }

    /// Opens the page of `address` if it was guarded; `true` if so.
    pub fn open(&mut self, address: u64) -> bool {
        let page = address / PAGE;
        if !self.guarded.remove(&page) {
            return false;
        }
        sys::mprotect(page * PAGE, PAGE, raw::PROT_READ | raw::PROT_WRITE | raw::PROT_EXEC);
        let faults = self.faults.entry(page).or_insert(0);
        *faults = faults.saturating_add(1);
        true
    }

    /// Opens the guarded pages of [start, end); `true` if there were any.
    pub fn open_range(&mut self, start: u64, end: u64) -> bool {
        let pages = start / PAGE..end.div_ceil(PAGE);
        let before = self.guarded.len();
        self.guarded.retain(|&page| {
            let inside = pages.contains(&page);
            if inside {
                sys::mprotect(page * PAGE, PAGE, raw::PROT_READ | raw::PROT_WRITE | raw::PROT_EXEC);
            }
            !inside
        });
        self.guarded.len() != before
    }

    /// The guest has changed what is mapped at [start, end): its pages are what it made them.
    pub fn forget(&mut self, start: u64, end: u64) {
        if !self.guarded.is_empty() || !self.faults.is_empty() {
            let outside = |page: u64| page < start / PAGE || page >= end.div_ceil(PAGE);
            self.guarded.retain(|&page| outside(page));
            self.faults.retain(|&page, _| outside(page));
        }
    }
}
