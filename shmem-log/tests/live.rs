//! Reading while others write: each snapshot is a beginning of each recording's history, less what was overwritten.
mod common;
use common::process::{Shared, spawn, wait_ok};
use common::*;
use shmem_log::*;
use std::collections::HashMap;

const WRITERS: u64 = 2;

#[test]
fn snapshots_of_a_log_that_is_being_written_are_consistent() {
    let test = TestLog::new();
    let log = test.join(1 << 20);
    let o = object(&log);
    let shared = Shared::new(64);
    let children: Vec<_> = (0..WRITERS)
        .map(|who| {
            spawn(|| {
                let mut w = writer(&log, who as u32);
                let me = u64::from(w.recording().unwrap().get());
                let site = w.register_site(1, Kind::Write, 8).unwrap();
                let mut n = 0;
                while shared.word(0).load(std::sync::atomic::Ordering::Relaxed) == 0 {
                    let t = w.begin(Kind::Write, o, n % 1000 * 8, 8);
                    w.commit(t, site, n, me << 48 | n);
                    n += 1;
                    // Some while after each block, so that the reader sees blocks in all states.
                    if n % 1500 == 0 {
                        w.finish();
                    }
                    shared.set(8 + 8 * me as usize, n);
                }
                w.finish();
            })
        })
        .collect();
    (0..WRITERS).for_each(|who| _ = shared.wait(8 + 8 * who as usize, |n| n > 1000));
    let mut reader = test.read();
    let mut last_end: HashMap<u32, u64> = HashMap::new();
    let (mut read, mut overwritten) = (0u64, 0);
    for _ in 0..150 {
        let before: Vec<u64> = (0..WRITERS).map(|who| shared.wait(8 + 8 * who as usize, |_| true)).collect();
        reader.refresh().unwrap();
        let mut cursor = reader.cursor();
        let mut next: HashMap<u32, u64> = HashMap::new();
        while let Some(access) = cursor.next().unwrap() {
            let recording = access.recording.get();
            let value = u64::from(recording) << 48 | access.sequence;
            assert_eq!((number(access.value()), access.bbcount), (value, access.sequence), "a torn or foreign record");
            let expected = next.insert(recording, access.sequence + 1);
            assert!(expected.is_none_or(|expected| access.sequence >= expected));
            read += 1;
        }
        overwritten += cursor.overwritten();
        for recording in reader.recordings() {
            let who = recording.index.get();
            let counts = reader.counts(recording.index);
            let end = counts.committed + counts.lost;
            assert!(end >= before[who as usize], "what was committed before the snapshot is in it");
            assert!(end >= last_end.insert(who, end).unwrap_or(0), "history does not shrink");
        }
    }
    shared.set(0, 1);
    children.into_iter().for_each(wait_ok);
    println!("{read} records read, {overwritten} overwritten between snapshot and reading");
    assert!(read > 0);
}

/// What was overwritten since the snapshot is skipped, and counted once.
#[test]
fn a_cursor_counts_overwritten_records_once() {
    let test = TestLog::new();
    let log = test.join(layout::MIN_SIZE);
    let o = object(&log);
    let mut w = writer(&log, 1);
    let site = w.register_site(1, Kind::Write, 8).unwrap();
    let mut append = |records: u64| {
        for n in 0..records {
            let t = w.begin(Kind::Write, o, n % 512 * 8, 8);
            w.commit(t, site, n, n);
        }
    };
    append(1500);
    let reader = test.read();
    append(100_000);
    let first = reader.blocks()[0].clone();
    let mut cursor = reader.cursor();
    cursor.seek(Position::new(first.ticket, 7)).unwrap();
    assert!(cursor.next().unwrap().is_none());
    let all: u64 = reader.blocks().iter().map(|block| u64::from(block.records)).sum();
    assert_eq!((cursor.overwritten(), all), (1500, 1500));
}
