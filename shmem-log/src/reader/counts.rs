//! What became of everything that was to be logged.
use super::{Position, Reader};
use crate::types::{ObjectIndex, RecordingIndex};

/// Numbers of records. `appended = committed + lost + unfinished`, always; `dropped` ones were never appended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Accesses for which a slot was taken.
    pub appended: u64,
    /// Readable in this snapshot.
    pub committed: u64,
    /// Overwritten by younger ones, as the log is full.
    pub lost: u64,
    /// Begun and not committed: under way at the moment of the snapshot, or their writer died.
    pub unfinished: u64,
    /// Not logged: no block was free, no room on the disk, or too long.
    pub dropped: u64,
}

/// An access that has begun and is not committed. Whether the memory was touched is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unfinished {
    pub position: Position,
    pub recording: RecordingIndex,
    pub object: ObjectIndex,
    /// First byte; the length is not known.
    pub offset: u64,
}

impl Reader {
    /// What became of a recording's accesses.
    pub fn counts(&self, recording: RecordingIndex) -> Counts {
        let mut counts = Counts::default();
        if let Some(recording) = self.recording(recording) {
            counts.appended = recording.appended;
            counts.dropped = recording.dropped;
        }
        for block in self.blocks.iter().filter(|block| block.recording == recording) {
            counts.committed += u64::from(block.records);
            counts.appended = counts.appended.max(block.first_record.saturating_add(block.records.into()));
        }
        counts.lost = counts.appended.saturating_sub(counts.committed);
        counts.unfinished = self.unfinished.iter().filter(|entry| entry.recording == recording).count() as u64;
        counts.appended = counts.committed.saturating_add(counts.lost).saturating_add(counts.unfinished);
        counts
    }

    /// The sum over all recordings.
    pub fn total_counts(&self) -> Counts {
        let mut total = Counts::default();
        for recording in &self.recordings {
            let counts = self.counts(recording.index);
            total.appended = total.appended.saturating_add(counts.appended);
            total.committed = total.committed.saturating_add(counts.committed);
            total.lost = total.lost.saturating_add(counts.lost);
            total.unfinished = total.unfinished.saturating_add(counts.unfinished);
            total.dropped = total.dropped.saturating_add(counts.dropped);
        }
        total
    }

    /// Accesses that have begun and are not committed.
    pub fn unfinished(&self) -> &[Unfinished] {
        &self.unfinished
    }

    /// Registrations that were refused because the registry was full: recordings, objects, mappings, sites.
    pub fn refused(&self) -> [u64; 4] {
        self.refused
    }
}
