//! The log's bytes: whole blocks for the index, single records for the queries.
//!
//! A query touches a few records spread over thousands of blocks, so it reads just their slots, or a page of them where it is likely to need
//! more of that. [`Reader`] decodes them.
//!
//! I1. Nothing read is trusted: a record that makes no sense is an error or is skipped and counted, never a panic.
//! I2. What was read counts only if its block still carries the ticket it had when it was indexed, checked afterwards: the log's
//! cursor rules out most blocks with one read ([`Source::confirm`]), the block's own state word decides for the rest.
use crate::error::Error;
use crate::record::Record;
use shmem_log::layout::*;
use shmem_log::{BlockTimes, Mark, Position, ReadError, Reader, RecordContext, RecordHead, RecordingIndex};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A block as the index knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub ticket: u64,
    /// Records that were there when it was indexed.
    pub records: u32,
    pub recording: u16,
    pub bb_base: u64,
    /// The lowest and the highest bbcount of its records.
    pub bb_first: u64,
    pub bb_last: u64,
    pub tsc_first: u64,
    /// 0 if it was not released.
    pub tsc_last: u64,
    /// Slots up to which `tsc_last` counts.
    pub slots: u32,
    /// Where its marks start in the index's table of marks.
    pub first_mark: u32,
}

/// A part of a block that is read at once where a query is likely to need more of it.
const PAGE_BYTES: usize = 4096;
pub(crate) const PAGE_SLOTS: u32 = (PAGE_BYTES / SLOT_BYTES as usize) as u32;
/// How many a thread keeps: a query goes through the blocks of several recordings at once.
const PAGES_KEPT: usize = 16;

struct Page {
    /// Snapshot, ticket, and which page of the block. What was read under one ticket, and was there in that snapshot, stays as it is.
    key: (u64, u64),
    bytes: [u8; PAGE_BYTES],
}

thread_local! {
    static PAGES: RefCell<Vec<Page>> =
        RefCell::new((0..PAGES_KEPT).map(|_| Page { key: (0, 0), bytes: [0; PAGE_BYTES] }).collect());
}

/// Numbers snapshots, from 1 on.
static SNAPSHOTS: AtomicU64 = AtomicU64::new(1);

/// A log, and a second way into its file.
#[derive(Debug)]
pub(crate) struct Source {
    /// Its number, among those of this process.
    snapshot: u64,
    pub reader: Reader,
    /// Accesses that were overwritten, by any recording.
    lost: u64,
    /// For the cursor.
    file: File,
}

impl Source {
    pub fn open(path: &Path) -> Result<Source, Error> {
        let reader = Reader::open(path)?;
        let file = File::open(path).map_err(|source| Error::Io { path: path.into(), what: "open", source })?;
        Ok(Source { snapshot: SNAPSHOTS.fetch_add(1, Relaxed), lost: reader.total_counts().lost, reader, file })
    }

    /// Takes a new snapshot.
    pub fn refresh(&mut self) -> Result<(), Error> {
        self.reader.refresh()?;
        self.snapshot = SNAPSHOTS.fetch_add(1, Relaxed);
        self.lost = self.reader.total_counts().lost;
        Ok(())
    }

    /// Accesses that were overwritten, by any recording.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    pub fn path(&self) -> &Path {
        self.reader.path()
    }

    fn cursor(&self) -> Result<u64, Error> {
        let mut cursor = [0; 8];
        match self.file.read_exact_at(&mut cursor, HDR_CURSOR) {
            Ok(()) => Ok(u64::from_le_bytes(cursor)),
            Err(source) if source.kind() == std::io::ErrorKind::UnexpectedEof => {
                let found = self.file.metadata().map_or(0, |metadata| metadata.len());
                let expected = self.reader.layout().size;
                Err(ReadError::Truncated { path: self.path().into(), what: "cursor", offset: HDR_CURSOR, expected, found }.into())
            }
            Err(source) => Err(Error::Io { path: self.path().into(), what: "read", source }),
        }
    }

    /// Of records read from blocks with these tickets, which still count (I2).
    pub fn confirm(&self, tickets: impl IntoIterator<Item = u64>) -> Result<bool, Error> {
        let (cursor, blocks) = (self.cursor()?, self.reader.layout().blocks().count);
        for ticket in tickets {
            if cursor >= ticket.saturating_add(blocks) && !self.reader.is_current(ticket)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Reads one record, and with `near` the page that it lies in, which is kept for the next ones. None if it makes no sense, or is
    /// there no more.
    pub fn record(&self, block: &Block, marks: &[Mark], slot: u32, near: bool) -> Result<Option<Record>, Error> {
        if near && let Some(record) = self.record_in_page(block, marks, slot)? {
            return Ok(Some(record));
        }
        // Most records have one or two slots; what belongs to neither is harmless.
        let mut bytes = [0; 2 * SLOT_BYTES as usize];
        self.reader.read_slots(block.ticket, slot, &mut bytes)?;
        let slots = RecordHead::of(&bytes, 0).slots().ok().filter(|slots| slot + slots <= SLOTS_PER_BLOCK as u32);
        match slots {
            None => Ok(None),
            Some(1 | 2) => Ok(self.decode(block, marks, slot, &bytes)),
            Some(slots) => {
                let mut bytes: SmallVec<[u8; 256]> = SmallVec::from_elem(0, slots as usize * SLOT_BYTES as usize);
                self.reader.read_slots(block.ticket, slot, &mut bytes)?;
                Ok(self.decode(block, marks, slot, &bytes))
            }
        }
    }

    /// The same from a page that was read before, or is now; None if it does not lie in the page with all its slots.
    fn record_in_page(&self, block: &Block, marks: &[Mark], slot: u32) -> Result<Option<Record>, Error> {
        PAGES.with_borrow_mut(|pages| {
            let (number, at) = (slot / PAGE_SLOTS, slot % PAGE_SLOTS);
            let key = (self.snapshot, block.ticket << 2 | u64::from(number));
            let page = &mut pages[block.ticket as usize % PAGES_KEPT];
            if page.key != key {
                page.key = (0, 0);
                self.reader.read_slots(block.ticket, number * PAGE_SLOTS, &mut page.bytes)?;
                page.key = key;
            }
            let bytes = &page.bytes[at as usize * SLOT_BYTES as usize..];
            let is_whole = RecordHead::of(bytes, 0).slots().is_ok_and(|slots| at + slots <= PAGE_SLOTS);
            Ok(if is_whole { self.decode(block, marks, slot, bytes) } else { None })
        })
    }

    /// Puts a record together: its slots are the first in `bytes`.
    fn decode(&self, block: &Block, marks: &[Mark], slot: u32, bytes: &[u8]) -> Option<Record> {
        let context = RecordContext {
            position: Position::from_bits(block.ticket << SLOTS_PER_BLOCK.ilog2() | u64::from(slot)),
            recording: RecordingIndex::new(block.recording.into())?,
            sequence: 0,
            times: BlockTimes {
                bb_base: block.bb_base,
                tsc_first: block.tsc_first,
                tsc_last: (block.tsc_last != 0).then_some(block.tsc_last),
                slots: block.slots,
                marks,
            },
        };
        self.reader.decode(&context, bytes).ok().as_ref().map(Record::from)
    }
}

/// Calls `each` with the records of a block, marks included: up to slot `used` if the block is complete, else until `records`
/// were seen. An error is the slot at which nothing made sense any more.
pub(crate) fn walk(bytes: &[u8], used: Option<u32>, records: u32, mut each: impl FnMut(u32, &RecordHead)) -> Result<(), u32> {
    let limit = used.unwrap_or(SLOTS_PER_BLOCK as u32).min(SLOTS_PER_BLOCK as u32);
    let (mut slot, mut seen) = (0, 0);
    while slot < limit {
        let head = RecordHead::of(bytes, slot);
        let is_mark = head.mark(slot).is_some();
        // What was appended since is not looked at, but for a mark, which tells the time of those before it.
        if seen >= records && used.is_none() && !(head.is_committed() && is_mark) {
            break;
        }
        if !head.is_committed() {
            return Err(slot);
        }
        let Some(slots) = head.slots().ok().filter(|slots| slot + slots <= SLOTS_PER_BLOCK as u32) else { return Err(slot) };
        seen += u32::from(!is_mark);
        each(slot, &head);
        slot += slots;
    }
    if seen < records { Err(slot) } else { Ok(()) }
}
