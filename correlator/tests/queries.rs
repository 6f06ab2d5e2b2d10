//! The smaller questions, on histories short enough to be read.
mod common;
use common::*;
use correlator::*;

fn whole(recording: usize, offset: u64, len: u64, kind: Kind, value: u8) -> Step {
    Step { recording, object: 0, offset, len, kind, value, blocks: 1, whole: true, by_kernel: false }
}

fn part(recording: usize, kind: Kind, value: u8) -> Step {
    Step { whole: false, ..whole(recording, 0, 4, kind, value) }
}

const WORD: u64 = 4;

fn target(recording: usize) -> Target {
    Target::Address(address(recording, 0))
}

#[test]
fn stale_is_what_another_wrote_since() {
    let mut history = History::new(2, 256 << 10);
    let one = history.recordings[0];
    history.run(&[whole(0, 64, 4, Kind::Write, 1)]);
    let status = |history: &History, time| history.open().shared_status(&Query::new(one, time, target(0), WORD)).unwrap();
    assert_eq!(status(&history, Moment::End), SharedStatus::NeverAccessed);
    history.run(&[whole(0, 0, 4, Kind::Read, 0)]);
    assert!(matches!(status(&history, Moment::End), SharedStatus::Current { .. }));
    history.run(&[whole(1, 0, 4, Kind::Read, 0), whole(1, 8, 4, Kind::Write, 3)]);
    assert!(matches!(status(&history, Moment::End), SharedStatus::Current { .. }), "reads and neighbours do not matter");
    history.run(&[whole(1, 0, 4, Kind::Write, 7)]);
    let SharedStatus::Stale { by, .. } = status(&history, Moment::End) else { panic!("it is stale") };
    assert_eq!((by.recording, by.value()), (history.recordings[1], &[7; 4][..]));
    history.run(&[whole(0, 0, 4, Kind::Read, 0)]);
    assert!(matches!(status(&history, Moment::End), SharedStatus::Current { .. }));
    // Between its two reads it may have been written already.
    let reads: Vec<Time> = all(history.open().reader()).iter().filter(|r| r.recording == one && r.offset == 0).map(|r| r.time).collect();
    assert!(matches!(status(&history, Moment::At(reads[1])), SharedStatus::Stale { .. }));
    let not_shared = history.open().shared_status(&Query::new(one, Moment::End, Target::Address(0x1234), WORD)).unwrap();
    assert_eq!(not_shared, SharedStatus::NotShared);
}

#[test]
fn a_writer_that_was_not_recorded_is_noticed() {
    let mut history = History::new(2, 256 << 10);
    history.run(&[whole(0, 0, 4, Kind::Write, 1), whole(1, 0, 4, Kind::Read, 0)]);
    history.poke(0, 2, 9);
    history.run(&[whole(1, 0, 4, Kind::Read, 0)]);
    let found = history.open().unrecorded_writers(10).unwrap();
    assert_eq!(found.len(), 1);
    let Unrecorded { offset, len, after, seen_by, certain } = &found[0];
    assert_eq!((*offset, *len), (2, 1));
    assert_eq!((after.value(), seen_by.value()), (&[1, 1, 1, 1][..], &[1, 1, 9, 1][..]));
    assert!(certain);
}

#[test]
fn readers_of_a_write_saw_it() {
    let mut history = History::new(3, 256 << 10);
    let steps = [(0, Kind::Write, 1), (1, Kind::Read, 0), (2, Kind::Read, 0), (0, Kind::Write, 2), (1, Kind::Read, 0)];
    history.run(&steps.map(|(recording, kind, value)| whole(recording, 0, 4, kind, value)));
    let correlator = history.open();
    let records = all(correlator.reader());
    let write = |value: u8| records.iter().find(|record| record.kind == Kind::Write && record.value()[0] == value).unwrap();
    let readers =
        |value| -> Vec<_> { correlator.readers_of(write(value), 10).unwrap().into_iter().map(|reader| reader.recording).collect() };
    let mut first = readers(1);
    first.sort();
    assert_eq!(first, history.recordings[1..]);
    assert_eq!(readers(2), history.recordings[1..2]);
}

#[test]
fn values_decide_between_overlapping_accesses() {
    // The write and the read overlap; the read saw what was there before it.
    let mut history = History::new(2, 256 << 10);
    history.run(&[whole(0, 0, 4, Kind::Write, 1)]);
    let steps = [part(0, Kind::Write, 2), part(1, Kind::Read, 0), part(1, Kind::Read, 0), part(0, Kind::Write, 2)];
    history.run(&steps);
    let correlator = history.open();
    let blame = correlator.blame(&Query::new(history.recordings[1], Moment::End, target(1), WORD), &limited(40)).unwrap();
    let rows: Vec<_> = blame.rows.iter().map(|row| (row.record.kind, row.record.value()[0], row.concurrent)).collect();
    assert_eq!(rows, [(Kind::Write, 1, false), (Kind::Read, 1, false)], "what came later did not lead here");
    assert_eq!(correlator.races(10).unwrap().len(), 1, "it was a race all the same");
}

#[test]
fn before_and_after_know_kinds_and_owners() {
    let mut history = History::new(2, 256 << 10);
    let steps = [(0, Kind::Write, 1), (1, Kind::Read, 0), (0, Kind::Write, 2), (1, Kind::Read, 0), (0, Kind::Write, 3)];
    history.run(&steps.map(|(recording, kind, value)| whole(recording, 0, 4, kind, value)));
    let correlator = history.open();
    let two = history.recordings[1];
    let writes = Filter { writes: true, ..Filter::default() };
    let own = Filter { by: Some(two), ..Filter::default() };
    let value = |found: Option<Record>| found.map(|found| found.value()[0]);
    let at = |time| Query::new(two, time, target(1), WORD);
    let end = Moment::End;
    assert_eq!(value(correlator.access_before(&at(end), writes).unwrap()), Some(2));
    assert_eq!(value(correlator.access_after(&at(end), writes).unwrap()), Some(3));
    let last = correlator.access_before(&at(end), own).unwrap().unwrap();
    assert_eq!(last.value(), [2; 4]);
    let before = Moment::At(last.time);
    assert_eq!(value(correlator.access_before(&at(before), own).unwrap()), Some(1));
    assert_eq!(value(correlator.access_after(&at(before), own).unwrap()), Some(2));
    let reason = |time| correlator.blame(&at(time), &limited(40)).unwrap().why_empty;
    assert!(matches!(reason(Moment::At(Time { bbcount: 1, pc: 0 })), Some(Reason::NotYet { .. })));
    assert_eq!(reason(end), None);
}
