//! What can be wrong with a recording that is read.

use crate::format::ChunkKind;
use crate::scan::{Chunk, chunk_at};
use crate::tagged::TagError;
use crate::wire::{DecodeError, Expected};
use std::io;
use std::path::{Path, PathBuf};

/// Why a recording cannot be read. Every variant names the file; offsets are in it unless said otherwise.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("{}: cannot {action}: {source}", path.display())]
    Io { path: PathBuf, action: &'static str, source: io::Error },

    #[error("{}: not a recording: expected it to start with \"{}\", found \"{}\"{}", path.display(), crate::MAGIC.escape_ascii(), found.escape_ascii(), hint(found))]
    NotARecording { path: PathBuf, found: Vec<u8> },

    #[error("{}: format version: expected at most {newest}, found {found}; a newer program wrote it", path.display())]
    Version { path: PathBuf, newest: u32, found: u32 },

    /// The file ends too early: in the chunk of that index, or where it is not known which one should be there.
    #[error("{}: truncated: {}{field} at offset {offset:#x}: expected {needed_bytes} bytes, found {found_bytes}", path.display(), in_chunk(*chunk))]
    Truncated { path: PathBuf, chunk: Option<u32>, field: &'static str, offset: u64, needed_bytes: u64, found_bytes: u64 },

    /// The file's header is damaged.
    #[error("{}: file header: {source}", path.display())]
    Header { path: PathBuf, source: DecodeError },

    /// A chunk is not what the format says.
    #[error("{}: chunk {index} ({kind}): {source}", path.display())]
    Chunk { path: PathBuf, index: u32, kind: Kind, source: DecodeError },

    /// A chunk stands where another one should: one is missing, or there twice.
    #[error("{}: chunk {index} at offset {offset:#x}: expected {expected}, found {found}", path.display())]
    Order { path: PathBuf, index: u32, offset: u64, expected: &'static str, found: Kind },

    /// A chunk's bytes cannot be decompressed, although their checksum is right.
    #[error("{}: chunk {index} ({kind}) at offset {offset:#x}: expected {expected_bytes} bytes of LZ4, found {found}", path.display())]
    Decompress { path: PathBuf, index: u32, kind: Kind, offset: u64, expected_bytes: u32, found: String },

    /// The contents of a section; the offset is in the section, uncompressed.
    #[error("{}: section {section}, chunk {chunk}: {source}", path.display())]
    Section { path: PathBuf, section: &'static str, chunk: u32, source: DecodeError },

    /// A required field is not there.
    #[error("{}: section {section}, chunk {chunk}: field {field}: expected it to be there, found none", path.display())]
    MissingField { path: PathBuf, section: &'static str, chunk: u32, field: &'static str },

    #[error("{}: {section} takes {needed_bytes} bytes: not enough memory", path.display())]
    Memory { path: PathBuf, section: &'static str, needed_bytes: u64 },

    #[error("{}: section FILE: expected a file {}, found none of that name", path.display(), wanted.display())]
    NoSuchFile { path: PathBuf, wanted: PathBuf },

    /// Whoever was given the contents could not take them.
    #[error("{}: cannot pass on {section}: {source}", path.display())]
    PassOn { path: PathBuf, section: &'static str, source: io::Error },
}

fn in_chunk(chunk: Option<u32>) -> String {
    chunk.map_or_else(String::new, |index| format!("chunk {index}: "))
}

/// A chunk's kind as the file has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind(pub u16);

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match ChunkKind::from_raw(self.0) {
            Some(kind) => f.write_str(kind.name()),
            None => write!(f, "unknown kind {:#x}", self.0),
        }
    }
}

impl Error {
    /// The recording's path.
    pub fn path(&self) -> &Path {
        match self {
            Self::Io { path, .. }
            | Self::NotARecording { path, .. }
            | Self::Version { path, .. }
            | Self::Truncated { path, .. }
            | Self::Header { path, .. }
            | Self::Chunk { path, .. }
            | Self::Order { path, .. }
            | Self::Decompress { path, .. }
            | Self::Section { path, .. }
            | Self::MissingField { path, .. }
            | Self::Memory { path, .. }
            | Self::NoSuchFile { path, .. }
            | Self::PassOn { path, .. } => path,
        }
    }

    /// The same, if it says that the file is truncated, with the chunk's index.
    pub(crate) fn in_chunk(self, index: u32) -> Self {
        match self {
            Self::Truncated { path, field, offset, needed_bytes, found_bytes, .. } => {
                Self::Truncated { path, chunk: Some(index), field, offset, needed_bytes, found_bytes }
            }
            other => other,
        }
    }

    pub(crate) fn io(path: &Path, action: &'static str, source: io::Error) -> Self {
        Self::Io { path: path.into(), action, source }
    }

    /// The offset is in the section whose chunks these are, all of them, uncompressed.
    pub(crate) fn section(path: &Path, kind: ChunkKind, chunks: &[Chunk], source: DecodeError) -> Self {
        Self::Section { path: path.into(), section: kind.name(), chunk: chunk_at(chunks, source.offset), source }
    }

    pub(crate) fn tag(path: &Path, kind: ChunkKind, chunks: &[Chunk], error: TagError) -> Self {
        match error {
            TagError::Decode(source) => Self::section(path, kind, chunks, source),
            TagError::Missing(field) => Self::MissingField { path: path.into(), section: kind.name(), chunk: chunk_at(chunks, 0), field },
        }
    }

    pub(crate) fn too_long(path: &Path, kind: ChunkKind, chunks: &[Chunk], most: u64, found: u64) -> Self {
        let source = DecodeError { offset: 0, field: "section length", expected: Expected::AtMost(most), found };
        Self::section(path, kind, chunks, source)
    }
}

/// For who takes one of our files for the other.
fn hint(found: &[u8]) -> &'static str {
    if found == b"SHMEMLOG" { ": that is an access log; open one of the recordings that it belongs to, or ask shmem-inspect" } else { "" }
}
