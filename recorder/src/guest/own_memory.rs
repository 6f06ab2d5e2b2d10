//! Where we lie in the guest's address space: the engine's area, its code regions, and this library.

use alloc::vec::Vec;

use engine::{arena, read_guest};

use super::host::{Guest, Recorder};
use super::maps::Map;
use super::start;

/// This library, its memory without a file included. Where it was linked into the executable, only its code can be told apart.
pub fn image(maps: &[Map]) -> Vec<(u64, u64)> {
    let here = image as *const () as u64;
    let Some(own) = maps.iter().find(|map| (map.start..map.end).contains(&here)) else { return Vec::new() };
    if own.inode == 0 || own.name == start::read_link(b"/proc/self/exe\0") {
        return alloc::vec![(own.start, own.end)];
    }
    let base = own.start - own.offset;
    alloc::vec![(base, own.end.max(base + size_of_image(base)))]
}

/// As the program headers say that begin the image at `base`.
fn size_of_image(base: u64) -> u64 {
    const FIRST: u64 = 64;
    const SIZE: usize = 56;
    const LOAD: u64 = 1;
    let mut head = [0u8; FIRST as usize];
    read_guest(base, &mut head);
    let count = u64::from(head[56]);
    let ends = (0..count).filter_map(|index| {
        let mut header = [0u8; SIZE];
        read_guest(base + FIRST + index * SIZE as u64, &mut header);
        let word = |at: usize| super::access::word(&header[at..at + 8]);
        (word(0) & 0xffff_ffff == LOAD).then(|| word(16) + word(40))
    });
    ends.max().map_or(0, |end| (end + 4095) & !4095)
}

fn areas(host: &Recorder, engine: &Guest) -> impl Iterator<Item = (u64, u64)> {
    let regions = engine.regions().map(|(base, size)| (base, base + size));
    core::iter::once((arena::BASE, arena::END)).chain(regions).chain(host.image.iter().copied())
}

/// Whether any of [start, end) is ours.
pub fn overlaps(host: &Recorder, engine: &Guest, start: u64, end: u64) -> bool {
    areas(host, engine).any(|(low, high)| start < high && low < end)
}

/// The parts of [start, end) that are not ours.
pub fn outside(host: &Recorder, engine: &Guest, start: u64, end: u64) -> Vec<(u64, u64)> {
    let mut areas: Vec<_> = areas(host, engine).collect();
    areas.sort_unstable();
    arena::outside(start, end, areas)
}
