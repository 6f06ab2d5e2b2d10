//! Reads a log in place.
//!
//! Every step is checked against the bytes that are there; no step panics, allocates or loops without consuming. An error is the
//! last thing an iterator gives.

use super::body::{Body, EventKind};
use super::{EVENT_HEADER_BYTES, EventFlags, EventHeader, offset};
use crate::Time;
use crate::wire::{ALIGN, Cursor, DecodeError, Expected};

/// One event, in place in its log.
#[derive(Clone, Copy, Debug)]
pub struct EventRef<'a> {
    /// All of the event and nothing else; at least a header.
    bytes: &'a [u8],
    header: &'a [u8; EVENT_HEADER_BYTES],
    /// Where it starts in the log.
    offset: u64,
}

impl<'a> EventRef<'a> {
    /// The event at the start of `bytes`, which lies `offset` bytes into the log. Checks its header only; see [`Self::check`].
    #[inline]
    pub fn parse(bytes: &'a [u8], offset: u64) -> Result<Self, DecodeError> {
        let cursor = Cursor::new(bytes, offset);
        let Some(header) = bytes.first_chunk::<EVENT_HEADER_BYTES>() else {
            return Err(cursor.error_here("header", Expected::AtLeast(EVENT_HEADER_BYTES as u64), bytes.len() as u64));
        };
        let size = u64_at(header, offset::SIZE);
        let wrong = |expected| Err(cursor.error_here("size", expected, size));
        if size < EVENT_HEADER_BYTES as u64 {
            return wrong(Expected::AtLeast(EVENT_HEADER_BYTES as u64));
        }
        if !size.is_multiple_of(ALIGN as u64) {
            return wrong(Expected::MultipleOf(ALIGN as u64));
        }
        match usize::try_from(size).ok().and_then(|size| bytes.get(..size)) {
            Some(bytes) => Ok(Self { bytes, header, offset }),
            None => wrong(Expected::AtMost(bytes.len() as u64)),
        }
    }

    /// Where the event starts in its log.
    #[inline]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Bytes that the event takes in the log.
    #[inline]
    pub fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Its bytes as they are.
    #[inline]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The number that stands for its kind, known or not.
    #[inline]
    pub fn raw_kind(&self) -> u16 {
        let h = self.header;
        u16::from_le_bytes([h[offset::KIND], h[offset::KIND + 1]])
    }

    /// Its kind, if this version has a name for it.
    #[inline]
    pub fn kind(&self) -> Option<EventKind> {
        EventKind::from_raw(self.raw_kind())
    }

    #[inline]
    pub fn flags(&self) -> EventFlags {
        let h = self.header;
        EventFlags(u16::from_le_bytes([h[offset::FLAGS], h[offset::FLAGS + 1]]))
    }

    #[inline]
    pub fn thread(&self) -> u32 {
        let h = self.header;
        let at = offset::THREAD;
        u32::from_le_bytes([h[at], h[at + 1], h[at + 2], h[at + 3]])
    }

    #[inline]
    pub fn timestamp(&self) -> u64 {
        u64_at(self.header, offset::TIMESTAMP)
    }

    #[inline]
    pub fn time(&self) -> Time {
        Time { bbcount: u64_at(self.header, offset::BBCOUNT), pc: u64_at(self.header, offset::PC) }
    }

    #[inline]
    pub fn state_hash(&self) -> u64 {
        u64_at(self.header, offset::STATE_HASH)
    }

    /// All fields of the header.
    pub fn header(&self) -> EventHeader {
        EventHeader {
            time: self.time(),
            state_hash: self.state_hash(),
            timestamp: self.timestamp(),
            thread: self.thread(),
            flags: self.flags(),
        }
    }

    fn payload(&self) -> Cursor<'a> {
        let payload = self.bytes.get(EVENT_HEADER_BYTES..).unwrap_or_default();
        Cursor::new(payload, self.offset.saturating_add(EVENT_HEADER_BYTES as u64))
    }

    /// What is special to its kind.
    #[inline]
    pub fn body(&self) -> Result<Body<'a>, DecodeError> {
        Body::decode(self.raw_kind(), &mut self.payload())
    }

    /// What is special to its kind, and the memory that it wrote. Kinds that write no memory give an empty list.
    #[inline]
    pub fn body_and_writes(&self) -> Result<(Body<'a>, Writes<'a>), DecodeError> {
        let mut cursor = self.payload();
        let body = Body::decode(self.raw_kind(), &mut cursor)?;
        match body {
            Body::Syscall(_) | Body::Nondet(_) | Body::ShmemFixup | Body::Signal(_) => {}
            Body::MemoryHash(_) | Body::SitesAdded { .. } | Body::End(_) => cursor.expect_end("bytes behind the fixed part")?,
        }
        Ok((body, Writes { cursor }))
    }

    /// Reads all of it and throws it away: whether [`Self::body_and_writes`] and each write would succeed.
    pub fn check(&self) -> Result<(), DecodeError> {
        let (_, mut writes) = self.body_and_writes()?;
        writes.try_for_each(|write| write.map(drop))
    }
}

#[inline]
fn u64_at(header: &[u8; EVENT_HEADER_BYTES], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&header[at..at + 8]);
    u64::from_le_bytes(bytes)
}

/// Bytes that an event put into the guest's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryWrite<'a> {
    pub addr: u64,
    pub bytes: &'a [u8],
}

/// The memory writes of an event, in the order in which they take effect.
#[derive(Clone, Debug)]
pub struct Writes<'a> {
    cursor: Cursor<'a>,
}

impl<'a> Writes<'a> {
    fn read(&mut self) -> Result<MemoryWrite<'a>, DecodeError> {
        let addr = self.cursor.u64("write address")?;
        let len = self.cursor.u64("write length")?;
        if addr.checked_add(len).is_none() {
            return Err(self.cursor.error_before(8, "write length", Expected::AtMost(u64::MAX - addr), len));
        }
        Ok(MemoryWrite { addr, bytes: self.cursor.padded_bytes(len, "written bytes")? })
    }
}

impl<'a> Iterator for Writes<'a> {
    type Item = Result<MemoryWrite<'a>, DecodeError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.cursor.is_empty() {
            return None;
        }
        let write = self.read();
        if write.is_err() {
            self.cursor = Cursor::new(&[], self.cursor.offset());
        }
        Some(write)
    }
}

/// A list of (address, length) pairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ranges<'a> {
    pairs: &'a [[u8; 16]],
}

impl<'a> Ranges<'a> {
    pub(super) fn decode(cursor: &mut Cursor<'a>) -> Result<Self, DecodeError> {
        let left = cursor.left() as u64;
        if !left.is_multiple_of(16) {
            return Err(cursor.error_here("ranges", Expected::MultipleOf(16), left));
        }
        let (pairs, _) = cursor.bytes(left, "ranges")?.as_chunks();
        Ok(Self { pairs })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.pairs.len()
    }

    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// The pairs, in order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> + use<'a> {
        self.pairs.iter().map(|pair| {
            let (words, _) = pair.as_chunks::<8>();
            (u64::from_le_bytes(words[0]), u64::from_le_bytes(words[1]))
        })
    }
}

/// The events of a log, first to last.
///
/// After an error it gives nothing more.
#[derive(Clone, Debug)]
pub struct Events<'a> {
    bytes: &'a [u8],
    offset: u64,
    /// Whether a size of 0 is the end (E2, E3) rather than damage.
    live: bool,
}

impl<'a> Events<'a> {
    /// All of `bytes` is events.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, offset: 0, live: false }
    }

    /// `region` is a log that was, or is being, written: events up to the first size of 0, or the end.
    pub fn in_region(region: &'a [u8]) -> Self {
        Self { bytes: region, offset: 0, live: true }
    }

    /// Goes on from an offset that an event of this log started at or ended at.
    pub fn starting_at(mut self, offset: u64) -> Result<Self, DecodeError> {
        let all = Cursor::new(self.bytes, self.offset);
        let skip = offset.checked_sub(self.offset).and_then(|skip| usize::try_from(skip).ok());
        match skip.filter(|skip| skip.is_multiple_of(ALIGN)).and_then(|skip| self.bytes.get(skip..)) {
            Some(rest) => {
                self.bytes = rest;
                self.offset = offset;
                Ok(self)
            }
            None => Err(all.error_here("start offset", Expected::AtMost(self.offset.saturating_add(self.bytes.len() as u64)), offset)),
        }
    }

    /// Where the next event starts; after the last one, the length of the log.
    pub fn offset(&self) -> u64 {
        self.offset
    }
}

impl<'a> Iterator for Events<'a> {
    type Item = Result<EventRef<'a>, DecodeError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.bytes.is_empty() || (self.live && self.bytes.first_chunk::<8>().is_none_or(|size| *size == [0; 8])) {
            self.bytes = &[];
            return None;
        }
        let event = EventRef::parse(self.bytes, self.offset);
        match &event {
            Ok(event) => {
                self.bytes = self.bytes.get(event.bytes.len()..).unwrap_or_default();
                self.offset = self.offset.saturating_add(event.size());
            }
            Err(_) => self.bytes = &[],
        }
        Some(event)
    }
}
