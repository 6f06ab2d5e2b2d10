//! The file's skeleton: header, chunk headers, the end chunk.
//!
//! ```text
//! file    header 24 │ META… │ MAPPINGS… │ PAGES… │ EVENTS… │ SITES… │ (FILE, FILE_DATA…)… │ END
//! header   0  8 magic      8 4 version     12 4 zero      16 8 xxh3-64 of bytes 0..16
//! chunk    0  4 marker     4 2 kind         6 2 compression
//!          8  4 index     12 4 raw length  16 4 stored length  20 4 flags
//!         24  8 xxh3-64 of the stored bytes
//!         32  8 xxh3-64 of bytes 0..32
//!         40    stored bytes, zeroes up to a multiple of 8
//! END     40  8 chunks before this one   48 8 bytes before this one
//!         56  8 xxh3-64 of the file header and all chunk headers before this one
//! ```
//!
//! Why this shape: it is written from front to back without seeking, in memory that does not grow with the recording; every chunk
//! is checked and decompressed alone, so a reader may do several at once; and the end chunk has a fixed place, so that one look at the
//! tail tells a whole file from a truncated one.
//!
//! F1. Every bit of a file is under a checksum or must be zero. The end chunk's checksum covers all headers, those hold the checksums
//!     of all payloads: together they are a checksum of the whole file that costs no second pass over it.
//! F2. A section is the run of chunks of one kind; the last one, and only that, has [`FLAG_LAST`]. An empty section is one empty chunk.
//! F3. Sections stand in the order of the picture, each exactly once (a FILE with its FILE_DATA any number of times).
//! F4. Chunk kinds from [`FIRST_OPTIONAL_KIND`] on may stand anywhere between META and END; a reader that does not know one skips it.
//! F5. No chunk holds more than [`CHUNK_BYTES`]; a reader never allocates by a length before it was checked against that.
//!
//! LZ4, because the writer runs inside the recorded program, in `no_std` code without vector registers; the zstd at hand is C and needs a libc.

use crate::wire::{Cursor, DecodeError, Expected};
use xxhash_rust::xxh3::xxh3_64;

/// First bytes of every recording. The high bit, the two line ends and the ^Z show files that went through a text conversion.
pub const MAGIC: [u8; 8] = *b"\x89UNDO\r\n\x1a";

/// The version that this code writes, and the newest that it reads. It reads all older ones.
///
/// Bumped by every change that would make the previous version's reader misread or refuse a file: a new or changed event, a new
/// required chunk or field, another meaning of an old one. Not bumped by what that reader skips: new tags, optional chunk kinds.
pub const VERSION: u32 = 3;

/// The first version whose events hold a [`RunningHash`](crate::RunningHash).
pub const FIRST_WITH_RUNNING_HASH: u32 = 3;

/// The most that a chunk may hold, uncompressed.
pub const CHUNK_BYTES: usize = 1 << 20;

/// The most that a chunk of [`CHUNK_BYTES`] may take in the file. LZ4 at its worst grows by 1/255 and a little; stored plain it does not grow.
pub(crate) const MAX_STORED_BYTES: usize = CHUNK_BYTES;

/// LZ4 cannot do better than this; a chunk that says it did lies.
pub(crate) const MAX_LZ4_RATIO: u64 = 255;

/// The last chunk of its section (F2).
pub(crate) const FLAG_LAST: u32 = 1;

/// See F4.
pub(crate) const FIRST_OPTIONAL_KIND: u16 = 0x8000;

pub(crate) const FILE_HEADER_BYTES: usize = 24;
pub(crate) const CHUNK_HEADER_BYTES: usize = 40;
pub(crate) const END_PAYLOAD_BYTES: usize = 24;
/// The end chunk, which is never compressed.
pub(crate) const END_CHUNK_BYTES: usize = CHUNK_HEADER_BYTES + END_PAYLOAD_BYTES;

const CHUNK_MARKER: [u8; 4] = *b"CHNK";

/// What a chunk holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u16)]
pub enum ChunkKind {
    Meta = 1,
    Mappings = 2,
    Pages = 3,
    Events = 4,
    Sites = 5,
    File = 6,
    FileData = 7,
    End = 255,
}

impl ChunkKind {
    pub(crate) const fn from_raw(raw: u16) -> Option<Self> {
        Some(match raw {
            1 => Self::Meta,
            2 => Self::Mappings,
            3 => Self::Pages,
            4 => Self::Events,
            5 => Self::Sites,
            6 => Self::File,
            7 => Self::FileData,
            255 => Self::End,
            _ => return None,
        })
    }

    /// The name that errors and the format's document use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Meta => "META",
            Self::Mappings => "MAPPINGS",
            Self::Pages => "PAGES",
            Self::Events => "EVENTS",
            Self::Sites => "SITES",
            Self::File => "FILE",
            Self::FileData => "FILE_DATA",
            Self::End => "END",
        }
    }
}

/// How a chunk's bytes are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub(crate) enum Compression {
    None = 0,
    /// One LZ4 block, without its length before it.
    Lz4 = 1,
}

/// What stands before each chunk's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkHeader {
    pub(crate) kind: u16,
    pub(crate) compression: Compression,
    pub(crate) index: u32,
    pub(crate) raw_len: u32,
    pub(crate) stored_len: u32,
    pub(crate) flags: u32,
    pub(crate) checksum: u64,
}

impl ChunkHeader {
    pub(crate) fn encode(&self) -> [u8; CHUNK_HEADER_BYTES] {
        let mut bytes = [0; CHUNK_HEADER_BYTES];
        bytes[0..4].copy_from_slice(&CHUNK_MARKER);
        bytes[4..6].copy_from_slice(&self.kind.to_le_bytes());
        bytes[6..8].copy_from_slice(&(self.compression as u16).to_le_bytes());
        bytes[8..12].copy_from_slice(&self.index.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.raw_len.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.stored_len.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.flags.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.checksum.to_le_bytes());
        let checksum = xxh3_64(&bytes[..32]);
        bytes[32..40].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }
}

impl ChunkHeader {
    /// Reads the header at `offset` in the file, which should be that of chunk number `index`.
    pub(crate) fn decode(bytes: &[u8; CHUNK_HEADER_BYTES], offset: u64, index: u32) -> Result<Self, DecodeError> {
        let mut cursor = Cursor::new(bytes, offset);
        let marker = cursor.u32("chunk marker")?;
        let expected = u32::from_le_bytes(CHUNK_MARKER);
        if marker != expected {
            return Err(cursor.error_before(4, "chunk marker", Expected::Exactly(expected.into()), marker.into()));
        }
        // Before the other fields: with a wrong checksum none of them means anything.
        let (covered, checksum) = bytes.split_at(32);
        let computed = xxh3_64(covered);
        let mut tail = Cursor::new(checksum, offset.saturating_add(32));
        let stored = tail.u64("chunk header checksum")?;
        if stored != computed {
            return Err(tail.error_before(8, "chunk header checksum", Expected::Exactly(computed), stored));
        }
        let kind = cursor.u16("chunk kind")?;
        let raw = cursor.u16("compression")?;
        let compression = match raw {
            0 => Compression::None,
            1 => Compression::Lz4,
            _ => return Err(cursor.error_before(2, "compression", Expected::OneOf("0 (none) or 1 (LZ4)"), raw.into())),
        };
        let found = cursor.u32("chunk index")?;
        if found != index {
            return Err(cursor.error_before(4, "chunk index", Expected::Exactly(index.into()), found.into()));
        }
        let raw_len = cursor.u32("raw length")?;
        if raw_len as usize > CHUNK_BYTES {
            return Err(cursor.error_before(4, "raw length", Expected::AtMost(CHUNK_BYTES as u64), raw_len.into()));
        }
        let stored_len = cursor.u32("stored length")?;
        if stored_len as usize > MAX_STORED_BYTES {
            return Err(cursor.error_before(4, "stored length", Expected::AtMost(MAX_STORED_BYTES as u64), stored_len.into()));
        }
        let wrong = match compression {
            Compression::None if stored_len != raw_len => Some(Expected::Exactly(raw_len.into())),
            Compression::Lz4 if u64::from(raw_len) > u64::from(stored_len) * MAX_LZ4_RATIO => {
                Some(Expected::AtLeast(u64::from(raw_len).div_ceil(MAX_LZ4_RATIO)))
            }
            _ => None,
        };
        if let Some(expected) = wrong {
            return Err(cursor.error_before(4, "stored length", expected, stored_len.into()));
        }
        let flags = cursor.u32("chunk flags")?;
        if flags & !FLAG_LAST != 0 {
            return Err(cursor.error_before(4, "chunk flags", Expected::AtMost(FLAG_LAST.into()), flags.into()));
        }
        let checksum = cursor.u64("payload checksum")?;
        Ok(Self { kind, compression, index, raw_len, stored_len, flags, checksum })
    }

    /// Bytes of the file from this chunk's header to the next one's.
    pub(crate) fn total_len(&self) -> u64 {
        CHUNK_HEADER_BYTES as u64 + u64::from(self.stored_len).next_multiple_of(crate::wire::ALIGN as u64)
    }
}

/// The file's first bytes.
pub(crate) fn encode_file_header() -> [u8; FILE_HEADER_BYTES] {
    let mut bytes = [0; FILE_HEADER_BYTES];
    bytes[0..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    let checksum = xxh3_64(&bytes[..16]);
    bytes[16..24].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// What the end chunk says of the file before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Trailer {
    pub(crate) chunks: u64,
    pub(crate) bytes: u64,
    pub(crate) headers_checksum: u64,
}

impl Trailer {
    pub(crate) fn encode(&self) -> [u8; END_PAYLOAD_BYTES] {
        let mut bytes = [0; END_PAYLOAD_BYTES];
        bytes[0..8].copy_from_slice(&self.chunks.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.bytes.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.headers_checksum.to_le_bytes());
        bytes
    }

    /// Reads the payload at `offset` in the file and compares it with what was found.
    pub(crate) fn decode(bytes: &[u8], offset: u64) -> Result<Self, DecodeError> {
        let mut cursor = Cursor::new(bytes, offset);
        let trailer = Self {
            chunks: cursor.u64("chunk count")?,
            bytes: cursor.u64("file length")?,
            headers_checksum: cursor.u64("headers checksum")?,
        };
        cursor.expect_end("bytes behind the end chunk's fields")?;
        Ok(trailer)
    }
}
