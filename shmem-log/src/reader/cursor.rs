//! Going through all accesses of a snapshot by position.
use super::Reader;
use super::access::{Access, Position};
use super::block::{BlockBuffer, BlockView};
use super::error::ReadError;

/// A place between two records. [`Cursor::next`] returns the one behind it and moves on, [`Cursor::previous`] the one before
/// it and moves back; both skip blocks that were overwritten since the snapshot and count what was in them.
///
/// After an error the cursor has moved past what could not be read, and can go on.
#[derive(Debug)]
pub struct Cursor<'r> {
    reader: &'r Reader,
    buffer: BlockBuffer,
    /// Index of the block; one past the last at the end.
    block: usize,
    /// Where in that block, in records. Only meaningful while it is loaded.
    record: usize,
    /// Which block is in the buffer.
    loaded: Option<usize>,
    overwritten: u64,
}

impl<'r> Cursor<'r> {
    pub(super) fn new(reader: &'r Reader) -> Cursor<'r> {
        Cursor { reader, buffer: BlockBuffer::default(), block: 0, record: 0, loaded: None, overwritten: 0 }
    }

    /// Before the first record.
    pub fn seek_start(&mut self) {
        self.block = 0;
        self.record = 0;
    }

    /// Behind the last record.
    pub fn seek_end(&mut self) {
        self.block = self.reader.blocks().len();
        self.record = 0;
    }

    /// Before the first record at or behind `position`.
    pub fn seek(&mut self, position: Position) -> Result<(), ReadError> {
        let blocks = self.reader.blocks();
        self.block = blocks.partition_point(|block| block.ticket < position.ticket());
        self.record = 0;
        if blocks.get(self.block).is_some_and(|block| block.ticket == position.ticket()) {
            match self.load()? {
                true => self.record = self.view().index_at(position.slot()),
                false => self.enter(self.block + 1),
            }
        }
        Ok(())
    }

    /// Records in blocks that were skipped as they had been overwritten.
    pub fn overwritten(&self) -> u64 {
        self.overwritten
    }

    /// The next record; None at the end.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<Access<'_>>, ReadError> {
        loop {
            if self.block >= self.reader.blocks().len() {
                return Ok(None);
            }
            match self.load() {
                Ok(true) if self.record < self.view().len() => break,
                Ok(_) => self.enter(self.block + 1),
                Err(error) => {
                    self.enter(self.block + 1);
                    return Err(error);
                }
            }
        }
        self.record += 1;
        self.view().get(self.record - 1).map(Some)
    }

    /// The record before; None at the start.
    pub fn previous(&mut self) -> Result<Option<Access<'_>>, ReadError> {
        while self.record == 0 {
            if self.block == 0 {
                return Ok(None);
            }
            self.enter(self.block - 1);
            if self.load()? {
                self.record = self.view().len();
            }
        }
        if self.loaded != Some(self.block) && !self.load()? {
            self.record = 0;
            return self.previous();
        }
        self.record -= 1;
        self.view().get(self.record).map(Some)
    }

    fn enter(&mut self, block: usize) {
        self.block = block;
        self.record = 0;
    }

    /// Sees to it that the current block is in the buffer. False if it was overwritten.
    fn load(&mut self) -> Result<bool, ReadError> {
        if self.loaded == Some(self.block) {
            return Ok(true);
        }
        self.loaded = None;
        let info = &self.reader.blocks()[self.block];
        if self.reader.load(info, &mut self.buffer)?.is_some() {
            self.loaded = Some(self.block);
            return Ok(true);
        }
        self.overwritten += u64::from(info.records);
        Ok(false)
    }

    /// The current block, which is loaded.
    fn view(&self) -> BlockView<'_> {
        BlockView { reader: self.reader, info: &self.reader.blocks()[self.block], buffer: &self.buffer }
    }
}
