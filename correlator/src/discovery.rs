//! From one file to all that belong to it.
//!
//! Files are matched by the UUIDs inside them, never by name: recordings and log may be renamed, as long as they keep their
//! extensions and stay in one directory. Strangers in that directory do not disturb; a file that cannot be read, two copies of
//! one recording and a recording that the log knows but the directory lacks are warnings, not errors.
use crate::error::Error;
use recording::{Metadata, quick_metadata};
use shmem_log::layout::{self, HDR_MAGIC, HDR_UUID};
use shmem_log::{Reader, RecordingIndex};
use std::fmt;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// A recording that takes part in the log, and its file if there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundRecording {
    /// Its number as an inferior, from 1.
    pub inferior: u32,
    /// Its number in the log.
    pub index: RecordingIndex,
    pub uuid: [u8; 16],
    pub pid: u32,
    /// What the recorder calls it, usually the program's name.
    pub name: String,
    /// None if its file is not in the directory.
    pub path: Option<PathBuf>,
}

/// Something about the directory that the user should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// Two files hold the same recording; the first is used.
    Duplicate { used: PathBuf, ignored: PathBuf },
    /// The same for the log.
    DuplicateLog { used: PathBuf, ignored: PathBuf },
    /// The log knows a recording whose file is not here.
    Missing { pid: u32, name: String, uuid: [u8; 16] },
    /// A recording says that it wrote to this log, which does not know it.
    Unknown { path: PathBuf },
    /// A file with the right extension that cannot be read. It may or may not belong here.
    Unreadable { path: PathBuf, error: String },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warning::Duplicate { used, ignored } => {
                write!(f, "{}: holds the same recording as {}, which is used", ignored.display(), used.display())
            }
            Warning::DuplicateLog { used, ignored } => {
                write!(f, "{}: is a copy of the access log {}, which is used", ignored.display(), used.display())
            }
            Warning::Missing { pid, name, uuid } => {
                write!(f, "recording of {name} (process {pid}, UUID {}): not in the log's directory", uuid_text(uuid))
            }
            Warning::Unknown { path } => {
                write!(f, "{}: says that it wrote to the access log, which does not know it", path.display())
            }
            Warning::Unreadable { path, error } => write!(f, "{}: skipped: {error}", path.display()),
        }
    }
}

/// The files that belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Discovery {
    /// None if there is no log, which is only so if a recording without one was asked for.
    pub log: Option<PathBuf>,
    /// By inferior. Those whose files are missing come last and keep their numbers free of gaps.
    pub recordings: Vec<FoundRecording>,
    pub warnings: Vec<Warning>,
}

impl Discovery {
    /// What belongs to `path`, a recording or a log.
    ///
    /// The recording given is inferior 1, the others follow in the order of the log's registry. From a log they all do. A recording
    /// whose log is nowhere to be found is an error ([`Error::LogNotFound`]); so is one that has none ([`Error::NoLog`]).
    pub fn from_file(path: impl AsRef<Path>) -> Result<Discovery, Error> {
        let path = path.as_ref();
        match extension(path) {
            Some("undo") => Discovery::from_recording(path),
            Some("shmem") => Discovery::from_log(path),
            other => Err(Error::Extension { path: path.into(), found: other.map_or("no extension".into(), |found| format!(".{found}")) }),
        }
    }

    fn from_recording(path: &Path) -> Result<Discovery, Error> {
        let loaded = quick_metadata(path)?;
        if loaded.log_uuid == [0; 16] {
            return Err(Error::NoLog { path: path.into() });
        }
        let directory = directory_of(path);
        let mut warnings = Vec::new();
        let mut log: Option<PathBuf> = None;
        for candidate in listed(&directory, "shmem")?.into_iter().filter(|path| log_uuid(path) == Some(loaded.log_uuid)) {
            match &log {
                Some(used) => warnings.push(Warning::DuplicateLog { used: used.clone(), ignored: candidate }),
                None => log = Some(candidate),
            }
        }
        let Some(log) = log else {
            return Err(Error::LogNotFound { path: path.into(), directory, wanted: uuid_text(&loaded.log_uuid) });
        };
        let reader = Reader::open(&log)?;
        collect(log, &reader, Some((path, loaded)), warnings)
    }

    fn from_log(path: &Path) -> Result<Discovery, Error> {
        collect(path.into(), &Reader::open(path)?, None, Vec::new())
    }

    /// The recording with this number as an inferior.
    pub fn inferior(&self, number: u32) -> Option<&FoundRecording> {
        self.recordings.iter().find(|recording| recording.inferior == number)
    }

    /// The recording with this number in the log.
    pub fn by_index(&self, index: RecordingIndex) -> Option<&FoundRecording> {
        self.recordings.iter().find(|recording| recording.index == index)
    }
}

fn collect(log: PathBuf, reader: &Reader, loaded: Option<(&Path, Metadata)>, mut warnings: Vec<Warning>) -> Result<Discovery, Error> {
    let directory = directory_of(&log);
    let loaded_uuid = loaded.as_ref().map(|(_, metadata)| metadata.uuid);
    // The file that was asked for stands first, so that it is the one used of several copies.
    let mut files: Vec<(PathBuf, Metadata)> = loaded.map(|(path, metadata)| (path.to_owned(), metadata)).into_iter().collect();
    for path in listed(&directory, "undo")? {
        if files.first().is_some_and(|(first, _)| same_file(first, &path)) {
            continue;
        }
        match quick_metadata(&path) {
            Ok(metadata) if metadata.log_uuid != reader.uuid() => {}
            Ok(metadata) => match files.iter().find(|(_, other)| other.uuid == metadata.uuid) {
                Some((used, _)) => warnings.push(Warning::Duplicate { used: used.clone(), ignored: path }),
                None => files.push((path, metadata)),
            },
            Err(error) => warnings.push(Warning::Unreadable { path, error: error.to_string() }),
        }
    }
    let mut recordings = Vec::new();
    for entry in reader.recordings() {
        let file = files.iter().position(|(_, metadata)| metadata.uuid == entry.uuid);
        recordings.push(FoundRecording {
            inferior: 0,
            index: entry.index,
            uuid: entry.uuid,
            pid: entry.pid,
            name: entry.name.clone(),
            path: file.map(|at| files.swap_remove(at).0),
        });
    }
    warnings.extend(files.into_iter().map(|(path, _)| Warning::Unknown { path }));
    for missing in recordings.iter().filter(|recording| recording.path.is_none()) {
        warnings.push(Warning::Missing { pid: missing.pid, name: missing.name.clone(), uuid: missing.uuid });
    }
    recordings.sort_by_key(|recording| (loaded_uuid != Some(recording.uuid), recording.path.is_none(), recording.index));
    for (recording, number) in recordings.iter_mut().zip(1..) {
        recording.inferior = number;
    }
    Ok(Discovery { log: Some(log), recordings, warnings })
}

fn directory_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.into(),
        _ => PathBuf::from("."),
    }
}

fn extension(path: &Path) -> Option<&str> {
    path.extension().and_then(|extension| extension.to_str())
}

fn same_file(a: &Path, b: &Path) -> bool {
    match (a.canonicalize(), b.canonicalize()) {
        (Ok(a), Ok(b)) => a == b,
        _ => a == b,
    }
}

/// Regular files with an extension, by name.
fn listed(directory: &Path, wanted: &str) -> Result<Vec<PathBuf>, Error> {
    let io = |source| Error::Io { path: directory.into(), what: "list the directory", source };
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(io)? {
        let path = entry.map_err(io)?.path();
        if extension(&path) == Some(wanted) && path.is_file() {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// The UUID in the header of a log, which is not looked at any further; None if it is no log.
fn log_uuid(path: &Path) -> Option<[u8; 16]> {
    const MAGIC: std::ops::Range<usize> = HDR_MAGIC as usize..HDR_MAGIC as usize + 8;
    let mut start = [0; HDR_UUID as usize + 16];
    File::open(path).ok()?.read_exact_at(&mut start, 0).ok()?;
    if start[MAGIC] != layout::MAGIC.to_le_bytes() {
        return None;
    }
    start[HDR_UUID as usize..].try_into().ok()
}

/// A UUID as people write it.
pub(crate) fn uuid_text(uuid: &[u8; 16]) -> String {
    let mut text = String::with_capacity(36);
    for (index, byte) in uuid.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}
