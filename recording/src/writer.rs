//! Writes a recording, from front to back, in bounded memory.
//!
//! It runs inside a copy-on-write clone of the recorded program: `no_std`, no vector registers, an allocator with a small arena. It
//! allocates one buffer of [`CHUNK_BYTES`] and one a little larger when it is made, and besides them only what one metadata
//! record takes (a few KiB, or as long as the command line) and, for each chunk, LZ4's table of 16 KiB: under 2.5 MiB in all.
//!
//! W1. The sections are written in their order (F3); a call for an earlier one than the last is [`WriteError::OutOfOrder`]. Sections that
//!     are not called for are written empty, only the metadata must be given.
//! W2. Nothing is a recording before [`FileWriter::finish`] returned: what was written until then has no end chunk and is refused by
//!     every reader. The caller writes to a temporary name and renames.
//! W3. After an error from the sink nothing more may be written; each call gives [`WriteError::Failed`].

use crate::format::{CHUNK_BYTES, CHUNK_HEADER_BYTES, ChunkHeader, ChunkKind, Compression, FLAG_LAST, Trailer, encode_file_header};
use crate::hash::{NotWholePages, PAGE_BYTES, is_zero};
use crate::meta::{FileHead, MAX_META_BYTES, Mapping, Metadata};
use crate::wire::ALIGN;
use alloc::vec::Vec;
use xxhash_rust::xxh3::{Xxh3Default, xxh3_64};

/// Where a recording goes.
pub trait Sink {
    type Error;

    /// Takes all of `bytes`, or fails for good.
    fn write_all(&mut self, bytes: &[u8]) -> Result<(), Self::Error>;
}

impl<S: Sink> Sink for &mut S {
    type Error = S::Error;

    fn write_all(&mut self, bytes: &[u8]) -> Result<(), Self::Error> {
        S::write_all(self, bytes)
    }
}

impl Sink for Vec<u8> {
    type Error = core::convert::Infallible;

    fn write_all(&mut self, bytes: &[u8]) -> Result<(), Self::Error> {
        self.extend_from_slice(bytes);
        Ok(())
    }
}

/// Any [`std::io::Write`] as a [`Sink`].
#[cfg(feature = "std")]
#[derive(Debug)]
pub struct IoSink<W>(pub W);

#[cfg(feature = "std")]
impl<W: std::io::Write> Sink for IoSink<W> {
    type Error = std::io::Error;

    fn write_all(&mut self, bytes: &[u8]) -> Result<(), Self::Error> {
        self.0.write_all(bytes)
    }
}

/// A recording that cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError<E> {
    #[error("cannot write the recording: {0}")]
    Sink(E),
    #[error("writing has failed before")]
    Failed,
    #[error("not enough memory for a buffer of {needed_bytes} bytes")]
    OutOfMemory { needed_bytes: usize },
    #[error("{} cannot be written behind {}", wanted.name(), last.map_or("nothing", ChunkKind::name))]
    OutOfOrder { wanted: ChunkKind, last: Option<ChunkKind> },
    #[error("{} takes {found_bytes} bytes, at most {most_bytes} are allowed", kind.name())]
    TooLong { kind: ChunkKind, found_bytes: usize, most_bytes: usize },
    #[error("{} chunks are as many as a recording can have", u32::MAX)]
    TooManyChunks,
    #[error(transparent)]
    NotWholePages(#[from] NotWholePages),
    #[error("the contents of a file come directly behind its head")]
    NoFileHead,
}

/// A chunk's bytes as they go into the file, made ahead by [`pack`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packed {
    compression: Compression,
    raw_len: u32,
    stored_len: u32,
    checksum: u64,
}

impl Packed {
    /// Bytes that `raw` was packed to.
    pub fn len(&self) -> usize {
        self.stored_len as usize
    }

    /// Whether there was nothing to pack.
    pub fn is_empty(&self) -> bool {
        self.stored_len == 0
    }
}

/// Room that [`pack`] needs.
pub const PACKED_BYTES_MAX: usize = lz4_flex::block::get_maximum_output_size(CHUNK_BYTES);

/// Packs at most [`CHUNK_BYTES`] into a buffer of [`PACKED_BYTES_MAX`] or as many as `raw` has; `None` if either is not so.
pub fn pack(raw: &[u8], into: &mut [u8]) -> Option<Packed> {
    if raw.len() > CHUNK_BYTES {
        return None;
    }
    let (compression, stored_len) = match compress(raw, into) {
        Some(len) => (Compression::Lz4, len),
        None => {
            into.get_mut(..raw.len())?.copy_from_slice(raw);
            (Compression::None, raw.len())
        }
    };
    Some(Packed { compression, raw_len: raw.len() as u32, stored_len: stored_len as u32, checksum: xxh3_64(&into[..stored_len]) })
}

/// The length of `raw` compressed, if that makes it shorter.
fn compress(raw: &[u8], into: &mut [u8]) -> Option<usize> {
    lz4_flex::block::compress_into(raw, into).ok().filter(|len| *len < raw.len())
}

/// The sections that every recording has, in their order.
const SECTIONS: [ChunkKind; 5] = [ChunkKind::Meta, ChunkKind::Mappings, ChunkKind::Pages, ChunkKind::Events, ChunkKind::Sites];

/// Chunks on their way to the sink.
struct Output<S> {
    sink: S,
    /// Where a chunk is compressed to.
    packed: Vec<u8>,
    headers: Xxh3Default,
    chunks: u32,
    bytes: u64,
    failed: bool,
}

impl<S: Sink> Output<S> {
    fn write(&mut self, bytes: &[u8]) -> Result<(), WriteError<S::Error>> {
        if self.failed {
            return Err(WriteError::Failed);
        }
        self.sink.write_all(bytes).map_err(|error| {
            self.failed = true;
            WriteError::Sink(error)
        })?;
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Writes one chunk; `raw` is no longer than [`CHUNK_BYTES`].
    fn chunk(&mut self, kind: ChunkKind, flags: u32, raw: &[u8]) -> Result<(), WriteError<S::Error>> {
        // The end chunk has a fixed length, so that it is found from the file's end.
        let packed_len = if kind == ChunkKind::End { None } else { compress(raw, &mut self.packed) };
        let (compression, stored_len) = packed_len.map_or((Compression::None, raw.len()), |len| (Compression::Lz4, len));
        // The buffer is lent out of `self` while the sink, also in `self`, takes it.
        let packed = core::mem::take(&mut self.packed);
        let stored = if packed_len.is_some() { &packed[..stored_len] } else { raw };
        let facts = Packed { compression, raw_len: raw.len() as u32, stored_len: stored_len as u32, checksum: xxh3_64(stored) };
        let result = self.packed_chunk(kind, flags, &facts, stored);
        self.packed = packed;
        result
    }

    fn packed_chunk(&mut self, kind: ChunkKind, flags: u32, packed: &Packed, stored: &[u8]) -> Result<(), WriteError<S::Error>> {
        let Packed { compression, raw_len, stored_len, checksum } = *packed;
        let header = ChunkHeader { kind: kind as u16, compression, index: self.chunks, raw_len, stored_len, flags, checksum };
        let header = header.encode();
        self.write(&header)?;
        self.write(stored)?;
        self.write(&[0; ALIGN][..stored.len().next_multiple_of(ALIGN) - stored.len()])?;
        self.headers.update(&header);
        self.chunks = self.chunks.checked_add(1).ok_or(WriteError::TooManyChunks)?;
        Ok(())
    }
}

/// A run of pages in the buffer.
#[derive(Clone, Copy)]
struct OpenRun {
    /// Where in the buffer its length stands.
    length_at: usize,
    /// One past its last byte, in the guest.
    end: u64,
    len: u64,
}

/// A recording in the making.
pub struct FileWriter<S> {
    out: Output<S>,
    /// The section's bytes that are not written yet.
    raw: Vec<u8>,
    /// The kind of chunk that `raw` belongs to.
    section: Option<ChunkKind>,
    run: Option<OpenRun>,
}

/// An empty buffer with room for `len` bytes.
fn buffer<E>(len: usize) -> Result<Vec<u8>, WriteError<E>> {
    let mut buffer = Vec::new();
    buffer.try_reserve_exact(len).map_err(|_| WriteError::OutOfMemory { needed_bytes: len })?;
    Ok(buffer)
}

impl<S: Sink> FileWriter<S> {
    /// Starts a recording.
    pub fn new(sink: S) -> Result<Self, WriteError<S::Error>> {
        let packed_len = lz4_flex::block::get_maximum_output_size(CHUNK_BYTES);
        let mut packed = buffer(packed_len)?;
        packed.resize(packed_len, 0);
        let out = Output { sink, packed, headers: Xxh3Default::new(), chunks: 0, bytes: 0, failed: false };
        let mut writer = Self { out, raw: buffer(CHUNK_BYTES)?, section: None, run: None };
        let header = encode_file_header();
        writer.out.write(&header)?;
        writer.out.headers.update(&header);
        Ok(writer)
    }

    /// Bytes given to the sink so far.
    pub fn bytes_written(&self) -> u64 {
        self.out.bytes
    }

    /// Writes the metadata: first of all, and once.
    pub fn metadata(&mut self, metadata: &Metadata) -> Result<(), WriteError<S::Error>> {
        let kind = ChunkKind::Meta;
        if self.section.is_some() {
            return Err(WriteError::OutOfOrder { wanted: kind, last: self.section });
        }
        let bytes = metadata.encode();
        if bytes.len() > MAX_META_BYTES {
            return Err(WriteError::TooLong { kind, found_bytes: bytes.len(), most_bytes: MAX_META_BYTES });
        }
        self.section = Some(kind);
        self.append(&bytes)
    }

    /// Adds a mapping.
    pub fn mapping(&mut self, mapping: &Mapping) -> Result<(), WriteError<S::Error>> {
        self.enter(ChunkKind::Mappings)?;
        let name = mapping.written_name();
        self.append(&mapping.encode_fixed())?;
        self.append(name)?;
        self.append(&[0; ALIGN][..name.len().next_multiple_of(ALIGN) - name.len()])
    }

    /// Adds whole pages of memory, the first of which the guest has at `addr`. Those that are zero are left out.
    pub fn pages(&mut self, addr: u64, bytes: &[u8]) -> Result<(), WriteError<S::Error>> {
        self.add_pages(addr, bytes, false)
    }

    /// The same for pages of a mapping with [`MappingFlags::FROM_FILE`](crate::MappingFlags::FROM_FILE): zero or not, they are not the file's.
    pub fn changed_pages(&mut self, addr: u64, bytes: &[u8]) -> Result<(), WriteError<S::Error>> {
        self.add_pages(addr, bytes, true)
    }

    fn add_pages(&mut self, addr: u64, bytes: &[u8], with_zeroes: bool) -> Result<(), WriteError<S::Error>> {
        NotWholePages::check(addr, bytes.len())?;
        self.enter(ChunkKind::Pages)?;
        let (pages, _) = bytes.as_chunks::<PAGE_BYTES>();
        for (i, page) in pages.iter().enumerate() {
            if with_zeroes || !is_zero(page) {
                self.page(addr + (i * PAGE_BYTES) as u64, page)?;
            }
        }
        Ok(())
    }

    fn page(&mut self, addr: u64, page: &[u8; PAGE_BYTES]) -> Result<(), WriteError<S::Error>> {
        let continued = self.run.filter(|run| run.end == addr);
        let header_bytes = if continued.is_some() { 0 } else { 16 };
        let fits = self.raw.len() + header_bytes + PAGE_BYTES <= CHUNK_BYTES;
        if !fits {
            // A chunk's runs are complete in it, so that chunks can be read in any order.
            self.flush(0)?;
        }
        let mut run = match continued {
            Some(run) if fits => run,
            _ => {
                self.raw.extend_from_slice(&addr.to_le_bytes());
                self.raw.extend_from_slice(&0u64.to_le_bytes());
                OpenRun { length_at: self.raw.len() - 8, end: addr, len: 0 }
            }
        };
        self.raw.extend_from_slice(page);
        run.end = addr.wrapping_add(PAGE_BYTES as u64);
        run.len += PAGE_BYTES as u64;
        self.raw[run.length_at..run.length_at + 8].copy_from_slice(&run.len.to_le_bytes());
        self.run = Some(run);
        Ok(())
    }

    /// Adds to the event log; it may be cut anywhere.
    pub fn events(&mut self, bytes: &[u8]) -> Result<(), WriteError<S::Error>> {
        self.enter(ChunkKind::Events)?;
        self.append(bytes)
    }

    /// Adds to the event log what was [`pack`]ed before; `stored` is what it was packed to.
    pub fn packed_events(&mut self, packed: &Packed, stored: &[u8]) -> Result<(), WriteError<S::Error>> {
        self.enter(ChunkKind::Events)?;
        if !self.raw.is_empty() {
            self.flush(0)?;
        }
        debug_assert_eq!(stored.len(), packed.len());
        self.out.packed_chunk(ChunkKind::Events, 0, packed, stored)
    }

    /// Adds a shared site.
    pub fn site(&mut self, pc: u64) -> Result<(), WriteError<S::Error>> {
        self.enter(ChunkKind::Sites)?;
        self.append(&pc.to_le_bytes())
    }

    /// Starts a file; its contents come next.
    pub fn file(&mut self, head: &FileHead) -> Result<(), WriteError<S::Error>> {
        let bytes = head.encode();
        if bytes.len() > CHUNK_BYTES {
            return Err(WriteError::TooLong { kind: ChunkKind::File, found_bytes: bytes.len(), most_bytes: CHUNK_BYTES });
        }
        self.close_sections()?;
        self.close_file()?;
        self.out.chunk(ChunkKind::File, FLAG_LAST, &bytes)?;
        self.section = Some(ChunkKind::FileData);
        Ok(())
    }

    /// Adds to the contents of the file that was started last.
    pub fn file_data(&mut self, bytes: &[u8]) -> Result<(), WriteError<S::Error>> {
        if self.section != Some(ChunkKind::FileData) {
            return Err(WriteError::NoFileHead);
        }
        self.append(bytes)
    }

    /// Completes the recording. Returns the sink and the length of all that it was given.
    pub fn finish(mut self) -> Result<(S, u64), WriteError<S::Error>> {
        self.close_sections()?;
        self.close_file()?;
        let trailer = Trailer { chunks: self.out.chunks.into(), bytes: self.out.bytes, headers_checksum: self.out.headers.digest() };
        self.out.chunk(ChunkKind::End, FLAG_LAST, &trailer.encode())?;
        Ok((self.out.sink, self.out.bytes))
    }

    /// Makes `wanted`, one of [`SECTIONS`], the section that is being written.
    fn enter(&mut self, wanted: ChunkKind) -> Result<(), WriteError<S::Error>> {
        if self.out.failed {
            return Err(WriteError::Failed);
        }
        let out_of_order = WriteError::OutOfOrder { wanted, last: self.section };
        let Some(mut current) = self.section else { return Err(out_of_order) };
        // The kinds' numbers ascend in the sections' order.
        if current > wanted {
            return Err(out_of_order);
        }
        while current != wanted {
            self.flush(FLAG_LAST)?;
            let next = SECTIONS.iter().copied().find(|section| *section > current);
            let Some(next) = next else { return Err(out_of_order) };
            self.section = Some(next);
            current = next;
        }
        Ok(())
    }

    /// Ends the last of [`SECTIONS`], if it is not yet.
    fn close_sections(&mut self) -> Result<(), WriteError<S::Error>> {
        if self.section == Some(ChunkKind::FileData) {
            return Ok(());
        }
        self.enter(ChunkKind::Sites)?;
        self.flush(FLAG_LAST)?;
        // As if behind a file: no section is open.
        self.section = Some(ChunkKind::File);
        Ok(())
    }

    fn close_file(&mut self) -> Result<(), WriteError<S::Error>> {
        if self.section == Some(ChunkKind::FileData) {
            self.flush(FLAG_LAST)?;
            self.section = Some(ChunkKind::File);
        }
        Ok(())
    }

    /// Adds bytes to the section. A full buffer is kept until more comes, for it may be the last.
    fn append(&mut self, mut bytes: &[u8]) -> Result<(), WriteError<S::Error>> {
        let Some(kind) = self.section else { return Err(WriteError::Failed) };
        while !bytes.is_empty() {
            if self.raw.is_empty() && bytes.len() > CHUNK_BYTES {
                let (chunk, rest) = bytes.split_at(CHUNK_BYTES);
                self.out.chunk(kind, 0, chunk)?;
                bytes = rest;
                continue;
            }
            if self.raw.len() == CHUNK_BYTES {
                self.flush(0)?;
            }
            let (now, rest) = bytes.split_at(bytes.len().min(CHUNK_BYTES - self.raw.len()));
            self.raw.extend_from_slice(now);
            bytes = rest;
        }
        Ok(())
    }

    /// Writes what the buffer holds as a chunk.
    fn flush(&mut self, flags: u32) -> Result<(), WriteError<S::Error>> {
        let Some(kind) = self.section else { return Err(WriteError::Failed) };
        self.out.chunk(kind, flags, &self.raw)?;
        self.raw.clear();
        self.run = None;
        Ok(())
    }
}

const _: () = assert!(CHUNK_HEADER_BYTES.is_multiple_of(ALIGN) && CHUNK_BYTES.is_multiple_of(PAGE_BYTES));
