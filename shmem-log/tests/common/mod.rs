//! What the tests share: a log in a directory of its own, and short ways to write to it.
#![allow(dead_code)]
pub mod process;

use shmem_log::*;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

pub struct TestLog {
    pub dir: tempfile::TempDir,
    pub path: PathBuf,
}

impl TestLog {
    pub fn new() -> TestLog {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("test.shmem");
        TestLog { dir, path }
    }

    pub fn c_path(&self) -> CString {
        CString::new(self.path.as_os_str().as_bytes()).unwrap()
    }

    pub fn join(&self, size: u64) -> Log {
        Log::create_or_join(&self.c_path(), size, None).unwrap()
    }

    pub fn read(&self) -> Reader {
        Reader::open(&self.path).unwrap()
    }
}

pub fn info(pid: u32) -> RecordingInfo<'static> {
    RecordingInfo {
        uuid: [pid as u8; 16],
        pid,
        start_time: 1000 + u64::from(pid),
        start_wallclock_ns: 1_700_000_000_000_000_000,
        executable: b"/usr/bin/program",
        name: b"program",
    }
}

pub fn writer(log: &Log, pid: u32) -> Writer {
    Writer::new(log, log.register_recording(&info(pid)).unwrap()).unwrap()
}

pub fn object(log: &Log) -> ObjectIndex {
    log.register_object(&ObjectInfo { dev: 1, ino: 77, name: b"/memfd:test", size: 1 << 20 }).unwrap()
}

/// Everything in the log as `f` sees it, by position.
pub fn all<T>(reader: &Reader, mut f: impl FnMut(&Access) -> T) -> Vec<T> {
    let mut cursor = reader.cursor();
    let mut result = Vec::new();
    while let Some(access) = cursor.next().unwrap() {
        result.push(f(&access));
    }
    result
}

pub fn number(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

/// Reads every record on its own, and asserts that it is what reading its block shows.
pub fn assert_read_singly(reader: &Reader) {
    let mut buffer = BlockBuffer::default();
    for info in reader.blocks() {
        let Some(view) = reader.load(info, &mut buffer).unwrap() else { continue };
        for access in view.iter().map(Result::unwrap) {
            let position = access.position;
            let mut bytes = vec![0; layout::SLOT_BYTES as usize];
            reader.read_slots(position.ticket(), position.slot(), &mut bytes).unwrap();
            let head = RecordHead::of(&bytes, 0);
            bytes.resize(head.slots().unwrap() as usize * layout::SLOT_BYTES as usize, 0);
            reader.read_slots(position.ticket(), position.slot(), &mut bytes).unwrap();
            assert!(reader.is_current(position.ticket()).unwrap());
            let (recording, sequence, times) = (access.recording, access.sequence, info.times(view.marks()));
            let context = RecordContext { position, recording, sequence, times };
            let single = reader.decode(&context, &bytes).unwrap();
            assert_eq!(format!("{single:?}"), format!("{access:?}"));
            let Access { object, offset, len, kind, .. } = access;
            assert_eq!(reader.extent(&head), Some(Extent { object, offset, len, kind }));
            assert!(head.intervals(&bytes).eq(access.lines().map(|line| line.interval)));
            bytes.pop();
            assert!(reader.decode(&context, &bytes).unwrap_err().to_string().contains("end of a record"));
        }
    }
}
