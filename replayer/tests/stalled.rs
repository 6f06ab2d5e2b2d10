//! A replay process that makes no progress is ended, and what was asked for fails: nothing waits for ever.

mod common;

use std::time::Duration;

use common::program::{self, Flaw};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use replayer::{Cancel, Direction, Error, Points, Timeline};

/// The processes whose parent is this one.
fn children() -> Vec<Pid> {
    let own = std::process::id();
    let parent = |pid: &i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(')')?.1.split(' ').nth(2)?.parse::<u32>().ok()
    };
    let entries = std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    entries.filter(|pid| parent(pid) == Some(own)).map(Pid::from_raw).collect()
}

#[test]
fn a_process_that_stands_still_is_ended() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("made.undo");
    program::make(&path, Flaw::None);
    let mut replay = common::open(&path).unwrap();
    replay.verify(|_| {}).unwrap();
    let stopped = children();
    assert!(!stopped.is_empty());
    stopped.iter().for_each(|pid| kill(*pid, Signal::SIGSTOP).unwrap());
    replay.set_patience(Duration::from_millis(300));
    let fails = |error: Error| assert!(matches!(&error, Error::Process(what) if what.contains("no progress for 300ms")), "{error}");
    fails(replay.verify(|_| {}).unwrap_err());
    fails(replay.resume(Direction::Forward, &Points::default(), &Cancel::default()).unwrap_err());
    // What was ended stays so.
    assert!(matches!(replay.verify(|_| {}), Err(Error::Process(_))));
    drop(replay);
    assert_eq!(children(), []);
}
