//! When this process last touched each byte of shared memory.
//!
//! A page of table for each touched page of shared memory, one entry for every eight bytes: the time of the last access to any of them,
//! and which of them were ever accessed. Pages never touched have none.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;

use recording::Time;

use crate::control::Status;

const GRANULES: usize = 512;

#[derive(Clone, Copy)]
struct Granule {
    time: Time,
    /// One bit for each byte.
    accessed: u8,
}

#[derive(Default)]
pub struct Accesses {
    pages: BTreeMap<u64, Box<[Granule; GRANULES]>>,
}

impl Accesses {
    /// Notes an access to `length` bytes at `address`.
    pub fn note(&mut self, address: u64, length: u64, time: Time) {
        let end = address.saturating_add(length);
        for granule in (address >> 3)..=(end.saturating_sub(1) >> 3) {
            let page = self
                .pages
                .entry(granule / GRANULES as u64)
                .or_insert_with(|| Box::new([Granule { time: Time { bbcount: 0, pc: 0 }, accessed: 0 }; GRANULES]));
            let entry = &mut page[granule as usize % GRANULES];
            entry.time = time;
            entry.accessed |= mask(granule, address, end);
        }
    }

    /// Never accessed if any of the bytes was not; else the time of the last access to any of them.
    pub fn status(&self, address: u64, length: u64) -> (Status, Time) {
        let end = address.saturating_add(length.max(1));
        let mut last = Time { bbcount: 0, pc: 0 };
        for granule in (address >> 3)..=((end - 1) >> 3) {
            let entry = self.pages.get(&(granule / GRANULES as u64)).map(|page| page[granule as usize % GRANULES]);
            let wanted = mask(granule, address, end);
            match entry {
                Some(entry) if entry.accessed & wanted == wanted => last = last.max(entry.time),
                _ => return (Status::NeverAccessed, Time { bbcount: 0, pc: 0 }),
            }
        }
        (Status::LastAccessed, last)
    }

    /// Forgets [start, end): it is mapped anew.
    pub fn forget(&mut self, start: u64, end: u64) {
        let (first, last) = (start >> 12, end.saturating_add(4095) >> 12);
        if self.pages.range(first..last).next().is_some() {
            self.pages.retain(|page, _| !(first..last).contains(page));
        }
    }
}

/// The bits of `granule` that lie in [address, end).
fn mask(granule: u64, address: u64, end: u64) -> u8 {
    let (start, stop) = (granule << 3, (granule << 3).saturating_add(8));
    let (low, high) = (address.max(start) - start, end.min(stop) - start);
    ((1u16 << high) - (1u16 << low)) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(bbcount: u64) -> Time {
        Time { bbcount, pc: 0 }
    }

    #[test]
    fn bytes_are_known_one_by_one() {
        let mut accesses = Accesses::default();
        assert_eq!(accesses.status(0x1000, 4).0, Status::NeverAccessed);
        accesses.note(0x1000, 4, at(5));
        assert_eq!(accesses.status(0x1000, 4), (Status::LastAccessed, at(5)));
        assert_eq!(accesses.status(0x1003, 2).0, Status::NeverAccessed);
        accesses.note(0x1004, 8, at(9));
        assert_eq!(accesses.status(0x1000, 12), (Status::LastAccessed, at(9)));
        assert_eq!(accesses.status(0x1000, 13).0, Status::NeverAccessed);
    }

    #[test]
    fn accesses_straddle_pages_and_are_forgotten_with_them() {
        let mut accesses = Accesses::default();
        accesses.note(0x1ffe, 4, at(2));
        assert_eq!(accesses.status(0x1ffe, 4), (Status::LastAccessed, at(2)));
        accesses.forget(0x2000, 0x3000);
        assert_eq!(accesses.status(0x1ffe, 2), (Status::LastAccessed, at(2)));
        assert_eq!(accesses.status(0x1ffe, 4).0, Status::NeverAccessed);
    }
}
