//! The files that gdb reads for symbols: out of the recording where it holds them, else from this machine.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::io;
use std::path::Path;
use std::rc::Rc;

use replayer::Timeline;

use crate::open::Origin;

/// Executables and libraries are this big at most; anything larger is not a file gdb reads for symbols.
const MAX_FILE_SIZE: u64 = 1 << 32;

/// How the file on this machine compares with the recorded one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnDisk {
    Same,
    Changed,
    Missing,
}

impl OnDisk {
    pub fn label(self) -> &'static str {
        match self {
            OnDisk::Same => "same",
            OnDisk::Changed => "changed",
            OnDisk::Missing => "missing",
        }
    }
}

/// Open files by descriptor, over the recording's and the machine's.
pub struct RecordedFiles {
    /// Sizes by path.
    recorded: HashMap<String, u64>,
    origin: Origin,
    open: BTreeMap<u32, Rc<[u8]>>,
    next: u32,
}

impl RecordedFiles {
    pub fn new(timeline: &dyn Timeline, origin: Origin) -> Self {
        let recorded = timeline.files().into_iter().map(|file| (file.path, file.size)).collect();
        RecordedFiles { recorded, origin, open: BTreeMap::new(), next: 3 }
    }

    pub fn open(&mut self, path: &str, timeline: &mut dyn Timeline) -> io::Result<u32> {
        let contents = self.read(path, timeline)?;
        let descriptor = self.next;
        self.next += 1;
        self.open.insert(descriptor, contents.into());
        Ok(descriptor)
    }

    /// A whole file.
    pub fn read(&self, path: &str, timeline: &mut dyn Timeline) -> io::Result<Vec<u8>> {
        if path.starts_with("/proc/") {
            // Whatever has that process number on this machine now is not the recorded process.
            return self.proc_file(path, timeline).ok_or(io::ErrorKind::NotFound.into());
        }
        match self.recorded.contains_key(path).then(|| timeline.file_contents(path)).flatten() {
            Some(contents) => Ok(contents),
            None => read_regular(path),
        }
    }

    /// Where a symbolic link leads.
    pub fn link(&self, path: &str, timeline: &dyn Timeline) -> io::Result<Vec<u8>> {
        if path.starts_with("/proc/") {
            let target = match in_proc(path, timeline) {
                Some("exe") => timeline.executable().into_bytes(),
                Some("cwd") => self.origin.working_directory.clone(),
                _ => Vec::new(),
            };
            return if target.is_empty() { Err(io::ErrorKind::NotFound.into()) } else { Ok(target) };
        }
        Ok(std::fs::read_link(path)?.into_os_string().into_encoded_bytes())
    }

    /// The files under `/proc` that gdb reads, from the recording.
    fn proc_file(&self, path: &str, timeline: &mut dyn Timeline) -> Option<Vec<u8>> {
        match in_proc(path, timeline)? {
            "maps" => maps(timeline),
            "cmdline" => Some(self.origin.arguments.iter().flat_map(|word| word.iter().chain(&[0])).copied().collect()),
            _ => None,
        }
    }

    pub fn close(&mut self, descriptor: u32) -> bool {
        self.open.remove(&descriptor).is_some()
    }

    pub fn contents(&self, descriptor: u32) -> Option<&[u8]> {
        self.open.get(&descriptor).map(|contents| &contents[..])
    }
}

/// Whether the file on this machine is the one that was recorded.
pub fn on_disk(path: &str, size: u64, timeline: &dyn Timeline) -> OnDisk {
    let Ok(metadata) = Path::new(path).metadata() else {
        return OnDisk::Missing;
    };
    if metadata.len() != size {
        return OnDisk::Changed;
    }
    match (read_regular(path), timeline.file_contents(path)) {
        (Ok(here), Some(recorded)) if here == recorded => OnDisk::Same,
        (Ok(_), _) => OnDisk::Changed,
        (Err(_), _) => OnDisk::Missing,
    }
}

/// What follows the recorded process's own folder in `/proc`.
fn in_proc<'a>(path: &'a str, timeline: &dyn Timeline) -> Option<&'a str> {
    let pid = timeline.pid();
    let inside = path.strip_prefix(&format!("/proc/{pid}/"))?;
    Some(inside.strip_prefix(&format!("task/{pid}/")).unwrap_or(inside))
}

/// `/proc/PID/maps`, from the recorded mappings.
fn maps(timeline: &mut dyn Timeline) -> Option<Vec<u8>> {
    let mut text = String::new();
    for mapping in timeline.mappings().ok()? {
        let right = |bit: u32, letter: char| if mapping.prot & bit != 0 { letter } else { '-' };
        let sharing = if mapping.shared { 's' } else { 'p' };
        let (read, write, execute) = (right(1, 'r'), right(2, 'w'), right(4, 'x'));
        let _ = writeln!(
            text,
            "{:x}-{:x} {read}{write}{execute}{sharing} {:08x} 00:00 0 {}",
            mapping.start, mapping.end, mapping.offset, mapping.name
        );
    }
    Some(text.into_bytes())
}

fn read_regular(path: &str) -> io::Result<Vec<u8>> {
    let metadata = Path::new(path).metadata()?;
    if !metadata.is_file() || metadata.len() > MAX_FILE_SIZE {
        return Err(io::ErrorKind::NotFound.into());
    }
    std::fs::read(path)
}
