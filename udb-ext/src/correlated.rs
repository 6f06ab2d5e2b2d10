//! [`Correlate`] over an access log, by the correlator.
//!
//! The files that belong together are looked for when a recording is opened; the log is indexed when it is first asked, so that a
//! prompt never waits for it.

use std::path::{Path, PathBuf};

use correlator::{BlameQuery, Correlator, Discovery, Error, Kind, Moment, Reason, RecordingIndex, Row, Target};

use crate::correlate::{Access, AccessKind, Blame, Correlate, NoLog, Query, Recording};

/// What belongs to the recording at `path`.
pub fn related(path: &Path, loaded: Recording) -> Box<dyn Correlate> {
    match Discovery::from_file(path) {
        Ok(Discovery { log: Some(log), recordings, warnings }) => {
            let warnings = warnings.iter().map(ToString::to_string).collect();
            let indices = recordings.iter().map(|found| (found.index, found.uuid)).collect();
            let recordings = recordings
                .into_iter()
                .map(|found| Recording { uuid: found.uuid, pid: found.pid.cast_signed(), path: found.path })
                .collect();
            Box::new(Logged { loaded: loaded.uuid, log, recordings, indices, warnings, correlator: None })
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
    /// From the first question on.
    correlator: Option<Correlator>,
}

impl Logged {
    fn uuid(&self, index: RecordingIndex) -> Option<[u8; 16]> {
        self.indices.iter().find(|(other, _)| *other == index).map(|(_, uuid)| *uuid)
    }

    fn access(&self, row: Row, query: &Query) -> Access {
        Access {
            recording: self.uuid(row.record.recording),
            pid: row.pid.cast_signed(),
            time: Some(row.record.time),
            kind: match row.record.kind {
                Kind::Read => AccessKind::Read,
                Kind::Write => AccessKind::Write,
                Kind::ReadWrite => AccessKind::ReadWrite,
            },
            address: row.address.unwrap_or(query.address),
            length: u64::from(row.record.len),
            own: row.own,
            value: Some(row.record.value().to_vec()).filter(|value| !value.is_empty()),
            source: None,
            unordered: row.concurrent,
        }
    }
}

impl Correlate for Logged {
    fn recordings(&mut self) -> Result<Vec<Recording>, String> {
        Ok(self.recordings.clone())
    }

    fn blame(&mut self, query: &Query) -> Result<Blame, String> {
        let loaded = self.indices.iter().find(|(_, uuid)| *uuid == self.loaded).map(|(index, _)| *index);
        let loaded = loaded.ok_or_else(|| format!("{}: the log does not know this recording", self.log.display()))?;
        if self.correlator.is_none() {
            self.correlator = Some(Correlator::open(&self.log).map_err(|error| error.to_string())?);
        }
        let mut question = BlameQuery::new(loaded, Moment::At(query.at), Target::Address(query.address), query.length.max(1));
        question.limit = query.limit.max(1);
        question.writers_only = query.writers_only;
        let Some(correlator) = &self.correlator else { return Ok(Blame::default()) };
        let blame = correlator.blame(&question).map_err(|error| error.to_string())?;
        let notes = (blame.lost > 0)
            .then(|| format!("The log was full: {} accesses were overwritten, so the history may have begun earlier.", blame.lost));
        Ok(Blame {
            rows: blame.rows.into_iter().map(|row| self.access(row, query)).collect(),
            omitted: blame.cut.map_or(0, |cut| cut.older_at_most),
            reason: blame.why_empty.map(|reason| explain(reason, query.address)),
            notes: notes.into_iter().collect(),
        })
    }

    fn log(&self) -> Option<PathBuf> {
        Some(self.log.clone())
    }

    fn warnings(&self) -> Vec<String> {
        self.warnings.clone()
    }
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
