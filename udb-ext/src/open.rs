//! The one place where the server meets the replayer and the correlator.

use std::path::Path;

use replayer::{Replay, Timeline};

use crate::correlate::{Correlate, NoLog, Recording};

/// What a server serves.
pub struct Opened {
    pub timeline: Box<dyn Timeline>,
    pub correlate: Box<dyn Correlate>,
}

/// Opens a recording and looks for the log and the recordings that belong to it.
pub fn open(path: &Path) -> Result<Opened, String> {
    let timeline = timeline(path)?;
    let loaded = Recording { uuid: timeline.recording_uuid(), pid: timeline.pid(), path: path.to_path_buf() };
    Ok(Opened { timeline, correlate: Box::new(NoLog { loaded }) })
}

fn timeline(path: &Path) -> Result<Box<dyn Timeline>, String> {
    let replay = Replay::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(Box::new(replay))
}
