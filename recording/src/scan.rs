//! Finds the chunks of a recording.
//!
//! Reads headers only, 40 bytes per MiB, and checks everything that can be checked without the payloads: each header, the order of the
//! sections (F2, F3), and that the end chunk agrees with what stands before it. Whatever it gives out lies within the file and within
//! [`CHUNK_BYTES`](crate::CHUNK_BYTES), so what comes after it may allocate by those lengths.
//!
//! The file is read, not mapped: if somebody truncates it meanwhile, that is an error and not a SIGBUS.

use crate::error::{Error, Kind};
use crate::format::{
    CHUNK_HEADER_BYTES, ChunkHeader, ChunkKind, Compression, END_CHUNK_BYTES, END_PAYLOAD_BYTES, FILE_HEADER_BYTES, FIRST_OPTIONAL_KIND,
    FLAG_LAST, MAGIC, Trailer, VERSION, encode_file_header,
};
use crate::wire::{ALIGN, Cursor, DecodeError, Expected};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::{Xxh3Default, xxh3_64};

#[derive(Debug)]
enum Storage {
    File(File),
    Memory(Vec<u8>),
}

/// A recording's bytes.
#[derive(Debug)]
pub(crate) struct Source {
    storage: Storage,
    pub(crate) path: PathBuf,
    pub(crate) len: u64,
}

impl Source {
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let opening = |error| Error::io(path, "open", error);
        // Before opening: that of a FIFO would wait for a writer.
        if !std::fs::metadata(path).map_err(opening)?.is_file() {
            return Err(opening(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")));
        }
        let file = File::open(path).map_err(opening)?;
        let len = file.metadata().map_err(opening)?.len();
        Ok(Self { storage: Storage::File(file), path: path.into(), len })
    }

    pub(crate) fn in_memory(path: &Path, bytes: Vec<u8>) -> Self {
        Self { path: path.into(), len: bytes.len() as u64, storage: Storage::Memory(bytes) }
    }

    /// Fills `buffer` from `offset` on; `field` is what should be there.
    pub(crate) fn read(&self, offset: u64, buffer: &mut [u8], field: &'static str) -> Result<(), Error> {
        let needed_bytes = buffer.len() as u64;
        let truncated = |found_bytes| Error::Truncated { path: self.path.clone(), chunk: None, field, offset, needed_bytes, found_bytes };
        if offset.checked_add(needed_bytes).is_none_or(|end| end > self.len) {
            return Err(truncated(self.len.saturating_sub(offset)));
        }
        match &self.storage {
            Storage::File(file) => file.read_exact_at(buffer, offset).map_err(|error| match error.kind() {
                io::ErrorKind::UnexpectedEof => truncated(0),
                _ => Error::io(&self.path, "read", error),
            }),
            Storage::Memory(bytes) => {
                // Cannot fail: all of it lies within `len`.
                let from = usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..)?.get(..buffer.len()));
                buffer.copy_from_slice(from.ok_or_else(|| truncated(0))?);
                Ok(())
            }
        }
    }

    /// The version that a checked header names.
    pub(crate) fn version_of(header: &[u8; FILE_HEADER_BYTES]) -> u32 {
        u32::from_le_bytes([header[8], header[9], header[10], header[11]])
    }

    /// Checks the header; gives it for the headers' checksum.
    pub(crate) fn file_header(&self) -> Result<[u8; FILE_HEADER_BYTES], Error> {
        let mut start = [0; MAGIC.len()];
        let magic = &mut start[..MAGIC.len().min(self.len as usize)];
        self.read(0, magic, "magic")?;
        // A file that is shorter than the magic, but so far agrees with it, is a truncated recording.
        if magic.is_empty() || !MAGIC.starts_with(magic) {
            return Err(Error::NotARecording { path: self.path.clone(), found: magic.to_vec() });
        }
        let mut header = [0; FILE_HEADER_BYTES];
        self.read(0, &mut header, "file header")?;
        let mut cursor = Cursor::new(&header, 0);
        let damaged = |source| Error::Header { path: self.path.clone(), source };
        cursor.bytes(MAGIC.len() as u64, "magic").map_err(damaged)?;
        let version = cursor.u32("version").map_err(damaged)?;
        let reserved = cursor.u32("reserved").map_err(damaged)?;
        let checksum = cursor.u64("file header checksum").map_err(damaged)?;
        let computed = xxh3_64(&header[..16]);
        if checksum != computed {
            return Err(damaged(cursor.error_before(8, "file header checksum", Expected::Exactly(computed), checksum)));
        }
        if version > VERSION {
            return Err(Error::Version { path: self.path.clone(), newest: VERSION, found: version });
        }
        if version == 0 || reserved != 0 {
            let (field, found) = if version == 0 { ("version", version) } else { ("reserved", reserved) };
            let expected = Expected::OneOf(if version == 0 { "a version from 1 on" } else { "0" });
            return Err(damaged(DecodeError { offset: if version == 0 { 8 } else { 12 }, field, expected, found: found.into() }));
        }
        debug_assert!(version < VERSION || header == encode_file_header());
        Ok(header)
    }

    /// The chunk header at `offset`, as it stands and decoded; also that its payload lies within the file.
    fn chunk_header(&self, offset: u64, index: u32) -> Result<([u8; CHUNK_HEADER_BYTES], ChunkHeader), Error> {
        let mut bytes = [0; CHUNK_HEADER_BYTES];
        self.read(offset, &mut bytes, "header").map_err(|error| error.in_chunk(index))?;
        let header = ChunkHeader::decode(&bytes, offset, index).map_err(|source| Error::Chunk {
            path: self.path.clone(),
            index,
            kind: Kind(u16::from_le_bytes([bytes[4], bytes[5]])),
            source,
        })?;
        let needed_bytes = header.total_len();
        match self.len - offset {
            found_bytes if found_bytes < needed_bytes => {
                Err(Error::Truncated { path: self.path.clone(), chunk: Some(index), field: "all of it", offset, needed_bytes, found_bytes })
            }
            _ => Ok((bytes, header)),
        }
    }
}

/// Where a chunk is and how it is stored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chunk {
    /// Of its header, in the file.
    pub(crate) offset: u64,
    pub(crate) header: ChunkHeader,
}

impl Chunk {
    pub(crate) fn is(&self, kind: ChunkKind) -> bool {
        self.header.kind == kind as u16
    }

    fn error(&self, source: &Source, error: DecodeError) -> Error {
        Error::Chunk { path: source.path.clone(), index: self.header.index, kind: Kind(self.header.kind), source: error }
    }

    /// Reads and decompresses the chunk into `raw`. The buffers are reused from chunk to chunk.
    pub(crate) fn load(&self, source: &Source, stored: &mut Vec<u8>, raw: &mut Vec<u8>) -> Result<(), Error> {
        let stored_len = self.header.stored_len as usize;
        let payload_offset = self.offset + CHUNK_HEADER_BYTES as u64;
        stored.resize(stored_len.next_multiple_of(ALIGN), 0);
        source.read(payload_offset, stored, "payload").map_err(|error| error.in_chunk(self.header.index))?;
        let (payload, padding) = stored.split_at(stored_len);
        let computed = xxh3_64(payload);
        if computed != self.header.checksum {
            let expected = Expected::Exactly(self.header.checksum);
            let error = DecodeError { offset: payload_offset, field: "payload checksum", expected, found: computed };
            return Err(self.error(source, error));
        }
        if let Some(byte) = padding.iter().find(|byte| **byte != 0) {
            let offset = payload_offset + stored_len as u64;
            let error = DecodeError { offset, field: "padding", expected: Expected::Exactly(0), found: (*byte).into() };
            return Err(self.error(source, error));
        }
        raw.clear();
        match self.header.compression {
            Compression::None => raw.extend_from_slice(payload),
            Compression::Lz4 => {
                raw.resize(self.header.raw_len as usize, 0);
                let result = lz4_flex::block::decompress_into(payload, raw);
                let found = match result {
                    Ok(len) if len == raw.len() => return Ok(()),
                    Ok(len) => format!("{len} bytes"),
                    Err(error) => error.to_string(),
                };
                return Err(Error::Decompress {
                    path: source.path.clone(),
                    index: self.header.index,
                    kind: Kind(self.header.kind),
                    offset: payload_offset,
                    expected_bytes: self.header.raw_len,
                    found,
                });
            }
        }
        Ok(())
    }
}

/// The index of the chunk that holds the byte at `offset` of these chunks' contents; the last one's for what lies behind.
pub(crate) fn chunk_at(chunks: &[Chunk], offset: u64) -> u32 {
    let mut end = 0;
    let holds = |chunk: &&Chunk| {
        end += u64::from(chunk.header.raw_len);
        offset < end
    };
    chunks.iter().find(holds).or(chunks.last()).map_or(0, |chunk| chunk.header.index)
}

/// Which chunks may come next (F2, F3).
#[derive(Clone, Copy)]
struct Order {
    next: Next,
}

#[derive(Clone, Copy)]
enum Next {
    /// A chunk of this section.
    In(ChunkKind),
    FileOrEnd,
    Nothing,
}

impl Order {
    fn expected(self) -> &'static str {
        match self.next {
            Next::In(kind) => kind.name(),
            Next::FileOrEnd => "FILE or END",
            Next::Nothing => "nothing",
        }
    }

    /// Takes one chunk; false if it may not stand here.
    fn take(&mut self, header: &ChunkHeader) -> bool {
        let last = header.flags & FLAG_LAST != 0;
        if header.kind >= FIRST_OPTIONAL_KIND {
            return !matches!(self.next, Next::In(ChunkKind::Meta) | Next::Nothing);
        }
        let Some(kind) = ChunkKind::from_raw(header.kind) else { return false };
        let behind = match (self.next, kind) {
            (Next::In(wanted), kind) if wanted != kind => return false,
            (Next::In(_), _) if !last => return true,
            (Next::In(ChunkKind::Meta), _) => Next::In(ChunkKind::Mappings),
            (Next::In(ChunkKind::Mappings), _) => Next::In(ChunkKind::Pages),
            (Next::In(ChunkKind::Pages), _) => Next::In(ChunkKind::Events),
            (Next::In(ChunkKind::Events), _) => Next::In(ChunkKind::Sites),
            (Next::In(ChunkKind::Sites | ChunkKind::FileData), _) => Next::FileOrEnd,
            (Next::FileOrEnd, ChunkKind::File) if last => Next::In(ChunkKind::FileData),
            (Next::FileOrEnd, ChunkKind::End) if last => Next::Nothing,
            _ => return false,
        };
        self.next = behind;
        true
    }
}

/// Finds all chunks but the end chunk.
pub(crate) fn scan(source: &Source) -> Result<Vec<Chunk>, Error> {
    let mut headers_checksum = Xxh3Default::new();
    headers_checksum.update(&source.file_header()?);
    let mut chunks = Vec::new();
    let mut order = Order { next: Next::In(ChunkKind::Meta) };
    let mut offset = FILE_HEADER_BYTES as u64;
    loop {
        // A file is never longer than 2^63 bytes, nor has it 2^32 chunks: the index that would not fit is wrong for every header.
        let index = u32::try_from(chunks.len()).unwrap_or(u32::MAX);
        let (bytes, header) = source.chunk_header(offset, index)?;
        let chunk = Chunk { offset, header };
        let expected = order.expected();
        if !order.take(&header) {
            return Err(Error::Order { path: source.path.clone(), index, offset, expected, found: Kind(header.kind) });
        }
        if chunk.is(ChunkKind::End) {
            check_end(source, &chunk, Some((u64::from(index), headers_checksum.digest())))?;
            return Ok(chunks);
        }
        headers_checksum.update(&bytes);
        offset += header.total_len();
        chunks.push(chunk);
    }
}

/// Checks the end chunk against its place in the file and, where they are known, the number of chunks and the checksum of their headers.
fn check_end(source: &Source, end: &Chunk, before: Option<(u64, u64)>) -> Result<(), Error> {
    let (mut stored, mut raw) = (Vec::new(), Vec::new());
    end.load(source, &mut stored, &mut raw)?;
    let payload_offset = end.offset + CHUNK_HEADER_BYTES as u64;
    let trailer = Trailer::decode(&raw, payload_offset).map_err(|error| end.error(source, error))?;
    let found = before.unwrap_or((trailer.chunks, trailer.headers_checksum));
    let checks = [
        ("chunk count", 0, trailer.chunks, found.0),
        ("file length", 8, trailer.bytes, end.offset),
        ("headers checksum", 16, trailer.headers_checksum, found.1),
        ("length of the end chunk", 0, END_CHUNK_BYTES as u64, end.header.total_len()),
        ("bytes behind the end chunk", END_PAYLOAD_BYTES as u64, 0, source.len - end.offset - end.header.total_len()),
    ];
    for (field, at, expected, found) in checks {
        if expected != found {
            let error = DecodeError { offset: payload_offset + at, field, expected: Expected::Exactly(expected), found };
            return Err(end.error(source, error));
        }
    }
    Ok(())
}

/// Finds the metadata's chunks alone, and looks whether the file has its end.
pub(crate) fn scan_meta(source: &Source) -> Result<Vec<Chunk>, Error> {
    source.file_header()?;
    let mut chunks = Vec::new();
    let mut offset = FILE_HEADER_BYTES as u64;
    loop {
        let index = chunks.len() as u32;
        let (_, header) = source.chunk_header(offset, index)?;
        if header.kind != ChunkKind::Meta as u16 {
            let expected = ChunkKind::Meta.name();
            return Err(Error::Order { path: source.path.clone(), index, offset, expected, found: Kind(header.kind) });
        }
        offset += header.total_len();
        chunks.push(Chunk { offset: offset - header.total_len(), header });
        if header.flags & FLAG_LAST != 0 {
            break;
        }
    }
    let at = source.len - (END_CHUNK_BYTES as u64).min(source.len);
    let mut bytes = [0; CHUNK_HEADER_BYTES];
    source.read(at, &mut bytes, "END chunk")?;
    // Which index it has is not known here; its own header says.
    let index = u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]);
    match ChunkHeader::decode(&bytes, at, index) {
        Ok(header) if header.kind == ChunkKind::End as u16 && header.total_len() == END_CHUNK_BYTES as u64 => {
            check_end(source, &Chunk { offset: at, header }, None)?;
            Ok(chunks)
        }
        _ => Err(Error::Truncated {
            path: source.path.clone(),
            chunk: None,
            field: "END chunk",
            offset: source.len,
            needed_bytes: END_CHUNK_BYTES as u64,
            found_bytes: 0,
        }),
    }
}
