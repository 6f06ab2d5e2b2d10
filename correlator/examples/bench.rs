//! Measures the index and its queries on a synthetic log: `cargo xtask bench correlate` runs this.
//!
//! ```text
//!   bench [--accesses N] [--processes P] [--dir DIR] [--json] [--keep]
//! ```
//!
//! The log is written by the real writer in several processes at once. A tenth of all accesses goes to one word, as with a lock or a
//! counter; the others spread over 16,384 lines, near ones more often. The radix sort that the build time is compared with is a plain
//! one, by bytes, of as many random 8-byte keys, in one thread.
use correlator::{BlameQuery, Correlator, Kind, Moment, Options, RecordingIndex, Target};
use shmem_log::{Log, MappingInfo, ObjectInfo, RecordingInfo, Writer};
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

const LINES: u64 = 16_384;
const BASE: u64 = 0x7f00_0000_0000;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

fn place(random: &mut Random) -> u64 {
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

/// One process's part.
fn write(path: &Path, number: u64, accesses: u64) {
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

/// Milliseconds for a plain radix sort of so many keys.
fn radix_sort_ms(count: usize) -> f64 {
    let mut random = Random(88_172_645_463_325_252);
    let mut keys: Vec<u64> = (0..count).map(|_| random.next()).collect();
    let mut other = vec![0u64; count];
    let start = Instant::now();
    for byte in 0..8 {
        let mut places = [0usize; 256];
        keys.iter().for_each(|key| places[(key >> (byte * 8) & 0xff) as usize] += 1);
        let mut sum = 0;
        places.iter_mut().for_each(|place| sum += std::mem::replace(place, sum));
        for key in &keys {
            let place = &mut places[(key >> (byte * 8) & 0xff) as usize];
            other[*place] = *key;
            *place += 1;
        }
        std::mem::swap(&mut keys, &mut other);
    }
    let ms = start.elapsed().as_secs_f64() * 1e3;
    assert!(keys.is_sorted());
    ms
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let value = |name: &str| arguments.iter().position(|argument| argument == name).and_then(|at| arguments.get(at + 1));
    let number = |name: &str, default: u64| value(name).map_or(default, |text| text.parse().expect("a number"));
    let accesses = number("--accesses", 10_000_000);
    let processes = number("--processes", 4).max(1);
    if let Some(path) = value("--write") {
        return write(Path::new(path), number("--number", 0), accesses);
    }
    let dir = value("--dir").map_or_else(std::env::temp_dir, PathBuf::from);
    let path = dir.join(format!("bench-{}.shmem", std::process::id()));
    // 1 1/8 slots an access, and the tables.
    let size = (accesses * 38 + (64 << 20)).next_multiple_of(4096);
    join(&path, size);
    let this = std::env::current_exe().expect("this program");
    let part = |number: u64| accesses / processes + u64::from(number < accesses % processes);
    let children: Vec<_> = (0..processes)
        .map(|number| {
            let (number, part) = (number.to_string(), part(number).to_string());
            Command::new(&this).arg("--write").arg(&path).args(["--number", &number, "--accesses", &part]).spawn().expect("a child")
        })
        .collect();
    for mut child in children {
        assert!(child.wait().expect("a child").success());
    }

    let radix_ms = (0..3).map(|_| radix_sort_ms(accesses as usize)).fold(f64::MAX, f64::min);
    let mut build_ms = f64::MAX;
    for _ in 0..3 {
        let start = Instant::now();
        let uncached = Options { cache: false, ..Options::default() };
        drop(Correlator::open_with(&path, uncached).expect("an index"));
        build_ms = build_ms.min(start.elapsed().as_secs_f64() * 1e3);
    }
    let start = Instant::now();
    let correlator = Correlator::open(&path).expect("an index");
    let build_and_save_ms = start.elapsed().as_secs_f64() * 1e3;
    let index_bytes = correlator.index_bytes();
    let committed = correlator.reader().total_counts().committed;
    assert_eq!(committed, accesses);
    drop(correlator);
    let start = Instant::now();
    let correlator = Correlator::open(&path).expect("an index");
    let open_cached_ms = start.elapsed().as_secs_f64() * 1e3;

    let ask = |writers_only: bool, limit: usize| {
        let mut random = Random(4_101_842_887_655_102_017);
        let mut times: Vec<f64> = (0..4000)
            .map(|_| {
                let recording = RecordingIndex::new((random.next() % processes) as u32).expect("a recording");
                let bbcount = random.next() % (accesses / processes).max(1);
                let address = Target::Address(BASE + place(&mut random));
                let time = Moment::At(correlator::Time { bbcount, pc: 0 });
                let query = BlameQuery { writers_only, limit, ..BlameQuery::new(recording, time, address, 8) };
                let start = Instant::now();
                std::hint::black_box(correlator.blame(&query).expect("an answer"));
                start.elapsed().as_secs_f64() * 1e6
            })
            .collect();
        // The first half warms.
        let warm = &mut times[2000..];
        warm.sort_by(f64::total_cmp);
        (warm[warm.len() / 2], warm[warm.len() * 99 / 100])
    };
    ask(true, 100);
    let (writers_median_us, writers_p99_us) = ask(true, 100);
    let (blame_10_median_us, blame_10_p99_us) = ask(false, 10);
    let (blame_median_us, blame_p99_us) = ask(false, BlameQuery::DEFAULT_LIMIT);
    let figures = [
        ("accesses", accesses as f64),
        ("radix_sort_ms", radix_ms),
        ("index_ms", build_ms),
        ("index_vs_radix_sort", build_ms / radix_ms),
        ("index_and_save_ms", build_and_save_ms),
        ("open_cached_ms", open_cached_ms),
        ("index_bytes_per_access", index_bytes as f64 / accesses as f64),
        ("blame_median_us", blame_median_us),
        ("blame_p99_us", blame_p99_us),
        ("blame_10_rows_median_us", blame_10_median_us),
        ("blame_10_rows_p99_us", blame_10_p99_us),
        ("blame_writers_median_us", writers_median_us),
        ("blame_writers_p99_us", writers_p99_us),
    ];
    if arguments.iter().any(|argument| argument == "--json") {
        println!("{}", serde_json::Value::from_iter(figures));
    } else {
        figures.iter().for_each(|(name, figure)| println!("{name:24} {figure:14.2}"));
    }
    if !arguments.iter().any(|argument| argument == "--keep") {
        let index = PathBuf::from(format!("{}.index", path.display()));
        // Leftovers of a benchmark do no harm.
        let _ = (std::fs::remove_file(&path), std::fs::remove_file(index));
    }
}
