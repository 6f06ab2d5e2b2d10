//! The file of a log's index: whatever is in it, answers are those of an index built anew, in bounded time and memory.
//!
//! Tables have a checksum, so the input is put into a good file as a list of bytes to change, 4 for where and 1 for what; if the
//! first byte is odd, the checksum is made right again, so that what is behind it is reached.
#![no_main]

use correlator::{Correlator, Options};
use libfuzzer_sys::fuzz_target;
use shmem_log::*;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::LazyLock;

struct Good {
    _dir: tempfile::TempDir,
    log: PathBuf,
    index: Vec<u8>,
    object: ObjectIndex,
    rows: usize,
}

static GOOD: LazyLock<Good> = LazyLock::new(|| {
    let dir = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let path = dir.path().join("good.shmem");
    let name = CString::new(path.as_os_str().as_bytes()).expect("no zero in it");
    let log = Log::create_or_join(&name, layout::MIN_SIZE, None).expect("a log");
    let info = RecordingInfo { uuid: [1; 16], pid: 1, start_time: 1, start_wallclock_ns: 1, executable: b"/bin/true", name: b"true" };
    let recording = log.register_recording(&info).expect("room");
    let object = log.register_object(&ObjectInfo { dev: 1, ino: 1, name: b"memory", size: 4096 }).expect("room");
    let mut writer = Writer::new(&log, recording).expect("ours");
    let site = writer.register_site(1, Kind::Write, 8).expect("room");
    for n in 0..600 {
        let token = writer.begin(Kind::Write, object, n % 32 * 8, 8);
        writer.commit(token, site, n, n);
    }
    writer.finish();
    let rows = rows(&path, object);
    let index = std::fs::read(dir.path().join("good.shmem.index")).expect("an index");
    Good { log: path, _dir: dir, index, object, rows }
});

fn rows(log: &std::path::Path, object: ObjectIndex) -> usize {
    let correlator = Correlator::open_with(log, Options::default()).expect("a log");
    correlator.history(object, 0, 256, 10_000).expect("an answer").rows.len()
}

fuzz_target!(|data: &[u8]| {
    let Some((how, data)) = data.split_first() else { return };
    let mut index = GOOD.index.clone();
    for patch in data.chunks_exact(5) {
        let at = u32::from_le_bytes(patch[..4].try_into().expect("4 bytes")) as usize % index.len();
        index[at] = patch[4];
    }
    let len = u64::from_le_bytes(index[8..16].try_into().expect("8 bytes")) as usize;
    if how & 1 == 1
        && let Some(tables) = index.get(24..24usize.saturating_add(len))
    {
        let sum = xxhash_rust::xxh3::xxh3_64(tables);
        index[16..24].copy_from_slice(&sum.to_le_bytes());
    }
    let mut name = GOOD.log.clone().into_os_string();
    name.push(".index");
    std::fs::write(name, &index).expect("room");
    let found = rows(&GOOD.log, GOOD.object);
    // An index whose checksum was forged may lie; all others give the right answer.
    assert!(how & 1 == 1 || found == GOOD.rows);
});
