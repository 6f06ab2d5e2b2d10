//! Where the accesses to each cache line are.
//!
//! ```text
//!   segment = blocks (by age) · marks · lists
//!   list    = (object, line, recording) ─► entries in program order, 6 bytes each:
//!               place u32   block in the segment << 9 | slot
//!               mask u16    which 8-byte words of the line it touches, and in the upper half which of them it writes
//!   of every 16th entry of the segment: start u64, of its interval on its line's clock
//!   of every 64 entries: near u16, their masks or-ed; of every 4096: far u16, likewise
//! ```
//!
//! Lists are per recording since that is the order in which blocks come, so that building is counting and scattering, without a
//! comparison; and since the start of the interval never falls along a list, so that a search by clock is one in the starts.
//! Recordings are merged when a query asks ([`crate::merge`]), for as many rows as it shows.
//!
//! Segments follow each other by age. They bound the memory that building takes, and make it incremental: what a live log gained is
//! a segment more; small ones at the end are built again together.
//!
//! I1. Within a list, places grow. I2. A place is only believed once its record was read and touches the line it is listed under.
mod build;
mod column;
mod file;
mod segment;

use crate::error::Error;
use crate::source::Source;
use column::Backing;
use shmem_log::BlockInfo;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

pub(crate) use build::words;
pub(crate) use segment::{ListRef, Segment, line_key, wanted};

/// Segments are built of at most so many records. A place has 32 bits, of which a block's slots take 9.
const SEGMENT_RECORDS: u64 = 12 << 20;
/// Entries below which a segment is small, and how many small ones there may be.
const SMALL_SEGMENT: usize = 1 << 20;
const MAX_SMALL_SEGMENTS: usize = 8;

/// Told while the index is built: records done, records in all.
pub type Progress<'a> = &'a (dyn Fn(u64, u64) + Sync);

/// What the index could not read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    pub records: u64,
    pub blocks: u64,
    /// The first of them, in words.
    pub first: Option<String>,
}

impl Skipped {
    fn add(&mut self, other: &Skipped) {
        self.records += other.records;
        self.blocks += other.blocks;
        self.first = self.first.take().or_else(|| other.first.clone());
    }
}

/// The index of a snapshot of a log.
#[derive(Debug, Default)]
pub(crate) struct Index {
    pub segments: Vec<Segment>,
}

/// An index and the file that keeps it.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    pub index: Index,
    /// None if it is not to be kept.
    path: Option<PathBuf>,
    backing: Option<Arc<Backing>>,
}

impl Kept {
    /// Takes what the file has, adds what the log has beyond that, and writes the file anew if that is worth it.
    pub fn open(source: &Source, cache: bool, progress: Progress<'_>) -> Result<Kept, Error> {
        let path = cache.then(|| file::path_of(source.path()));
        let loaded = path.as_deref().and_then(|path| file::load(path, identity(source)));
        let (index, backing) = loaded.map_or((Index::default(), None), |(index, backing)| (index, Some(backing)));
        let mut kept = Kept { index, path, backing };
        kept.update(source, progress)?;
        Ok(kept)
    }

    /// The same for a new snapshot of the log.
    pub fn update(&mut self, source: &Source, progress: Progress<'_>) -> Result<(), Error> {
        let before = self.index.entries();
        let added = self.index.update(source, progress)?;
        if let Some(path) = &self.path
            && added > before / 4
        {
            // Whether it could be written is of no importance: see the file's I3.
            let _ = file::save(&self.index, path, identity(source));
        }
        Ok(())
    }

    /// Whether the file turned out not to be what was written.
    pub fn is_broken(&self) -> bool {
        self.backing.as_ref().is_some_and(|backing| backing.broken.load(Relaxed))
    }

    /// Builds all of it again.
    pub fn rebuild(&mut self, source: &Source) -> Result<(), Error> {
        self.index = Index::default();
        self.backing = None;
        self.update(source, &|_, _| {})
    }
}

fn identity(source: &Source) -> file::Identity {
    file::Identity { uuid: source.reader.uuid(), size: source.reader.layout().size }
}

impl Index {
    /// Adds what the log's snapshot has and this index has not; drops what was overwritten.
    ///
    /// Blocks that may still grow are in a segment of their own at the end, which is built again each time. A recording has one such
    /// block at most, its youngest; so segments stay in program order for each recording.
    ///
    /// Gives the number of entries added to segments that stay.
    fn update(&mut self, source: &Source, progress: Progress<'_>) -> Result<usize, Error> {
        let infos = source.reader.blocks();
        let mut known = vec![false; infos.len()];
        self.segments.retain_mut(|segment| {
            // Both are by ticket, so most often the next is the one.
            let (blocks, mut gone, mut next) = (segment.blocks.len(), 0, 0);
            for block in &mut segment.blocks {
                if infos.get(next).map(|info| info.ticket) != Some(block.ticket) {
                    next = infos.partition_point(|info| info.ticket < block.ticket);
                }
                let is_there = infos.get(next).is_some_and(|info| {
                    let same = (info.ticket, info.records, info.recording.get());
                    same == (block.ticket, block.records, u32::from(block.recording))
                });
                if is_there && segment.complete {
                    known[next] = true;
                    next += 1;
                } else if !is_there {
                    block.records = 0;
                    gone += 1;
                }
            }
            segment.complete && gone < blocks
        });
        // Many small segments make queries slow: build those at the end again, as one.
        let small = self.segments.iter().rev().take_while(|segment| segment.len() < SMALL_SEGMENT).count();
        if small > MAX_SMALL_SEGMENTS {
            for segment in self.segments.drain(self.segments.len() - small..) {
                for block in &segment.blocks {
                    if let Ok(at) = infos.binary_search_by_key(&block.ticket, |info| info.ticket) {
                        known[at] = false;
                    }
                }
            }
        }
        let new = infos.iter().zip(&known).filter(|(info, known)| !**known && info.records > 0).map(|(info, _)| info.clone());
        let (released, open): (Vec<_>, Vec<_>) = new.partition(|info| info.released);
        let total: u64 = released.iter().chain(&open).map(|info| u64::from(info.records)).sum();
        let mut done = 0;
        let kept = self.segments.len();
        for blocks in split(&released).chain(split(&open)) {
            let report = |now: u64| progress(done + now, total);
            self.segments.push(build::build(source, blocks, &report)?);
            done += blocks.iter().map(|info| u64::from(info.records)).sum::<u64>();
        }
        progress(total, total);
        Ok(self.segments[kept..].iter().filter(|segment| segment.complete).map(Segment::len).sum())
    }

    fn entries(&self) -> usize {
        self.segments.iter().map(Segment::len).sum()
    }

    pub fn skipped(&self) -> Skipped {
        let mut all = Skipped::default();
        self.segments.iter().for_each(|segment| all.add(&segment.skipped));
        all
    }

    /// Bytes that it takes in memory, or in its file.
    pub fn size_bytes(&self) -> u64 {
        self.segments.iter().map(Segment::size_bytes).sum()
    }
}

/// Splits blocks into about equal parts of about [`SEGMENT_RECORDS`] at most.
fn split(infos: &[BlockInfo]) -> impl Iterator<Item = &[BlockInfo]> {
    let total: u64 = infos.iter().map(|info| u64::from(info.records)).sum();
    let parts = total.div_ceil(SEGMENT_RECORDS).max(1);
    let most = total.div_ceil(parts).max(1);
    let mut rest = infos;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (mut records, mut count) = (0, 0);
        while count < rest.len() && (records < most || count == 0) {
            records += u64::from(rest[count].records);
            count += 1;
        }
        let (part, behind) = rest.split_at(count);
        rest = behind;
        Some(part)
    })
}
