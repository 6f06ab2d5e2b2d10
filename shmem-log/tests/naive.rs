//! The log against the simplest thing that could be one: a list.
mod common;
use common::*;
use proptest::prelude::*;
use shmem_log::*;

#[derive(Clone, Debug)]
struct Op {
    writer: usize,
    kind: Kind,
    offset: u64,
    len: u64,
    bb_step: u64,
    value: u8,
    end: End,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Commit,
    Abandon,
    /// The writer gives its block back afterwards.
    Finish,
    /// The time is noted afterwards.
    Note,
}

fn op() -> impl Strategy<Value = Op> {
    let kind = prop_oneof![Just(Kind::Read), Just(Kind::Write), Just(Kind::ReadWrite)];
    let len = prop_oneof![4 => 1..9u64, 2 => 9..200u64, 1 => 1000..5000u64];
    let bb_step = prop_oneof![8 => 0..50u64, 1 => (1 << 32) - 2..(1u64 << 32) + 2, 1 => Just(1 << 40)];
    let end = prop_oneof![20 => Just(End::Commit), 2 => Just(End::Abandon), 1 => Just(End::Finish), 1 => Just(End::Note)];
    (0..3usize, kind, 0..3000u64, len, bb_step, any::<u8>(), end).prop_map(|(writer, kind, offset, len, bb_step, value, end)| Op {
        writer,
        kind,
        offset,
        len,
        bb_step,
        value,
        end,
    })
}

#[derive(Debug, PartialEq)]
struct Whole {
    recording: u32,
    kind: Kind,
    offset: u64,
    bbcount: u64,
    seen: Vec<u8>,
    written: Vec<u8>,
}

/// The accesses of one recording, pieces joined.
fn read(reader: &Reader, recording: u32) -> Vec<Whole> {
    let mut joined: Vec<Whole> = Vec::new();
    let mut cursor = reader.cursor();
    while let Some(a) = cursor.next().unwrap() {
        if a.recording.get() != recording {
            continue;
        }
        if matches!(a.piece, Piece::Middle | Piece::Last) {
            let Some(last) = joined.last_mut() else { continue }; // Its beginning was overwritten.
            last.seen.extend(a.seen());
            last.written.extend(a.written());
        } else {
            let (seen, written) = (a.seen().to_vec(), a.written().to_vec());
            joined.push(Whole { recording, kind: a.kind, offset: a.offset, bbcount: a.bbcount, seen, written });
        }
    }
    joined
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_left_is_the_end_of_what_was_written(ops in prop::collection::vec(op(), 1..1500)) {
        let test = TestLog::new();
        let log = test.join(layout::MIN_SIZE);
        let o = object(&log);
        let mut writers: Vec<_> = (0..3).map(|pid| (writer(&log, pid), 0u64)).collect();
        let mut list: Vec<Vec<Whole>> = (0..3).map(|_| Vec::new()).collect();
        let mut scratch = vec![LineTicks::default(); Writer::lines(63, 5000)];
        for op in ops {
            let (w, bbcount) = &mut writers[op.writer];
            *bbcount += op.bb_step;
            let bytes = vec![op.value; op.len as usize];
            let seen: &[u8] = if op.kind.reads() { &bytes } else { &[] };
            let other = vec![!op.value; op.len as usize];
            let written: &[u8] = if op.kind.writes() { &other } else { &[] };
            let origin = Origin::Pc { pc: 1, by_kernel: false };
            if op.end == End::Abandon {
                let token = w.begin(op.kind, o, op.offset, op.len.min(MAX_BEGIN_BYTES));
                w.abandon(token);
                continue;
            }
            if op.len <= 8 {
                let site = w.register_site(1, op.kind, op.len as u32);
                let token = w.begin(op.kind, o, op.offset, op.len);
                match (site, op.kind) {
                    (Ok(site), Kind::ReadWrite) => w.commit_rw(token, site, *bbcount, number(seen), number(written)),
                    (Ok(site), _) => w.commit(token, site, *bbcount, number(if op.kind.reads() { seen } else { written })),
                    // There are few sites in so small a log.
                    (Err(_), _) => w.commit_bytes(token, origin, *bbcount, seen, written),
                }
            } else {
                let token = w.begin_wide(op.kind, o, op.offset, op.len, &mut scratch);
                w.commit_wide(token, &mut scratch, origin, *bbcount, seen, written);
            }
            let (seen, written) = (seen.to_vec(), written.to_vec());
            list[op.writer].push(Whole { recording: op.writer as u32, kind: op.kind, offset: op.offset, bbcount: *bbcount, seen, written });
            match op.end {
                End::Finish => w.finish(),
                End::Note => w.note_time(*bbcount),
                _ => {}
            }
        }
        let reader = test.read();
        for (recording, list) in list.iter().enumerate() {
            let found = read(&reader, recording as u32);
            let counts = reader.counts(RecordingIndex::new(recording as u32).unwrap());
            prop_assert_eq!((counts.dropped, counts.unfinished), (0, 0));
            prop_assert_eq!(counts.committed + counts.lost, counts.appended);
            if counts.lost == 0 {
                prop_assert_eq!(&found, list);
            }
            // The first one left may be the end of an access only, and blocks in the middle may be gone.
            let mut rest = list.iter();
            for whole in found.iter().skip(1) {
                prop_assert!(rest.any(|one| one == whole) || counts.lost > 0, "{:?}", whole);
            }
        }
    }
}
