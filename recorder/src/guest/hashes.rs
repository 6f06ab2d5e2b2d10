//! Hashes of the guest's memory, which replay compares: of all that it may write at the end, of a part of that now and then.
//!
//! M1. Only what was ever touched is read, and only that is named as ranges: neither side walks what a large mapping leaves unused.
//! M2. A part is at most [`PART`] long, and the next one waits [`REST`] times as long as it took: pauses are short, and of all time at most
//!     1/[`REST`] goes into them. The parts go round through all of memory.

use alloc::vec::Vec;

use engine::sys::raw;
use recording::{Body, MemoryHash, MemoryHasher, Ranges};

use super::host::{Guest, Recorder};
use super::maps::{self, Map};
use super::own_memory;
use super::pages::{self, Pagemap, Wanted};

const PART: u64 = 2 << 20;
const REST: u64 = 100;
/// Ticks of the time stamp counter before the first part: tens of milliseconds.
const FIRST: u64 = 1 << 27;
/// An event's ranges at most: 1 MiB of them. And what they are joined over.
const MOST_RANGES: usize = 1 << 16;
const GAP: u64 = 64 << 10;
/// Room in the event log that a part must leave.
const ROOM: u64 = 256 << 10;

/// When the next part is due, and where it begins.
#[derive(Debug)]
pub struct Hashes {
    due: u64,
    at: u64,
}

impl Hashes {
    pub fn new() -> Self {
        Self { due: ticks() + FIRST, at: 0 }
    }
}

fn ticks() -> u64 {
    // SAFETY: rdtsc has no preconditions.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// A piece of the mapping with this index.
#[derive(Clone, Copy)]
struct Run {
    map: usize,
    start: u64,
    end: u64,
}

/// Notes a hash of all that the guest may write.
pub fn note_all(host: &mut Recorder, engine: &mut Guest) {
    let maps = writable(host, engine);
    note(host, engine, &maps, 0, u64::MAX);
}

/// Notes a hash of a part if one is due. The guest stands before an instruction that is an event of its own.
pub fn note_some(host: &mut Recorder, engine: &mut Guest) {
    let now = ticks();
    if now < host.hashes.due || !host.events.has_room(ROOM) {
        return;
    }
    let maps = writable(host, engine);
    host.hashes.at = note(host, engine, &maps, host.hashes.at, PART);
    let end = ticks();
    host.hashes.due = end + (end - now) * REST;
}

/// The guest's private memory that it may write.
fn writable(host: &Recorder, engine: &Guest) -> Vec<Map> {
    let both = raw::PROT_READ | raw::PROT_WRITE;
    let maps = maps::own().into_iter().filter(|map| !map.shared && map.prot & both == both);
    let parts = |map: Map| {
        own_memory::outside(host, engine, map.start, map.end).into_iter().map(move |(start, end)| Map { start, end, ..map.clone() })
    };
    maps.flat_map(parts).collect()
}

/// Notes a hash of at most so many bytes from `from` on. Where the next part begins.
fn note(host: &mut Recorder, engine: &mut Guest, maps: &[Map], from: u64, most: u64) -> u64 {
    let (runs, next) = touched(maps, from, most);
    let runs = joined(runs);
    let mut hasher = MemoryHasher::new();
    for run in &runs {
        let added = pages::read(run.start, run.end, |at, bytes| hasher.add_range(at, bytes));
        debug_assert!(added.is_ok());
    }
    let header = host.header(engine);
    let body = Body::MemoryHash(MemoryHash { hash: hasher.finish(), pages: hasher.pages(), ranges: Ranges::default() });
    let _ =
        host.events.append(&header, &body, |builder| runs.iter().try_for_each(|run| builder.push_range(run.start, run.end - run.start)));
    next
}

/// What was touched of the mappings from `from` on, `most` bytes of it, and where that ends; 0: at the end of memory.
fn touched(maps: &[Map], from: u64, most: u64) -> (Vec<Run>, u64) {
    let pagemap = Pagemap::open();
    let (mut runs, mut left) = (Vec::new(), most);
    for (index, map) in maps.iter().enumerate().filter(|(_, map)| map.end > from) {
        let mut add = |start: u64, end: u64| {
            let end = end.min(start.saturating_add(left));
            runs.push(Run { map: index, start, end });
            left -= end - start;
            if left == 0 { Err(end) } else { Ok(()) }
        };
        let start = map.start.max(from);
        // Pages of a file that the guest has not touched count as well.
        let done = if map.inode == 0 { pagemap.runs(start, map.end, Wanted::Touched, add) } else { add(start, map.end) };
        if let Err(reached) = done {
            return (runs, reached);
        }
    }
    (runs, 0)
}

/// The same memory in fewer pieces. What lies between two of a mapping was never touched and is zero, here and in replay.
fn joined(mut runs: Vec<Run>) -> Vec<Run> {
    runs.dedup_by(|next, last| {
        let near = next.map == last.map && next.start - last.end <= GAP;
        if near {
            last.end = next.end;
        }
        near
    });
    // What has still more pieces is compared as far as they go.
    runs.truncate(MOST_RANGES);
    runs
}
