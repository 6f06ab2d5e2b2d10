//! The index's file, beside the log: `NAME.shmem.index`.
//!
//! ```text
//!    0 8  magic "SHMIDX03"      8 8  bytes of the tables      16 8  xxh3 of the tables
//!   24 …  tables: log's UUID 16 · log's size 8 · segments 8 · per segment
//!           blocks (64 each) · marks (24) · skipped 16
//!           and for each of its 8 columns: offset behind the tables 8 · cells 8 · xxh3 of each chunk 8
//!     …   the columns
//! ```
//!
//! I1. The file is never changed: a new one is written under another name and then renamed, so a reader sees a whole one, old or new.
//! I2. Nothing in it is trusted. Tables are checked as a whole before they are looked at, columns by the chunk when they are read
//! ([`super::column`]); a place that they give leads to a record only if that record is where and what it should be.
//! I3. It need not be there: what cannot be written (a read-only directory, a full disk) or read is built again in memory.
//! I4. It holds complete segments only. Which of their blocks the log still has is told by tickets, when it is opened.
use super::column::{Backing, Cell, Column};
use super::segment::Segment;
use super::{Index, Skipped};
use crate::source::Block;
use shmem_log::Mark;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use xxhash_rust::xxh3::xxh3_64;

const MAGIC: [u8; 8] = *b"SHMIDX03";
const HEAD_BYTES: u64 = 24;

/// Where the index of a log lies.
pub(crate) fn path_of(log: &Path) -> PathBuf {
    let mut name = log.as_os_str().to_owned();
    name.push(".index");
    name.into()
}

/// Which log an index is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub uuid: [u8; 16],
    pub size: u64,
}

/// Writes the complete segments of an index. Errors leave nothing behind.
pub(crate) fn save(index: &Index, path: &Path, identity: Identity) -> io::Result<()> {
    let segments: Vec<&Segment> = index.segments.iter().filter(|segment| segment.complete).collect();
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}", std::process::id()));
    let temporary = PathBuf::from(name);
    let written = write(&segments, &temporary, identity).and_then(|()| std::fs::rename(&temporary, path));
    if written.is_err() {
        // Best effort: the error that counts is the one before.
        let _ = std::fs::remove_file(&temporary);
    }
    written
}

fn write(segments: &[&Segment], path: &Path, identity: Identity) -> io::Result<()> {
    // Like the log: what a program does to its memory is its owner's business.
    let file = File::options().write(true).create_new(true).mode(0o600).open(path)?;
    let mut tables = Vec::new();
    tables.extend(identity.uuid);
    identity.size.put(&mut tables);
    (segments.len() as u64).put(&mut tables);
    let mut offset = 0;
    for segment in segments {
        put_tables(segment, &mut tables, &mut offset);
    }
    let mut out = BufWriter::with_capacity(1 << 20, file);
    out.write_all(&MAGIC)?;
    out.write_all(&(tables.len() as u64).to_le_bytes())?;
    out.write_all(&xxh3_64(&tables).to_le_bytes())?;
    out.write_all(&tables)?;
    for segment in segments {
        segment.keys.for_each_chunk(|bytes| out.write_all(bytes))?;
        segment.recordings.for_each_chunk(|bytes| out.write_all(bytes))?;
        segment.first_entry.for_each_chunk(|bytes| out.write_all(bytes))?;
        segment.place.for_each_chunk(|bytes| out.write_all(bytes))?;
        segment.mask.for_each_chunk(|bytes| out.write_all(bytes))?;
        segment.start.for_each_chunk(|bytes| out.write_all(bytes))?;
        segment.near.for_each_chunk(|bytes| out.write_all(bytes))?;
        segment.far.for_each_chunk(|bytes| out.write_all(bytes))?;
    }
    out.flush()
}

/// Appends a segment's tables; `offset` is where its columns go, and moves on behind them.
fn put_tables(segment: &Segment, out: &mut Vec<u8>, offset: &mut u64) {
    (segment.blocks.len() as u64).put(out);
    for block in &segment.blocks {
        block.ticket.put(out);
        block.bb_base.put(out);
        block.bb_first.put(out);
        block.bb_last.put(out);
        block.tsc_first.put(out);
        block.tsc_last.put(out);
        block.records.put(out);
        block.slots.put(out);
        block.first_mark.put(out);
        u32::from(block.recording).put(out);
    }
    (segment.marks.len() as u64).put(out);
    for mark in &segment.marks {
        mark.tsc.put(out);
        mark.bb_base.put(out);
        u64::from(mark.slot).put(out);
    }
    segment.skipped.records.put(out);
    segment.skipped.blocks.put(out);
    put_column(&segment.keys, out, offset);
    put_column(&segment.recordings, out, offset);
    put_column(&segment.first_entry, out, offset);
    put_column(&segment.place, out, offset);
    put_column(&segment.mask, out, offset);
    put_column(&segment.start, out, offset);
    put_column(&segment.near, out, offset);
    put_column(&segment.far, out, offset);
}

fn put_column<T: Cell>(column: &Column<T>, out: &mut Vec<u8>, offset: &mut u64) {
    offset.put(out);
    (column.len() as u64).put(out);
    let put = |bytes: &[u8]| {
        xxh3_64(bytes).put(out);
        Ok::<_, std::convert::Infallible>(())
    };
    let Ok(()) = column.for_each_chunk(put);
    *offset += (column.len() * T::BYTES) as u64;
}

/// Opens the index of this log; None if there is none, or none that is whole and of this log.
pub(crate) fn load(path: &Path, identity: Identity) -> Option<(Index, Arc<Backing>)> {
    let file = File::open(path).ok()?;
    let size = file.metadata().ok()?.len();
    let mut head = [0; HEAD_BYTES as usize];
    file.read_exact_at(&mut head, 0).ok()?;
    let len = u64::get(&head[8..16]);
    if head[..8] != MAGIC || len > size.checked_sub(HEAD_BYTES)? {
        return None;
    }
    let mut tables = vec![0; usize::try_from(len).ok()?];
    file.read_exact_at(&mut tables, HEAD_BYTES).ok()?;
    if xxh3_64(&tables) != u64::get(&head[16..24]) {
        return None;
    }
    let backing = Arc::new(Backing { file, broken: AtomicBool::new(false) });
    let mut input = Input { rest: &tables, backing: &backing, columns: HEAD_BYTES + len, size };
    if input.take(16)? != identity.uuid || input.cell::<u64>()? != identity.size {
        return None;
    }
    let count = input.cell::<u64>()?;
    let mut segments = Vec::new();
    for _ in 0..count {
        segments.push(input.segment()?);
    }
    input.rest.is_empty().then_some((Index { segments }, backing))
}

/// What is left of the tables.
struct Input<'a> {
    rest: &'a [u8],
    backing: &'a Arc<Backing>,
    /// Where the columns begin.
    columns: u64,
    /// Of the file.
    size: u64,
}

impl<'a> Input<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }

    fn cell<T: Cell>(&mut self) -> Option<T> {
        Some(T::get(self.take(T::BYTES)?))
    }

    fn cells<T: Cell>(&mut self, count: usize) -> Option<Vec<T>> {
        Some(self.take(count.checked_mul(T::BYTES)?)?.chunks_exact(T::BYTES).map(T::get).collect())
    }

    fn count(&mut self) -> Option<usize> {
        usize::try_from(self.cell::<u64>()?).ok()
    }

    fn segment(&mut self) -> Option<Segment> {
        let block = |bytes: &[u8]| Block {
            ticket: u64::get(&bytes[..8]),
            bb_base: u64::get(&bytes[8..16]),
            bb_first: u64::get(&bytes[16..24]),
            bb_last: u64::get(&bytes[24..32]),
            tsc_first: u64::get(&bytes[32..40]),
            tsc_last: u64::get(&bytes[40..48]),
            records: u32::get(&bytes[48..52]),
            slots: u32::get(&bytes[52..56]),
            first_mark: u32::get(&bytes[56..60]),
            recording: u32::get(&bytes[60..64]) as u16,
        };
        let mark =
            |bytes: &[u8]| Mark { tsc: u64::get(&bytes[..8]), bb_base: u64::get(&bytes[8..16]), slot: u64::get(&bytes[16..24]) as u32 };
        let count = self.count()?;
        let blocks: Vec<Block> = self.take(count.checked_mul(64)?)?.chunks_exact(64).map(block).collect();
        let count = self.count()?;
        let marks: Vec<Mark> = self.take(count.checked_mul(24)?)?.chunks_exact(24).map(mark).collect();
        Some(Segment {
            blocks,
            marks,
            complete: true,
            skipped: Skipped { records: self.cell()?, blocks: self.cell()?, first: None },
            keys: self.column()?,
            recordings: self.column()?,
            first_entry: self.column()?,
            place: self.column()?,
            mask: self.column()?,
            start: self.column()?,
            near: self.column()?,
            far: self.column()?,
        })
    }

    fn column<T: Cell>(&mut self) -> Option<Column<T>> {
        let (offset, len) = (self.columns.checked_add(self.cell()?)?, self.count()?);
        let end = offset.checked_add(len.checked_mul(T::BYTES)? as u64)?;
        if end > self.size {
            return None;
        }
        let chunks = len.div_ceil(super::column::CHUNK_BYTES / T::BYTES);
        let checksums = self.cells(chunks)?;
        Column::on_disk(self.backing, offset, len, checksums)
    }
}
