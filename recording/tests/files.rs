//! Whole files against the values that they were written from.

mod common;

use common::{Contents, log_of, noise, page, sample, sample_2, sample_2_read};
use proptest::prelude::*;
use recording::*;
use std::io::Write;
use std::path::{Path, PathBuf};
use tempfile::{NamedTempFile, TempDir};

fn file_of(bytes: &[u8]) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    file
}

#[track_caller]
fn assert_round_trip(contents: &Contents, piece: usize) {
    let file = file_of(&contents.write(piece));
    let read = Contents::read(file.path()).unwrap();
    // Not assert_eq: the values are megabytes.
    assert_eq!(read.meta, contents.meta);
    assert_eq!(read.mappings, contents.mappings);
    assert!(read.pages == contents.pages, "pages differ");
    assert!(read.events == contents.events, "events differ");
    assert_eq!(read.sites, contents.sites);
    assert!(read.files == contents.files, "files differ");
}

#[test]
fn a_recording_is_read_as_it_was_written() {
    for piece in [1, 7, 4096, usize::MAX] {
        assert_round_trip(&sample(), piece);
    }
    let file = file_of(&sample().write(usize::MAX));
    assert_eq!(Recording::open(file.path()).unwrap().verify().unwrap(), 8);
}

#[test]
fn empty_sections_are_read_as_empty() {
    let meta = Metadata { events_hash: Some(u64::MAX - 1), ..sample().meta };
    assert_round_trip(&Contents { meta, ..Contents::default() }, 1);
}

/// One byte less than a chunk, a chunk, one byte more, and several; compressible and not.
#[test]
fn chunk_boundaries_are_invisible() {
    for len in [CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 3 * CHUNK_BYTES, 3 * CHUNK_BYTES + 5] {
        for bytes in [noise(len, 11), vec![7; len]] {
            let head = FileHead { path: b"/bin/big".to_vec(), size: len as u64, ..FileHead::default() };
            let contents = Contents { events: bytes.clone(), files: vec![(head, bytes)], ..sample() };
            for piece in [4099, CHUNK_BYTES, usize::MAX] {
                assert_round_trip(&contents, piece);
            }
        }
    }
}

#[test]
fn long_metadata_spans_chunks() {
    let mut contents = sample();
    contents.meta.args = (0..2000).map(|i| noise(1000, i + 1).iter().map(|byte| byte | 1).collect()).collect();
    contents.mappings = (0..40_000)
        .map(|i| Mapping { start: i << 20, end: (i << 20) + 4096, name: vec![b'x'; i as usize % 50], ..Mapping::default() })
        .collect();
    contents.sites = (0..300_000).collect();
    assert_round_trip(&contents, usize::MAX);
}

#[test]
fn many_pages_with_gaps_come_back() {
    let mut contents = sample();
    let pages = (0..1500u64).filter(|i| i % 97 != 3);
    contents.pages = pages.map(|i| (0x7000_0000 + i * PAGE_BYTES as u64, page(i as u8 | 1))).collect();
    assert_round_trip(&contents, usize::MAX);
}

#[test]
fn zero_pages_take_no_room() {
    let write = |pages: &[u8]| {
        let mut writer = FileWriter::new(Vec::new()).unwrap();
        writer.metadata(&sample().meta).unwrap();
        writer.pages(0x10000, pages).unwrap();
        writer.finish().unwrap().0
    };
    assert_eq!(write(&[]), write(&vec![0; 1000 * PAGE_BYTES]));
    let mut bytes = vec![0; 3 * PAGE_BYTES];
    bytes[PAGE_BYTES + 17] = 1;
    let file = file_of(&write(&bytes));
    let mut runs = Vec::new();
    Recording::open(file.path()).unwrap().for_each_page_run(|addr, bytes| runs.push((addr, bytes.len()))).unwrap();
    assert_eq!(runs, [(0x11000, PAGE_BYTES)]);
}

#[test]
fn events_packed_ahead_are_events_like_others() {
    let mut contents = sample();
    let (compressible, noisy) = (vec![7; 300_000], noise(CHUNK_BYTES, 4));
    contents.events = [&compressible, &noisy, &compressible[..8], &noisy[..100]].into_iter().flatten().copied().collect();
    let mut writer = FileWriter::new(Vec::new()).unwrap();
    writer.metadata(&contents.meta).unwrap();
    let mut buffer = vec![0; PACKED_BYTES_MAX];
    for piece in [&compressible[..], &noisy] {
        let packed = pack(piece, &mut buffer).unwrap();
        writer.packed_events(&packed, &buffer[..packed.len()]).unwrap();
    }
    writer.events(&compressible[..8]).unwrap();
    let packed = pack(&noisy[..100], &mut buffer[..100]).unwrap();
    writer.packed_events(&packed, &buffer[..100]).unwrap();
    let file = file_of(&writer.finish().unwrap().0);
    assert!(Recording::open(file.path()).unwrap().events().unwrap() == contents.events);
    assert_eq!(pack(&vec![0; CHUNK_BYTES + 1], &mut buffer), None);
    assert_eq!(pack(&noisy[..100], &mut buffer[..99]), None);
}

#[test]
fn unchanged_pages_come_from_the_file() {
    let file = file_of(&sample_2().write(usize::MAX));
    assert_eq!(Contents::read(file.path()).unwrap(), sample_2_read());
    let without: usize = sample().write(usize::MAX).len();
    assert!(file.as_file().metadata().unwrap().len() < (without + 8 * PAGE_BYTES) as u64, "the file's pages are held twice");
}

#[test]
fn a_file_that_pages_come_from_must_be_there() {
    let mut contents = sample_2();
    contents.files.pop();
    let file = file_of(&contents.write(usize::MAX));
    let recording = Recording::open(file.path()).unwrap();
    for error in [recording.for_each_page_run(|_, _| ()), recording.for_each_page_run_parallel(|_, _| ())].map(Result::unwrap_err) {
        assert!(matches!(&error, Error::NoSuchFile { wanted, .. } if wanted == Path::new("/lib/libm.so.6")), "{error}");
    }
    assert!(recording.verify().is_err());
}

#[test]
fn files_are_found_by_their_path() {
    let contents = sample();
    let file = file_of(&contents.write(usize::MAX));
    let recording = Recording::open(file.path()).unwrap();
    for (head, bytes) in &contents.files {
        let path = PathBuf::from(String::from_utf8(head.path.clone()).unwrap());
        assert!(recording.file_contents(&path).unwrap() == *bytes);
        let mut streamed = Vec::new();
        recording.file_contents_into(&path, &mut streamed).unwrap();
        assert!(streamed == *bytes);
    }
    let error = recording.file_contents("/nowhere").unwrap_err();
    assert!(matches!(error, Error::NoSuchFile { .. }), "{error}");
}

#[test]
fn quick_metadata_reads_little() {
    let mut contents = sample();
    contents.events = noise(20 << 20, 3);
    let mut file = file_of(&contents.write(usize::MAX));
    assert_eq!(quick_metadata(file.path()).unwrap(), contents.meta);
    // Whatever lies between metadata and end does not matter to it.
    use std::io::Seek;
    file.seek(std::io::SeekFrom::Start(1 << 20)).unwrap();
    file.write_all(&noise(10 << 20, 9)).unwrap();
    assert_eq!(quick_metadata(file.path()).unwrap(), contents.meta);
    assert!(Recording::open(file.path()).is_err());
}

#[test]
fn sections_are_written_in_their_order() {
    let contents = sample();
    let mut writer = FileWriter::new(Vec::new()).unwrap();
    let nothing = Some(WriteError::OutOfOrder { wanted: ChunkKind::Pages, last: None });
    assert_eq!(writer.pages(0, &[]).err(), nothing);
    assert!(writer.file_data(b"x").is_err());
    writer.metadata(&contents.meta).unwrap();
    assert!(writer.metadata(&contents.meta).is_err());
    writer.events(&contents.events).unwrap();
    let late = WriteError::OutOfOrder { wanted: ChunkKind::Mappings, last: Some(ChunkKind::Events) };
    assert_eq!(writer.mapping(&contents.mappings[0]).err(), Some(late));
    assert!(writer.pages(0, &[]).is_err());
    assert_eq!(writer.file_data(b"x").err(), Some(WriteError::NoFileHead));
    writer.file(&contents.files[0].0).unwrap();
    assert!(writer.site(1).is_err());
    // Refused calls left no trace.
    let file = file_of(&writer.finish().unwrap().0);
    assert_eq!(Recording::open(file.path()).unwrap().verify().unwrap(), 8);
    assert!(FileWriter::new(Vec::new()).unwrap().finish().is_err(), "no metadata");
}

#[test]
fn too_much_is_refused_when_writing() {
    let mut writer = FileWriter::new(Vec::new()).unwrap();
    let mut meta = sample().meta;
    meta.args = vec![vec![b'x'; MAX_META_BYTES]];
    assert!(matches!(writer.metadata(&meta), Err(WriteError::TooLong { kind: ChunkKind::Meta, .. })));
    writer.metadata(&sample().meta).unwrap();
    assert!(matches!(writer.pages(1, &[0; PAGE_BYTES]), Err(WriteError::NotWholePages(_))));
    assert!(matches!(writer.pages(0, &[0; 5]), Err(WriteError::NotWholePages(_))));
    let head = FileHead { path: vec![b'x'; CHUNK_BYTES], ..FileHead::default() };
    assert!(matches!(writer.file(&head), Err(WriteError::TooLong { kind: ChunkKind::File, .. })));
}

/// Takes so many bytes and no more.
struct FullDisk(usize);

impl Sink for FullDisk {
    type Error = &'static str;

    fn write_all(&mut self, bytes: &[u8]) -> Result<(), Self::Error> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or("no space left on device")?;
        Ok(())
    }
}

#[test]
fn a_full_disk_is_reported_once_and_stays_an_error() {
    let contents = sample();
    let whole = contents.write(usize::MAX).len();
    for room in (0..whole).step_by(61).chain([whole - 1]) {
        let Ok(mut writer) = FileWriter::new(FullDisk(room)) else { continue };
        let mut errors = Vec::new();
        errors.extend(writer.metadata(&contents.meta).err());
        contents.pages.iter().for_each(|(addr, page)| errors.extend(writer.pages(*addr, page).err()));
        errors.extend(writer.events(&contents.events).err());
        errors.extend(writer.file(&contents.files[0].0).err());
        errors.extend(writer.file_data(&contents.files[0].1).err());
        errors.extend(writer.finish().err());
        let smaller = errors.is_empty();
        assert!(smaller || errors[0] == WriteError::Sink("no space left on device"), "{errors:?}");
        assert!(errors.iter().skip(1).all(|error| *error != errors[0]), "{errors:?}");
    }
}

#[test]
fn progress_is_what_the_sink_was_given() {
    struct Counter<'a>(&'a std::cell::Cell<u64>);
    impl Sink for Counter<'_> {
        type Error = std::convert::Infallible;
        fn write_all(&mut self, bytes: &[u8]) -> Result<(), Self::Error> {
            self.0.set(self.0.get() + bytes.len() as u64);
            Ok(())
        }
    }
    let given = std::cell::Cell::new(0);
    let mut writer = FileWriter::new(Counter(&given)).unwrap();
    writer.metadata(&sample().meta).unwrap();
    for _ in 0..5 {
        writer.events(&noise(CHUNK_BYTES, 1)).unwrap();
        assert_eq!(writer.bytes_written(), given.get());
    }
    assert!(given.get() > 4 * CHUNK_BYTES as u64);
    let (_, len) = writer.finish().unwrap();
    assert_eq!(len, given.get());
}

#[test]
fn what_is_not_a_file_is_refused_without_waiting() {
    let dir = TempDir::new().unwrap();
    assert!(matches!(Recording::open(dir.path()), Err(Error::Io { .. })));
    assert!(matches!(quick_metadata(dir.path().join("none")), Err(Error::Io { .. })));
    let fifo = dir.path().join("fifo.undo");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status().unwrap();
    assert!(made.success());
    assert!(matches!(quick_metadata(&fifo), Err(Error::Io { .. })));
}

fn contents() -> impl Strategy<Value = Contents> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..64);
    let string = || prop::collection::vec(1..=255u8, 0..20);
    let meta = (any::<[[u8; 16]; 3]>(), any::<[u64; 11]>(), any::<[u32; 3]>(), any::<Option<u32>>()).prop_flat_map(
        move |(uuids, words, halves, log_index)| {
            let strings = (string(), string(), string(), prop::collection::vec(string(), 0..4));
            (strings, bytes(), bytes(), any::<String>(), prop::sample::select(EndReason::ALL)).prop_map(
                move |((name, executable, log_path, args), xsave, auxv, end_message, end_reason)| Metadata {
                    uuid: uuids[0],
                    log_uuid: uuids[1],
                    parent_uuid: uuids[2],
                    log_index,
                    pid: halves[0],
                    ppid: halves[1],
                    end_status: halves[2].cast_signed(),
                    begin: Time { bbcount: words[0], pc: words[1] },
                    end: Time { bbcount: words[2], pc: words[3] },
                    start_wallclock_ns: words[4],
                    end_wallclock_ns: words[5],
                    xcr0: words[6],
                    brk_start: words[7],
                    brk: words[8],
                    flags: words[9],
                    start_timestamp: words[10],
                    name,
                    executable,
                    log_path,
                    args,
                    xsave,
                    auxv,
                    end_message,
                    end_reason,
                    ..Metadata::default()
                },
            )
        },
    );
    let mapping = (0..1u64 << 35, 1..1u64 << 16, 0..8u32, any::<u32>(), any::<[u64; 3]>(), string()).prop_map(
        |(start, pages, prot, flags, [file_offset, dev, ino], name)| Mapping {
            start: start << 12,
            end: (start + pages) << 12,
            prot,
            flags: MappingFlags(flags & !MappingFlags::FROM_FILE.0),
            file_offset,
            dev,
            ino,
            name,
        },
    );
    let pages = prop::collection::btree_map((0..24u64).prop_map(|page| page << 12), (1..=255u8).prop_map(page), 0..12);
    let file = ("/[a-z]{1,9}", any::<u32>(), bytes(), bytes()).prop_map(|(path, mode, build_id, contents)| {
        (FileHead { path: path.into(), mode, size: contents.len() as u64, build_id }, contents)
    });
    let files = prop::collection::vec(file, 0..4).prop_map(|mut files| {
        files.dedup_by(|a, b| a.0.path == b.0.path);
        files.sort_by(|a, b| a.0.path.cmp(&b.0.path));
        files.dedup_by(|a, b| a.0.path == b.0.path);
        files
    });
    let mappings = prop::collection::vec(mapping, 0..5);
    let events = prop::collection::vec(any::<u8>(), 0..5000);
    (meta, mappings, pages, events, prop::collection::vec(any::<u64>(), 0..9), files).prop_map(
        |(meta, mappings, pages, events, sites, files)| Contents { meta, mappings, pages, events, sites, files, ..Contents::default() },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_recording_is_read_as_it_was_written(contents in contents(), piece in 1..6000usize) {
        let file = file_of(&contents.write(piece));
        prop_assert_eq!(Contents::read(file.path()).unwrap(), contents);
    }
}

#[test]
fn the_log_of_a_region_is_a_file_s_events() {
    // The way of the recorder: a region that is larger than what it holds, saved up to where its events end.
    let mut region = vec![0; 1 << 16];
    let log = sample().events;
    region[..log.len()].copy_from_slice(&log);
    let mut events = Events::in_region(&region);
    let count = events.by_ref().count();
    let used = events.offset() as usize;
    assert_eq!((count, used), (8, log.len()));
    let file = file_of(&Contents { events: region[..used].to_vec(), ..sample() }.write(usize::MAX));
    assert_eq!(Recording::open(file.path()).unwrap().verify().unwrap(), 8);
    assert_eq!(log_of(&[]), []);
}
