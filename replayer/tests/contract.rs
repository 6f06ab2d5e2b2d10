//! The timeline's contract, point by point, on a recording made by hand whose every time is known.

mod common;

use common::program::{self, DATA, Flaw, LONG, LOOPS, MAPPED, Made, PID, SHARED, TICKS};
use replayer::{
    Cancel, Condition, Direction, Error, Points, Replay, SharedStatus, Stop, StopReason, Time, Timeline, WatchKind, Watchpoint,
};

struct Opened {
    replay: Replay,
    made: Made,
    _dir: tempfile::TempDir,
}

fn opened_with(flaw: Flaw) -> Opened {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("made.undo");
    let made = program::make(&path, flaw);
    Opened { replay: common::open(&path).unwrap(), made, _dir: dir }
}

fn opened() -> Opened {
    opened_with(Flaw::None)
}

fn at(bbcount: u64, pc: u64) -> Time {
    Time { bbcount, pc }
}

fn word(replay: &mut Replay, address: u64) -> u64 {
    let mut bytes = [0; 8];
    assert_eq!(replay.read_memory(address, &mut bytes).unwrap(), 8);
    u64::from_le_bytes(bytes)
}

fn breakpoint(pc: u64) -> Points {
    Points { breakpoints: vec![pc], ..Points::default() }
}

fn watch(address: u64, length: u64, kind: WatchKind) -> Points {
    Points { watchpoints: vec![Watchpoint { address, length, kind }], ..Points::default() }
}

fn resume(replay: &mut Replay, direction: Direction, points: &Points) -> Stop {
    replay.resume(direction, points, &Cancel::default()).unwrap()
}

#[test]
fn everything_replays_as_recorded() {
    let Opened { mut replay, made, .. } = opened();
    let verdict = replay.verify(|_| {}).unwrap();
    assert_eq!((verdict.end, verdict.events, verdict.memory_hashes), (made.end, 8, 1));
    assert_eq!(replay.now(), made.begin, "verifying moves nothing");
}

#[test]
fn t1_the_range_is_begin_to_end() {
    let Opened { mut replay, made, .. } = opened();
    assert_eq!((replay.begin(), replay.end(), replay.now()), (made.begin, made.end, made.begin));
    for wanted in [0, made.end.bbcount + 1, u64::MAX] {
        assert!(matches!(replay.seek(wanted, None), Err(Error::OutOfRange { .. })));
    }
    assert_eq!(replay.now(), made.begin);
    assert_eq!(replay.seek(made.end.bbcount, Some(made.end.pc)).unwrap().time, made.end);
    assert_eq!(replay.seek(1, None).unwrap().time, made.begin);
}

#[test]
fn t3_seeks_arrive_exactly() {
    let Opened { mut replay, made, .. } = opened();
    let p = made.places;
    for time in
        [at(1, p.store), at(500, p.store), at(499, p.branch), at(LOOPS + 1, p.getpid), at(LOOPS + 2, p.after_getpid), at(3, p.branch)]
    {
        assert_eq!(replay.seek(time.bbcount, Some(time.pc)).unwrap(), Stop { time, reason: StopReason::Arrived });
        assert_eq!(replay.registers().unwrap().rip, time.pc);
    }
    assert_eq!(replay.seek(500, None).unwrap().time, at(500, p.store));
    assert_eq!(word(&mut replay, DATA), LOOPS - 500 + 2, "499 stores have been made");
    assert_eq!(replay.seek(LOOPS + 2, None).unwrap().time, at(LOOPS + 2, p.after_getpid));
    assert_eq!(replay.registers().unwrap().gpr[0], PID as u64);
}

#[test]
fn t3_times_that_do_not_exist_move_nothing() {
    let Opened { mut replay, made, .. } = opened();
    let p = made.places;
    for start in [at(20, p.store), at(900, p.branch)] {
        replay.seek(start.bbcount, Some(start.pc)).unwrap();
        for (bbcount, pc) in [(600, p.getpid), (600, p.store + 1), (10, p.exit), (made.end.bbcount, p.exit + 2), (600, 0), (1, 1)] {
            assert!(matches!(replay.seek(bbcount, Some(pc)), Err(Error::NoSuchTime { .. })), "{bbcount}:{pc:#x}");
            assert_eq!(replay.now(), start);
            assert_eq!(replay.registers().unwrap().rip, start.pc);
        }
    }
}

#[test]
fn t4_steps_are_inverse_over_the_whole_tail() {
    let Opened { mut replay, made, .. } = opened();
    replay.seek(LOOPS - 2, None).unwrap();
    let mut times = vec![replay.now()];
    loop {
        let stop = replay.step(Direction::Forward).unwrap();
        if stop.reason == StopReason::End {
            assert_eq!(stop.time, *times.last().unwrap());
            break;
        }
        assert_eq!(stop.reason, StopReason::Arrived);
        times.push(stop.time);
    }
    assert_eq!(*times.last().unwrap(), made.end);
    assert!(times.is_sorted(), "times ascend");
    assert!(times.contains(&at(made.end.bbcount - 1, made.places.handler)), "a signal's delivery is a step of its own");
    for time in times.iter().rev().skip(1) {
        assert_eq!(replay.step(Direction::Backward).unwrap(), Stop { time: *time, reason: StopReason::Arrived });
    }
}

#[test]
fn t4_nothing_lies_before_the_begin() {
    let Opened { mut replay, made, .. } = opened();
    assert_eq!(replay.step(Direction::Backward).unwrap(), Stop { time: made.begin, reason: StopReason::Begin });
    let first = replay.step(Direction::Forward).unwrap().time;
    assert_eq!(first, at(1, made.places.store));
    assert_eq!(replay.step(Direction::Backward).unwrap().time, made.begin);
    assert_eq!(resume(&mut replay, Direction::Backward, &Points::default()).reason, StopReason::Begin);
}

/// Bytecode of gdb's agent expressions: the word at `DATA` is `value`.
fn data_is(pc: u64, value: u64) -> Condition {
    let code = [&[0x25][..], &DATA.to_be_bytes(), &[0x1a, 0x25], &value.to_be_bytes(), &[0x13, 0x27]].concat();
    Condition { pc, code }
}

#[test]
fn t5_conditions_choose_among_the_hits_both_ways() {
    let Opened { mut replay, made, .. } = opened();
    let store = made.places.store;
    // Before the store in block N, the word is LOOPS + 2 - N.
    let block_of = |value: u64| LOOPS + 2 - value;
    let points = Points { conditions: vec![data_is(store, LOOPS - 300), data_is(store, LOOPS - 700)], ..breakpoint(store) };
    for (direction, value) in [(Direction::Forward, LOOPS - 300), (Direction::Forward, LOOPS - 700), (Direction::Backward, LOOPS - 300)] {
        let stop = resume(&mut replay, direction, &points);
        assert_eq!(stop, Stop { time: at(block_of(value), store), reason: StopReason::Breakpoint });
    }
    assert_eq!(resume(&mut replay, Direction::Backward, &points).reason, StopReason::Begin);
    // What cannot be computed stops; a condition elsewhere does not count.
    let unknown = Points { conditions: vec![Condition { pc: store, code: vec![1] }], ..breakpoint(store) };
    assert_eq!(resume(&mut replay, Direction::Forward, &unknown).time, at(1, store));
    let elsewhere = Points { conditions: vec![data_is(made.places.branch, 0)], ..breakpoint(store) };
    assert_eq!(resume(&mut replay, Direction::Forward, &elsewhere).time, at(2, store));
}

#[test]
fn t5_breakpoints_stop_both_ways() {
    let Opened { mut replay, made, .. } = opened();
    let points = breakpoint(made.places.store);
    for bbcount in 1..=5 {
        let stop = resume(&mut replay, Direction::Forward, &points);
        assert_eq!(stop, Stop { time: at(bbcount, made.places.store), reason: StopReason::Breakpoint });
    }
    assert_eq!(resume(&mut replay, Direction::Backward, &points).time, at(4, made.places.store));
    replay.seek(made.end.bbcount, Some(made.end.pc)).unwrap();
    assert_eq!(resume(&mut replay, Direction::Backward, &points).time, at(LOOPS, made.places.store));
    assert_eq!(resume(&mut replay, Direction::Forward, &points), Stop { time: made.end, reason: StopReason::End });
    assert_eq!(resume(&mut replay, Direction::Backward, &breakpoint(1)), Stop { time: made.begin, reason: StopReason::Begin });
    assert_eq!(resume(&mut replay, Direction::Forward, &breakpoint(made.places.handler)).reason, StopReason::Breakpoint);
    let interrupted = resume(&mut replay, Direction::Backward, &breakpoint(made.places.interrupted));
    assert_eq!(interrupted, Stop { time: at(made.end.bbcount - 2, made.places.interrupted), reason: StopReason::Breakpoint });
    let after = resume(&mut replay, Direction::Forward, &breakpoint(made.places.interrupted));
    assert_eq!(after.time, at(made.end.bbcount, made.places.interrupted));
}

/// A program that calls a null pointer dies at pc 0, which is a time like any other.
#[test]
fn t3_pc_0_can_be_visited() {
    let Opened { mut replay, made, .. } = opened_with(Flaw::NullCall);
    assert_eq!(made.end.pc, 0);
    assert_eq!(replay.verify(|_| {}).unwrap().end, made.end);
    let (end, call) = (made.end, at(made.end.bbcount - 1, made.places.exit));
    assert_eq!(replay.seek(end.bbcount, Some(0)).unwrap(), Stop { time: end, reason: StopReason::Arrived });
    assert_eq!(replay.registers().unwrap().rip, 0);
    assert_eq!(replay.step(Direction::Forward).unwrap(), Stop { time: end, reason: StopReason::End });
    assert_eq!(replay.step(Direction::Backward).unwrap().time, call);
    assert_eq!(replay.step(Direction::Forward).unwrap().time, end);
    assert_eq!(resume(&mut replay, Direction::Backward, &breakpoint(made.places.exit)).time, call);
    let points = Points::default();
    assert_eq!(resume(&mut replay, Direction::Forward, &points), Stop { time: end, reason: StopReason::Signal(11) });
    assert_eq!(resume(&mut replay, Direction::Backward, &watch(DATA + 32, 8, WatchKind::Write)).time.pc, made.places.handler);
    assert_eq!(replay.seek(end.bbcount, None).unwrap().time, end);
    assert!(matches!(replay.seek(call.bbcount, Some(0)), Err(Error::NoSuchTime { pc: 0, .. })));
    assert_eq!(replay.now(), end);
}

#[test]
fn t5_a_fatal_signal_is_reported_once_at_the_end() {
    let Opened { mut replay, made, .. } = opened_with(Flaw::Killed);
    assert_eq!(replay.verify(|_| {}).unwrap().end, made.end);
    let none = Points::default();
    assert_eq!(resume(&mut replay, Direction::Forward, &none), Stop { time: made.end, reason: StopReason::Signal(6) });
    assert_eq!(resume(&mut replay, Direction::Forward, &none), Stop { time: made.end, reason: StopReason::End });
    resume(&mut replay, Direction::Backward, &breakpoint(made.places.copy));
    assert_eq!(resume(&mut replay, Direction::Forward, &none).reason, StopReason::Signal(6));
    assert_eq!(replay.seek(made.end.bbcount, None).unwrap().reason, StopReason::Arrived);
}

#[test]
fn t5_write_watchpoints_stop_after_a_change_and_before_it_backwards() {
    let Opened { mut replay, made, .. } = opened();
    let p = made.places;
    let points = watch(DATA + 8, 8, WatchKind::Write);
    let stop = resume(&mut replay, Direction::Forward, &points);
    assert_eq!((stop.time, stop.reason), (at(LOOPS + 2, p.shared_load), StopReason::Watchpoint(points.watchpoints[0])));
    assert_eq!(word(&mut replay, DATA + 8), PID as u64);
    assert_eq!(resume(&mut replay, Direction::Forward, &points).reason, StopReason::End);
    let stop = resume(&mut replay, Direction::Backward, &points);
    assert_eq!((stop.time, stop.reason), (at(LOOPS + 2, p.after_getpid), StopReason::Watchpoint(points.watchpoints[0])));
    assert_eq!(word(&mut replay, DATA + 8), 0);
    assert_eq!(resume(&mut replay, Direction::Backward, &points).reason, StopReason::Begin);
}

#[test]
fn t5_the_loop_is_watched_pass_by_pass() {
    let Opened { mut replay, made, .. } = opened();
    let points = watch(DATA, 4, WatchKind::Write);
    for passes in 1..=3 {
        let stop = resume(&mut replay, Direction::Forward, &points);
        assert!(matches!(stop.reason, StopReason::Watchpoint(_)));
        assert_eq!(stop.time.bbcount, passes);
        assert_eq!(word(&mut replay, DATA), LOOPS + 1 - passes);
    }
    replay.seek(LOOPS + 1, None).unwrap();
    for passes in (LOOPS - 3..=LOOPS).rev() {
        assert_eq!(resume(&mut replay, Direction::Backward, &points).time, at(passes, made.places.store));
    }
}

#[test]
fn t5_reads_and_kernel_writes_are_seen() {
    let Opened { mut replay, made, .. } = opened();
    let p = made.places;
    let stop = resume(&mut replay, Direction::Forward, &watch(SHARED + 0x14, 1, WatchKind::Read));
    assert!(stop.time.bbcount == LOOPS + 2 && stop.time.pc > p.shared_load && matches!(stop.reason, StopReason::Watchpoint(_)), "{stop:?}");
    replay.seek(1, None).unwrap();
    let stop = resume(&mut replay, Direction::Forward, &watch(SHARED + 0x10, 8, WatchKind::Write));
    assert!(stop.time.pc > p.shared_load && stop.time.pc < p.rdtsc, "an update of shared memory is a change: {stop:?}");
    let stop = resume(&mut replay, Direction::Forward, &watch(MAPPED, 4, WatchKind::Write));
    assert_eq!(stop.time.bbcount, LOOPS + 6, "what a system call writes: {stop:?}");
    let stop = resume(&mut replay, Direction::Backward, &watch(MAPPED, 4, WatchKind::Write));
    assert_eq!(stop.time.bbcount, LOOPS + 5);
    let stop = resume(&mut replay, Direction::Forward, &watch(DATA + 70, 1, WatchKind::Access));
    assert_eq!(stop.time, at(LOOPS + 6, p.interrupted), "a repeated string instruction is one");
}

#[test]
fn t5_a_call_writes_its_return_address() {
    let Opened { mut replay, made, .. } = opened();
    replay.seek(LOOPS + 2, None).unwrap();
    let points = watch(program::STACK_TOP - 8, 8, WatchKind::Write);
    let stop = resume(&mut replay, Direction::Forward, &points);
    assert_eq!(stop.time, at(LOOPS + 4, made.places.function), "{stop:?}");
    replay.seek(LOOPS + 5, None).unwrap();
    let before = resume(&mut replay, Direction::Backward, &points);
    assert_eq!(before.time.bbcount, LOOPS + 3);
}

#[test]
fn t6_a_cancelled_search_stands_somewhere() {
    let Opened { mut replay, made, .. } = opened_with(Flaw::Long);
    let cancel = Cancel::default();
    cancel.cancel();
    let stop = replay.resume(Direction::Forward, &Points::default(), &cancel).unwrap();
    assert_eq!((stop.time, stop.reason), (replay.now(), StopReason::Cancelled));
    assert!(stop.time > made.begin && stop.time < made.end);
    assert_eq!(replay.registers().unwrap().rip, stop.time.pc);
    replay.seek(LONG, None).unwrap();
    let stop = replay.resume(Direction::Backward, &breakpoint(1), &cancel).unwrap();
    assert_eq!((stop.time, stop.reason), (replay.now(), StopReason::Cancelled));
    cancel.reset();
    assert_eq!(replay.resume(Direction::Forward, &Points::default(), &cancel).unwrap(), Stop { time: made.end, reason: StopReason::End });
}

#[test]
fn t7_shared_memory_is_what_was_last_seen() {
    let Opened { mut replay, made, .. } = opened();
    let p = made.places;
    assert_eq!(replay.shared_status(DATA, 8).unwrap(), SharedStatus::Private);
    assert_eq!(replay.shared_status(SHARED + 0x10, 8).unwrap(), SharedStatus::NeverAccessed);
    assert_eq!(word(&mut replay, SHARED + 0x10), 0);
    replay.seek(LOOPS + 2, Some(p.rdtsc)).unwrap();
    assert_eq!(word(&mut replay, SHARED + 0x10), 7);
    assert_eq!(replay.shared_status(SHARED + 0x10, 8).unwrap(), SharedStatus::LastAccessed(at(LOOPS + 2, p.shared_load)));
    assert_eq!(replay.shared_status(SHARED + 0x18, 1).unwrap(), SharedStatus::NeverAccessed);
    replay.step(Direction::Forward).unwrap();
    let registers = replay.registers().unwrap();
    assert_eq!((registers.gpr[0], registers.gpr[2]), (TICKS & 0xffff_ffff, TICKS >> 32));
    assert_eq!(word(&mut replay, DATA + 16), 7);
}

#[test]
fn t8_every_difference_is_named() {
    for (flaw, expected) in
        [(Flaw::WrongArgument, "recorded system call 39"), (Flaw::WrongHash, "memory differs"), (Flaw::WrongTime, "system call 39")]
    {
        let Opened { mut replay, made, .. } = opened_with(flaw);
        let Err(Error::Diverged { time, what }) = replay.verify(|_| {}) else { panic!("{flaw:?} is not noticed") };
        assert!(what.contains(expected), "{what}");
        // Everything before is still there, nothing after.
        let here = replay.seek(10, None).unwrap().time;
        assert!(matches!(replay.resume(Direction::Forward, &Points::default(), &Cancel::default()), Err(Error::Diverged { .. })));
        assert_eq!(replay.now(), here);
        if flaw != Flaw::WrongHash {
            assert!(matches!(replay.seek(made.end.bbcount, None), Err(Error::Diverged { time: again, .. }) if again == time));
            assert_eq!(replay.now(), here);
        }
    }
}

#[test]
fn a_processor_that_lacks_a_feature_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("made.undo");
    program::make(&path, Flaw::OtherProcessor);
    let Err(Error::Recording(what)) = common::open(&path) else { panic!("it is taken") };
    assert!(what.contains("lacks CPUID 0x1.0x0 edx bit 10,"), "{what}");
}

#[test]
fn what_is_mapped_is_told() {
    let Opened { mut replay, made, .. } = opened();
    let find = |replay: &mut Replay, address: u64| replay.mappings().unwrap().into_iter().find(|m| (m.start..m.end).contains(&address));
    assert_eq!(find(&mut replay, program::CODE).unwrap().name, "/made/by/hand");
    assert!(find(&mut replay, SHARED).unwrap().shared);
    assert_eq!(find(&mut replay, program::STACK).unwrap().end, program::STACK_TOP);
    assert!(find(&mut replay, MAPPED).is_none());
    assert!(matches!(replay.read_memory(MAPPED, &mut [0; 4]), Err(Error::Unmapped { address: MAPPED })));
    replay.seek(made.end.bbcount, None).unwrap();
    assert_eq!(find(&mut replay, MAPPED).unwrap().prot, 1);
    let mut edge = [0; 64];
    assert_eq!(replay.read_memory(MAPPED + 4096 - 16, &mut edge).unwrap(), 16);
    assert!(replay.read_memory(engine::arena::BASE, &mut [0; 4]).is_err(), "the engine's own memory is not the guest's");
}

#[test]
fn events_are_listed() {
    let Opened { replay, made, .. } = opened();
    let names: Vec<String> = (0..replay.event_count()).map(|index| replay.event(index).name).collect();
    assert_eq!(names, ["getpid", "SHMEM_FIXUP", "RDTSC", "mmap", "SIGNAL", "rt_sigreturn"]);
    assert_eq!(replay.first_event_at_or_after(at(LOOPS + 2, 0)), 1);
    assert_eq!(replay.first_event_at_or_after(made.end), 6);
    assert_eq!((replay.event(0).result, replay.event(0).syscall, replay.event(4).signum), (PID, Some(39), 10));
    assert_eq!(replay.event(1).address, SHARED + 0x10);
    assert_eq!(replay.event(99).name, "");
}

/// With checkpoints on the way, a search is cut into pieces; no piece may forget what another found.
#[test]
fn long_searches_cross_checkpoints() {
    let Opened { mut replay, made, .. } = opened_with(Flaw::Long);
    let p = made.places;
    replay.set_checkpoint_interval(std::time::Duration::from_millis(2));
    replay.seek(made.end.bbcount, Some(made.end.pc)).unwrap();
    assert!(replay.checkpoint_count() > 1, "no checkpoint was taken");
    let first = resume(&mut replay, Direction::Backward, &breakpoint(program::CODE));
    assert_eq!(first, Stop { time: made.begin, reason: StopReason::Breakpoint });
    // Hit only in the first block, searched from the last.
    replay.seek(made.end.bbcount, Some(made.end.pc)).unwrap();
    let below = watch(program::STACK_TOP - 8, 8, WatchKind::Write);
    assert_eq!(resume(&mut replay, Direction::Backward, &below).time.bbcount, LONG + 5);
    for wanted in [LONG, LONG / 2, 3, LONG - 1, 1] {
        assert_eq!(replay.seek(wanted, Some(p.store)).unwrap().time, at(wanted, p.store));
        assert_eq!(replay.registers().unwrap().gpr[1], LONG + 1 - wanted);
    }
    replay.seek(LONG / 2, Some(p.store)).unwrap();
    assert_eq!(replay.step(Direction::Backward).unwrap().time, at(LONG / 2 - 1, p.branch));
    assert_eq!(resume(&mut replay, Direction::Forward, &breakpoint(p.getpid)).time, at(LONG + 1, p.getpid));
    assert_eq!(resume(&mut replay, Direction::Backward, &breakpoint(program::CODE)).time, made.begin);
}

/// A search must remember a hit that lies before a pause.
#[test]
fn a_hit_before_a_pause_is_not_forgotten() {
    let Opened { mut replay, made, .. } = opened_with(Flaw::Long);
    replay.set_checkpoint_interval(std::time::Duration::from_millis(1));
    // No checkpoint has been taken when this begins: the whole loop is one segment, with pauses in it.
    replay.seek(made.end.bbcount, None).unwrap();
    let points = breakpoint(program::CODE);
    assert_eq!(resume(&mut replay, Direction::Backward, &points), Stop { time: made.begin, reason: StopReason::Breakpoint });
}

#[test]
fn a_flipped_bit_is_never_taken_for_the_truth() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("made.undo");
    program::make(&path, Flaw::None);
    let whole = std::fs::read(&path).unwrap();
    let flipped = dir.path().join("flipped.undo");
    for at in (0..whole.len()).step_by(61) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        std::fs::write(&flipped, &bytes).unwrap();
        let outcome = common::open(&flipped).and_then(|mut replay| replay.verify(|_| {}));
        let error = outcome.expect_err("a damaged recording verifies").to_string();
        assert!(error.contains("flipped.undo"), "the file is not named: {error}");
    }
    for length in (0..whole.len()).step_by(409) {
        std::fs::write(&flipped, &whole[..length]).unwrap();
        assert!(common::open(&flipped).is_err(), "a recording cut to {length} bytes opens");
    }
}
