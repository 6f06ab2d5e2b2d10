//! What can go wrong between a user's question and the answer.
use shmem_log::{ReadError, RecordingIndex};
use std::io;
use std::path::PathBuf;

/// Why a question cannot be answered. That there is nothing to report is not an error: see [`crate::Reason`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error(transparent)]
    Log(#[from] ReadError),
    #[error(transparent)]
    Recording(#[from] recording::Error),
    #[error("{}: cannot {what}: {source}", path.display())]
    Io { path: PathBuf, what: &'static str, source: io::Error },
    #[error("{}: expected a name that ends in .undo or .shmem, found {found}", path.display())]
    Extension { path: PathBuf, found: String },
    #[error("{}: recording: expected one of the {count} in the log, found index {}", path.display(), index.get())]
    NoSuchRecording { path: PathBuf, index: RecordingIndex, count: usize },
    #[error("{}: length of the range: expected at least 1 byte, found 0", path.display())]
    EmptyRange { path: PathBuf },
    #[error("{}: wrote to no access log: it was made without undolr_shmem_log_filename_set, so it has no related recordings", path.display())]
    NoLog { path: PathBuf },
    #[error("{}: access log: expected one with UUID {wanted} in {}, found none", path.display(), directory.display())]
    LogNotFound { path: PathBuf, directory: PathBuf, wanted: String },
    /// The log has been written on since; take a new snapshot ([`crate::Correlator::refresh`]) and ask again.
    #[error("{}: an access that was to be read has been overwritten since the log was opened", path.display())]
    Overwritten { path: PathBuf },
}
