//! The other recordings of the run, and who touched shared memory.

use replayer::Time;
use serde::{Deserialize, Serialize};

use super::hex;
use super::time::{Pair, pair};
use crate::correlate::{Access, Query};
use crate::target::Debuggee;

/// Rows in one reply at most.
const MAX_ROWS: usize = 4096;

#[derive(Serialize)]
pub struct Recordings {
    recordings: Vec<Recording>,
    log: Option<String>,
    warnings: Vec<String>,
}

#[derive(Serialize)]
struct Recording {
    uuid: String,
    pid: i32,
    path: Option<String>,
}

pub fn recordings(debuggee: &mut Debuggee) -> Result<Recordings, String> {
    let recordings = debuggee.correlate.recordings()?;
    Ok(Recordings {
        recordings: recordings
            .into_iter()
            .map(|recording| Recording {
                uuid: hex(&recording.uuid),
                pid: recording.pid,
                path: recording.path.map(|path| path.display().to_string()),
            })
            .collect(),
        log: debuggee.correlate.log().map(|path| path.display().to_string()),
        warnings: debuggee.correlate.warnings(),
    })
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Range {
    address: u64,
    length: u64,
    /// As of this time; the current one if none is given.
    #[serde(default)]
    at: Option<Pair>,
    #[serde(default)]
    limit: Option<usize>,
    #[serde(default)]
    writers_only: bool,
    #[serde(default)]
    sources: bool,
}

#[derive(Serialize)]
pub struct Rows {
    rows: Vec<Row>,
    omitted: u64,
    reason: Option<String>,
    notes: Vec<String>,
}

#[derive(Serialize)]
struct Row {
    /// None for a writer that was not recorded.
    uuid: Option<String>,
    pid: i32,
    time: Option<Pair>,
    kind: &'static str,
    address: u64,
    length: u64,
    own: bool,
    value: Option<String>,
    source: Option<String>,
    unordered: bool,
}

impl From<Access> for Row {
    fn from(access: Access) -> Self {
        Row {
            uuid: access.recording.map(|uuid| hex(&uuid)),
            pid: access.pid,
            time: access.time.map(pair),
            kind: access.kind.label(),
            address: access.address,
            length: access.length,
            own: access.own,
            value: access.value.map(|bytes| hex(&bytes)),
            source: access.source,
            unordered: access.unordered,
        }
    }
}

pub fn blame(debuggee: &mut Debuggee, range: &Range) -> Result<Rows, String> {
    let query = Query {
        address: range.address,
        length: range.length,
        at: range.at.map_or_else(|| debuggee.timeline.now(), |(bbcount, pc)| Time { bbcount, pc }),
        limit: range.limit.unwrap_or(MAX_ROWS).min(MAX_ROWS),
        writers_only: range.writers_only,
        sources: range.sources,
    };
    let blame = debuggee.correlate.blame(&query)?;
    let rows = blame.rows.into_iter().map(Row::from).collect();
    Ok(Rows { rows, omitted: blame.omitted, reason: blame.reason, notes: blame.notes })
}
