//! Reading a log: one that is finished, or a snapshot of one that is being written.
//!
//! ```text
//!   open, refresh ─► recordings · objects · mappings · sites · blocks (sorted by age) · counts       = a snapshot
//!                      │
//!        load(block) ──┴─► BlockView ─► Access …        one block is one recording's, in program order: read them in parallel
//!        cursor()    ────► next / previous / seek       all of them, by position
//! ```
//!
//! I1. A snapshot is a consistent cut of each recording's history: if it contains a record it contains, or counts as lost, all
//! before it. It keeps; only blocks that are overwritten meanwhile drop out, and say so.
//! I2. Nothing in the file is trusted: every index, length and offset is checked where it is read, so a damaged file costs an
//! error, never a panic, a wild read or unbounded memory.
//! I3. The copy of a block counts only if its state word is the same after as before. A commit word is read (by an earlier system
//! call) before the contents that it vouches for.
mod access;
mod block;
mod counts;
mod cursor;
mod error;
mod file;
mod headers;
mod record;
mod tables;

use crate::header::{FIXED_BYTES, FIXED_WORDS, Header};
use crate::layout::*;
use crate::types::{ObjectIndex, RecordingIndex, SiteIndex};
use file::{LogFile, word};
use std::path::Path;

pub use access::{Access, LineInterval, Order, Position, order};
pub use block::{BlockBuffer, BlockInfo, BlockView};
pub use counts::{Counts, Unfinished};
pub use cursor::Cursor;
pub use error::{Damage, ReadError};
pub use record::{BlockTimes, Extent, Mark, RecordContext, RecordHead};
pub use tables::{Mapping, Object, Recording, Site};

/// A log, opened for reading.
#[derive(Debug)]
pub struct Reader {
    file: LogFile,
    layout: Layout,
    header: Header,
    clock_shift: u32,
    recordings: Vec<Recording>,
    objects: Vec<Object>,
    /// By index, for a check that every record needs.
    is_object: Vec<bool>,
    mappings: Vec<Mapping>,
    sites: Vec<Option<Site>>,
    blocks: Vec<BlockInfo>,
    unfinished: Vec<Unfinished>,
    /// By recording, in the order of `recordings`.
    counts: Vec<Counts>,
    refused: [u64; 4],
    /// Two pairs of (ticks, ns) for the way from ticks to time of day.
    clock_pairs: [(u64, u64); 2],
}

impl Reader {
    /// Opens a log and takes a first snapshot. Works while processes write to it.
    pub fn open(path: impl AsRef<Path>) -> Result<Reader, ReadError> {
        let file = LogFile::open(path.as_ref())?;
        let Some(layout) = Layout::for_size(file.size) else {
            // Say of a log that was cut that it was cut.
            let mut start = [0; 24];
            if file.size >= 24 && file.read("header", 0, &mut start).is_ok() && word(&start, HDR_MAGIC) == MAGIC {
                let (expected, found) = (word(&start, HDR_FILE_SIZE), file.size);
                return Err(ReadError::Truncated { path: file.path, what: "file size", offset: HDR_FILE_SIZE, expected, found });
            }
            let (min, max, found) = (MIN_SIZE, MAX_SIZE, file.size);
            return Err(ReadError::NotALogSize { path: file.path, min, max, found });
        };
        let mut bytes = [0; FIXED_BYTES];
        file.read("header", 0, &mut bytes)?;
        let mut words = [0; FIXED_WORDS];
        words.iter_mut().enumerate().for_each(|(index, to)| *to = word(&bytes, index as u64 * 8));
        let header = Header::check(&words, &layout).map_err(|error| ReadError::Header { path: file.path.clone(), error })?;
        let mut reader = Reader {
            clock_shift: layout.clock_shift(),
            file,
            layout,
            header,
            recordings: Vec::new(),
            objects: Vec::new(),
            is_object: Vec::new(),
            mappings: Vec::new(),
            sites: Vec::new(),
            blocks: Vec::new(),
            unfinished: Vec::new(),
            counts: Vec::new(),
            refused: [0; 4],
            clock_pairs: [(header.created_tsc, header.created_ns); 2],
        };
        reader.refresh()?;
        Ok(reader)
    }

    /// Takes a new snapshot. After an error the old one is in parts; drop the reader.
    pub fn refresh(&mut self) -> Result<(), ReadError> {
        // The order matters (I1). Blocks claimed after the cursor was read are left out: of each recording a beginning remains. The
        // other tables come later: whatever a record refers to was registered before it.
        let cursor = self.file.read_word("cursor", HDR_CURSOR)?;
        if cursor >> 46 != 0 {
            return Err(self.file.damaged(Damage::new("cursor", HDR_CURSOR, "less than 2^46", cursor)));
        }
        (self.blocks, self.unfinished) = self.read_blocks(cursor)?;
        self.recordings = tables::recordings(&self.file, self.layout.recordings())?;
        self.count_appended()?;
        self.objects = tables::objects(&self.file, self.layout.objects())?;
        self.is_object = vec![false; self.layout.objects().count as usize + 1];
        for object in &self.objects {
            if let Some(known) = self.is_object.get_mut(object.index.get() as usize) {
                *known = true;
            }
        }
        self.mappings = tables::mappings(&self.file, self.layout.mappings(), &self.recordings, &self.objects)?;
        self.sites = tables::sites(&self.file, self.layout.sites())?;
        let mut refused = [0; 32];
        self.file.read("refused registrations", HDR_REFUSED, &mut refused)?;
        self.refused = [0, 8, 16, 24].map(|at| word(&refused, at));
        let mut known = vec![false; 1 << 16];
        self.recordings.iter().for_each(|recording| known[recording.index.get() as usize & 0xffff] = true);
        for block in &self.blocks {
            if !known[block.recording.get() as usize & 0xffff] {
                let at = self.layout.block_headers().offset + block.index * BLOCK_HEADER_BYTES + BLK_STATE;
                let found = block.recording.get().into();
                return Err(self.file.damaged(Damage::new("recording of a block", at, "a registered recording", found)));
            }
        }
        let created = (self.header.created_tsc, self.header.created_ns);
        let last = self.recordings.iter().map(|recording| recording.clock_pair).max();
        self.clock_pairs = [created, last.unwrap_or(created)];
        self.counts = counts::count(&self.recordings, &self.blocks, &self.unfinished);
        Ok(())
    }

    /// Reads a block of the snapshot into `buffer`. None if it was overwritten since.
    ///
    /// Errors say that the file cannot be read, or that a record's extent makes no sense and what follows it is unreadable.
    pub fn load<'a>(&'a self, info: &'a BlockInfo, buffer: &'a mut BlockBuffer) -> Result<Option<BlockView<'a>>, ReadError> {
        let offset = self.block_offset(info.index);
        self.file.read("blocks", offset, &mut buffer.bytes)?;
        if !self.is_current(info.ticket)? {
            return Ok(None);
        }
        match buffer.scan(info, offset) {
            Some(damage) => Err(self.file.damaged(damage)),
            None => Ok(Some(BlockView { reader: self, info, buffer })),
        }
    }

    /// All accesses of the snapshot by position, forwards or backwards.
    pub fn cursor(&self) -> Cursor<'_> {
        Cursor::new(self)
    }

    /// The log's identity.
    pub fn uuid(&self) -> [u8; 16] {
        self.header.uuid
    }

    pub fn path(&self) -> &Path {
        &self.file.path
    }

    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// In the order of their index.
    pub fn recordings(&self) -> &[Recording] {
        &self.recordings
    }

    pub fn recording(&self, index: RecordingIndex) -> Option<&Recording> {
        tables::find(&self.recordings, index)
    }

    /// In the order of their index.
    pub fn objects(&self) -> &[Object] {
        &self.objects
    }

    pub fn object(&self, index: ObjectIndex) -> Option<&Object> {
        tables::find(&self.objects, index)
    }

    /// In the order of their index, which is roughly that of time.
    pub fn mappings(&self) -> &[Mapping] {
        &self.mappings
    }

    /// In the order of their index.
    pub fn sites(&self) -> impl Iterator<Item = &Site> {
        self.sites.iter().flatten()
    }

    #[inline]
    pub fn site(&self, index: SiteIndex) -> Option<&Site> {
        self.sites.get(index.get() as usize - 1)?.as_ref()
    }

    /// From the oldest to the youngest. Those of one recording are in program order.
    pub fn blocks(&self) -> &[BlockInfo] {
        &self.blocks
    }

    /// How many line clocks there are.
    pub fn clocks(&self) -> u64 {
        self.layout.clocks().count
    }

    /// Time of day (CLOCK_REALTIME, ns) of a time stamp counter reading, to about a millisecond per second of recording.
    pub fn wallclock_ns(&self, tsc: u64) -> u64 {
        let [(first_tsc, first_ns), (last_tsc, last_ns)] = self.clock_pairs;
        let ticks = i128::from(tsc) - i128::from(first_tsc);
        let (span_ticks, span_ns) = (last_tsc.saturating_sub(first_tsc), last_ns.saturating_sub(first_ns));
        // Pairs less than 10 ms apart say less than the rate measured at creation.
        let ns = if span_ns > 10_000_000 && span_ticks > 0 {
            ticks.saturating_mul(span_ns.into()) / i128::from(span_ticks)
        } else if self.header.tsc_hz > 0 {
            ticks.saturating_mul(1_000_000_000) / i128::from(self.header.tsc_hz)
        } else {
            0
        };
        ns.saturating_add(first_ns.into()).clamp(0, u64::MAX.into()) as u64
    }

    fn has_object(&self, index: ObjectIndex) -> bool {
        self.is_object.get(index.get() as usize).copied().unwrap_or(false)
    }

    /// Which of the ring's blocks a ticket stands for.
    fn place_in_ring(&self, ticket: u64) -> u64 {
        ticket.wrapping_sub(1) % self.layout.blocks().count.max(1)
    }

    fn block_offset(&self, index: u64) -> u64 {
        self.layout.blocks().offset + index * BLOCK_BYTES
    }
}
