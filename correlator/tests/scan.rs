//! The questions other than blame, against a look at every access.
mod common;
use common::*;
use correlator::*;
use proptest::prelude::*;

#[derive(Clone, Copy, Debug)]
struct Question {
    recording: usize,
    by: Option<usize>,
    kind: Option<Kind>,
    offset: u64,
    len: u64,
    /// An own access, by chance, whose time is asked about; the end if there is none. And an access by anyone, whose readers are sought.
    at: usize,
    after: bool,
}

fn question(recordings: usize) -> impl Strategy<Value = Question> {
    let place = (prop_oneof![4 => 0u64..24, 1 => 56u64..72], prop_oneof![4 => 1u64..9, 1 => 1u64..80]);
    let kind = prop_oneof![Just(None), Just(Some(Kind::Read)), Just(Some(Kind::Write))];
    (0..recordings, prop::option::of(0..recordings), kind, place, 0..400usize, any::<bool>())
        .prop_map(|(recording, by, kind, (offset, len), at, after)| Question { recording, by, kind, offset, len, at, after })
}

/// What a question is about, of all accesses those to its bytes, and where the question stands among them.
struct Asked<'a> {
    query: Query,
    filter: Filter,
    all: Vec<&'a Record>,
    time: Option<Time>,
    /// The own last access.
    last: Option<&'a Record>,
}

impl<'a> Asked<'a> {
    fn new(history: &History, records: &'a [Record], question: &Question) -> Asked<'a> {
        let recording = history.recordings[question.recording];
        let own: Vec<Time> = records.iter().filter(|record| record.recording == recording).map(|record| record.time).collect();
        let time = own.get(question.at).map(|time| Time { bbcount: time.bbcount, pc: time.pc + u64::from(question.after) });
        let target = Target::Address(address(question.recording, 0) + question.offset);
        let query = Query::new(recording, time.map_or(Moment::End, Moment::At), target, question.len);
        let filter = Filter { by: question.by.map(|by| history.recordings[by]), kind: question.kind, writes: false };
        let object = history.objects[0];
        let all: Vec<&Record> = records.iter().filter(|record| record.overlaps(object, question.offset, question.len)).collect();
        let own_before = |record: &&&Record| record.recording == recording && time.is_none_or(|time| record.time < time);
        let last = all.iter().filter(own_before).max_by_key(|record| record.position).copied();
        Asked { query, filter, all, time, last }
    }

    fn is_own(&self, record: &Record) -> bool {
        record.recording == self.query.recording
    }

    fn is_past(&self, record: &Record) -> bool {
        self.time.is_none_or(|time| record.time < time)
    }

    fn accepts(&self, record: &Record) -> bool {
        self.filter.by.is_none_or(|by| record.recording == by) && self.filter.kind.is_none_or(|kind| record.kind == kind)
    }

    /// All that may be the last access before the time asked about.
    fn before(&self) -> Vec<&'a Record> {
        let accepted = self.all.iter().copied().filter(|record| self.accepts(record));
        if self.filter.by == Some(self.query.recording) {
            return accepted.filter(|record| self.is_past(record)).collect();
        }
        let Some(last) = self.last else { return Vec::new() };
        accepted
            .filter(|record| match order(record, last) {
                _ if record.position == last.position => true,
                RecordOrder::Before | RecordOrder::Concurrent => true,
                RecordOrder::After => false,
                RecordOrder::Unrelated => record.tsc <= last.tsc,
            })
            .collect()
    }

    /// All that may be the next.
    fn after(&self) -> Vec<&'a Record> {
        let lines = self.lines();
        let is_after = |record: &&Record| match self.last {
            _ if self.is_own(record) => !self.is_past(record),
            None => true,
            Some(last) => lines.clone().any(|line| last.interval(line).zip(record.interval(line)).is_some_and(|(a, b)| a.end < b.start)),
        };
        self.all.iter().copied().filter(|record| self.accepts(record)).filter(is_after).collect()
    }

    fn lines(&self) -> std::ops::RangeInclusive<u64> {
        let Target::Address(address) = self.query.target else { panic!("an address") };
        let offset = address % 0x1_0000;
        offset / 64..=(offset + self.query.length - 1) / 64
    }

    /// Whether one is known to have come before the other, by program order or the clocks of the lines asked about.
    fn is_known(&self, one: &Record, other: &Record) -> bool {
        let on_line = |line| one.interval(line).zip(other.interval(line)).is_some_and(|(one, other)| one.precedes(&other));
        if one.recording == other.recording { one.position < other.position } else { self.lines().any(on_line) }
    }

    /// Whether a word that this recording knows may be out of date.
    fn is_stale(&self) -> bool {
        let Target::Address(address) = self.query.target else { panic!("an address") };
        let from = address % 0x1_0000;
        (from / 8..=(from + self.query.length - 1) / 8).any(|word| {
            let word = from.max(word * 8)..(from + self.query.length).min(word * 8 + 8);
            let on_word = |record: &&&Record| record.offset < word.end && word.start < record.end();
            let own = || self.all.iter().filter(on_word).filter(|record| self.is_own(record));
            let Some(last) = own().filter(|record| self.is_past(record)).max_by_key(|record| record.position) else { return false };
            // The youngest write of each other recording that may have come before the moment asked about.
            let line = word.start / 64;
            let next = own().filter(|record| !self.is_past(record)).min_by_key(|record| record.position);
            let bound = next.map_or(u64::MAX, |next| next.interval(line).unwrap().end);
            let mut youngest: std::collections::HashMap<RecordingIndex, &Record> = Default::default();
            for write in self.all.iter().filter(on_word).filter(|record| !self.is_own(record) && record.kind.writes()) {
                if write.interval(line).unwrap().start <= bound {
                    youngest.insert(write.recording, write);
                }
            }
            youngest.values().any(|write| match order(last, write) {
                RecordOrder::Before => true,
                RecordOrder::After => false,
                _ => (write.offset.max(word.start)..write.end().min(word.end)).any(|byte| {
                    let known = byte.checked_sub(last.offset).and_then(|at| last.value().get(at as usize));
                    known != Some(&write.written[(byte - write.offset) as usize])
                }),
            })
        })
    }
}

fn common_bytes(a: &Record, b: &Record) -> std::ops::Range<u64> {
    a.offset.max(b.offset)..a.end().min(b.end())
}

/// Who saw what a write left, byte by byte.
fn naive_readers(records: &[Record], write: &Record) -> Vec<Position> {
    let same = |record: &&Record| record.object == write.object && record.position != write.position;
    let after: Vec<&Record> = records.iter().filter(same).filter(|record| order(write, record) == RecordOrder::Before).collect();
    let saw_it = |read: &&Record| {
        let common = common_bytes(read, write);
        let hidden = |byte: u64| {
            let covers = |next: &&&Record| next.kind.writes() && (next.offset..next.end()).contains(&byte);
            after.iter().filter(covers).any(|next| order(next, read) == RecordOrder::Before)
        };
        let byte = |record: &Record, bytes: &[u8], at: u64| bytes[(at - record.offset) as usize];
        read.kind.reads()
            && !common.is_empty()
            && order(read, write) != RecordOrder::Before
            && common.clone().all(|at| byte(read, &read.seen, at) == byte(write, &write.written, at))
            && !common.clone().all(hidden)
    };
    records.iter().filter(same).filter(saw_it).map(|read| read.position).collect()
}

fn check(history: &History, records: &[Record], correlator: &Correlator, question: &Question) {
    let asked = Asked::new(history, records, question);
    let position = |record: &Option<Record>| record.as_ref().map(|record| record.position);

    let (before, found) = (asked.before(), correlator.access_before(&asked.query, asked.filter).unwrap());
    assert_eq!(found.is_none(), before.is_empty(), "{question:?}: before");
    if let Some(found) = &found {
        assert!(before.contains(&found), "{question:?}: {found:?} is not before");
        assert!(!before.iter().any(|other| asked.is_known(found, other)), "{question:?}: {found:?} is not the last");
    }

    let (after, found) = (asked.after(), correlator.access_after(&asked.query, asked.filter).unwrap());
    assert_eq!(found.is_none(), after.is_empty(), "{question:?}: after");
    if let Some(found) = &found {
        assert!(after.contains(&found), "{question:?}: {found:?} is not after");
        let is_first = !after.iter().any(|other| asked.is_known(other, found));
        assert!(is_first || asked.lines().count() > 1, "{question:?}: {found:?} is not the first");
    }

    let mut known = vec![None; question.len.min(4096) as usize];
    for record in asked.all.iter().filter(|record| asked.is_own(record) && asked.is_past(record)) {
        for byte in record.offset.max(question.offset)..record.end().min(question.offset + question.len) {
            known[(byte - question.offset) as usize] = Some(record.value()[(byte - record.offset) as usize]);
        }
    }
    assert_eq!(correlator.value_at(&asked.query).unwrap(), known, "{question:?}: value");

    let status = correlator.shared_status(&asked.query).unwrap();
    match asked.last {
        None => assert_eq!(status, SharedStatus::NeverAccessed, "{question:?}"),
        Some(last) => match &status {
            SharedStatus::Current { accessed } => assert!(*accessed == last.time && !asked.is_stale(), "{question:?}: {status:?}"),
            SharedStatus::Stale { by, .. } => assert!(!asked.is_own(by) && asked.is_stale(), "{question:?}: {status:?}"),
            _ => panic!("{question:?}: {status:?}"),
        },
    }

    let writes: Vec<&Record> = records.iter().filter(|record| record.kind.writes()).collect();
    if let Some(write) = writes.get(question.at % writes.len().max(1)) {
        let readers = correlator.readers_of(write, usize::MAX).unwrap();
        let mut found: Vec<_> = readers.iter().map(|reader| reader.position).collect();
        found.sort();
        assert_eq!(found, naive_readers(records, write), "{question:?}: readers of {write:?}");
        assert_eq!(position(&readers.first().cloned()).is_some(), !found.is_empty());
        assert_eq!(correlator.readers_of(write, 1).unwrap().len(), found.len().min(1));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    /// 150 logs, 40 questions of each kind.
    #[test]
    fn answers_are_what_a_linear_scan_finds(trial in trial(question)) {
        let (history, correlator) = trial.run();
        let records = all(correlator.reader());
        for question in &trial.questions {
            check(&history, &records, &correlator, question);
        }
    }
}
