//! Files that earlier versions wrote are read, for ever.
//!
//! `golden/vN.undo` was written by version N and is never written again: whoever changes the format bumps the version and adds
//! a file. `cargo test -p recording --test golden -- --ignored` writes the current version's file, once.

mod common;

use common::{Contents, raw, sample, sample_2, sample_2_read};
use recording::*;
use std::path::PathBuf;

fn path(version: u32) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/v{version}.undo"))
}

#[test]
fn all_versions_are_read() {
    for version in 1..=VERSION {
        let expected = if version == 1 { sample() } else { sample_2_read() };
        assert_eq!(Contents::read(&path(version)).unwrap(), expected);
        let recording = Recording::open(path(version)).unwrap();
        assert_eq!((recording.version(), recording.verify().unwrap()), (version, 8));
    }
    let contents = sample();
    let names: Vec<_> = Events::new(&contents.events).map(|event| event.unwrap().kind().unwrap().name()).collect();
    assert_eq!(names, ["SYSCALL", "SYSCALL", "NONDET", "SITES_ADDED", "SHMEM_FIXUP", "SIGNAL", "MEMORY_HASH", "END"]);
}

/// What is written has not changed without a new version. Compressed bytes may: another release of the compressor is no other format.
#[test]
fn what_is_written_is_the_current_version() {
    let golden = std::fs::read(path(VERSION)).expect("the current version has its golden file");
    assert!(golden.len() < 64 << 10);
    let written = sample_2().write(usize::MAX);
    assert_eq!(golden[..raw::FILE_HEADER], written[..raw::FILE_HEADER]);
    let (golden, written) = (raw::take_apart(&golden), raw::take_apart(&written));
    assert_eq!(golden.len(), written.len());
    for (golden, written) in golden.iter().zip(&written) {
        assert_eq!(golden, written);
    }
}

#[test]
#[ignore = "writes a file"]
fn write_the_golden_file() {
    use std::io::Write;
    let mut file = std::fs::File::create_new(path(VERSION)).expect("a golden file is written once");
    file.write_all(&sample_2().write(usize::MAX)).unwrap();
}
