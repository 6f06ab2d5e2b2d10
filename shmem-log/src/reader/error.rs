//! What can be wrong with a file that should be a log.
use crate::header::HeaderError;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Why a log, or a part of it, cannot be read. Each names the file, the field, what was expected and what was found.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    #[error("{}: {what}: {source}", path.display())]
    Io { path: Arc<Path>, what: &'static str, source: io::Error },
    #[error("{}: expected a regular file", path.display())]
    NotAFile { path: Arc<Path> },
    #[error("{}: file size: expected a multiple of a page from {min} to {max} bytes, found {found}", path.display())]
    NotALogSize { path: Arc<Path>, min: u64, max: u64, found: u64 },
    #[error("{}: not an access log of this version: {error}", path.display())]
    Header { path: Arc<Path>, error: HeaderError },
    #[error("{}: {what} (at byte {offset}): expected a file of {expected} bytes, found {found}", path.display())]
    Truncated { path: Arc<Path>, what: &'static str, offset: u64, expected: u64, found: u64 },
    /// A word outside its range: only this record, or this block where its extent depends on it, is unreadable if it was met
    /// while iterating; the whole log if while opening.
    #[error("{}: {} (at byte {}): expected {}, found {:#x}", path.display(), damage.field, damage.offset, damage.expected, damage.found)]
    Damaged { path: Arc<Path>, damage: Damage },
}

/// A word that no writer wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// In words of `docs/shmem-format.md`.
    pub field: &'static str,
    /// Bytes from the start of the file.
    pub offset: u64,
    pub expected: String,
    pub found: u64,
}

impl Damage {
    pub(super) fn new(field: &'static str, offset: u64, expected: impl Into<String>, found: u64) -> Damage {
        Damage { field, offset, expected: expected.into(), found }
    }

    /// The same, of a part that starts at byte `start`.
    pub(super) fn behind(self, start: u64) -> Damage {
        Damage { offset: self.offset + start, ..self }
    }
}
