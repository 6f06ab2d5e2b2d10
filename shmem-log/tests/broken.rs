//! Files that are no logs, or logs that somebody broke: each is an error that names file, field, expected and found, and none is
//! a crash.
mod common;
use common::*;
use proptest::prelude::*;
use shmem_log::layout::*;
use shmem_log::*;
use std::fs;
use std::os::unix::fs::FileExt;

/// A small log with two recordings, all tables in use and every shape of record.
fn sample() -> TestLog {
    let test = TestLog::new();
    let log = test.join(MIN_SIZE);
    let o = object(&log);
    let sites = [Kind::Read, Kind::Write, Kind::ReadWrite].map(|kind| log.register_site(0x1000, kind, 8).unwrap());
    for pid in 1..3 {
        let mut w = writer(&log, pid);
        let recording = w.recording().unwrap();
        let info = MappingInfo { recording, object: o, address: 0x1000, length: 0x1000, offset: 0, from_bbcount: 1 };
        log.register_mapping(&info).unwrap();
        for i in 0..300 {
            let t = w.begin(Kind::Read, o, i * 8, 8);
            w.commit(t, sites[0], i, i);
            let t = w.begin(Kind::Write, o, i * 8, 8);
            w.commit(t, sites[1], i, i);
            let t = w.begin(Kind::ReadWrite, o, i * 8, 8);
            w.commit_rw(t, sites[2], i, i, i);
            let t = w.begin(Kind::Write, o, i, 100);
            w.commit_bytes(t, Origin::Pc { pc: 1, by_kernel: true }, i, &[], &[1; 100]);
        }
        w.note_time(300);
        if pid == 1 {
            w.finish();
            log.set_recording_ended(recording, &RecordingEnd { bbcount: 1, wallclock_ns: 1 });
        }
    }
    test
}

/// Reads all there is, as a tool would.
fn read_all(test: &TestLog) -> Result<u64, ReadError> {
    let reader = Reader::open(&test.path)?;
    let mut cursor = reader.cursor();
    let mut count = 0;
    let mut first = None;
    loop {
        match cursor.next() {
            Ok(Some(access)) => {
                count += 1;
                std::hint::black_box((access.lines().count(), access.value().len()));
                let _ = (order(&access, &access), access.is_contended(), reader.wallclock_ns(access.tsc));
            }
            Ok(None) => break,
            Err(error) => first = first.or(Some(error)),
        }
    }
    let _ = reader.total_counts();
    first.map_or(Ok(count), Err)
}

fn poke(test: &TestLog, offset: u64, bytes: &[u8]) {
    fs::File::options().write(true).open(&test.path).unwrap().write_all_at(bytes, offset).unwrap();
}

fn peek(test: &TestLog, offset: u64) -> u64 {
    let mut bytes = [0; 8];
    fs::File::open(&test.path).unwrap().read_exact_at(&mut bytes, offset).unwrap();
    u64::from_le_bytes(bytes)
}

/// Breaks a fresh sample and checks that the message names the file and contains all of `words`.
fn assert_error(offset: u64, bytes: &[u8], words: &[&str]) {
    let test = sample();
    poke(&test, offset, bytes);
    let message = match read_all(&test) {
        Ok(count) => panic!("{words:?}: no error, {count} records"),
        Err(error) => error.to_string(),
    };
    assert!(message.contains(&test.path.display().to_string()), "{message}");
    for word in words.iter().chain(&["expected", "found"]) {
        assert!(message.contains(word), "{message:?} should say {word:?}");
    }
}

#[test]
fn the_sample_is_whole() {
    assert_eq!(read_all(&sample()).unwrap(), 2 * 4 * 300);
}

#[test]
fn short_files_are_errors_at_every_length() {
    let test = sample();
    let whole = fs::read(&test.path).unwrap();
    let layout = *test.read().layout();
    let ends = layout.sections.iter().flat_map(|section| [section.offset - 8, section.offset, section.offset + 8]);
    for length in (0..4200).step_by(8).chain([1, 7, 4095, 4097]).chain(ends).chain([whole.len() as u64 - 4096, whole.len() as u64 - 1]) {
        fs::write(&test.path, &whole[..length as usize]).unwrap();
        let error = Reader::open(&test.path).map(|_| ()).expect_err("short").to_string();
        assert!(error.contains("expected") && error.contains(&format!("found {length}")), "{length}: {error}");
    }
    // A length that another log could have: then the header says that it is not this one.
    let mut long = whole.clone();
    long.resize(whole.len() + 4096, 0);
    fs::write(&test.path, &long).unwrap();
    assert!(Reader::open(&test.path).unwrap_err().to_string().contains("file size"));
}

#[test]
fn wrong_headers_are_named() {
    assert_error(HDR_MAGIC, b"ELF", &["magic"]);
    assert_error(HDR_VERSION, &[3], &["version", "expected 0x2, found 0x3"]);
    assert_error(HDR_FILE_SIZE, &[1], &["file size"]);
    assert_error(HDR_KINDS, &[9], &["clock"]);
    assert_error(HDR_UNITS, &[64], &["slot size"]);
    assert_error(HDR_FLAGS, &[1], &["flags"]);
    for section in 0..7 {
        assert_error(HDR_SECTIONS + section * 16, &[255; 8], &["offset of"]);
        assert_error(HDR_SECTIONS + section * 16 + 8, &[255; 8], &["number of"]);
    }
    assert_error(HDR_UUID, &[1, 2, 3], &["checksum"]);
}

#[test]
fn cursors_out_of_range_are_named() {
    assert_error(HDR_CURSOR, &[255; 8], &["cursor"]);
    for cursor in 0..3 {
        assert_error(HDR_CURSOR, &[cursor, 0, 0, 0, 0, 0, 0, 0], &["ticket of a block", &format!("at most the cursor, {cursor}")]);
    }
    assert_error(HDR_RECORDINGS_CURSOR, &[255; 8], &["recordings cursor"]);
    assert_error(HDR_MAPPINGS_CURSOR, &[255; 8], &["mappings cursor"]);
    assert_error(HDR_SITES_CURSOR, &[255; 8], &["sites cursor"]);
}

#[test]
fn broken_tables_are_named() {
    let test = sample();
    let layout = *test.read().layout();
    let recording = layout.recordings().offset;
    assert_error(recording + REC_STATE, &[7], &["state of a recording"]);
    assert_error(recording + REC_LENGTHS, &[255, 255], &["length of an executable"]);
    assert_error(recording + REC_LENGTHS + 4, &[255, 255], &["length of a recording's name"]);
    assert_error(recording + REC_ENDED, &[7], &["end mark"]);
    // As if it had never been written: then the blocks have no owner.
    assert_error(recording + REC_STATE, &[0], &["recording of a", "registered recording"]);
    let object = layout.objects().offset + (u64::from(test.read().objects()[0].index.get()) - 1) * OBJECT_BYTES;
    assert_error(object + OBJ_STATE, &[7], &["state of an object"]);
    assert_error(object + OBJ_KEY, &[7], &["key of an object"]);
    assert_error(object + OBJ_NAME_LEN, &[255], &["length of an object's name"]);
    assert_error(object + OBJ_KEY, &[0; 8], &["object of a", "registered object"]);
    let mapping = layout.mappings().offset;
    assert_error(mapping + MAP_STATE, &[9], &["state of a mapping"]);
    assert_error(mapping + MAP_WHO, &[9], &["recording of a mapping"]);
    assert_error(mapping + MAP_WHO + 4, &[99, 1], &["object of a mapping"]);
    let site = layout.sites().offset;
    assert_error(site + SITE_META + 4, &[9], &["kind of a site"]);
    assert_error(site + SITE_META, &[9], &["length of a short record"]);
    assert_error(site + SITE_META, &[0; 8], &["site of a record"]);
    assert_error(site + SITE_META + 4, &[3], &["shape of a record"]);
}

#[test]
fn broken_blocks_and_records_are_named() {
    let test = sample();
    let layout = *test.read().layout();
    let header = layout.block_headers().offset;
    assert_error(header + BLK_STATE + 3, &[99], &["ticket of a block", "at most the cursor"]);
    assert_error(header + BLK_STATE + 2, &[8], &["ticket of a block", "falls on block 0"]);
    assert_error(header + BLK_STATE, &[STATE_RELEASED as u8 | 3 << 2], &["recording of a block"]);
    assert_error(header + BLK_USED, &[255, 255], &["use of a block"]);
    assert_error(header + BLK_USED, &[5], &["records of a block"]);
    assert_error(header + BLK_USED + 4, &[5], &["records of a block"]);
    let block = layout.blocks().offset;
    assert_error(block + SLOT_COMMIT, &[255, 255, 255, 0x3f], &["site of a record"]);
    assert_error(block + SLOT_COMMIT, &[0; 8], &["records of a block"]);
    assert_error(block + SLOT_WHERE + 6, &[9], &["object of a record"]);
    assert_error(block + SLOT_WHERE, &[61], &["length of a short record"]);
    let long = (0..SLOTS_PER_BLOCK as u64).map(|slot| block + slot * SLOT_BYTES);
    let long = long.into_iter().find(|at| peek(&test, at + SLOT_COMMIT) >> SHAPE_BITS & 3 == SHAPE_LONG).unwrap();
    assert_error(long + SLOT_INTERVAL, &[0, 0], &["length of a long record"]);
    assert_error(long + SLOT_INTERVAL, &[255, 255], &["length of a long record"]);
    assert_error(long + SLOT_INTERVAL + 2, &[7], &["kind of a long record"]);
    assert_error(long + SLOT_INTERVAL + 3, &[0x80], &["head of a long record"]);
    assert_error(long + SLOT_INTERVAL + 4, &[1, 0, 0, 0], &["head of a long record"]);
    assert_error(long + SLOT_BYTES + 8, &[0; 8], &["interval of a line"]);
    assert_error(long + SLOT_WHERE, &[255; 6], &["a"]);
}

/// One broken record costs itself alone.
#[test]
fn the_records_around_a_broken_one_are_read() {
    let test = sample();
    let before = read_all(&test).unwrap();
    let block = test.read().layout().blocks().offset;
    poke(&test, block + SLOT_WHERE + 6, &[9]);
    let reader = test.read();
    let mut cursor = reader.cursor();
    let (mut good, mut bad) = (0, 0);
    loop {
        match cursor.next() {
            Ok(Some(_)) => good += 1,
            Ok(None) => break,
            Err(_) => bad += 1,
        }
    }
    assert_eq!((good, bad), (before - 1, 1));
}

#[test]
fn a_file_that_is_cut_while_it_is_read_is_an_error() {
    let test = sample();
    let mut reader = test.read();
    let whole = fs::metadata(&test.path).unwrap().len();
    let mut buffer = BlockBuffer::default();
    let blocks = reader.blocks().to_vec();
    fs::File::options().write(true).open(&test.path).unwrap().set_len(reader.layout().blocks().offset + 100).unwrap();
    let message = reader.load(&blocks[0], &mut buffer).map(|_| ()).expect_err("cut").to_string();
    assert!(message.contains("blocks") && message.contains(&format!("expected a file of {whole} bytes")), "{message}");
    let mut cursor = reader.cursor();
    assert!(matches!(cursor.next(), Err(ReadError::Truncated { .. })));
    fs::File::options().write(true).open(&test.path).unwrap().set_len(5000).unwrap();
    assert!(matches!(reader.refresh(), Err(ReadError::Truncated { .. })));
}

#[test]
fn what_is_no_file_is_an_error() {
    let test = TestLog::new();
    assert!(matches!(Reader::open(&test.path), Err(ReadError::Io { what: "open", .. })));
    assert!(matches!(Reader::open(test.dir.path()), Err(ReadError::NotAFile { .. })));
    nix::unistd::mkfifo(&test.path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert!(matches!(Reader::open(&test.path), Err(ReadError::NotAFile { .. })), "without waiting for a writer");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever is written over a log, reading it ends, and ends well.
    #[test]
    fn random_damage_never_crashes(damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u64>(), 0..6u8), 1..40)) {
        let test = sample();
        let layout = *test.read().layout();
        for (where_, value, region) in damage {
            let section = match region {
                0 => Section { offset: HDR_CHECKSUM + 8, count: (4096 - HDR_CHECKSUM - 8) / 8 },
                1 => Section { offset: layout.recordings().offset, count: 3 * 1024 / 8 },
                2 => Section { offset: layout.objects().offset, count: 4096 / 8 },
                3 => Section { offset: layout.mappings().offset, count: 1024 / 8 },
                4 => Section { offset: layout.block_headers().offset, count: 8 * 8 },
                _ => Section { offset: layout.blocks().offset, count: 4 * BLOCK_BYTES / 8 },
            };
            let at = section.offset + where_.index(section.count as usize) as u64 * 8;
            // Half of them differ from what is there in few bits, to get past the first check.
            let value = if value & 1 == 0 { peek(&test, at) ^ 1 << (value >> 1 & 63) } else { value };
            poke(&test, at, &value.to_le_bytes());
        }
        let _ = read_all(&test);
    }
}
