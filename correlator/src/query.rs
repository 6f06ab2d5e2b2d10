//! What questions are about: some memory, as one recording sees it at a time.
use crate::record::Record;
use recording::Time;
use shmem_log::{Kind, ObjectIndex, RecordingIndex};

/// When a question is asked, in the recording that it is asked of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Just before the instruction at `pc` executes: its own access, or that of its system call, has not happened yet.
    At(Time),
    /// After all that was recorded.
    End,
}

/// Which memory is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// An address in the recording's own address space.
    Address(u64),
    Object {
        object: ObjectIndex,
        offset: u64,
    },
}

/// Some memory, as a recording sees it at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query {
    /// Whose view of the memory counts.
    pub recording: RecordingIndex,
    pub time: Moment,
    pub target: Target,
    /// Bytes, at least 1. What goes beyond the mapping that `target` lies in is left out.
    pub length: u64,
}

impl Query {
    pub fn new(recording: RecordingIndex, time: Moment, target: Target, length: u64) -> Query {
        Query { recording, time, target, length }
    }
}

/// Which accesses count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Made by this recording; None: by any.
    pub by: Option<RecordingIndex>,
    /// Reads, writes or read/writes only; `Write` includes read/writes if `writes` is asked for instead.
    pub kind: Option<Kind>,
    /// Whatever writes, read/writes included.
    pub writes: bool,
}

impl Filter {
    pub(crate) fn accepts(&self, record: &Record) -> bool {
        self.by.is_none_or(|by| record.recording == by)
            && self.kind.is_none_or(|kind| record.kind == kind)
            && (!self.writes || record.kind.writes())
    }
}
