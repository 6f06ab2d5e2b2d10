//! Reads recordings (feature `std`).
//!
//! R1. [`Recording::open`] reads headers, metadata and mappings; pages, events, sites and files are read when they are asked for, and checked then.
//!     [`Recording::verify`] checks all there is.
//! R2. Any bytes whatever give a value or an [`Error`]: no panic, no unbounded loop, and no more memory than 64 MiB and 512 times the
//!     file's length: LZ4 compresses 255 times at most, and a decoded list takes about twice its bytes.
//! R3. A truncated file is refused by [`Recording::open`] and by [`quick_metadata`] alike.

use crate::backed::{self, Written};
use crate::error::Error;
use crate::event::check_events;
use crate::format::ChunkKind;
use crate::meta::{FileHead, MAX_META_BYTES, Mapping, Metadata};
use crate::scan::{Chunk, Source, chunk_at, scan, scan_meta};
use crate::wire::{Cursor, DecodeError, Expected};
use crate::{NotWholePages, PAGE_BYTES};
use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::slice;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Mappings longer than this are refused; it is a million of them.
const MAX_MAPPINGS_BYTES: u64 = 64 << 20;

/// Readers at once in [`Recording::for_each_page_run_parallel`], at most.
const MAX_WORKERS: usize = 8;

/// Reads the metadata alone: a few KiB, however long the recording is.
pub fn quick_metadata(path: impl AsRef<Path>) -> Result<Metadata, Error> {
    quick(&Source::open(path.as_ref())?)
}

fn quick(source: &Source) -> Result<Metadata, Error> {
    let chunks = scan_meta(source)?;
    read_metadata(source, &chunks)
}

fn read_metadata(source: &Source, chunks: &[Chunk]) -> Result<Metadata, Error> {
    let bytes = read_section(source, chunks, ChunkKind::Meta, MAX_META_BYTES as u64)?;
    Metadata::decode(&bytes).map_err(|error| Error::tag(&source.path, ChunkKind::Meta, chunks, error))
}

/// All bytes of a section, which are no more than `most`.
fn read_section(source: &Source, chunks: &[Chunk], kind: ChunkKind, most: u64) -> Result<Vec<u8>, Error> {
    let len: u64 = chunks.iter().map(|chunk| u64::from(chunk.header.raw_len)).sum();
    if len > most {
        return Err(Error::too_long(&source.path, kind, chunks, most, len));
    }
    let mut bytes = Vec::new();
    if usize::try_from(len).is_ok_and(|len| bytes.try_reserve_exact(len).is_ok()) {
        for_each_chunk(source, chunks, |_, raw| {
            bytes.extend_from_slice(raw);
            Ok(())
        })?;
        return Ok(bytes);
    }
    Err(Error::Memory { path: source.path.clone(), section: kind.name(), needed_bytes: len })
}

/// What a thread that loads chunks keeps.
#[derive(Default)]
struct Buffers {
    stored: Vec<u8>,
    raw: Vec<u8>,
}

/// Has several threads work on the items; the first error ends it.
fn in_parallel<T: Sync>(items: &[T], work: impl Fn(&T, &mut Buffers) -> Result<(), Error> + Sync) -> Result<(), Error> {
    let next = AtomicUsize::new(0);
    let failure = Mutex::new(None);
    let worker = || {
        let mut buffers = Buffers::default();
        // Only the counter is shared through it, so no ordering is needed.
        while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Err(error) = work(item, &mut buffers) {
                next.store(items.len(), Ordering::Relaxed);
                if let Ok(mut failure) = failure.lock() {
                    *failure = Some(error);
                }
            }
        }
    };
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    std::thread::scope(|scope| {
        for _ in 1..cores.min(MAX_WORKERS).min(items.len()) {
            scope.spawn(worker);
        }
        worker();
    });
    failure.into_inner().unwrap_or_default().map_or(Ok(()), Err)
}

/// Loads chunks one after the other.
fn for_each_chunk(source: &Source, chunks: &[Chunk], mut f: impl FnMut(&Chunk, &[u8]) -> Result<(), Error>) -> Result<(), Error> {
    let (mut stored, mut raw) = (Vec::new(), Vec::new());
    for chunk in chunks {
        chunk.load(source, &mut stored, &mut raw)?;
        f(chunk, &raw)?;
    }
    Ok(())
}

/// A file kept in a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredFile {
    pub head: FileHead,
    /// Bytes of it that are there.
    pub len: u64,
}

/// An open recording.
#[derive(Debug)]
pub struct Recording {
    source: Source,
    /// All but optional ones and the end, in the file's order.
    chunks: Vec<Chunk>,
    /// Those that this version does not know: not read, but verified.
    optional: Vec<Chunk>,
    meta: Metadata,
    mappings: Vec<Mapping>,
    version: u32,
}

impl Recording {
    /// Opens a recording and reads what is small (R1).
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::read(Source::open(path.as_ref())?)
    }

    /// A recording that is in memory already. The name stands in errors where a file's path would.
    pub fn from_bytes(name: impl AsRef<Path>, bytes: Vec<u8>) -> Result<Self, Error> {
        Self::read(Source::in_memory(name.as_ref(), bytes))
    }

    fn read(source: Source) -> Result<Self, Error> {
        let (chunks, optional): (Vec<_>, Vec<_>) =
            scan(&source)?.into_iter().partition(|chunk| ChunkKind::from_raw(chunk.header.kind).is_some());
        let version = Source::version_of(&source.file_header()?);
        let mut recording = Self { source, chunks, optional, meta: Metadata::default(), mappings: Vec::new(), version };
        recording.meta = read_metadata(&recording.source, recording.section(ChunkKind::Meta))?;
        recording.mappings = recording.read_mappings()?;
        Ok(recording)
    }

    /// The file's path, as it was given to [`Self::open`].
    pub fn path(&self) -> &Path {
        &self.source.path
    }

    /// The file's length.
    pub fn len_bytes(&self) -> u64 {
        self.source.len
    }

    /// The version of the format that it was written in.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// What the recording says of itself.
    pub fn meta(&self) -> &Metadata {
        &self.meta
    }

    /// The guest's mappings when recording started, as they were written.
    pub fn mappings(&self) -> &[Mapping] {
        &self.mappings
    }

    /// The chunks of one of the sections that stand in one piece (F3).
    fn section(&self, kind: ChunkKind) -> &[Chunk] {
        let start = self.chunks.partition_point(|chunk| chunk.header.kind < kind as u16);
        let len = self.chunks[start..].iter().take_while(|chunk| chunk.is(kind)).count();
        &self.chunks[start..start + len]
    }

    fn section_error(&self, kind: ChunkKind, error: DecodeError) -> Error {
        Error::section(&self.source.path, kind, self.section(kind), error)
    }

    /// The index of the chunk that holds the byte at `offset` of a section, uncompressed.
    pub fn chunk_at(&self, kind: ChunkKind, offset: u64) -> u32 {
        chunk_at(self.section(kind), offset)
    }

    fn read_mappings(&self) -> Result<Vec<Mapping>, Error> {
        let kind = ChunkKind::Mappings;
        let bytes = read_section(&self.source, self.section(kind), kind, MAX_MAPPINGS_BYTES)?;
        let mut cursor = Cursor::new(&bytes, 0);
        let mut mappings = Vec::new();
        while !cursor.is_empty() {
            mappings.push(Mapping::decode(&mut cursor).map_err(|error| self.section_error(kind, error))?);
        }
        Ok(mappings)
    }

    /// Bytes of memory that the pages section holds, run headers included.
    pub fn pages_len(&self) -> u64 {
        self.section_len(ChunkKind::Pages)
    }

    /// Bytes of the event log.
    pub fn events_len(&self) -> u64 {
        self.section_len(ChunkKind::Events)
    }

    fn section_len(&self, kind: ChunkKind) -> u64 {
        self.section(kind).iter().map(|chunk| u64::from(chunk.header.raw_len)).sum()
    }

    /// Gives every page that may not be zero, in runs: guest address and contents. No page comes twice. First those of the pages section
    /// in the order in which they were written, then those that are a kept file's ([`MappingFlags::FROM_FILE`](crate::MappingFlags::FROM_FILE)).
    pub fn for_each_page_run(&self, mut f: impl FnMut(u64, &[u8])) -> Result<(), Error> {
        let mut written = Written::default();
        for_each_chunk(&self.source, self.section(ChunkKind::Pages), |chunk, raw| {
            self.split_runs(chunk, raw, &mut |addr, bytes| {
                written.add(addr, bytes.len());
                f(addr, bytes);
            })
        })?;
        backed::groups(&self.mappings).into_iter().try_for_each(|group| self.file_runs(&group, &mut written, &mut f))
    }

    /// The same by several threads at once, in any order.
    pub fn for_each_page_run_parallel(&self, f: impl Fn(u64, &[u8]) + Sync) -> Result<(), Error> {
        let written = Mutex::new(Written::default());
        in_parallel(self.section(ChunkKind::Pages), |chunk, buffers| {
            let Buffers { stored, raw } = buffers;
            chunk.load(&self.source, stored, raw)?;
            let mut here = Written::default();
            self.split_runs(chunk, raw, &mut |addr, bytes| {
                here.add(addr, bytes.len());
                f(addr, bytes);
            })?;
            if let Ok(mut written) = written.lock() {
                written.append(here);
            }
            Ok(())
        })?;
        let mut written = written.into_inner().unwrap_or_default();
        written.sort();
        in_parallel(&backed::groups(&self.mappings), |group, _| self.file_runs(group, &mut written.clone(), &mut |a, b| f(a, b)))
    }

    /// The pages of these mappings that were not `written`, from the file that all of them map.
    fn file_runs(&self, group: &[&Mapping], written: &mut Written, f: &mut impl FnMut(u64, &[u8])) -> Result<(), Error> {
        let Some(first) = group.first() else { return Ok(()) };
        let contents = self.file_contents(OsStr::from_bytes(&first.name))?;
        group.iter().for_each(|mapping| backed::fill(mapping, &contents, written, f));
        Ok(())
    }

    fn split_runs(&self, chunk: &Chunk, raw: &[u8], f: &mut impl FnMut(u64, &[u8])) -> Result<(), Error> {
        let mut cursor = Cursor::new(raw, 0);
        while !cursor.is_empty() {
            let (addr, bytes) = next_run(&mut cursor).map_err(|mut error| {
                let before = self.section(ChunkKind::Pages).iter().take_while(|other| other.header.index < chunk.header.index);
                error.offset += before.map(|chunk| u64::from(chunk.header.raw_len)).sum::<u64>();
                self.section_error(ChunkKind::Pages, error)
            })?;
            f(addr, bytes);
        }
        Ok(())
    }

    /// The whole event log. Read it with [`Events`](crate::Events).
    pub fn events(&self) -> Result<Vec<u8>, Error> {
        read_section(&self.source, self.section(ChunkKind::Events), ChunkKind::Events, u64::MAX)
    }

    /// Passes the event log on, a piece at a time.
    pub fn events_into(&self, mut to: impl Write) -> Result<(), Error> {
        self.pass_on(self.section(ChunkKind::Events), ChunkKind::Events, &mut to)
    }

    fn pass_on(&self, chunks: &[Chunk], kind: ChunkKind, to: &mut dyn Write) -> Result<(), Error> {
        let passing_on = |source: io::Error| Error::PassOn { path: self.source.path.clone(), section: kind.name(), source };
        for_each_chunk(&self.source, chunks, |_, raw| to.write_all(raw).map_err(passing_on))?;
        to.flush().map_err(passing_on)
    }

    /// The program counters that became shared sites, as they were written.
    pub fn sites(&self) -> Result<Vec<u64>, Error> {
        let kind = ChunkKind::Sites;
        let bytes = read_section(&self.source, self.section(kind), kind, u64::MAX)?;
        let (sites, rest) = bytes.as_chunks::<8>();
        if rest.is_empty() {
            return Ok(sites.iter().map(|site| u64::from_le_bytes(*site)).collect());
        }
        let found = bytes.len() as u64;
        Err(self.section_error(kind, DecodeError { offset: 0, field: "sites", expected: Expected::MultipleOf(8), found }))
    }

    /// The files that the recording holds.
    pub fn files(&self) -> Result<Vec<StoredFile>, Error> {
        self.file_chunks()
            .filter_map(|chunks| chunks.split_first())
            .map(|(head, data)| {
                let len = data.iter().map(|chunk| u64::from(chunk.header.raw_len)).sum();
                Ok(StoredFile { head: self.file_head(head)?, len })
            })
            .collect()
    }

    /// Each file's chunks: its head, then its contents.
    fn file_chunks(&self) -> impl Iterator<Item = &[Chunk]> {
        let start = self.chunks.partition_point(|chunk| chunk.header.kind < ChunkKind::File as u16);
        self.chunks[start..].chunk_by(|_, next| next.is(ChunkKind::FileData))
    }

    fn file_head(&self, chunk: &Chunk) -> Result<FileHead, Error> {
        let (mut stored, mut raw) = (Vec::new(), Vec::new());
        chunk.load(&self.source, &mut stored, &mut raw)?;
        FileHead::decode(&raw).map_err(|error| Error::tag(&self.source.path, ChunkKind::File, slice::from_ref(chunk), error))
    }

    fn find_file(&self, wanted: &Path) -> Result<&[Chunk], Error> {
        for chunks in self.file_chunks() {
            if let Some((head, data)) = chunks.split_first()
                && self.file_head(head)?.path == wanted.as_os_str().as_bytes()
            {
                return Ok(data);
            }
        }
        Err(Error::NoSuchFile { path: self.source.path.clone(), wanted: wanted.into() })
    }

    /// The contents of a file, by the path that the recorded program knew it by.
    pub fn file_contents(&self, path: impl AsRef<Path>) -> Result<Vec<u8>, Error> {
        read_section(&self.source, self.find_file(path.as_ref())?, ChunkKind::FileData, u64::MAX)
    }

    /// Passes the contents of a file on, a piece at a time.
    pub fn file_contents_into(&self, path: impl AsRef<Path>, mut to: impl Write) -> Result<(), Error> {
        self.pass_on(self.find_file(path.as_ref())?, ChunkKind::FileData, &mut to)
    }

    /// Reads everything and checks it: all checksums, all structure, all events ([`check_events`]). Gives the number of events.
    pub fn verify(&self) -> Result<u64, Error> {
        self.for_each_page_run_parallel(|_, _| {})?;
        self.sites()?;
        for chunks in self.file_chunks() {
            if let Some((head, data)) = chunks.split_first() {
                self.file_head(head)?;
                for_each_chunk(&self.source, data, |_, _| Ok(()))?;
            }
        }
        for_each_chunk(&self.source, &self.optional, |_, _| Ok(()))?;
        check_events(&self.events()?).map_err(|error| self.section_error(ChunkKind::Events, error))
    }
}

/// The run of pages at the cursor.
fn next_run<'a>(cursor: &mut Cursor<'a>) -> Result<(u64, &'a [u8]), DecodeError> {
    let addr = cursor.u64("run address")?;
    if !addr.is_multiple_of(PAGE_BYTES as u64) {
        return Err(cursor.error_before(8, "run address", Expected::MultipleOf(PAGE_BYTES as u64), addr));
    }
    let len = cursor.u64("run length")?;
    if len == 0 || !len.is_multiple_of(PAGE_BYTES as u64) {
        return Err(cursor.error_before(8, "run length", Expected::OneOf("a positive multiple of 0x1000"), len));
    }
    let bytes = cursor.bytes(len, "run contents")?;
    NotWholePages::check(addr, bytes.len())
        .map_err(|_| cursor.error_before(len + 8, "run length", Expected::AtMost(u64::MAX - addr), len))?;
    Ok((addr, bytes))
}
