//! Recordings with something wrong in them: each is refused with an error that names file, chunk, field, expected and found.

mod common;

use common::raw::{self, Chunk, boundaries, put_together, take_apart};
use common::sample;
use proptest::prelude::*;
use recording::*;
use std::io::Write;
use std::path::Path;

const NAME: &str = "broken.undo";

fn open(file: &[u8]) -> Result<Recording, Error> {
    Recording::from_bytes(NAME, file.to_vec())
}

/// Reads all there is.
fn read(file: &[u8]) -> Result<u64, Error> {
    let recording = open(file)?;
    for file in recording.files()? {
        recording.file_contents(Path::new(std::str::from_utf8(&file.head.path).unwrap_or("?")))?;
    }
    recording.verify()
}

fn quick(file: &[u8]) -> Result<Metadata, Error> {
    let mut on_disk = tempfile::NamedTempFile::new().unwrap();
    on_disk.write_all(file).unwrap();
    quick_metadata(on_disk.path())
}

/// Reads a file that must be refused, and gives the message.
#[track_caller]
fn refused(file: &[u8]) -> String {
    let error = read(file).expect_err("a broken file was taken");
    assert_eq!(error.path(), Path::new(NAME));
    let message = error.to_string();
    assert!(message.starts_with("broken.undo: "), "{message}");
    message
}

#[track_caller]
fn assert_refused(file: &[u8], parts: &[&str]) {
    let message = refused(file);
    for part in parts {
        assert!(message.contains(part), "{message:?} does not say {part:?}");
    }
}

fn good() -> Vec<u8> {
    sample().write(usize::MAX)
}

/// The good file with a change to the first chunk of a kind, all checksums right.
fn changed(kind: u16, change: impl FnOnce(&mut Chunk)) -> Vec<u8> {
    let mut chunks = take_apart(&good());
    change(chunks.iter_mut().find(|chunk| chunk.kind == kind).unwrap());
    put_together(&chunks)
}

#[test]
fn a_file_put_together_by_hand_is_good() {
    let file = put_together(&take_apart(&good()));
    assert_eq!(read(&file).unwrap(), 8);
    assert_eq!(quick(&file).unwrap(), sample().meta);
}

#[test]
fn truncation_anywhere_is_noticed() {
    let file = good();
    let boundaries = boundaries(&file);
    for len in 0..file.len() {
        let message = refused(&file[..len]);
        match len {
            0 => assert!(message.contains("not a recording"), "{message}"),
            _ => assert!(message.contains("truncated: "), "at {len}: {message}"),
        }
        if let Some(index) = boundaries.iter().position(|start| *start == len) {
            let expected = format!("truncated: chunk {index}: header at offset {len:#x}: expected 40 bytes, found 0");
            assert!(message.contains(&expected), "at {len}: {message}");
        }
        if len % 7 == 0 || boundaries.contains(&len) {
            assert!(quick(&file[..len]).is_err(), "at {len}");
        }
    }
}

#[test]
fn a_flipped_bit_anywhere_is_noticed() {
    let file = good();
    let boundaries = boundaries(&file);
    for at in 0..file.len() {
        let chunk = boundaries.iter().filter(|start| **start <= at).count();
        let in_header = chunk == 0 || at - boundaries[chunk - 1] < raw::CHUNK_HEADER;
        // Every bit of headers, one of each payload byte.
        let bits = if in_header { 0..8 } else { at % 8..at % 8 + 1 };
        for bit in bits {
            let mut broken = file.clone();
            broken[at] ^= 1 << bit;
            let message = refused(&broken);
            let names: &[&str] = match (chunk, in_header) {
                (0, _) if at < 8 => &["not a recording"],
                (0, _) => &["file header checksum", "expected 0x", "found 0x"],
                (_, true) => &["chunk marker", "chunk header checksum"],
                (_, false) => &["payload checksum", "padding"],
            };
            assert!(names.iter().any(|name| message.contains(name)), "bit {bit} of byte {at:#x}: {message}");
            if chunk > 0 {
                let number = format!("chunk {} (", chunk - 1);
                assert!(message.contains(&number), "bit {bit} of byte {at:#x}: {message}");
            }
        }
    }
}

#[test]
fn quick_metadata_notices_damage_to_what_it_reads() {
    let file = good();
    let boundaries = boundaries(&file);
    let end = boundaries[boundaries.len() - 2];
    for at in (0..boundaries[1]).chain(end..file.len()) {
        let mut broken = file.clone();
        broken[at] ^= 0x10;
        assert!(quick(&broken).is_err(), "byte {at:#x}");
    }
}

#[test]
fn other_files_and_versions_are_named() {
    assert_refused(b"\x7fELF and so on", &["not a recording", r"\x7fELF"]);
    let mut newer = good();
    newer[..raw::FILE_HEADER].copy_from_slice(&raw::file_header(VERSION + 1));
    let newest = format!("format version: expected at most {VERSION}, found {}", VERSION + 1);
    assert_refused(&newer, &[&newest]);
    assert!(quick(&newer).unwrap_err().to_string().contains(&newest));
    newer[..raw::FILE_HEADER].copy_from_slice(&raw::file_header(0));
    assert_refused(&newer, &["version", "found 0x0"]);
    let mut converted = good();
    converted.retain(|byte| *byte != b'\r');
    assert_refused(&converted, &["not a recording"]);
}

#[test]
fn absurd_headers_are_refused_before_anything_is_allocated() {
    type Case = (fn(&mut Chunk), &'static [&'static str]);
    let cases: &[Case] = &[
        (|c| c.raw_len = Some(u32::MAX), &["raw length", "at most 0x100000", "found 0xffffffff"]),
        (|c| c.raw_len = Some(CHUNK_BYTES as u32 + 1), &["raw length", "at most 0x100000"]),
        (|c| c.stored_len = Some(u32::MAX), &["stored length", "at most 0x100000", "found 0xffffffff"]),
        (|c| c.stored_len = Some(8), &["stored length", "found 0x8"]),
        (|c| (c.compression, c.raw_len) = (1, Some(c.payload.len() as u32 + 1)), &["bytes of LZ4, found"]),
        (|c| (c.compression, c.raw_len, c.payload) = (1, Some(CHUNK_BYTES as u32), vec![0; 8]), &["stored length", "at least 0x1011"]),
        (|c| c.compression = 2, &["compression", "0 (none) or 1 (LZ4)", "found 0x2"]),
        (|c| c.index = Some(77), &["chunk index", "found 0x4d"]),
        (|c| c.flags = 3, &["chunk flags", "at most 0x1", "found 0x3"]),
    ];
    for kind in [raw::META, raw::MAPPINGS, raw::PAGES, raw::EVENTS, raw::SITES, raw::FILE, raw::FILE_DATA] {
        for (change, parts) in cases {
            let name = ["", "META", "MAPPINGS", "PAGES", "EVENTS", "SITES", "FILE", "FILE_DATA"][usize::from(kind)];
            let message = refused(&changed(kind, change));
            assert!(message.contains(name) && parts.iter().all(|part| message.contains(part)), "{name} {parts:?}: {message}");
        }
    }
}

#[test]
fn a_section_that_is_missing_or_there_twice_is_named() {
    let chunks = take_apart(&good());
    let name = |kind: u16| match kind {
        raw::META => "META",
        raw::MAPPINGS => "MAPPINGS",
        raw::PAGES => "PAGES",
        raw::EVENTS => "EVENTS",
        raw::SITES => "SITES",
        raw::FILE => "FILE",
        raw::FILE_DATA => "FILE_DATA",
        _ => "END",
    };
    for (i, chunk) in chunks.iter().enumerate() {
        let next = chunks.get(i + 1).map_or(raw::END, |next| next.kind);
        let mut missing = chunks.clone();
        missing.remove(i);
        // What lacks its head or its contents is noticed; a file without both is another recording.
        let expected = if chunk.kind == raw::FILE { "FILE or END" } else { name(chunk.kind) };
        let message = refused(&put_together(&missing));
        assert!(message.contains(&format!("chunk {i} at")), "{message}");
        assert!(message.contains(&format!("expected {expected}, found {}", name(next))), "{message}");

        let mut twice = chunks.clone();
        twice.insert(i, chunk.clone());
        let message = refused(&put_together(&twice));
        assert!(message.contains(&format!("chunk {} at", i + 1)), "{message}");
        assert!(message.ends_with(&format!("found {}", name(chunk.kind))), "{message}");

        let mut unfinished = chunks.clone();
        unfinished[i].flags = 0;
        assert_refused(&put_together(&unfinished), &["expected "]);
    }
}

#[test]
fn the_end_chunk_must_agree() {
    let chunks = take_apart(&good());
    let file = good();
    let end = boundaries(&file)[chunks.len()];
    for (at, name) in [(0, "chunk count"), (8, "file length"), (16, "headers checksum")] {
        let mut payload = file[end + raw::CHUNK_HEADER..].to_vec();
        payload[at] ^= 1;
        let mut broken = file[..end].to_vec();
        raw::put(&Chunk::new(raw::END, payload), chunks.len(), &mut broken);
        assert_refused(&broken, &["(END)", name, "expected 0x", "found 0x"]);
    }
    let mut longer = file.clone();
    longer.push(0);
    assert_refused(&longer, &["(END)", "bytes behind the end chunk", "found 0x1"]);
    assert!(quick(&longer).is_err());
    // Two recordings in one file.
    assert_refused(&[file.clone(), file].concat(), &["bytes behind the end chunk"]);
}

#[test]
fn chunks_of_another_recording_are_noticed() {
    let mut other = sample();
    other.sites[0] ^= 1;
    let (file, other) = (good(), other.write(usize::MAX));
    let (ends, other_ends) = (boundaries(&file), boundaries(&other));
    let sites = usize::from(raw::SITES) - 1;
    let mixed = [&file[..ends[sites]], &other[other_ends[sites]..other_ends[sites + 1]], &file[ends[sites + 1]..]].concat();
    assert_refused(&mixed, &["(END)", "headers checksum"]);
}

#[test]
fn unknown_chunks_are_refused_unless_they_are_optional() {
    let with = |kind, at| {
        let mut chunks = take_apart(&good());
        chunks.insert(at, Chunk::new(kind, b"from the future".to_vec()));
        put_together(&chunks)
    };
    assert_refused(&with(50, 3), &["chunk 3 at", "found unknown kind 0x32"]);
    for at in 1..take_apart(&good()).len() + 1 {
        let mut file = with(0x8001, at);
        assert_eq!(read(&file).unwrap(), 8);
        assert_eq!(common::Contents::read(write_down(&file).path()).unwrap().sites, sample().sites);
        // Skipped, but not unverified.
        let payload = boundaries(&file)[at] + raw::CHUNK_HEADER;
        file[payload] ^= 1;
        assert_refused(&file, &["unknown kind 0x8001", "payload checksum"]);
    }
    assert_refused(&with(0x8001, 0), &["chunk 0 at", "expected META"]);
}

fn write_down(file: &[u8]) -> tempfile::NamedTempFile {
    let mut on_disk = tempfile::NamedTempFile::new().unwrap();
    on_disk.write_all(file).unwrap();
    on_disk
}

#[test]
fn metadata_without_a_required_field_names_it() {
    let required = [
        (1, "uuid"),
        (5, "pid"),
        (6, "ppid"),
        (9, "executable"),
        (12, "start_wallclock_ns"),
        (13, "end_wallclock_ns"),
        (16, "begin"),
        (17, "end"),
        (18, "begin_registers"),
        (19, "end_registers"),
        (20, "xsave"),
        (21, "xcr0"),
        (24, "end_reason"),
    ];
    for tag in 1..=31 {
        let file = changed(raw::META, |chunk| {
            let (at, len) = raw::field(&chunk.payload, tag);
            chunk.payload.drain(at..at + len);
        });
        match required.iter().find(|(required, _)| *required == tag) {
            Some((_, name)) => assert_refused(&file, &["META", &format!("field {name}: expected it to be there")]),
            None => assert_eq!(read(&file).unwrap(), 8, "field {tag} is optional"),
        }
    }
    let no_path = changed(raw::FILE, |chunk| drop(chunk.payload.drain(..raw::field(&chunk.payload, 1).1)));
    assert_refused(&no_path, &["FILE", "field path"]);
}

#[test]
fn wrong_contents_name_section_and_field() {
    let meta = |tag: u16, at: usize, bytes: &'static [u8]| {
        changed(raw::META, move |chunk| {
            let at = raw::field(&chunk.payload, tag).0 + at;
            chunk.payload[at..at + bytes.len()].copy_from_slice(bytes);
        })
    };
    assert_refused(&meta(1, 4, &[255; 4]), &["META", "field value", "at least 0x"]);
    assert_refused(&meta(1, 2, &[1]), &["META", "reserved"]);
    assert_refused(&meta(2, 0, &[1]), &["META", "tag", "only one field uuid"]);
    assert_refused(&meta(24, 8, &[99]), &["META", "end_reason", "found 0x63"]);
    assert_refused(&meta(26, 8, &[0xff]), &["META", "end_message", "UTF-8"]);
    assert_refused(&meta(23, 16, &[255; 8]), &["META", "reserved"]);
    assert_refused(&meta(10, 29, b"x"), &["META", "args", "zero byte"]);
    assert_refused(&changed(raw::META, |chunk| chunk.payload.truncate(4)), &["META", "field length"]);

    let put =
        |kind, at: usize, bytes: &'static [u8]| changed(kind, move |chunk| chunk.payload[at..at + bytes.len()].copy_from_slice(bytes));
    assert_refused(&put(raw::MAPPINGS, 0, &[1]), &["MAPPINGS", "offset 0x0", "mapping start", "multiple of 0x1000"]);
    assert_refused(&put(raw::MAPPINGS, 8, &[0; 8]), &["MAPPINGS", "offset 0x8", "mapping end"]);
    assert_refused(&put(raw::MAPPINGS, 16, &[8]), &["MAPPINGS", "mapping prot", "at most 0x7"]);
    assert_refused(&put(raw::MAPPINGS, 48, &[255; 8]), &["MAPPINGS", "mapping name length", "at most 0x1000"]);
    assert_refused(&changed(raw::MAPPINGS, |chunk| chunk.payload.push(0)), &["MAPPINGS", "mapping start", "found 0x1"]);

    assert_refused(&put(raw::PAGES, 0, &[1]), &["PAGES", "offset 0x0", "run address", "multiple of 0x1000"]);
    assert_refused(&put(raw::PAGES, 8, &[0; 8]), &["PAGES", "offset 0x8", "run length"]);
    assert_refused(&put(raw::PAGES, 8, &[1]), &["PAGES", "run length"]);
    assert_refused(&put(raw::PAGES, 8, &[0, 0, 0, 0, 0, 0, 0, 128]), &["PAGES", "run contents"]);
    assert_refused(&put(raw::PAGES, 0, &[0, 240, 255, 255, 255, 255, 255, 255]), &["PAGES", "run length", "at most 0xfff"]);
    assert_refused(&changed(raw::PAGES, |chunk| chunk.payload.truncate(5000)), &["PAGES", "run contents"]);

    assert_refused(&put(raw::EVENTS, 8, &[0xee]), &["EVENTS", "offset 0x8", "kind", "found 0xee"]);
    assert_refused(&changed(raw::EVENTS, |chunk| chunk.payload.truncate(200)), &["EVENTS", "size"]);
    assert_refused(&changed(raw::EVENTS, |chunk| chunk.payload.clear()), &["EVENTS", "END"]);
    assert_refused(&changed(raw::SITES, |chunk| chunk.payload.truncate(9)), &["SITES", "multiple of 0x8", "found 0x9"]);
}

#[test]
fn metadata_that_never_ends_is_refused() {
    let mut chunks = take_apart(&good());
    let mut part = Chunk::new(raw::META, vec![0; CHUNK_BYTES]);
    part.flags = 0;
    for _ in 0..MAX_META_BYTES / CHUNK_BYTES {
        chunks.insert(0, part.clone());
    }
    assert_refused(&put_together(&chunks), &["META", "section length", "at most 0x800000"]);
}

#[test]
fn a_file_that_shrinks_while_it_is_read_is_an_error() {
    let on_disk = write_down(&good());
    let recording = Recording::open(on_disk.path()).unwrap();
    on_disk.as_file().set_len(2000).unwrap();
    let error = recording.verify().unwrap_err();
    assert!(matches!(error, Error::Truncated { .. }), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Damage behind right checksums reaches the code that decodes contents.
    #[test]
    fn any_contents_give_a_value_or_an_error(
        which in any::<prop::sample::Index>(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
        compressed in any::<bool>(),
    ) {
        let mut chunks = take_apart(&good());
        let which = which.index(chunks.len());
        let chunk = &mut chunks[which];
        if compressed {
            chunk.raw_len = Some(chunk.payload.len() as u32);
            chunk.compression = 1;
            chunk.payload = lz4_flex::block::compress(&chunk.payload);
        }
        for (at, value) in damage {
            if !chunk.payload.is_empty() {
                let at = at.index(chunk.payload.len());
                chunk.payload[at] = value;
            }
        }
        if let Some(cut) = cut {
            chunk.payload.truncate(cut.index(chunk.payload.len() + 1));
        }
        let _ = read(&put_together(&chunks));
    }

    #[test]
    fn any_bytes_give_an_error(bytes in prop::collection::vec(any::<u8>(), 0..400), as_recording in any::<bool>()) {
        let mut file = if as_recording { raw::file_header(1) } else { Vec::new() };
        file.extend(bytes);
        prop_assert!(read(&file).is_err());
    }
}
