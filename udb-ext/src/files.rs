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
        match self.recorded_name(path).and_then(|name| timeline.file_contents(name)) {
            Some(contents) => Ok(contents),
            None => read_regular(path),
        }
    }

    /// Under which name the recording holds a file. It knows files by the names that the kernel gives them, gdb by those that the
    /// dynamic linker uses: symbolic links lie between, which are not recorded.
    fn recorded_name(&self, path: &str) -> Option<&str> {
        if let Some((name, _)) = self.recorded.get_key_value(path) {
            return Some(name);
        }
        let base = path.rsplit('/').next()?;
        // `libexpat.so.1` is a link to `libexpat.so.1.8.10`.
        let is_version = |name: &str| base.contains(".so") && name.strip_prefix(base).is_some_and(|rest| rest.starts_with('.'));
        let named = |accepts: &dyn Fn(&str) -> bool| {
            let mut found = self.recorded.keys().filter(|name| name.rsplit('/').next().is_some_and(accepts));
            // Two of them: it may be either.
            found.next().filter(|_| found.next().is_none()).map(String::as_str)
        };
        named(&|name| name == base).or_else(|| named(&is_version))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;

    #[test]
    fn links_between_names_are_guessed_where_there_is_one_answer() {
        let mut files = RecordedFiles::new(fake::opened().timeline.as_ref(), Origin::default());
        let names = ["/usr/lib/x/libc.so.6", "/usr/lib/libexpat.so.1.8.10", "/a/tool", "/b/tool"];
        files.recorded = names.map(|name| (name.to_owned(), 1)).into();
        for (asked, found) in [
            ("/usr/lib/x/libc.so.6", Some("/usr/lib/x/libc.so.6")),
            ("/lib/x/libc.so.6", Some("/usr/lib/x/libc.so.6")),
            ("/lib/libexpat.so.1", Some("/usr/lib/libexpat.so.1.8.10")),
            ("/b/tool", Some("/b/tool")),
            ("/c/tool", None),
            ("/lib/libc.so.6.debug", None),
            ("/lib/libc", None),
        ] {
            assert_eq!(files.recorded_name(asked), found, "{asked}");
        }
    }

    #[test]
    fn the_process_folder_is_the_recorded_one() {
        let mut opened = fake::opened();
        let origin = Origin { arguments: vec![b"prog".to_vec(), b"-x".to_vec()], working_directory: b"/home/me".to_vec() };
        let files = RecordedFiles::new(opened.timeline.as_ref(), origin);
        let timeline = opened.timeline.as_mut();
        assert_eq!(files.read("/proc/1/cmdline", timeline).unwrap(), b"prog\0-x\0");
        let maps = files.read("/proc/1/task/1/maps", timeline).unwrap();
        assert!(maps.starts_with(b"400000-401000 r-xp 00000000 00:00 0 /recorded/program\n"), "{}", String::from_utf8_lossy(&maps));
        assert_eq!(files.link("/proc/1/exe", timeline).unwrap(), b"/recorded/program");
        assert_eq!(files.link("/proc/1/cwd", timeline).unwrap(), b"/home/me");
        for other in ["/proc/1/mem", "/proc/2/maps", "/proc/self/maps"] {
            assert!(files.read(other, timeline).is_err() && files.link(other, timeline).is_err(), "{other}");
        }
    }
}
