//! Which files belong together.
mod common;
use common::*;
use correlator::*;
use recording::{FileWriter, Metadata};
use std::fs;
use std::path::{Path, PathBuf};

fn record(path: &Path, uuid: u8, pid: u32, log_uuid: [u8; 16]) {
    let mut writer = FileWriter::new(Vec::new()).unwrap();
    writer.metadata(&Metadata { uuid: [uuid; 16], pid, log_uuid, ..Metadata::default() }).unwrap();
    let (bytes, _) = writer.finish().unwrap();
    fs::write(path, bytes).unwrap();
}

/// A log of three recordings (pids 100 to 102, UUIDs likewise), the files of which the test makes.
fn family() -> (History, PathBuf, [u8; 16]) {
    let history = History::new(3, 256 << 10);
    let directory = history.dir.path().to_owned();
    let uuid = shmem_log::Reader::open(&history.path).unwrap().uuid();
    (history, directory, uuid)
}

fn pids(found: &Discovery) -> Vec<(u32, u32)> {
    found.recordings.iter().map(|recording| (recording.inferior, recording.pid)).collect()
}

#[test]
fn the_loaded_recording_is_the_first_inferior() {
    let (history, directory, uuid) = family();
    for pid in 100..103u8 {
        record(&directory.join(format!("p{pid}.undo")), pid, pid.into(), uuid);
    }
    let found = Discovery::from_file(directory.join("p101.undo")).unwrap();
    assert_eq!(pids(&found), [(1, 101), (2, 100), (3, 102)]);
    assert_eq!(found.log, Some(history.path.clone()));
    assert_eq!(found.warnings, []);
    assert_eq!(pids(&Discovery::from_file(&history.path).unwrap()), [(1, 100), (2, 101), (3, 102)]);
}

#[test]
fn names_do_not_matter_and_strangers_do_not_disturb() {
    let (history, directory, uuid) = family();
    fs::rename(&history.path, directory.join("renamed.shmem")).unwrap();
    for pid in 100..103u8 {
        record(&directory.join(format!("{}.undo", 300 - u32::from(pid))), pid, pid.into(), uuid);
    }
    record(&directory.join("other.undo"), 100, 7, [9; 16]);
    record(&directory.join("lone.undo"), 8, 8, [0; 16]);
    fs::write(directory.join("zero.shmem"), [0; 4096]).unwrap();
    fs::write(directory.join("notes.txt"), "none of it").unwrap();
    let found = Discovery::from_file(directory.join("200.undo")).unwrap();
    assert_eq!(pids(&found), [(1, 100), (2, 101), (3, 102)]);
    assert_eq!(found.log, Some(directory.join("renamed.shmem")));
    assert_eq!(found.warnings, []);
}

#[test]
fn copies_and_gaps_are_reported() {
    let (history, directory, uuid) = family();
    record(&directory.join("a.undo"), 100, 100, uuid);
    record(&directory.join("b.undo"), 100, 100, uuid);
    record(&directory.join("c.undo"), 102, 102, uuid);
    record(&directory.join("d.undo"), 77, 77, uuid);
    fs::write(directory.join("e.undo"), "no recording").unwrap();
    fs::copy(&history.path, directory.join("y.shmem")).unwrap();
    let found = Discovery::from_file(directory.join("b.undo")).unwrap();
    assert_eq!(pids(&found), [(1, 100), (2, 102), (3, 101)], "the missing one comes last");
    assert_eq!(found.recordings[0].path, Some(directory.join("b.undo")), "the one asked for is the one used");
    let told = |wanted: fn(&Warning) -> bool| found.warnings.iter().filter(|warning| wanted(warning)).count();
    assert_eq!(told(|warning| matches!(warning, Warning::Duplicate { ignored, .. } if ignored.ends_with("a.undo"))), 1);
    assert_eq!(told(|warning| matches!(warning, Warning::DuplicateLog { .. })), 1);
    assert_eq!(told(|warning| matches!(warning, Warning::Missing { pid: 101, .. })), 1);
    assert_eq!(told(|warning| matches!(warning, Warning::Unknown { path } if path.ends_with("d.undo"))), 1);
    assert_eq!(told(|warning| matches!(warning, Warning::Unreadable { path, .. } if path.ends_with("e.undo"))), 1);
    assert_eq!(found.warnings.len(), 5, "{:?}", found.warnings);
}

#[test]
fn errors_say_what_is_missing() {
    let (history, directory, _) = family();
    let fails = |name: &str| Discovery::from_file(directory.join(name)).unwrap_err();
    record(&directory.join("lone.undo"), 8, 8, [0; 16]);
    assert!(matches!(fails("lone.undo"), Error::NoLog { .. }));
    record(&directory.join("orphan.undo"), 8, 8, [5; 16]);
    assert!(matches!(fails("orphan.undo"), Error::LogNotFound { .. }));
    assert!(matches!(fails("log.txt"), Error::Extension { .. }));
    assert!(matches!(fails("none.undo"), Error::Recording(_)));
    assert!(matches!(fails("none.shmem"), Error::Log(_)));
    drop(history);
}
