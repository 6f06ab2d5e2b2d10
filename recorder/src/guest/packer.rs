//! Compresses the event log's closed segments while the program runs: in the snapshot, as the chunks that a save will write.

use alloc::vec::Vec;
use core::sync::atomic::Ordering;

use engine::arena;
use engine::sys::{self, raw};
use recording::{CHUNK_BYTES, EventKind, Events, FileWriter, PACKED_BYTES_MAX, Packed, Sink, WriteError};

use super::events::{self, PACKED, packed_bytes};

/// As far as this most recordings' events go: their snapshot is to take no more memory than it needs.
const SMALL_PAGES: u64 = 2 << 20;
const _: () = assert!(PACKED.is_multiple_of(SMALL_PAGES));

pub struct Packer {
    /// Each chunk, and where its bytes lie.
    chunks: Vec<(Packed, u64)>,
    /// Program counters that became shared sites.
    sites: Vec<u64>,
    /// Bytes used of the area.
    filled: u64,
    length: u64,
}

impl Packer {
    pub fn new() -> Self {
        let shared = events::shared();
        let length = packed_bytes(shared.limit.load(Ordering::Relaxed));
        let mapped = shared.is_file() || arena::map_private(PACKED, length, raw::PROT_READ | raw::PROT_WRITE).is_ok();
        if !mapped {
            shared.broken.store(1, Ordering::Release);
        } else if length > SMALL_PAGES {
            // One fault for 2 MiB, where the kernel has such pages: 512 of them take longer than the compression that fills them.
            sys::madvise(PACKED + SMALL_PAGES, length - SMALL_PAGES, raw::MADV_HUGEPAGE);
        }
        Self { chunks: Vec::new(), sites: Vec::new(), filled: 0, length: if mapped { length } else { 0 } }
    }

    /// Compresses all segments that are closed.
    pub fn pack(&mut self) {
        let shared = events::shared();
        loop {
            let number = shared.packed.load(Ordering::Relaxed);
            if number == shared.open() || !self.add(shared.events(number)) {
                return;
            }
            shared.release(number, self.filled);
        }
    }

    fn add(&mut self, bytes: &[u8]) -> bool {
        for piece in bytes.chunks(CHUNK_BYTES) {
            let room = (self.length - self.filled).min(PACKED_BYTES_MAX as u64) as usize;
            // SAFETY: the area is this process's, mapped, and free from here on.
            let into = unsafe { core::slice::from_raw_parts_mut((PACKED + self.filled) as *mut u8, room) };
            let Some(packed) = recording::pack(piece, into) else {
                events::shared().broken.store(1, Ordering::Release);
                return false;
            };
            self.chunks.push((packed, PACKED + self.filled));
            self.filled += packed.len() as u64;
        }
        self.sites.extend(sites(bytes));
        true
    }

    /// Writes the closed segments; [`Self::pack`] has left none over.
    pub fn write<S: Sink>(&self, writer: &mut FileWriter<S>, mut progress: impl FnMut(usize)) -> Result<(), WriteError<S::Error>> {
        for (index, (packed, address)) in self.chunks.iter().enumerate() {
            // SAFETY: `add` has filled it.
            writer.packed_events(packed, unsafe { core::slice::from_raw_parts(*address as *const u8, packed.len()) })?;
            progress(100 * index / self.chunks.len());
        }
        Ok(())
    }

    /// The shared sites of the closed segments.
    pub fn sites(&self) -> &[u64] {
        &self.sites
    }
}

/// The shared sites that these events add.
pub fn sites(bytes: &[u8]) -> impl Iterator<Item = u64> {
    Events::new(bytes).filter_map(Result::ok).filter(|event| event.kind() == Some(EventKind::SitesAdded)).filter_map(|event| {
        match event.body() {
            Ok(recording::Body::SitesAdded { pc }) => Some(pc),
            _ => None,
        }
    })
}
