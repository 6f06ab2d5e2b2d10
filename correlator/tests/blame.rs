//! Blame against a linear scan over the same log, and against what really happened.
mod common;
use common::*;
use correlator::*;
use proptest::prelude::*;

#[derive(Clone, Copy, Debug)]
struct Question {
    recording: usize,
    object: usize,
    offset: u64,
    len: u64,
    /// An own access, by chance, whose time is asked about; the end if there is none.
    at: usize,
    after: bool,
}

fn question(recordings: usize) -> impl Strategy<Value = Question> {
    let len = prop_oneof![4 => prop_oneof![Just(1u64), Just(4), Just(8)], 1 => 1u64..120];
    let offset = prop_oneof![4 => 0u64..24, 1 => 56u64..72, 1 => 0..OBJECT_BYTES];
    (0..recordings, 0..2usize, offset, len, 0..400usize, any::<bool>()).prop_map(|(recording, object, offset, len, at, after)| Question {
        recording,
        object,
        offset,
        len,
        at,
        after,
    })
}

fn times(records: &[Record], recording: RecordingIndex) -> Vec<Time> {
    records.iter().filter(|record| record.recording == recording).map(|record| record.time).collect()
}

fn check(history: &History, records: &[Record], correlator: &Correlator, question: &Question) {
    let recording = history.recordings[question.recording];
    let object = history.objects[question.object];
    let own = times(records, recording);
    let time = own.get(question.at).map(|time| Time { bbcount: time.bbcount, pc: time.pc + u64::from(question.after) });
    let moment = time.map_or(Moment::End, Moment::At);
    let address = Target::Address(address(question.recording, question.object) + question.offset);
    let query = Query::new(recording, moment, address, question.len);
    let blame = correlator.blame(&query, &limited(usize::MAX)).unwrap();
    let naive = naive_blame(records, recording, time, object, question.offset, question.len);

    assert_eq!(blame.why_empty.is_some(), blame.rows.is_empty());
    assert_eq!(blame.cut, None);
    let mut positions: Vec<_> = blame.rows.iter().map(|row| row.record.position).collect();
    positions.sort();
    let mut expected: Vec<_> = naive.iter().map(|record| record.position).collect();
    expected.sort();
    let missing: Vec<_> = naive.iter().filter(|record| !positions.contains(&record.position)).collect();
    let last = blame.rows.last().map(|row| &row.record);
    assert!(positions.iter().all(|position| expected.contains(position)), "{question:?}: rows that are none");
    // Only what values show to have come later may be left out; then it really did.
    for record in missing {
        let last = last.unwrap();
        assert_eq!(order(record, last), RecordOrder::Concurrent, "{question:?}: {record:?} is missing");
        assert!(history.when(record) > history.when(last), "{question:?}: {record:?} came before");
    }
    for (index, row) in blame.rows.iter().enumerate() {
        assert_eq!(Some(&row.record), naive.iter().find(|record| record.position == row.record.position));
        assert_eq!(row.own, row.record.recording == recording);
        assert_eq!(row.address, Some(common::address(question.recording, question.object) + row.record.offset));
        for later in &blame.rows[index + 1..] {
            assert_ne!(order(&row.record, &later.record), RecordOrder::After, "{question:?}: the order is wrong");
            let common = row.record.overlaps(
                object,
                question.offset.max(later.record.offset),
                later.record.end().min(question.offset + question.len).saturating_sub(question.offset.max(later.record.offset)),
            );
            let conflict = common && (row.record.kind.writes() || later.record.kind.writes());
            if conflict && !(row.concurrent && later.concurrent) {
                let (a, b) = (history.when(&row.record), history.when(&later.record));
                assert!(a < b, "{question:?}: claimed in order, but was not: {row:?} {later:?}");
            }
        }
    }
    assert_eq!(last.map(|last| last.recording), naive.first().map(|_| recording), "the own last access is the last row");

    let limited = correlator.blame(&query, &limited(3)).unwrap();
    assert_eq!(limited.rows.len(), blame.rows.len().min(3));
    assert_eq!(limited.cut.is_some(), blame.rows.len() > 3, "{question:?}");

    // Writers: of each byte, the write that really was the last before the last access must be among them.
    let writers = correlator.blame(&query, &WRITERS).unwrap();
    for row in &writers.rows {
        assert!(row.record.kind.writes() && expected.contains(&row.record.position));
    }
    let Some(last) = last else { return };
    for byte in question.offset..(question.offset + question.len).min(OBJECT_BYTES) {
        let before =
            |record: &&Record| record.kind.writes() && record.overlaps(object, byte, 1) && history.when(record) <= history.when(last);
        let Some(truth) = records.iter().filter(before).max_by_key(|record| history.when(record)) else { continue };
        if order(truth, last) != RecordOrder::Unrelated {
            assert!(
                writers.rows.iter().any(|row| row.record.position == truth.position),
                "{question:?}: byte {byte}: {truth:?} is no writer"
            );
        }
    }
    // And none that was certainly overwritten.
    for row in &writers.rows {
        let bytes = row.record.offset.max(question.offset)..row.record.end().min(question.offset + question.len);
        let remains = bytes.clone().any(|byte| {
            !records.iter().any(|other| {
                other.kind.writes()
                    && other.overlaps(object, byte, 1)
                    && order(&row.record, other) == RecordOrder::Before
                    && (other.position == last.position || order(other, last) == RecordOrder::Before)
            })
        });
        assert!(remains, "{question:?}: {row:?} was overwritten");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 250, failure_persistence: None, ..ProptestConfig::default() })]

    /// 250 logs, 40 questions each.
    #[test]
    fn blame_is_what_a_linear_scan_finds(trial in trial(question)) {
        let (history, correlator) = trial.run();
        let records = all(correlator.reader());
        prop_assert_eq!(correlator.skipped(), Skipped::default());
        for question in &trial.questions {
            check(&history, &records, &correlator, question);
        }
    }
}
