//! What a test writes in place of a recording.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use udb_ext::{Access, AccessKind, Blame, Correlate, Opened, Origin, Query, Recording, Wallclock};

use crate::tape::Tape;
use crate::trace::{self, Program};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fixture {
    program: PathBuf,
    #[serde(default)]
    arguments: Vec<String>,
    /// The function where the recording begins.
    #[serde(default = "main_function")]
    start: String,
    #[serde(default = "default_pid")]
    pid: i32,
    /// The name under which the recording knows the program, if another.
    #[serde(default)]
    recorded_as: Option<String>,
    /// A search that finds nothing lasts until it is cancelled.
    #[serde(default)]
    endless: bool,
    /// This many made-up events in place of the program's own.
    #[serde(default)]
    made_up_events: usize,
    #[serde(default)]
    siblings: Vec<Sibling>,
    #[serde(default)]
    accesses: Vec<Row>,
}

fn main_function() -> String {
    "main".into()
}

fn default_pid() -> i32 {
    137
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sibling {
    path: Option<PathBuf>,
    pid: i32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    pid: i32,
    bbcount: u64,
    pc: u64,
    kind: String,
    length: u64,
    value: Option<u8>,
}

/// The fixtures' rule for UUIDs: the process's number, repeated.
fn uuid_of(pid: i32) -> [u8; 16] {
    let mut uuid = [0; 16];
    uuid.chunks_exact_mut(4).for_each(|chunk| chunk.copy_from_slice(&pid.to_be_bytes()));
    uuid
}

pub fn open(path: &Path) -> Result<Opened, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let fixture: Fixture = serde_json::from_str(&text).map_err(|_| format!("{}: not a recording", path.display()))?;
    let program = Program { path: fixture.program, arguments: fixture.arguments, start: fixture.start };
    let trace = trace::record(&program).map_err(|error| format!("{}: {error:#}", program.path.display()))?;
    let mut tape = Tape::new(trace, fixture.pid, uuid_of(fixture.pid));
    tape.endless = fixture.endless;
    if let Some(name) = fixture.recorded_as {
        tape.rename(&program.path.display().to_string(), &name);
    }
    if fixture.made_up_events > 0 {
        tape.make_up_events(fixture.made_up_events);
    }
    let loaded = Recording { uuid: uuid_of(fixture.pid), pid: fixture.pid, path: Some(path.to_path_buf()) };
    let folder = path.parent().unwrap_or(Path::new("."));
    let siblings = fixture.siblings.into_iter().map(|sibling| Recording {
        uuid: uuid_of(sibling.pid),
        pid: sibling.pid,
        path: sibling.path.map(|path| folder.join(path)),
    });
    let recordings = std::iter::once(loaded).chain(siblings).collect();
    Ok(Opened {
        timeline: Box::new(tape),
        correlate: Box::new(Scripted { recordings, rows: fixture.accesses, log: folder.join("log.shmem") }),
        // Ten seconds, one for each hundred of the made-up stamps.
        wallclock: Wallclock::new(1_700_000_000_000_000_000, 1_700_000_010_000_000_000, 1000, 2000),
        origin: Origin::default(),
    })
}

/// Answers from the fixture: every access is to the very bytes asked about.
struct Scripted {
    recordings: Vec<Recording>,
    rows: Vec<Row>,
    log: PathBuf,
}

impl Correlate for Scripted {
    fn is_ready(&mut self, _patience: std::time::Duration) -> bool {
        true
    }

    fn recordings(&mut self) -> Result<Vec<Recording>, String> {
        Ok(self.recordings.clone())
    }

    fn blame(&mut self, query: &Query) -> Result<Blame, String> {
        let own = self.recordings[0].uuid;
        let rows = self.rows.iter().map(|row| Access {
            recording: self.recordings.iter().find(|recording| recording.pid == row.pid).map(|recording| recording.uuid),
            pid: row.pid,
            time: Some(replayer::Time { bbcount: row.bbcount, pc: row.pc }),
            kind: match row.kind.as_str() {
                "read" => AccessKind::Read,
                "write" => AccessKind::Write,
                _ => AccessKind::ReadWrite,
            },
            address: query.address,
            length: row.length,
            own: uuid_of(row.pid) == own,
            value: row.value.map(|value| vec![value, 0, 0, 0]),
            source: None,
            unordered: false,
        });
        let mut rows: Vec<Access> = rows.collect();
        // As the contract says: up to the own last access before the time asked for, and nothing without one.
        let last = rows.iter().rposition(|row| row.own && row.time.is_some_and(|time| time < query.at));
        rows.truncate(last.map_or(0, |index| index + 1));
        let omitted = rows.len().saturating_sub(query.limit);
        rows.drain(..omitted);
        let reason = rows.is_empty().then(|| "this recording has not accessed that memory yet".to_owned());
        Ok(Blame { rows, omitted: omitted as u64, reason, notes: Vec::new() })
    }

    fn is_stale(&mut self, _query: &Query) -> Option<bool> {
        None
    }

    fn log(&self) -> Option<PathBuf> {
        (self.recordings.len() > 1).then(|| self.log.clone())
    }

    fn warnings(&self) -> Vec<String> {
        self.recordings
            .iter()
            .filter(|recording| recording.path.is_none())
            .map(|recording| format!("process {}: no file", recording.pid))
            .collect()
    }
}
