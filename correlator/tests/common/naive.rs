//! Answers by looking at every access. Also used on the logs of real programs, by the crate `tests`.
use correlator::{ObjectIndex, Record, RecordOrder, RecordingIndex, Time, order};
use shmem_log::Reader;

/// All accesses of a log, by the reader's own decoding.
pub fn all(reader: &Reader) -> Vec<Record> {
    let mut cursor = reader.cursor();
    let mut records = Vec::new();
    while let Some(access) = cursor.next().unwrap() {
        records.push(Record::from(&access));
    }
    records
}

/// Blame by looking at every access: the last own one, and those not known to be after it.
pub fn naive_blame(
    all: &[Record],
    recording: RecordingIndex,
    time: Option<Time>,
    object: ObjectIndex,
    offset: u64,
    len: u64,
) -> Vec<Record> {
    let overlapping: Vec<&Record> = all.iter().filter(|record| record.overlaps(object, offset, len)).collect();
    let own = |record: &&&Record| record.recording == recording && time.is_none_or(|time| record.time < time);
    let Some(last) = overlapping.iter().filter(own).max_by_key(|record| record.position) else { return Vec::new() };
    let up_to = |record: &&Record| match order(record, last) {
        RecordOrder::Before | RecordOrder::Concurrent => true,
        RecordOrder::After => false,
        RecordOrder::Unrelated => record.tsc <= last.tsc,
    };
    overlapping.iter().filter(|record| up_to(record)).map(|record| (*record).clone()).collect()
}
