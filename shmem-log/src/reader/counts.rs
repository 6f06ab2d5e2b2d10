//! What became of everything that was to be logged.
use super::{BlockInfo, Position, Reader, Recording};
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

/// Of each recording, in their order: in one walk over the blocks.
pub(super) fn count(recordings: &[Recording], blocks: &[BlockInfo], unfinished: &[Unfinished]) -> Vec<Counts> {
    let start = |recording: &Recording| Counts { appended: recording.appended, dropped: recording.dropped, ..Counts::default() };
    let mut all: Vec<Counts> = recordings.iter().map(start).collect();
    let mut place = vec![None; recordings.last().map_or(0, |last| last.index.get() as usize + 1)];
    recordings.iter().enumerate().for_each(|(at, recording)| place[recording.index.get() as usize] = Some(at));
    let find = |recording: RecordingIndex| place.get(recording.get() as usize).copied().flatten();
    for block in blocks {
        let Some(at) = find(block.recording) else { continue };
        let counts = &mut all[at];
        counts.committed += u64::from(block.records);
        counts.appended = counts.appended.max(block.first_record.saturating_add(block.records.into()));
    }
    for entry in unfinished {
        let Some(at) = find(entry.recording) else { continue };
        all[at].unfinished += 1;
    }
    for counts in &mut all {
        counts.lost = counts.appended.saturating_sub(counts.committed);
        counts.appended = counts.committed.saturating_add(counts.lost).saturating_add(counts.unfinished);
    }
    all
}

impl Reader {
    /// What became of a recording's accesses.
    pub fn counts(&self, recording: RecordingIndex) -> Counts {
        let at = self.recordings.binary_search_by_key(&recording, |recording| recording.index);
        at.ok().and_then(|at| self.counts.get(at)).copied().unwrap_or_default()
    }

    /// The sum over all recordings.
    pub fn total_counts(&self) -> Counts {
        let mut total = Counts::default();
        for counts in &self.counts {
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
