//! Which of the guest's memory may be executed, and which of that may be written as well: code there may change without a system call.

use alloc::vec::Vec;

use engine::CodeRange;
use engine::sys::raw;

use super::maps;

#[derive(Debug, Default)]
pub struct CodeRanges {
    /// Disjoint.
    ranges: Vec<CodeRange>,
}

impl CodeRanges {
    /// The executable range around `address`.
    pub fn find(&mut self, address: u64) -> Option<CodeRange> {
        if let Some(known) = self.ranges.iter().find(|range| range.contains(address)) {
            return Some(*known);
        }
        // The kernel has the last word: some programs may execute what they map for reading, and mappings move.
        let map = maps::find(address)?;
        self.set(map.start, map.end, map.prot);
        self.ranges.iter().find(|range| range.contains(address)).copied()
    }

    /// Notes the rights of [start, end).
    pub fn set(&mut self, start: u64, end: u64, prot: u32) {
        if self.ranges.iter().any(|range| range.start < end && start < range.end) {
            let mut rest = Vec::with_capacity(self.ranges.len() + 2);
            for range in self.ranges.drain(..) {
                if range.start < start {
                    rest.push(CodeRange { end: range.end.min(start), ..range });
                }
                if end < range.end {
                    rest.push(CodeRange { start: range.start.max(end), ..range });
                }
            }
            self.ranges = rest;
        }
        if prot & raw::PROT_EXEC != 0 {
            self.ranges.push(CodeRange { start, end, writable: prot & raw::PROT_WRITE != 0 });
        }
    }
}
