//! What the debugger asks about the other recordings of a run.
//!
//! Why this trait exists: the server answers `ublame` and `uinfo inferiors` through it, so that it can be tested without a log, and a
//! recording that has none is an ordinary case ([`NoLog`]).
//!
//! # Contract
//! C1. [`Correlate::recordings`] names the loaded recording first, then the others in the order of their discovery; the order never
//!     changes within one session.
//! C2. A recording is known by its UUID. Its number is the debugger's business: each server belongs to one recording and would number
//!     itself 1.
//! C3. The rows of a [`Blame`] are oldest first. The last one is the loaded recording's own last access before the time asked for.
//! C4. An answer without rows says why in [`Blame::reason`].

use std::path::PathBuf;
use std::time::Duration;

use replayer::Time;

/// A recording that shares memory with the loaded one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recording {
    pub uuid: [u8; 16],
    pub pid: i32,
    /// None if the log knows it but its file is not there.
    pub path: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessKind {
    Read,
    Write,
    ReadWrite,
}

impl AccessKind {
    /// As the table of accesses shows it.
    pub fn label(self) -> &'static str {
        match self {
            AccessKind::Read => "read",
            AccessKind::Write => "write",
            AccessKind::ReadWrite => "read/write",
        }
    }
}

/// One access to shared memory; or, with neither recording nor time, a write that must have happened though nobody logged it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// Who did it; `None` for a writer that was not recorded.
    pub recording: Option<[u8; 16]>,
    pub pid: i32,
    /// In the history of `recording`.
    pub time: Option<Time>,
    pub kind: AccessKind,
    /// In the address space of the process that asks.
    pub address: u64,
    pub length: u64,
    /// The loaded recording's own.
    pub own: bool,
    /// The bytes that were there after it, if the log has them.
    pub value: Option<Vec<u8>>,
    /// `file:line`, if known without asking the debugger.
    pub source: Option<String>,
    /// It overlapped the access before it; the log cannot say which came first.
    pub unordered: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query {
    pub address: u64,
    pub length: u64,
    /// As seen at this time by the loaded recording.
    pub at: Time,
    /// At most this many rows, the newest.
    pub limit: usize,
    /// Only the accesses whose bytes are still there.
    pub writers_only: bool,
    /// Look up the accesses' source lines.
    pub sources: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Blame {
    pub rows: Vec<Access>,
    /// Older rows left out because of the limit.
    pub omitted: u64,
    /// Why there are no rows.
    pub reason: Option<String>,
    /// Further remarks, one line each (log overwritten, unrecorded writer).
    pub notes: Vec<String>,
}

/// See the module's contract.
pub trait Correlate {
    /// Whether questions about accesses will be answered without a long wait. Gets ready in the background, and waits for that, but not
    /// longer than `patience`.
    fn is_ready(&mut self, patience: Duration) -> bool;
    fn recordings(&mut self) -> Result<Vec<Recording>, String>;
    fn blame(&mut self, query: &Query) -> Result<Blame, String>;
    /// Whether others may have changed the bytes since the loaded recording last accessed them; `None` if that cannot be told.
    fn is_stale(&mut self, query: &Query) -> Option<bool>;
    /// The log's file name, if there is one.
    fn log(&self) -> Option<PathBuf>;
    /// What the user should know about the files, one line each.
    fn warnings(&self) -> Vec<String>;
}

/// A recording whose accesses to shared memory were not logged.
pub struct NoLog {
    pub loaded: Recording,
    /// Why there is none, if there should be one.
    pub warning: Option<String>,
}

impl Correlate for NoLog {
    fn is_ready(&mut self, _patience: Duration) -> bool {
        true
    }

    fn recordings(&mut self) -> Result<Vec<Recording>, String> {
        Ok(vec![self.loaded.clone()])
    }

    fn blame(&mut self, _query: &Query) -> Result<Blame, String> {
        Err(self.warning.clone().unwrap_or_else(|| {
            "this recording has no log of shared memory accesses: record with --shmem-log FILE.shmem, and keep the log in the \
             recording's directory"
                .into()
        }))
    }

    fn is_stale(&mut self, _query: &Query) -> Option<bool> {
        None
    }

    fn log(&self) -> Option<PathBuf> {
        None
    }

    fn warnings(&self) -> Vec<String> {
        self.warning.iter().cloned().collect()
    }
}
