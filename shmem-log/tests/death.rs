//! Writers that are killed and stopped at random instants cost nobody else anything.
mod common;
use common::process::{Random, Shared, spawn, wait_ok};
use common::*;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use shmem_log::*;
use std::sync::atomic::Ordering::SeqCst;

/// Each kills one writer and stops and continues another.
const ROUNDS: u64 = 1000;

const BEGUN: usize = 0;
const DONE: usize = 8;
const STOP: usize = 16;

/// Wide ones cross a line, but no piece, so that each is one record.
fn offset(n: u64) -> u64 {
    if n % 5 == 1 { n % 32 * 128 + 32 } else { n % 512 * 8 }
}

fn append(w: &mut Writer, o: ObjectIndex, sites: &[SiteIndex; 3], who: u64, n: u64) {
    let value = who << 48 | n;
    match n % 5 {
        0 => {
            let t = w.begin(Kind::ReadWrite, o, offset(n), 8);
            w.commit_rw(t, sites[1], n, value, !value);
        }
        1 => {
            let bytes: Vec<u8> = value.to_le_bytes().repeat((n % 7 + 2) as usize);
            let t = w.begin(Kind::Write, o, offset(n), bytes.len() as u64);
            w.commit_bytes(t, Origin::Pc { pc: 9, by_kernel: true }, n, &[], &bytes);
        }
        2 => {
            let t = w.begin(Kind::Read, o, offset(n), 8);
            w.commit(t, sites[2], n, value);
        }
        _ => {
            let t = w.begin(Kind::Write, o, offset(n), 8);
            w.commit(t, sites[0], n, value);
        }
    }
}

/// Appends until told to stop, and tells how far it is. Counters of `who` lie at `who` in each array.
fn append_for_ever(w: &mut Writer, o: ObjectIndex, sites: &[SiteIndex; 3], shared: Shared, who: u64) {
    let at = who as usize;
    let mut n = 0;
    while shared.word(STOP + at).load(SeqCst) == 0 {
        shared.set(BEGUN + at, n + 1);
        append(w, o, sites, who, n);
        n += 1;
        shared.set(DONE + at, n);
    }
}

/// Checks all records of a recording; the number that there must have been.
fn check(reader: &Reader, recording: RecordingIndex, who: u64) -> Counts {
    let mut buffer = BlockBuffer::default();
    let mut found = 0;
    let mut next = None;
    for block in reader.blocks().iter().filter(|block| block.recording == recording) {
        let view = reader.load(block, &mut buffer).unwrap().expect("nobody overwrites it now");
        for access in view.iter() {
            let access = access.unwrap();
            let n = access.sequence;
            let value = who << 48 | n;
            assert_eq!((access.bbcount, access.offset), (n, offset(n)));
            match access.kind {
                Kind::ReadWrite => assert_eq!((number(access.seen()), number(access.written())), (value, !value)),
                _ => access.value().chunks(8).for_each(|chunk| assert_eq!(number(chunk), value)),
            }
            assert!(next.is_none_or(|next| n >= next), "program order");
            next = Some(n + 1);
            found += 1;
        }
    }
    let counts = reader.counts(recording);
    assert_eq!(counts.committed, found);
    assert_eq!(counts.committed + counts.lost + counts.unfinished, counts.appended);
    assert_eq!(counts.dropped, 0);
    // Its last record is never lost while the block is its own.
    if let Some(next) = next {
        assert_eq!(next, counts.committed + counts.lost);
    }
    counts
}

#[test]
fn killed_and_stopped_writers_cost_only_their_unfinished_record() {
    let mut random = Random(42);
    let mut unfinished = 0;
    let mut laps = 0;
    for round in 0..ROUNDS {
        let test = TestLog::new();
        let log = test.join(layout::MIN_SIZE);
        let o = object(&log);
        let sites = [Kind::Write, Kind::ReadWrite, Kind::Read].map(|kind| log.register_site(1, kind, 8).unwrap());
        let shared = Shared::new(32);
        let recordings = [0, 1, 2].map(|who| log.register_recording(&info(who)).unwrap());
        let start = |who: u64| {
            spawn(|| {
                let mut w = Writer::new(&log, recordings[who as usize]).unwrap();
                append_for_ever(&mut w, o, &sites, shared, who);
                w.finish();
            })
        };
        let (victim, sleeper) = (start(1), start(2));
        let mut w = Writer::new(&log, recordings[0]).unwrap();

        // Anywhere in the first blocks, wherever that hits them.
        let threshold = random.below(1200);
        shared.wait(DONE + 2, |done| done >= threshold);
        kill(sleeper, Signal::SIGSTOP).unwrap();
        assert_eq!(waitpid(sleeper, Some(WaitPidFlag::WUNTRACED)).unwrap(), WaitStatus::Stopped(sleeper, Signal::SIGSTOP));
        let threshold = random.below(1200);
        shared.wait(DONE + 1, |done| done >= threshold);
        kill(victim, Signal::SIGKILL).unwrap();
        assert_eq!(waitpid(victim, None).unwrap(), WaitStatus::Signaled(victim, Signal::SIGKILL, false));

        // Around the whole ring, past the blocks of both.
        let mine = 4000 + random.below(2000);
        (0..mine).for_each(|n| append(&mut w, o, &sites, 0, n));
        let asleep = test.read();
        laps += asleep.blocks().last().unwrap().ticket / log.layout().blocks().count;
        check(&asleep, recordings[2], 2);
        let slept_at = shared.wait(DONE + 2, |_| true);

        kill(sleeper, Signal::SIGCONT).unwrap();
        shared.wait(DONE + 2, |done| done > slept_at + 20);
        shared.set(STOP + 2, 1);
        wait_ok(sleeper);
        w.finish();

        let reader = test.read();
        let [own, killed, slept] = [0, 1, 2].map(|who| check(&reader, recordings[who as usize], who));
        assert_eq!((own.appended, own.unfinished), (mine, 0));
        let [begun, done] = [BEGUN, DONE].map(|at| shared.wait(at + 2, |_| true));
        assert_eq!((slept.appended, slept.unfinished, begun), (done, 0, done));
        let [begun, done] = [BEGUN, DONE].map(|at| shared.wait(at + 1, |_| true));
        let committed = killed.committed + killed.lost;
        assert!(done <= committed && committed <= begun && begun <= done + 1, "round {round}: {killed:?}, {done} done, {begun} begun");
        assert!(killed.appended <= begun, "round {round}: {killed:?}, {done} done, {begun} begun");
        unfinished += killed.unfinished;
    }
    println!("{ROUNDS} rounds, {laps} laps, {unfinished} unfinished records");
    assert!(laps > ROUNDS, "the ring was lapped");
    assert!(unfinished > 0, "some died within an access");
}

/// Its access is known to have been under way: the log says where.
#[test]
fn an_access_that_was_under_way_is_reported() {
    let test = TestLog::new();
    let log = test.join(layout::MIN_SIZE);
    let o = object(&log);
    let shared = Shared::new(8);
    let victim = spawn(|| {
        let mut w = writer(&log, 1);
        let site = w.register_site(1, Kind::Write, 8).unwrap();
        let t = w.begin(Kind::Write, o, 64, 8);
        w.commit(t, site, 1, 1);
        let _token = w.begin(Kind::Write, o, 1234, 8);
        shared.set(0, 1);
        shared.wait(1, |_| false);
    });
    shared.wait(0, |ready| ready == 1);
    kill(victim, Signal::SIGKILL).unwrap();
    waitpid(victim, None).unwrap();
    let reader = test.read();
    let [unfinished] = reader.unfinished() else { panic!("{:?}", reader.unfinished()) };
    assert_eq!((unfinished.object, unfinished.offset), (o, 1234));
    let counts = reader.total_counts();
    assert_eq!((counts.appended, counts.committed, counts.unfinished), (2, 1, 1));
}

/// A child goes on with a recording of its own, and leaves its parent's block alone.
#[test]
fn a_log_survives_fork() {
    let test = TestLog::new();
    let log = test.join(1 << 20);
    let o = object(&log);
    let mut parent = writer(&log, 1);
    let site = parent.register_site(1, Kind::Write, 8).unwrap();
    let put = |w: &mut Writer, n: u64| {
        let t = w.begin(Kind::Write, o, 0, 8);
        w.commit(t, site, n, n);
    };
    put(&mut parent, 1);
    let child = spawn(|| {
        let mut child = writer(&log, 2);
        let t = child.begin(Kind::Write, o, 0, 8);
        child.commit(t, site, 10, 10);
        child.finish();
    });
    wait_ok(child);
    put(&mut parent, 2);
    parent.finish();
    let seen = all(&test.read(), |a| (a.recording.get(), number(a.value())));
    assert_eq!(seen, [(0, 1), (0, 2), (1, 10)]);
}

/// Noting the time must not wipe out where a sleeping system call was.
#[test]
fn an_access_under_way_stays_known_when_the_time_is_noted() {
    let test = TestLog::new();
    let log = test.join(layout::MIN_SIZE);
    let o = object(&log);
    let mut w = writer(&log, 1);
    let site = w.register_site(1, Kind::Write, 8).unwrap();
    let t = w.begin(Kind::Write, o, 64, 8);
    w.commit(t, site, 1, 1);
    let mut scratch = vec![LineTicks::default(); Writer::lines(1234, 100)];
    let token = w.begin_wide(Kind::Write, o, 1234, 100, &mut scratch);
    w.note_time(2);
    let reader = test.read();
    let [unfinished] = reader.unfinished() else { panic!("{:?}", reader.unfinished()) };
    assert_eq!((unfinished.object, unfinished.offset), (o, 1234));
    w.commit_wide(token, &mut scratch, Origin::Pc { pc: 1, by_kernel: true }, 2, &[], &[1; 100]);
    w.note_time(3);
    assert_eq!((test.read().unfinished().len(), test.read().total_counts().committed), (0, 2));
}
