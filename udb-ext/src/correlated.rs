//! [`Correlate`] over an access log, by the correlator.
//!
//! The files that belong together are looked for when a recording is opened; the log is indexed when it is first asked, so that a
//! prompt never waits for it.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use correlator::{BlameOptions, Correlator, Discovery, Error, Kind, Moment, Reason, RecordingIndex, Row, SharedStatus, Symbols, Target};

use crate::correlate::{Access, AccessKind, Blame, Correlate, NoLog, Query, Recording};

/// What belongs to the recording at `path`.
pub fn related(path: &Path, loaded: Recording) -> Box<dyn Correlate> {
    match Discovery::from_file(path) {
        Ok(discovery @ Discovery { log: Some(_), .. }) => {
            let symbols = Symbols::new(&discovery);
            let Discovery { log, recordings, warnings } = discovery;
            let log = log.unwrap_or_default();
            let warnings = warnings.iter().map(ToString::to_string).collect();
            let indices = recordings.iter().map(|found| (found.index, found.uuid)).collect();
            let recordings = recordings
                .into_iter()
                .map(|found| Recording { uuid: found.uuid, pid: found.pid.cast_signed(), path: found.path })
                .collect();
            Box::new(Logged { loaded: loaded.uuid, log, recordings, indices, warnings, symbols, index: Index::None })
        }
        // A recording of one process alone is nothing to remark on.
        Ok(Discovery { log: None, .. }) | Err(Error::NoLog { .. } | Error::Extension { .. }) => Box::new(NoLog { loaded, warning: None }),
        Err(error) => Box::new(NoLog { loaded, warning: Some(error.to_string()) }),
    }
}

struct Logged {
    loaded: [u8; 16],
    log: PathBuf,
    recordings: Vec<Recording>,
    /// The log's numbers of them.
    indices: Vec<(RecordingIndex, [u8; 16])>,
    warnings: Vec<String>,
    symbols: Symbols,
    index: Index,
}

/// The index of the log, made from the first question on.
enum Index {
    None,
    Coming(Receiver<Result<Box<Correlator>, Error>>),
    Open(Box<Correlator>),
    /// Why not; told once, then tried again.
    Failed(String),
}

impl Logged {
    fn uuid(&self, index: RecordingIndex) -> Option<[u8; 16]> {
        self.indices.iter().find(|(other, _)| *other == index).map(|(_, uuid)| *uuid)
    }

    fn access(&mut self, row: &Row, query: &Query) -> Access {
        let record = &row.record;
        let source = query.sources.then(|| self.symbols.place(record.recording, record.time.pc)).flatten();
        Access {
            recording: self.uuid(record.recording),
            pid: row.pid.cast_signed(),
            time: Some(record.time),
            kind: match record.kind {
                Kind::Read => AccessKind::Read,
                Kind::Write => AccessKind::Write,
                Kind::ReadWrite => AccessKind::ReadWrite,
            },
            address: row.address.unwrap_or(query.address),
            length: u64::from(record.len),
            own: row.own,
            value: Some(record.value().to_vec()).filter(|value| !value.is_empty()),
            source: source.map(|place| place.to_string()),
            unordered: row.concurrent,
        }
    }

    /// The log, indexed; and the loaded recording's number in it.
    fn correlator(&mut self) -> Result<(&Correlator, RecordingIndex), String> {
        let loaded = self.indices.iter().find(|(_, uuid)| *uuid == self.loaded).map(|(index, _)| *index);
        let loaded = loaded.ok_or_else(|| format!("{}: the log does not know this recording", self.log.display()))?;
        while !self.is_ready(Duration::MAX) {}
        if let Index::Failed(_) = self.index
            && let Index::Failed(error) = std::mem::replace(&mut self.index, Index::None)
        {
            return Err(error);
        }
        match &self.index {
            Index::Open(correlator) => Ok((correlator, loaded)),
            _ => Err(format!("{}: not read", self.log.display())),
        }
    }
}

/// Bytes of the widest access that is taken for one of a number.
const NUMBER: u32 = 8;

/// The write that must have happened before the last of these accesses though nobody logged it: that one saw bytes which none of the
/// others left. Nothing is concluded where accesses that may matter are not among them.
fn unlogged(rows: &[Row], whole: bool) -> Option<Access> {
    let (last, earlier) = rows.split_last()?;
    let read = &last.record;
    let byte_of = |row: &Row, offset: u64| row.record.value().get(usize::try_from(offset.checked_sub(row.record.offset)?).ok()?).copied();
    let unexplained = |seen: u8, offset: u64| {
        // Older rows that were left out may explain it.
        let mut met = false;
        for row in earlier.iter().rev() {
            let Some(left) = byte_of(row, offset) else { continue };
            if left == seen {
                return false;
            }
            met = true;
            if !row.concurrent && !last.concurrent {
                return true;
            }
        }
        met && whole
    };
    let mut missed = (read.offset..).zip(&read.seen).filter(|(offset, seen)| unexplained(**seen, *offset)).map(|(offset, _)| offset);
    let first = missed.next()?;
    // Of a number, the bytes that stayed as they were may have been written as well.
    let (first, end) = if read.len <= NUMBER { (read.offset, read.end()) } else { (first, missed.last().unwrap_or(first) + 1) };
    let (skip, length) = (first - read.offset, end - first);
    let value = read.seen.iter().skip(usize::try_from(skip).ok()?).take(usize::try_from(length).ok()?).copied().collect();
    Some(Access {
        recording: None,
        pid: 0,
        time: None,
        kind: AccessKind::Write,
        address: last.address?.checked_add(skip)?,
        length,
        own: false,
        value: Some(value),
        source: None,
        unordered: false,
    })
}

impl Correlate for Logged {
    fn is_ready(&mut self, patience: Duration) -> bool {
        if let Index::None = self.index {
            let (sender, receiver) = sync_channel(1);
            let log = self.log.clone();
            thread::spawn(move || sender.send(Correlator::open(log).map(Box::new)));
            self.index = Index::Coming(receiver);
        }
        let Index::Coming(receiver) = &self.index else { return true };
        self.index = match receiver.recv_timeout(patience) {
            Err(RecvTimeoutError::Timeout) => return false,
            Ok(Ok(correlator)) => Index::Open(correlator),
            Ok(Err(error)) => Index::Failed(error.to_string()),
            Err(RecvTimeoutError::Disconnected) => Index::Failed(format!("{}: the index cannot be made", self.log.display())),
        };
        true
    }

    fn recordings(&mut self) -> Result<Vec<Recording>, String> {
        Ok(self.recordings.clone())
    }

    fn blame(&mut self, query: &Query) -> Result<Blame, String> {
        let (correlator, loaded) = self.correlator()?;
        let options = BlameOptions { writers_only: query.writers_only, limit: query.limit.max(1) };
        let blame = correlator.blame(&asked(loaded, query), &options).map_err(|error| error.to_string())?;
        let mut notes = Vec::new();
        if blame.lost > 0 {
            notes.push(format!("The log was full: {} accesses were overwritten, so the history may have begun earlier.", blame.lost));
        }
        let unlogged = (!query.writers_only && blame.lost == 0).then(|| unlogged(&blame.rows, blame.cut.is_none())).flatten();
        let mut rows: Vec<Access> = blame.rows.iter().map(|row| self.access(row, query)).collect();
        if let Some(write) = unlogged {
            notes.push("No logged access left the value that was read: a process that was not recorded wrote it.".into());
            rows.insert(rows.len() - 1, write);
        }
        Ok(Blame {
            rows,
            omitted: blame.cut.map_or(0, |cut| cut.older_at_most),
            reason: blame.why_empty.map(|reason| explain(reason, query.address)),
            notes,
        })
    }

    fn is_stale(&mut self, query: &Query) -> Option<bool> {
        let (correlator, loaded) = self.correlator().ok()?;
        let counts = correlator.reader().total_counts();
        if counts.lost > 0 || counts.dropped > 0 {
            return None;
        }
        match correlator.shared_status(&asked(loaded, query)).ok()? {
            SharedStatus::Stale { .. } => Some(true),
            SharedStatus::Current { .. } => Some(false),
            SharedStatus::NotShared | SharedStatus::NeverAccessed => None,
        }
    }

    fn log(&self) -> Option<PathBuf> {
        Some(self.log.clone())
    }

    fn warnings(&self) -> Vec<String> {
        self.warnings.clone()
    }
}

/// The query as the correlator takes it.
fn asked(loaded: RecordingIndex, query: &Query) -> correlator::Query {
    correlator::Query::new(loaded, Moment::At(query.at), Target::Address(query.address), query.length.max(1))
}

fn explain(reason: Reason, address: u64) -> String {
    match reason {
        Reason::NotShared => {
            format!("{address:#x} is not shared memory at this time: only this process can have written it (`last` finds where)")
        }
        Reason::NeverAccessed => format!("this recording never accesses {address:#x}"),
        Reason::NotYet { first } => format!("this recording has not accessed {address:#x} yet; it first does at {first}"),
        Reason::Overwritten { lost } => {
            format!("the log was full and {lost} accesses of this recording were overwritten; record with a larger --shmem-log-size")
        }
        Reason::NoWriter => format!("no logged access wrote what {address:#x} holds: it is as it was when recording began"),
    }
}
