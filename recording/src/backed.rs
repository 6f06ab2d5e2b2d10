//! Pages that a recording does not hold as pages because they are those of a file that it keeps (feature `std`).

use crate::PAGE_BYTES;
use crate::meta::{Mapping, MappingFlags};

const PAGE: u64 = PAGE_BYTES as u64;

/// The guest addresses that the pages section holds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Written {
    /// Start and end of each run.
    runs: Vec<(u64, u64)>,
    sorted: bool,
}

impl Written {
    pub(crate) fn add(&mut self, addr: u64, len: usize) {
        self.runs.push((addr, addr.saturating_add(len as u64)));
        self.sorted = false;
    }

    pub(crate) fn append(&mut self, mut other: Self) {
        self.runs.append(&mut other.runs);
        self.sorted = false;
    }

    pub(crate) fn sort(&mut self) {
        if !self.sorted {
            self.runs.sort_unstable();
            self.sorted = true;
        }
    }

    /// What of [start, end) was not written, in ascending order.
    fn gaps(&mut self, start: u64, end: u64, mut f: impl FnMut(u64, u64)) {
        self.sort();
        let mut at = start;
        // Runs of a file from outside may overlap: then an earlier one may reach further, and is passed over by `at`.
        let first = self.runs.partition_point(|run| run.1 <= start);
        for &(from, to) in self.runs[first..].iter().take_while(|run| run.0 < end) {
            if at < from {
                f(at, from);
            }
            at = at.max(to);
        }
        if at < end {
            f(at, end);
        }
    }
}

/// The mappings that take pages from a file, those of one file together.
pub(crate) fn groups(mappings: &[Mapping]) -> Vec<Vec<&Mapping>> {
    let mut backed: Vec<&Mapping> = mappings.iter().filter(|mapping| mapping.flags.contains(MappingFlags::FROM_FILE)).collect();
    backed.sort_by(|a, b| a.name.cmp(&b.name));
    backed.chunk_by(|a, b| a.name == b.name).map(<[_]>::to_vec).collect()
}

/// Gives the pages of `mapping` that were not `written`, as far as the file reaches; its last page is filled up with zeroes.
pub(crate) fn fill(mapping: &Mapping, contents: &[u8], written: &mut Written, f: &mut impl FnMut(u64, &[u8])) {
    let len = contents.len() as u64;
    written.gaps(mapping.start, mapping.end, |start, end| {
        let Some(from) = mapping.file_offset.checked_add(start - mapping.start).filter(|from| *from < len) else { return };
        let to = from.saturating_add(end - start).min(len);
        let whole = (to - from) / PAGE * PAGE;
        if whole > 0 {
            f(start, &contents[from as usize..(from + whole) as usize]);
        }
        let rest = &contents[(from + whole) as usize..to as usize];
        if !rest.is_empty() {
            let mut page = [0; PAGE_BYTES];
            page[..rest.len()].copy_from_slice(rest);
            f(start + whole, &page);
        }
    });
}
