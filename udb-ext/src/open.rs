//! The one place where the server meets the replayer and the correlator.

use std::path::Path;

use replayer::{Replay, Timeline};

use crate::correlate::{Correlate, Recording};
use crate::correlated::related;
use crate::wallclock::Wallclock;

/// What a server serves.
pub struct Opened {
    pub timeline: Box<dyn Timeline>,
    pub correlate: Box<dyn Correlate>,
    pub wallclock: Option<Wallclock>,
    pub origin: Origin,
}

/// How the recorded process was started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// Its name first.
    pub arguments: Vec<Vec<u8>>,
    pub working_directory: Vec<u8>,
}

/// Opens a recording and looks for the log and the recordings that belong to it.
pub fn open(path: &Path) -> Result<Opened, String> {
    let replay = Replay::open(path).map_err(|error| with_name(path, &error.to_string()))?;
    let meta = replay.metadata();
    let wallclock = Wallclock::new(meta.start_wallclock_ns, meta.end_wallclock_ns, meta.start_timestamp, meta.end_timestamp);
    let origin = Origin { arguments: meta.args.clone(), working_directory: meta.working_directory.clone() };
    let loaded = Recording { uuid: replay.recording_uuid(), pid: replay.pid(), path: Some(path.to_path_buf()) };
    Ok(Opened { timeline: Box::new(replay), correlate: related(path, loaded), wallclock, origin })
}

/// Not every error names the file that it is about.
fn with_name(path: &Path, error: &str) -> String {
    let name = path.display().to_string();
    if error.starts_with(&name) { error.to_owned() } else { format!("{name}: {error}") }
}
