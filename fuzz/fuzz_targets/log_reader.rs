//! The reader of access logs: whatever is in the file, there is a value or an error, in bounded time and memory.
//!
//! A log is mostly zeros, and its header has a checksum; so the input is a list of words to put into a good log: 4 bytes say where,
//! 8 bytes what. An odd place asks for the word to be combined with what is there, so that one bit can change.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shmem_log::*;
use std::ffi::CString;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::sync::LazyLock;

static GOOD: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("good.shmem");
    let name = CString::new(path.as_os_str().as_bytes()).expect("no zero in it");
    let log = Log::create_or_join(&name, layout::MIN_SIZE, None).expect("a log");
    let info = RecordingInfo { uuid: [1; 16], pid: 1, start_time: 1, start_wallclock_ns: 1, executable: b"/bin/true", name: b"true" };
    let recording = log.register_recording(&info).expect("room");
    let object = log.register_object(&ObjectInfo { dev: 1, ino: 1, name: b"memory", size: 4096 }).expect("room");
    let mapping = MappingInfo { recording, object, address: 4096, length: 4096, offset: 0, from_bbcount: 1 };
    log.register_mapping(&mapping).expect("room");
    let mut writer = Writer::new(&log, recording).expect("ours");
    let site = writer.register_site(1, Kind::Write, 8).expect("room");
    for n in 0..600 {
        let token = writer.begin(Kind::Write, object, n * 8, 8);
        writer.commit(token, site, n, n);
        let token = writer.begin(Kind::ReadWrite, object, n * 8, 20);
        writer.commit_bytes(token, Origin::Pc { pc: 2, by_kernel: true }, n, &[1; 20], &[2; 20]);
    }
    std::fs::read(path).expect("the log")
});

fuzz_target!(|data: &[u8]| {
    let mut file = GOOD.clone();
    for patch in data.chunks_exact(12) {
        let (place, word) = patch.split_at(4);
        let place = u32::from_le_bytes(place.try_into().expect("4 bytes"));
        let at = (place >> 1) as usize * 8 % file.len();
        for (to, from) in file[at..].iter_mut().zip(word) {
            *to = if place & 1 == 1 { *to ^ *from } else { *from };
        }
    }
    let mut on_disk = tempfile::NamedTempFile::new_in("/dev/shm").expect("a file");
    on_disk.write_all(&file).expect("room");
    let Ok(reader) = Reader::open(on_disk.path()) else { return };
    let mut cursor = reader.cursor();
    let mut records = 0usize;
    loop {
        match cursor.next() {
            Ok(Some(access)) => {
                records += 1;
                assert!(access.len >= 1 && access.value().len() == access.len as usize);
                assert!(access.lines().count() >= 1);
                let _ = (order(&access, &access), reader.wallclock_ns(access.tsc));
            }
            Ok(None) => break,
            Err(_) => {}
        }
    }
    assert!(records <= reader.blocks().len() * layout::SLOTS_PER_BLOCK);
    let _ = reader.total_counts();
});
