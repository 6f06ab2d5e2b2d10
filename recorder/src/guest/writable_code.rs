//! Which of the guest's mappings are both writable and executable: code in them may change without a system call.

use alloc::vec::Vec;

use engine::sys::raw;

#[derive(Debug, Default)]
pub struct WritableCode {
    /// Disjoint (start, end) ranges.
    ranges: Vec<(u64, u64)>,
}

impl WritableCode {
    pub fn contains(&self, address: u64) -> bool {
        self.ranges.iter().any(|&(start, end)| (start..end).contains(&address))
    }

    /// Notes the rights of [start, end).
    pub fn set(&mut self, start: u64, end: u64, prot: u32) {
        let both = raw::PROT_WRITE | raw::PROT_EXEC;
        if self.ranges.is_empty() && prot & both != both {
            return;
        }
        let mut rest = Vec::with_capacity(self.ranges.len() + 2);
        for (low, high) in self.ranges.drain(..) {
            if low < start {
                rest.push((low, high.min(start)));
            }
            if end < high {
                rest.push((low.max(end), high));
            }
        }
        if prot & both == both {
            rest.push((start, end));
        }
        self.ranges = rest;
    }
}
