//! The one place where the server meets the replayer and the correlator.

use std::path::Path;

use replayer::Timeline;

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
    Err(format!("{}: this build of udb-server has no replayer", path.display()))
}
