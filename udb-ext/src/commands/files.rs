//! The files inside the recording.

use serde::Serialize;

use crate::files::on_disk;
use crate::target::Debuggee;

#[derive(Serialize)]
pub struct Files {
    files: Vec<File>,
}

#[derive(Serialize)]
struct File {
    path: String,
    size: u64,
    /// same, changed, missing
    on_disk: &'static str,
}

pub fn list(debuggee: &Debuggee) -> Files {
    let timeline = debuggee.timeline.as_ref();
    let files = timeline
        .files()
        .into_iter()
        .map(|file| File { on_disk: on_disk(&file.path, file.size, timeline).label(), path: file.path, size: file.size })
        .collect();
    Files { files }
}
