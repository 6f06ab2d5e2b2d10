//! The reader of `.undo` files: any bytes give a value or an error.
//!
//! Checksums would stop the fuzzer at the door, so the first byte chooses how the others are used: as a whole file, as an event log, or as
//! the contents of one section in a file that is otherwise good and has all its checksums right.
#![no_main]

use libfuzzer_sys::fuzz_target;
use recording::{Events, FileWriter, Metadata, Recording, check_events};
use std::path::Path;
use std::sync::LazyLock;

#[path = "../../recording/tests/common/raw.rs"]
#[allow(dead_code)]
mod raw;

static GOOD: LazyLock<Vec<raw::Chunk>> = LazyLock::new(|| {
    let mut writer = FileWriter::new(Vec::new()).expect("memory for two buffers");
    writer.metadata(&Metadata::default()).expect("a vector takes all");
    writer.file(&Default::default()).expect("a vector takes all");
    let (file, _) = writer.finish().expect("a vector takes all");
    raw::take_apart(&file)
});

fn read(file: Vec<u8>) {
    let Ok(recording) = Recording::from_bytes("fuzz.undo", file) else { return };
    let _ = recording.for_each_page_run(|addr, bytes| assert!(addr.checked_add(bytes.len() as u64).is_some()));
    let _ = recording.sites();
    if let Ok(files) = recording.files() {
        for file in files.iter().filter_map(|file| std::str::from_utf8(&file.head.path).ok()) {
            let _ = recording.file_contents(Path::new(file));
        }
    }
    let _ = recording.verify();
}

fuzz_target!(|data: &[u8]| {
    let Some((mode, data)) = data.split_first() else { return };
    match mode % 16 {
        0 => read(data.to_vec()),
        1 => {
            for event in Events::new(data).flatten() {
                assert_eq!(event.check().is_ok(), event.body_and_writes().is_ok_and(|(_, mut writes)| writes.all(|write| write.is_ok())));
            }
            let _ = check_events(data);
        }
        mode => {
            let mut chunks = GOOD.clone();
            let which = usize::from(mode) % chunks.len();
            let chunk = &mut chunks[which];
            chunk.payload = data.to_vec();
            if mode >= 9 {
                chunk.compression = 1;
                chunk.raw_len = Some((data.len() as u32).saturating_mul(4));
            }
            read(raw::put_together(&chunks));
        }
    }
});
