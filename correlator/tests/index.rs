//! The index and its file: whatever becomes of the file, the answers stay the same.
mod common;
use common::*;
use correlator::*;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

fn steps(count: usize) -> Vec<Step> {
    let mut runner = TestRunner::deterministic();
    prop::collection::vec(step(3), count).new_tree(&mut runner).unwrap().current()
}

fn index_of(history: &History) -> PathBuf {
    history.dir.path().join("test.shmem.index")
}

/// Everything that happened to the first object, by question and by looking at all records.
fn check(history: &History, correlator: &Correlator) {
    let records = all(correlator.reader());
    for line in 0..OBJECT_BYTES / 64 {
        let found = correlator.history(history.objects[0], line * 64, 64, usize::MAX).unwrap();
        let mut found: Vec<_> = found.rows.into_iter().map(|row| row.record).collect();
        found.sort_by_key(|record| record.position);
        let expected: Vec<_> = records.iter().filter(|record| record.overlaps(history.objects[0], line * 64, 64)).cloned().collect();
        assert_eq!(found.len(), expected.len());
        if let Some((found, expected)) = found.iter().zip(&expected).find(|(found, expected)| found != expected) {
            panic!("found {found:?}, expected {expected:?}");
        }
    }
}

#[test]
fn an_index_is_left_beside_the_log_and_used() {
    let mut history = History::new(3, 1 << 20);
    history.run(&steps(3000));
    history.finish();
    check(&history, &history.open());
    let written = fs::metadata(index_of(&history)).unwrap().modified().unwrap();
    check(&history, &history.open());
    assert_eq!(fs::metadata(index_of(&history)).unwrap().modified().unwrap(), written, "it was not written again");
    assert_eq!(fs::read_dir(history.dir.path()).unwrap().count(), 2, "nothing else is left behind");
}

#[test]
fn a_damaged_index_changes_no_answer() {
    let mut history = History::new(3, 1 << 20);
    history.run(&steps(3000));
    history.finish();
    drop(history.open());
    let good = fs::read(index_of(&history)).unwrap();
    for at in (0..good.len()).step_by(good.len() / 150) {
        let mut bad = good.clone();
        bad[at] ^= 0x41;
        fs::write(index_of(&history), &bad).unwrap();
        check(&history, &history.open());
    }
    for len in [0, 1, 23, 24, 100, good.len() / 2, good.len() - 1] {
        fs::write(index_of(&history), &good[..len]).unwrap();
        check(&history, &history.open());
    }
}

#[test]
fn the_index_of_another_log_is_not_used() {
    // As many accesses by the same recordings in the same order, elsewhere: no block tells them apart.
    let at =
        |base: u64| steps(2000).into_iter().map(move |step| Step { offset: base + step.offset % 6 * 8, len: 4, by_kernel: false, ..step });
    let mut one = History::new(3, 1 << 20);
    one.run(&at(0).collect::<Vec<_>>());
    one.finish();
    drop(one.open());
    let mut other = History::new(3, 1 << 20);
    other.run(&at(128).collect::<Vec<_>>());
    other.finish();
    fs::copy(index_of(&one), index_of(&other)).unwrap();
    check(&other, &other.open());
}

#[test]
fn a_directory_that_cannot_be_written_is_no_obstacle() {
    let mut history = History::new(2, 1 << 20);
    history.run(&steps(500).into_iter().filter(|step| step.recording < 2).collect::<Vec<_>>());
    history.finish();
    // A directory where the file should go: whoever may write anywhere cannot write that either.
    fs::create_dir(index_of(&history)).unwrap();
    fs::set_permissions(history.dir.path(), fs::Permissions::from_mode(0o555)).unwrap();
    check(&history, &history.open());
    fs::set_permissions(history.dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_live_log_is_followed() {
    let mut history = History::new(3, 1 << 20);
    let mut correlator = history.open();
    for part in steps(6000).chunks(500) {
        history.run(part);
        correlator.refresh().unwrap();
        check(&history, &correlator);
    }
    check(&history, &history.open());
}

#[test]
fn a_full_log_keeps_its_youngest() {
    let mut history = History::new(3, 256 << 10);
    let mut correlator = history.open();
    for part in steps(40_000).chunks(10_000) {
        history.run(part);
        correlator.refresh().unwrap();
        check(&history, &correlator);
    }
    history.finish();
    assert!(correlator.reader().total_counts().lost > 0);
    check(&history, &history.open());
}

#[test]
fn values_are_those_that_the_recording_knew() {
    let mut history = History::new(3, 1 << 20);
    history.run(&steps(3000));
    let correlator = history.open();
    let records = all(correlator.reader());
    for (number, recording) in history.recordings.iter().enumerate() {
        let mut known = vec![None; OBJECT_BYTES as usize];
        for record in records.iter().filter(|record| record.recording == *recording && record.object == history.objects[1]) {
            for (at, value) in (record.offset as usize..).zip(record.value()) {
                known[at] = Some(*value);
            }
        }
        let target = Target::Address(address(number, 1));
        assert_eq!(correlator.value_at(&Query::new(*recording, Moment::End, target, OBJECT_BYTES)).unwrap(), known);
    }
}

#[test]
fn whoever_is_logged_explains_all_values() {
    let mut history = History::new(3, 1 << 20);
    history.run(&steps(4000));
    let correlator = history.open();
    assert_eq!(correlator.unrecorded_writers(10).unwrap(), []);
    // Races are what overlapped: each is by two recordings, to common bytes, and one writes.
    for race in correlator.races(usize::MAX).unwrap() {
        assert_ne!(race.first.recording, race.second.recording);
        assert!(race.first.kind.writes() || race.second.kind.writes());
        assert_eq!(order(&race.first, &race.second), RecordOrder::Concurrent);
    }
}

#[test]
fn times_are_found_among_many_blocks() {
    let mut history = History::new(3, 1 << 20);
    history.run(&steps(12_000));
    history.finish();
    let correlator = history.open();
    let records = all(correlator.reader());
    assert!(correlator.reader().blocks().len() > 12, "each recording has several");
    let object = history.objects[0];
    for about in records.iter().step_by(31) {
        for len in [4, 64] {
            let target = Target::Object { object, offset: 0 };
            let query = Query::new(about.recording, Moment::At(about.time), target, len);
            let found = correlator.blame(&query, &limited(1)).unwrap().rows.pop().map(|row| row.record.position);
            let before =
                |record: &&Record| record.recording == about.recording && record.overlaps(object, 0, len) && record.time < about.time;
            assert_eq!(found, records.iter().filter(before).map(|record| record.position).max(), "{query:?}");
        }
    }
}
