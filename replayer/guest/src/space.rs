//! The guest's address space as a list: which mappings there are at the current time.
//!
//! Pure bookkeeping; `vm` does the same to the real address space.
//!
//! S1. The maps are ascending, disjoint and not empty; their bounds are page-aligned.

use alloc::vec::Vec;

/// Where a mapping's name is found.
pub mod origin {
    /// With this bit: the offset of the event that made the mapping in the event log. Without: an index among the recording's
    /// mappings.
    pub const EVENT: u64 = 1 << 63;
    /// Anonymous memory.
    pub const ANONYMOUS: u64 = u64::MAX;
    pub const HEAP: u64 = u64::MAX - 1;
}

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Map {
    pub start: u64,
    pub end: u64,
    /// PROT_READ 1, PROT_WRITE 2, PROT_EXEC 4.
    pub prot: u32,
    /// 1 for shared mappings.
    pub shared: u32,
    /// File offset of `start`.
    pub offset: u64,
    /// See [`origin`].
    pub origin: u64,
}

impl Map {
    fn advanced(self, start: u64) -> Self {
        let named = self.origin != origin::ANONYMOUS && self.origin != origin::HEAP;
        Self { start, offset: if named { self.offset.saturating_add(start - self.start) } else { 0 }, ..self }
    }
}

#[derive(Clone, Debug, Default)]
pub struct Space {
    maps: Vec<Map>,
    pub brk_start: u64,
    pub brk: u64,
}

pub const fn page_up(address: u64) -> u64 {
    address.saturating_add(4095) & !4095
}

impl Space {
    /// Without maps; the heap is where the kernel had it.
    pub fn new(brk_start: u64, brk: u64) -> Self {
        Self { maps: Vec::new(), brk_start, brk }
    }

    pub fn maps(&self) -> &[Map] {
        &self.maps
    }

    pub fn find(&self, address: u64) -> Option<&Map> {
        let index = self.maps.partition_point(|map| map.end <= address);
        self.maps.get(index).filter(|map| map.start <= address)
    }

    /// The parts of maps in [start, end).
    pub fn within(&self, start: u64, end: u64) -> impl Iterator<Item = Map> + '_ {
        let first = self.maps.partition_point(|map| map.end <= start);
        let inside = self.maps[first..].iter().take_while(move |map| map.start < end);
        inside.map(move |map| {
            let map = map.advanced(map.start.max(start));
            Map { end: map.end.min(end), ..map }
        })
    }

    /// How many bytes from `address` on are mapped, at most `length`.
    pub fn mapped_length(&self, address: u64, length: u64) -> u64 {
        let end = address.saturating_add(length);
        let mut reached = address;
        for map in self.within(address, end) {
            if map.start != reached {
                break;
            }
            reached = map.end;
        }
        reached - address
    }

    pub fn remove(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        let first = self.maps.partition_point(|map| map.end <= start);
        let last = self.maps.partition_point(|map| map.start < end);
        let mut rest = Vec::new();
        for map in &self.maps[first..last] {
            if map.start < start {
                rest.push(Map { end: start, ..*map });
            }
            if map.end > end {
                rest.push(map.advanced(end));
            }
        }
        self.maps.splice(first..last, rest);
    }

    /// Puts a map in place of whatever is there.
    pub fn insert(&mut self, map: Map) {
        if map.start >= map.end {
            return;
        }
        self.remove(map.start, map.end);
        let index = self.maps.partition_point(|other| other.start < map.start);
        self.maps.insert(index, map);
    }

    pub fn protect(&mut self, start: u64, end: u64, prot: u32) {
        let changed: Vec<Map> = self.within(start, end).map(|map| Map { prot, ..map }).collect();
        for map in changed {
            self.insert(map);
        }
        self.merge();
    }

    /// Joins neighbours that differ in nothing, as the kernel does.
    fn merge(&mut self) {
        let joins = |a: &Map, b: &Map| {
            let offsets = a.origin == origin::ANONYMOUS || a.origin == origin::HEAP || a.offset.saturating_add(a.end - a.start) == b.offset;
            a.end == b.start && a.prot == b.prot && a.shared == b.shared && a.origin == b.origin && offsets
        };
        self.maps.dedup_by(|next, kept| {
            let join = joins(kept, next);
            if join {
                kept.end = next.end;
            }
            join
        });
    }

    /// The heap ends at `brk` from now on. Returns the range that was added and the one that was taken away; one is empty.
    pub fn set_brk(&mut self, brk: u64) -> ((u64, u64), (u64, u64)) {
        let (old, new) = (page_up(self.brk), page_up(brk));
        self.brk = brk;
        if new > old {
            self.insert(Map { start: old, end: new, prot: 3, shared: 0, offset: 0, origin: origin::HEAP });
            self.merge();
            return ((old, new), (0, 0));
        }
        self.remove(new, old);
        ((0, 0), (new, old))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(start: u64, end: u64) -> Map {
        Map { start, end, prot: 3, shared: 0, offset: 0, origin: origin::ANONYMOUS }
    }

    fn bounds(space: &Space) -> Vec<(u64, u64, u32)> {
        space.maps().iter().map(|map| (map.start, map.end, map.prot)).collect()
    }

    #[test]
    fn maps_are_cut_and_replaced() {
        let mut space = Space::default();
        space.insert(map(0x1000, 0x9000));
        space.remove(0x3000, 0x4000);
        assert_eq!(bounds(&space), [(0x1000, 0x3000, 3), (0x4000, 0x9000, 3)]);
        space.insert(Map { prot: 1, ..map(0x2000, 0x5000) });
        assert_eq!(bounds(&space), [(0x1000, 0x2000, 3), (0x2000, 0x5000, 1), (0x5000, 0x9000, 3)]);
        assert_eq!(space.find(0x4fff).map(|map| map.prot), Some(1));
        assert!(space.find(0x9000).is_none());
        assert_eq!(space.mapped_length(0x8ff0, 100), 0x10);
        assert_eq!(space.mapped_length(0x1f00, 0x200), 0x200);
        assert_eq!(space.mapped_length(0xa000, 1), 0);
    }

    #[test]
    fn protection_splits_and_joins() {
        let mut space = Space::default();
        space.insert(map(0x1000, 0x5000));
        space.protect(0x2000, 0x3000, 1);
        assert_eq!(bounds(&space), [(0x1000, 0x2000, 3), (0x2000, 0x3000, 1), (0x3000, 0x5000, 3)]);
        space.protect(0x2000, 0x3000, 3);
        assert_eq!(bounds(&space), [(0x1000, 0x5000, 3)]);
    }

    #[test]
    fn a_cut_file_mapping_keeps_its_offsets() {
        let mut space = Space::default();
        space.insert(Map { offset: 0x7000, origin: 0, ..map(0x1000, 0x5000) });
        space.remove(0x2000, 0x3000);
        assert_eq!(space.maps()[1].offset, 0x9000);
    }

    #[test]
    fn the_heap_grows_and_shrinks() {
        let mut space = Space::new(0x1000, 0x1000);
        assert_eq!(space.set_brk(0x2800), ((0x1000, 0x3000), (0, 0)));
        assert_eq!(space.set_brk(0x2c00), ((0, 0), (0x3000, 0x3000)));
        assert_eq!(space.set_brk(0x1800), ((0, 0), (0x2000, 0x3000)));
        assert_eq!(bounds(&space), [(0x1000, 0x2000, 3)]);
    }
}
