//! The ring at a few blocks of a few slots: wrap-around, writers that vanish or sleep, readers in between.
use super::{model, thread};
use crate::layout::*;
use crate::memory::Memory;
use crate::memory::model::Words;
use crate::objects;
use crate::ring::{Appender, Ring};
use crate::slot::Commit;
use crate::sync::{Ordering, fence};

const SLOTS: usize = 2;
type Log = Words<SLOTS>;

const CURSOR: usize = 0;
const CLOCK: usize = 8;
/// Appended and dropped, for up to three recordings.
const COUNTS: usize = 16;
const HEADERS: usize = 64;

fn ring(blocks: u64) -> Ring {
    let headers = HEADERS;
    Ring { cursor: CURSOR, headers, blocks: headers + (blocks * BLOCK_HEADER_BYTES) as usize, count: blocks }
}

fn log(blocks: u64) -> Log {
    let block_words = SLOTS * (SLOT_BYTES / 8) as usize;
    Log::new(HEADERS / 8 + blocks as usize * (BLOCK_HEADER_BYTES as usize / 8 + block_words))
}

fn appender(log: &Log, blocks: u64, recording: u32) -> Appender<Log> {
    let counts = COUNTS + recording as usize * 16;
    Appender::new(log.clone(), ring(blocks), CLOCK, 63, recording, counts, counts + 8)
}

/// One record whose words all follow from recording and number, so that a mixture shows.
fn put(writer: &mut Appender<Log>, number: u64) -> bool {
    if !writer.make_room(1) {
        writer.drop_record();
        return false;
    }
    let value = u64::from(writer.recording()) << 32 | number;
    writer.mark_begun(value);
    writer.put_single(value, value, value, Commit { site: number as u32, shape: SHAPE_SINGLE, delta: writer.recording() });
    true
}

/// `tries` records, numbered from 1; how many found room. In this memory model one may not, though a block is free: a writer may see
/// states of blocks that are out of date. It must then be counted.
fn put_many(writer: &mut Appender<Log>, tries: u64) -> u64 {
    let mut done = 0;
    for _ in 0..tries {
        done += u64::from(put(writer, done + 1));
    }
    assert_eq!(writer.dropped(), tries - done);
    done
}

#[derive(Debug, Default)]
struct Seen {
    /// (ticket, recording, numbers of the records)
    blocks: Vec<(u64, u32, Vec<u64>)>,
}

/// The reader's protocol: state, commit words, contents, state again.
fn read(log: &Log, blocks: u64) -> Seen {
    let mut seen = Seen::default();
    let ring = ring(blocks);
    for index in 0..blocks as usize {
        let header = ring.headers + index * BLOCK_HEADER_BYTES as usize;
        // Acquire: [activate-block], [release-block]
        let state = log.word(header).load(Ordering::Acquire);
        if state & 3 != STATE_ACTIVE && state & 3 != STATE_RELEASED {
            continue;
        }
        let mut records = Vec::new();
        for slot in 0..SLOTS {
            let at = ring.blocks + (index * SLOTS + slot) * SLOT_BYTES as usize;
            // Acquire: [publish-slot]
            let commit = log.word(at + SLOT_COMMIT as usize).load(Ordering::Acquire);
            if commit == 0 {
                break;
            }
            let words = [SLOT_WHERE, SLOT_INTERVAL, SLOT_VALUE].map(|word| log.word(at + word as usize).load(Ordering::Relaxed));
            records.push((Commit::from_word(commit), words));
        }
        // Acquire: [recycle-block]
        fence(Ordering::Acquire);
        if log.word(header).load(Ordering::Relaxed) >> 18 != state >> 18 {
            continue;
        }
        let recording = (state >> 2) as u32 & 0xffff;
        let numbers = records.iter().map(|(commit, words)| {
            assert_eq!(commit.delta, recording, "a record of another recording in this block");
            let value = u64::from(recording) << 32 | u64::from(commit.site);
            assert_eq!(*words, [value; 3], "a torn record");
            u64::from(commit.site)
        });
        seen.blocks.push((state >> 18, recording, numbers.collect()));
    }
    seen.blocks.sort();
    seen
}

impl Seen {
    fn of(&self, recording: u32) -> Vec<u64> {
        self.blocks.iter().filter(|block| block.1 == recording).flat_map(|block| block.2.clone()).collect()
    }

    /// Of a recording that appended 1..=n, whole blocks are left, in order, the one it still owns among them.
    fn assert_left(&self, recording: u32, n: u64) {
        let blocks: Vec<_> = self.blocks.iter().filter(|block| block.1 == recording).map(|block| &block.2).collect();
        for (index, numbers) in blocks.iter().enumerate() {
            let last_block = index + 1 == blocks.len();
            assert!(numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{blocks:?} of {n}");
            assert!(last_block || numbers.len() == SLOTS, "{blocks:?} of {n}");
        }
        let numbers = self.of(recording);
        assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{blocks:?} of {n}");
        assert!(numbers.last().is_none_or(|last| *last <= n), "{blocks:?} of {n}");
    }

    /// The same, of so many tries; a writer that failed once may have given its last block back.
    fn assert_owned_left(&self, recording: u32, n: u64, tries: u64) {
        self.assert_left(recording, n);
        if n == tries {
            assert_eq!(self.of(recording).last().copied().unwrap_or(0), n);
        }
    }
}

#[test]
fn a_record_is_seen_whole_or_not_at_all() {
    model(None, || {
        let log = log(1);
        let writer_log = log.clone();
        let writer = thread::spawn(move || {
            let mut writer = appender(&writer_log, 1, 1);
            put(&mut writer, 1);
            put(&mut writer, 2);
        });
        let numbers = read(&log, 1).of(1);
        assert!(numbers.iter().copied().eq(1..=numbers.len() as u64));
        writer.join().unwrap();
        read(&log, 1).assert_owned_left(1, 2, 2);
    });
}

/// The one block goes from its first owner to the next under the reader's eyes.
#[test]
fn a_block_that_changes_hands_is_not_mixed() {
    model(Some(3), || {
        let log = log(1);
        let mut first = appender(&log, 1, 1);
        put(&mut first, 1);
        put(&mut first, 2);
        let writer_log = log.clone();
        let writer = thread::spawn(move || {
            first.release();
            let mut second = appender(&writer_log, 1, 2);
            put(&mut second, 1);
        });
        let seen = read(&log, 1);
        assert!(seen.of(1).is_empty() || seen.of(2).is_empty());
        writer.join().unwrap();
        read(&log, 1).assert_owned_left(2, 1, 1);
    });
}

#[test]
fn two_writers_wrap_around_and_all_is_accounted_for() {
    model(Some(2), || {
        let log = log(2);
        let other = log.clone();
        let thread = thread::spawn(move || {
            let mut writer = appender(&other, 2, 1);
            let done = put_many(&mut writer, 5);
            writer.release();
            done
        });
        let mut writer = appender(&log, 2, 2);
        let mine = put_many(&mut writer, 3);
        writer.release();
        let theirs = thread.join().unwrap();
        let seen = read(&log, 2);
        for (recording, done, tries) in [(1, theirs, 5), (2, mine, 3)] {
            let word = |at: usize| log.word(COUNTS + recording as usize * 16 + at).load(Ordering::Relaxed);
            assert_eq!((word(0), word(8)), (done, tries - done), "appended, dropped");
            seen.assert_left(recording, done);
        }
    });
}

/// It takes a block, perhaps begins a record, and is never heard of again.
#[test]
fn a_writer_that_vanishes_blocks_nobody() {
    model(Some(2), || {
        let log = log(2);
        let other = log.clone();
        let thread = thread::spawn(move || {
            let mut gone = appender(&other, 2, 1);
            let done = put_many(&mut gone, 1);
            if done == 1 {
                gone.mark_begun(7);
            }
            done
        });
        let mut writer = appender(&log, 2, 2);
        let done = put_many(&mut writer, 5);
        let theirs = thread.join().unwrap();
        let seen = read(&log, 2);
        seen.assert_owned_left(1, theirs, 1);
        seen.assert_owned_left(2, done, 5);
        // It is gone, and nothing that others still see of it stands in the way.
        assert!(put(&mut writer, done + 1) && put(&mut writer, done + 2) && put(&mut writer, done + 3));
    });
}

/// Between its two records the other writer may go around the ring more than once.
#[test]
fn a_writer_that_sleeps_for_laps_wakes_in_its_own_block() {
    model(Some(2), || {
        let log = log(2);
        let mut sleeper = appender(&log, 2, 1);
        put(&mut sleeper, 1);
        let other = log.clone();
        let thread = thread::spawn(move || {
            let mut writer = appender(&other, 2, 2);
            let done = put_many(&mut writer, 7);
            assert_eq!(done, 7, "the other block is its own all the time");
        });
        assert!(put(&mut sleeper, 2));
        thread.join().unwrap();
        let seen = read(&log, 2);
        assert_eq!(seen.of(1), [1, 2]);
        seen.assert_owned_left(2, 7, 7);
    });
}

/// Asleep between drawing a ticket and taking the block that it names, while others go around.
#[test]
fn a_writer_that_sleeps_while_claiming_takes_nothing_from_others() {
    model(Some(3), || {
        let log = log(2);
        let other = log.clone();
        let thread = thread::spawn(move || {
            let mut late = appender(&other, 2, 1);
            put_many(&mut late, 1);
            late.release();
        });
        let mut writer = appender(&log, 2, 2);
        let done = put_many(&mut writer, 5);
        thread.join().unwrap();
        let seen = read(&log, 2);
        let tickets: Vec<_> = seen.blocks.iter().map(|block| block.0).collect();
        assert!(tickets.windows(2).all(|pair| pair[0] < pair[1]));
        seen.assert_owned_left(2, done, 5);
    });
}

/// More writers than blocks: nobody waits, what finds no room is counted.
#[test]
fn without_a_free_block_records_are_dropped_and_counted() {
    model(None, || {
        let log = log(1);
        let mut owner = appender(&log, 1, 1);
        put(&mut owner, 1);
        let other = log.clone();
        let thread = thread::spawn(move || {
            let mut writer = appender(&other, 1, 2);
            put(&mut writer, 1);
            put(&mut writer, 2);
            writer.dropped()
        });
        put(&mut owner, 2);
        assert_eq!(thread.join().unwrap(), 2);
        read(&log, 1).assert_owned_left(1, 2, 2);
    });
}

#[test]
#[cfg_attr(loom, ignore = "slow")]
fn two_writers_and_a_reader_at_wrap_around() {
    model(Some(2), || {
        let log = log(2);
        let (a, b) = (log.clone(), log.clone());
        let first = thread::spawn(move || {
            let mut writer = appender(&a, 2, 1);
            put_many(&mut writer, 3)
        });
        let second = thread::spawn(move || {
            let mut writer = appender(&b, 2, 2);
            put_many(&mut writer, 3)
        });
        let seen = read(&log, 2);
        for recording in [1, 2] {
            let numbers = seen.of(recording);
            assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{numbers:?}");
        }
        let (first, second) = (first.join().unwrap(), second.join().unwrap());
        let seen = read(&log, 2);
        seen.assert_owned_left(1, first, 3);
        seen.assert_owned_left(2, second, 3);
    });
}

#[test]
fn two_processes_get_one_index_for_one_object() {
    model(None, || {
        const ENTRIES: u64 = 2;
        let table = Log::new((ENTRIES * OBJECT_BYTES / 8) as usize);
        let other = table.clone();
        let register = |table: &Log, ino| objects::register(table, 0, ENTRIES, 1, ino, |_| true, |_| {});
        let thread = thread::spawn(move || (register(&other, 5), register(&other, 6)));
        let mine = (register(&table, 6), register(&table, 5));
        let theirs = thread.join().unwrap();
        assert_eq!((mine.1, mine.0), theirs);
        assert_ne!(mine.0, mine.1);
        assert!(mine.0.is_some() && mine.1.is_some());
        assert_eq!(objects::register(&table, 0, ENTRIES, 1, 7, |_| true, |_| {}), None, "full");
    });
}
