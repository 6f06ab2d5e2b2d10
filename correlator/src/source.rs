//! The log's bytes: whole blocks for the index, single records for the queries.
//!
//! [`shmem_log::Reader`] gives blocks; a query touches a few records spread over thousands of blocks, so it reads just their slots
//! (two small `pread`s, no block scanned). Both read the same words, which `tests/` checks record by record.
//!
//! I1. Nothing read is trusted: a record that makes no sense is an error or is skipped and counted, never a panic.
//! I2. What was read counts only if its block still carries the ticket it had when it was indexed, checked afterwards: the log's
//! cursor rules out most blocks with one read ([`Source::confirm`]), the block's own state word decides for the rest.
use crate::error::Error;
use crate::record::{Bytes, LineSpan, Record};
use recording::Time;
use shmem_log::layout::*;
use shmem_log::{Interval, Kind, ObjectIndex, Piece, Position, ReadError, Reader, RecordingIndex};
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
    pub tsc_last: u64,
    /// Slots up to which `tsc_last` counts.
    pub slots: u32,
    /// Where its marks start in the index's table of marks.
    pub first_mark: u32,
}

/// A record that tells time and base of bbcount for those behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub slot: u32,
    pub tsc: u64,
    pub bb_base: u64,
}

/// The words of a record, not yet looked into.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Raw {
    pub slot: u32,
    pub place: u64,
    pub word1: u64,
    pub word2: u64,
    pub commit: u64,
}

/// What the index needs of a record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    pub object: u32,
    pub offset: u64,
    pub len: u32,
    pub kind: Kind,
}

#[inline(always)]
pub(crate) fn word(bytes: &[u8], at: usize) -> u64 {
    match bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()) {
        Some(bytes) => u64::from_le_bytes(bytes),
        None => 0,
    }
}

impl Raw {
    #[inline(always)]
    pub fn at(bytes: &[u8], slot: u32) -> Raw {
        let at = slot as usize * SLOT_BYTES as usize;
        let words = &bytes[at..at + SLOT_BYTES as usize];
        Raw { slot, place: word(words, 0), word1: word(words, 8), word2: word(words, 16), commit: word(words, 24) }
    }

    #[inline(always)]
    pub fn shape(&self) -> u64 {
        self.commit >> SHAPE_BITS & 3
    }

    #[inline(always)]
    pub fn delta(&self) -> u64 {
        self.commit >> 32
    }

    fn long_kind(&self) -> Option<Kind> {
        Kind::from_bits((self.word1 >> LONG_KIND_BITS) as u8)
    }

    /// Bytes of the payload: line clocks, seen, written.
    fn long_parts(&self) -> Option<(usize, usize, usize)> {
        let (len, kind) = (self.word1 & 0xffff, self.long_kind()?);
        let offset = self.place & OFFSET_MASK;
        if len == 0 || len > MAX_PIECE_BYTES || offset + len > OFFSET_MASK + 1 {
            return None;
        }
        let lines = (offset + len - 1) / LINE_BYTES - offset / LINE_BYTES + 1;
        let padded = len.next_multiple_of(8);
        let seen = if kind.reads() { padded } else { 0 };
        let written = if kind.writes() { padded } else { 0 };
        Some((lines as usize * 16, seen as usize, written as usize))
    }

    /// How many slots it takes; None if it makes no sense.
    #[inline]
    pub fn slots(&self) -> Option<u32> {
        match self.shape() {
            SHAPE_SINGLE | SHAPE_MARK => Some(1),
            SHAPE_DOUBLE => Some(2),
            _ => {
                let (lines, seen, written) = self.long_parts()?;
                Some(1 + (lines + seen + written).div_ceil(SLOT_BYTES as usize) as u32)
            }
        }
    }

    /// Where it is, and its kind; None if it makes no sense.
    #[inline]
    pub fn extent(&self, sites: &Sites) -> Option<Extent> {
        let object = (self.place >> OFFSET_BITS) as u32;
        let offset = self.place & OFFSET_MASK;
        if object == 0 {
            return None;
        }
        if self.shape() == SHAPE_LONG {
            self.long_parts()?;
            return Some(Extent { object, offset, len: (self.word1 & 0xffff) as u32, kind: self.long_kind()? });
        }
        let (_, len, kind) = sites.get(self.commit & SITE_MASK)?;
        let room = (LINE_BYTES - offset % LINE_BYTES) as u32;
        let fits = len != 0 && len <= 8 && len <= room && (kind == Kind::ReadWrite) == (self.shape() == SHAPE_DOUBLE);
        fits.then_some(Extent { object, offset, len, kind })
    }

    /// The interval of a short record.
    #[inline]
    pub fn short_interval(&self) -> Interval {
        let start = self.word1 & ((1 << INTERVAL_BITS) - 1);
        Interval { start, end: start + (self.word1 >> INTERVAL_BITS) }
    }
}

/// pc, length and kind of the instructions, by number.
#[derive(Debug, Default)]
pub(crate) struct Sites(Vec<(u64, u32, Option<Kind>)>);

impl Sites {
    fn of(reader: &Reader) -> Sites {
        let mut table = Vec::new();
        for site in reader.sites() {
            table.resize(site.index.get() as usize + 1, (0, 0, None));
            table[site.index.get() as usize] = (site.pc, site.len, Some(site.kind));
        }
        Sites(table)
    }

    #[inline(always)]
    pub fn get(&self, number: u64) -> Option<(u64, u32, Kind)> {
        let (pc, len, kind) = *self.0.get(number as usize)?;
        Some((pc, len, kind?))
    }
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
    pub sites: Sites,
    /// Accesses that were overwritten, by any recording.
    lost: u64,
    file: File,
    blocks: Section,
    headers: Section,
}

impl Source {
    pub fn open(path: &Path) -> Result<Source, Error> {
        let reader = Reader::open(path)?;
        let io = |source| Error::Io { path: path.into(), what: "open", source };
        let file = File::open(path).map_err(io)?;
        let (blocks, headers) = (reader.layout().blocks(), reader.layout().block_headers());
        let (sites, lost) = (Sites::of(&reader), reader.total_counts().lost);
        Ok(Source { snapshot: SNAPSHOTS.fetch_add(1, Relaxed), sites, lost, reader, file, blocks, headers })
    }

    /// Takes a new snapshot.
    pub fn refresh(&mut self) -> Result<(), Error> {
        self.reader.refresh()?;
        self.snapshot = SNAPSHOTS.fetch_add(1, Relaxed);
        (self.sites, self.lost) = (Sites::of(&self.reader), self.reader.total_counts().lost);
        Ok(())
    }

    /// Accesses that were overwritten, by any recording.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    pub fn path(&self) -> &Path {
        self.reader.path()
    }

    fn read(&self, what: &'static str, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        let failed = |source: std::io::Error| match source.kind() {
            std::io::ErrorKind::UnexpectedEof => {
                let found = self.file.metadata().map_or(0, |metadata| metadata.len());
                Error::Log(ReadError::Truncated { path: self.path().into(), what, offset, expected: self.reader.layout().size, found })
            }
            _ => Error::Io { path: self.path().into(), what: "read", source },
        };
        self.file.read_exact_at(buffer, offset).map_err(failed)
    }

    fn place_in_ring(&self, ticket: u64) -> u64 {
        ticket.wrapping_sub(1) % self.blocks.count.max(1)
    }

    fn header_offset(&self, ticket: u64) -> u64 {
        self.headers.offset + self.place_in_ring(ticket) * BLOCK_HEADER_BYTES
    }

    /// Reads a whole block and its header.
    pub fn load(&self, ticket: u64, bytes: &mut [u8], header: &mut [u8; BLOCK_HEADER_BYTES as usize]) -> Result<(), Error> {
        self.read("block headers", self.header_offset(ticket), header)?;
        self.read("blocks", self.blocks.offset + self.place_in_ring(ticket) * BLOCK_BYTES, bytes)
    }

    /// Whether a block still is what it was under this ticket.
    pub fn is_current(&self, ticket: u64) -> Result<bool, Error> {
        let mut state = [0; 8];
        self.read("block headers", self.header_offset(ticket) + BLK_STATE, &mut state)?;
        Ok(u64::from_le_bytes(state) >> 18 == ticket)
    }

    /// Of records read from blocks with these tickets, which still count (I2).
    pub fn confirm(&self, tickets: impl IntoIterator<Item = u64>) -> Result<bool, Error> {
        let mut cursor = [0; 8];
        self.read("cursor", HDR_CURSOR, &mut cursor)?;
        let cursor = u64::from_le_bytes(cursor);
        for ticket in tickets {
            if cursor >= ticket.saturating_add(self.blocks.count) && !self.is_current(ticket)? {
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
        let start = self.blocks.offset + self.place_in_ring(block.ticket) * BLOCK_BYTES + u64::from(slot) * SLOT_BYTES;
        let here = if slot as usize + 1 < SLOTS_PER_BLOCK { bytes.len() } else { SLOT_BYTES as usize };
        self.read("blocks", start, &mut bytes[..here])?;
        let raw = Raw { slot, ..Raw::at(&bytes, 0) };
        let Some(slots) = raw.slots().filter(|slots| slot + slots <= SLOTS_PER_BLOCK as u32) else { return Ok(None) };
        if raw.shape() != SHAPE_LONG {
            return Ok(self.decode(block, marks, &raw, &bytes[SLOT_BYTES as usize..]));
        }
        let mut payload: SmallVec<[u8; 256]> = SmallVec::from_elem(0, (slots as usize - 1) * SLOT_BYTES as usize);
        self.read("blocks", start + SLOT_BYTES, &mut payload)?;
        Ok(self.decode(block, marks, &raw, &payload))
    }

    /// The same from a page that was read before, or is now; None if it does not lie in the page with all its slots.
    fn record_in_page(&self, block: &Block, marks: &[Mark], slot: u32) -> Result<Option<Record>, Error> {
        PAGES.with_borrow_mut(|pages| {
            let (number, at) = (slot / PAGE_SLOTS, slot % PAGE_SLOTS);
            let key = (self.snapshot, block.ticket << 2 | u64::from(number));
            let page = &mut pages[block.ticket as usize % PAGES_KEPT];
            if page.key != key {
                page.key = (0, 0);
                let offset = self.blocks.offset + self.place_in_ring(block.ticket) * BLOCK_BYTES;
                self.read("blocks", offset + u64::from(number) * PAGE_BYTES as u64, &mut page.bytes)?;
                page.key = key;
            }
            let raw = Raw::at(&page.bytes, at);
            let Some(slots) = raw.slots().filter(|slots| at + slots <= PAGE_SLOTS) else { return Ok(None) };
            let payload = &page.bytes[(at + 1) as usize * SLOT_BYTES as usize..(at + slots) as usize * SLOT_BYTES as usize];
            Ok(self.decode(block, marks, &Raw { slot, ..raw }, payload))
        })
    }

    /// Puts a record together; `payload` is what follows its first slot.
    pub fn decode(&self, block: &Block, marks: &[Mark], raw: &Raw, payload: &[u8]) -> Option<Record> {
        let recording = RecordingIndex::new(block.recording.into())?;
        let Extent { object, offset, len, kind } = raw.extent(&self.sites)?;
        let object = ObjectIndex::new(object).filter(|index| self.reader.object(*index).is_some())?;
        let (bb_base, tsc) = around(block, marks, raw.slot);
        let bbcount = bb_base.wrapping_add(raw.delta());
        let mut record = Record {
            position: Position::from_bits(block.ticket << SLOTS_PER_BLOCK.ilog2() | u64::from(raw.slot)),
            recording,
            time: Time { bbcount, pc: 0 },
            kind,
            by_kernel: false,
            object,
            offset,
            len,
            piece: Piece::Whole,
            total_len: len,
            tsc,
            seen: Bytes::new(),
            written: Bytes::new(),
            lines: SmallVec::new(),
        };
        if raw.shape() == SHAPE_LONG {
            self.decode_long(&mut record, raw, payload)?;
            return Some(record);
        }
        let (pc, ..) = self.sites.get(raw.commit & SITE_MASK)?;
        record.time.pc = pc;
        record.lines.push(LineSpan { line: offset / LINE_BYTES, interval: raw.short_interval() });
        let first = raw.word2.to_le_bytes();
        let first = Bytes::from_slice(&first[..len as usize]);
        match kind {
            Kind::Read => record.seen = first,
            Kind::Write => record.written = first,
            Kind::ReadWrite => {
                record.seen = first;
                record.written = Bytes::from_slice(payload.get(..len as usize)?);
            }
        }
        Some(record)
    }

    fn decode_long(&self, record: &mut Record, raw: &Raw, payload: &[u8]) -> Option<()> {
        let (lines, seen, written) = raw.long_parts()?;
        let flags = raw.word1 >> LONG_FLAGS_BITS & 0xff;
        let total = (raw.word1 >> LONG_TOTAL_BITS) as u32;
        if flags & !(LONG_BY_KERNEL | LONG_FIRST | LONG_LAST) != 0 || total < record.len {
            return None;
        }
        for (line, words) in payload.get(..lines)?.chunks_exact(16).enumerate() {
            let interval = Interval::new(word(words, 0), word(words, 8))?;
            record.lines.push(LineSpan { line: record.offset / LINE_BYTES + line as u64, interval });
        }
        let len = record.len as usize;
        record.seen = Bytes::from_slice(payload.get(lines..lines + seen.min(len))?);
        record.written = Bytes::from_slice(payload.get(lines + seen..lines + seen + written.min(len))?);
        record.time.pc = raw.word2;
        record.by_kernel = flags & LONG_BY_KERNEL != 0;
        record.total_len = total;
        record.piece = match (flags & LONG_FIRST != 0, flags & LONG_LAST != 0) {
            (true, true) => Piece::Whole,
            (true, false) => Piece::First,
            (false, true) => Piece::Last,
            (false, false) => Piece::Middle,
        };
        Some(())
    }
}

/// The base of bbcount that holds at a slot, and roughly its time: on a line between the nearest known ones.
fn around(block: &Block, marks: &[Mark], slot: u32) -> (u64, u64) {
    let behind = marks.partition_point(|mark| mark.slot < slot);
    let (from_slot, from_tsc, base) = match behind.checked_sub(1) {
        Some(last) => (marks[last].slot, marks[last].tsc, marks[last].bb_base),
        None => (0, block.tsc_first, block.bb_base),
    };
    let (to_slot, to_tsc) = marks.get(behind).map_or((block.slots, block.tsc_last), |mark| (mark.slot, mark.tsc));
    if to_slot <= from_slot || to_tsc <= from_tsc {
        return (base, from_tsc);
    }
    let part = f64::from(slot.saturating_sub(from_slot)) / f64::from(to_slot - from_slot);
    (base, from_tsc + ((to_tsc - from_tsc) as f64 * part) as u64)
}

/// Calls `each` with the records of a block, marks included: up to slot `used` if the block is complete, else until `records`
/// were seen. An error is the slot at which nothing made sense any more.
pub(crate) fn walk(bytes: &[u8], used: Option<u32>, records: u32, mut each: impl FnMut(Raw)) -> Result<(), u32> {
    let limit = used.unwrap_or(SLOTS_PER_BLOCK as u32).min(SLOTS_PER_BLOCK as u32);
    let (mut slot, mut seen) = (0, 0);
    while slot < limit {
        let raw = Raw::at(bytes, slot);
        // What was appended since is not looked at, but for a mark, which tells the time of those before it.
        if seen >= records && used.is_none() && (raw.commit == 0 || raw.shape() != SHAPE_MARK) {
            break;
        }
        if raw.commit == 0 {
            return Err(slot);
        }
        let Some(slots) = raw.slots().filter(|slots| slot + slots <= SLOTS_PER_BLOCK as u32) else { return Err(slot) };
        seen += u32::from(raw.shape() != SHAPE_MARK);
        each(raw);
        slot += slots;
    }
    if seen < records { Err(slot) } else { Ok(()) }
}
