//! How much memory writing and reading take, measured: the writer runs inside the recorded program, the reader meets hostile files.
//!
//! One test, because the count is of the whole process.

mod common;

use common::raw::{self, Chunk, put_together, take_apart};
use common::{noise, sample};
use recording::*;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: all of it is the system's allocator; counting touches no memory of its.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(now, Ordering::Relaxed);
        // SAFETY: the caller's layout, as it is.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: `ptr` came from `alloc` above with this layout, and so from the system's.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The most that `f` had allocated at a time.
fn peak_bytes<T>(f: impl FnOnce() -> T) -> usize {
    let before = NOW.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    drop(f());
    PEAK.load(Ordering::Relaxed) - before
}

struct Nowhere;

impl Sink for Nowhere {
    type Error = std::convert::Infallible;

    fn write_all(&mut self, _: &[u8]) -> Result<(), Self::Error> {
        Ok(())
    }
}

fn writing_takes_the_same_however_long_the_recording_is() {
    let contents = sample();
    let memory = noise(2 << 20, 1);
    let write = |times: usize| {
        peak_bytes(|| {
            let mut writer = FileWriter::new(Nowhere).unwrap();
            writer.metadata(&contents.meta).unwrap();
            contents.mappings.iter().for_each(|mapping| writer.mapping(mapping).unwrap());
            for i in 0..times {
                writer.pages((i * memory.len()) as u64, &memory).unwrap();
            }
            (0..times).for_each(|_| writer.events(&memory).unwrap());
            (0..times * 100_000).for_each(|pc| writer.site(pc as u64).unwrap());
            writer.file(&contents.files[0].0).unwrap();
            (0..times).for_each(|_| writer.file_data(&memory).unwrap());
            writer.finish().unwrap().1
        })
    };
    let (short, long) = (write(1), write(4));
    // The test harness allocates a little now and then, too.
    assert!(long < short + (64 << 10), "{short} bytes, but {long} for four times as much to write");
    assert!(long < 5 << 19, "{long} bytes");
}

fn reading_takes_no_more_than_the_file_can_justify() {
    let good = sample().write(usize::MAX);
    let zeroes = |kind, last: u32, raw_len| {
        let payload = lz4_flex::block::compress(&vec![0; raw_len]);
        Chunk { kind, flags: last, raw_len: Some(raw_len as u32), compression: 1, payload, ..Chunk::default() }
    };
    let bombs = [
        // A million empty arguments and, as far as the bytes go, seven million more.
        (raw::META, {
            let mut record = vec![10, 0, 0, 0];
            record.extend_from_slice(&((MAX_META_BYTES - 8) as u32).to_le_bytes());
            record.resize(MAX_META_BYTES, 0);
            let parts = record.chunks(CHUNK_BYTES).enumerate().map(|(i, part)| Chunk {
                kind: raw::META,
                flags: u32::from((i + 1) * CHUNK_BYTES == MAX_META_BYTES),
                raw_len: Some(part.len() as u32),
                compression: 1,
                payload: lz4_flex::block::compress(part),
                ..Chunk::default()
            });
            parts.collect()
        }),
        (raw::MAPPINGS, vec![zeroes(raw::MAPPINGS, 0, CHUNK_BYTES); 63]),
        (raw::PAGES, vec![zeroes(raw::PAGES, 0, CHUNK_BYTES); 200]),
        (raw::EVENTS, vec![zeroes(raw::EVENTS, 0, CHUNK_BYTES); 200]),
        (raw::SITES, vec![zeroes(raw::SITES, 0, CHUNK_BYTES); 200]),
        (raw::FILE_DATA, vec![zeroes(raw::FILE_DATA, 0, CHUNK_BYTES); 200]),
    ];
    for (kind, bomb) in bombs {
        let mut chunks = take_apart(&good);
        let at = chunks.iter().position(|chunk| chunk.kind == kind).unwrap();
        // The metadata is replaced, for it is refused when it is too long; other sections get longer.
        chunks.splice(at..at + usize::from(kind == raw::META), bomb);
        let file = put_together(&chunks);
        let len = file.len();
        let peak = peak_bytes(|| {
            let recording = Recording::from_bytes("bomb.undo", file)?;
            recording.file_contents("/usr/bin/consumer")?;
            recording.verify()
        });
        assert!(peak < (64 << 20) + 512 * len, "kind {kind}: {peak} bytes for a file of {len}");
    }
    // A header alone that claims everything.
    for kind in [raw::META, raw::MAPPINGS, raw::PAGES, raw::EVENTS, raw::SITES, raw::FILE_DATA] {
        let mut chunks = take_apart(&good);
        for chunk in chunks.iter_mut().filter(|chunk| chunk.kind == kind) {
            (chunk.raw_len, chunk.stored_len) = (Some(u32::MAX), Some(u32::MAX));
        }
        let file = put_together(&chunks);
        let peak = peak_bytes(|| Recording::from_bytes("absurd.undo", file).map(drop).unwrap_err());
        assert!(peak < 1 << 16, "kind {kind}: {peak} bytes");
    }
}

#[test]
fn memory_is_bounded() {
    writing_takes_the_same_however_long_the_recording_is();
    reading_takes_no_more_than_the_file_can_justify();
}
