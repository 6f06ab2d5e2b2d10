//! The log that is measured: written by the real writer, in several processes at once.
//!
//! A tenth of all accesses goes to one word, as with a lock or a counter; the others spread over 16,384 lines, near ones more often.
use shmem_log::{Kind, Log, MappingInfo, ObjectInfo, RecordingInfo, Writer};
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

const LINES: u64 = 16_384;
pub const BASE: u64 = 0x7f00_0000_0000;

pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

pub fn place(random: &mut Random) -> u64 {
    let bits = random.next();
    if bits.is_multiple_of(10) {
        return 128;
    }
    // The smaller of two is nearer to 0 more often.
    let line = (bits >> 8 & (LINES - 1)).min(bits >> 24 & (LINES - 1));
    line * 64 + (bits >> 40 & 7) * 8
}

fn join(path: &Path, size: u64) -> Log {
    let path = CString::new(path.as_os_str().as_bytes()).expect("a path without NUL");
    Log::create_or_join(&path, size, None).expect("a log")
}

/// Makes a log of so many accesses, by processes that each are this program again with `--write`.
pub fn generate(path: &Path, accesses: u64, processes: u64) {
    // 1 1/8 slots an access, and the tables.
    join(path, (accesses * 38 + (64 << 20)).next_multiple_of(4096));
    let this = std::env::current_exe().expect("this program");
    let part = |number: u64| accesses / processes + u64::from(number < accesses % processes);
    let children: Vec<_> = (0..processes)
        .map(|number| {
            let (number, part) = (number.to_string(), part(number).to_string());
            Command::new(&this).arg("--write").arg(path).args(["--number", &number, "--accesses", &part]).spawn().expect("a child")
        })
        .collect();
    for mut child in children {
        assert!(child.wait().expect("a child").success());
    }
}

/// One process's part.
pub fn write(path: &Path, number: u64, accesses: u64) {
    let log = join(path, 0);
    let object = log.register_object(&ObjectInfo { dev: 1, ino: 1, name: b"/memfd:bench", size: LINES * 64 }).expect("room");
    let info = RecordingInfo {
        uuid: [number as u8 + 1; 16],
        pid: 1000 + number as u32,
        start_time: 0,
        start_wallclock_ns: 0,
        executable: b"/usr/bin/bench",
        name: b"bench",
    };
    let recording = log.register_recording(&info).expect("room");
    log.register_mapping(&MappingInfo { recording, object, address: BASE, length: LINES * 64, offset: 0, from_bbcount: 1 }).expect("room");
    let mut writer = Writer::new(&log, recording).expect("a writer");
    let sites = [Kind::Read, Kind::Write, Kind::ReadWrite].map(|kind| writer.register_site(0x1000 + kind as u64, kind, 8).expect("room"));
    let mut random = Random(0x9E37_79B9_7F4A_7C15 ^ (number + 1) << 32);
    for access in 0..accesses {
        let offset = place(&mut random);
        let value = access << 8 | number;
        match random.next() % 8 {
            0..4 => {
                let token = writer.begin(Kind::Read, object, offset, 8);
                writer.commit(token, sites[0], access, value);
            }
            4..7 => {
                let token = writer.begin(Kind::Write, object, offset, 8);
                writer.commit(token, sites[1], access, value);
            }
            _ => {
                let token = writer.begin(Kind::ReadWrite, object, offset, 8);
                writer.commit_rw(token, sites[2], access, value, value + 1);
            }
        }
    }
    writer.finish();
    assert_eq!(writer.dropped(), 0);
}
