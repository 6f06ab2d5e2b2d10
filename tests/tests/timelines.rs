//! Timelines of real recordings: random walks meet the same state at the same time whatever way they took, and what is known of shared
//! memory is what the access log says that the process touched.
//!
//! `UNDO_RECORDINGS` names more recordings to walk over, separated by colons, and `UNDO_SEEDS=FROM-TO` tries other walks than the usual few.

#[path = "../../correlator/tests/common/naive.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod naive;
#[path = "../../replayer/tests/common/walk.rs"]
mod walk;

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Once;

use correlator::Record;
use iced_x86::{Decoder, DecoderOptions, FlowControl};
use recording::Recording;
use replayer::{Direction, Replay, SharedStatus, Time, Timeline};
use shmem_log::{Mapping, Reader};
use tests::example::Example;
use tests::random::Random;
use tests::run::run;
use tests::{Ended, compile, pool, stage};
use walk::{Move, walk};

const MOVES: usize = 25;

/// Programs with calls, handlers, jumps out of them, code that is made and changed, mappings that come and go, and shared memory.
const PROGRAMS: [&str; 12] = [
    "library/text.c",
    "library/long_jumps.c",
    "library/exceptions.cc",
    "instructions/strings.c",
    "memory/jit.c",
    "memory/mappings.c",
    "signals/breakpoint.c",
    "signals/faults.c",
    "signals/stack_states.c",
    "signals/to_itself.c",
    "signals/restart.c",
    "shared/system_calls.c",
];

fn open(path: &Path) -> Replay {
    static ONCE: Once = Once::new();
    // SAFETY: all tests come through here before they look at the environment.
    ONCE.call_once(|| unsafe { std::env::set_var("UNDO_REPLAY_GUEST", stage::stage().join("libexec/undo/replay-guest")) });
    Replay::open(path).unwrap()
}

fn seeds() -> Vec<u64> {
    let seeds = std::env::var("UNDO_SEEDS").unwrap_or_else(|_| "3-4".into());
    let (from, to) = seeds.split_once('-').expect("UNDO_SEEDS is FROM-TO");
    (from.parse().unwrap()..=to.parse().unwrap()).collect()
}

/// Records a program of the corpus.
fn record(name: &str, directory: &Path) -> PathBuf {
    let source = stage::source().join("programs").join(name);
    let program = compile::compile(&source, &["-O1", "-mavx2", "-pthread", "-Wno-infinite-recursion", "-lm"], directory).unwrap();
    let recording = directory.join("recording.undo");
    let mut argv: Vec<OsString> = vec![stage::program("live-record").into(), "-q".into(), "-o".into(), recording.clone().into()];
    argv.push(program.into());
    let outcome = run(&argv, directory, b"").unwrap();
    assert_eq!(outcome.ended, Ended::Exit(0), "{name}: {}", String::from_utf8_lossy(&outcome.stderr));
    recording
}

fn walk_over(recording: &Path, seed: u64) {
    let mut random = Random::new(seed);
    let moves: Vec<Move> = (0..MOVES).map(|_| Move::of(random.bits())).collect();
    eprintln!("{}, seed {seed}: {moves:?}", recording.display());
    walk(open(recording), &moves);
}

#[test]
fn walks_over_programs_meet_the_same_states() {
    let walks: Vec<(&str, u64)> = PROGRAMS.iter().flat_map(|program| seeds().into_iter().map(move |seed| (*program, seed))).collect();
    pool::run_all(
        &walks,
        |(program, seed)| format!("{program}, seed {seed}"),
        |(program, seed)| {
            let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
            walk_over(&record(program, directory.path()), *seed);
            Ok(())
        },
    );
}

#[test]
fn walks_over_examples_meet_the_same_states() {
    let example = Example::build("shmem_stress");
    example.run(&["60"]);
    let given = std::env::var_os("UNDO_RECORDINGS").unwrap_or_default();
    let recordings = example.files(".undo").into_iter().chain(std::env::split_paths(&given).filter(|path| !path.as_os_str().is_empty()));
    for recording in recordings {
        seeds().into_iter().for_each(|seed| walk_over(&recording, seed));
    }
}

/// What one process did to shared memory, byte by byte in guest addresses.
struct Touched {
    /// For each byte the times at which it was accessed, ascending.
    bytes: HashMap<u64, Vec<Time>>,
    times: Vec<Time>,
}

impl Touched {
    fn new(records: &[&Record], mappings: &[Mapping]) -> Self {
        let mut touched = Self { bytes: HashMap::new(), times: Vec::new() };
        for record in records {
            let inside = |mapping: &&Mapping| {
                mapping.recording == record.recording
                    && mapping.object == record.object
                    && (mapping.offset..mapping.offset + mapping.length).contains(&record.offset)
            };
            let [mapping] = &mappings.iter().filter(inside).collect::<Vec<_>>()[..] else { panic!("{record:?}") };
            let address = mapping.address + (record.offset - mapping.offset);
            for byte in address..address + u64::from(record.len) {
                touched.bytes.entry(byte).or_default().push(record.time);
            }
            touched.times.push(record.time);
        }
        touched.bytes.values_mut().for_each(|times| times.sort());
        touched
    }

    /// The last access to this byte before `time`.
    fn last(&self, byte: u64, time: Time) -> Option<Time> {
        let times = self.bytes.get(&byte)?;
        times[..times.partition_point(|access| *access < time)].last().copied()
    }

    /// Never, if any byte was not accessed; else the last access to any of the eight-byte groups that these bytes lie in.
    fn status(&self, address: u64, length: u64, time: Time) -> SharedStatus {
        if (address..address + length).any(|byte| self.last(byte, time).is_none()) {
            return SharedStatus::NeverAccessed;
        }
        let groups = address & !7..(address + length).next_multiple_of(8);
        SharedStatus::LastAccessed(groups.filter_map(|byte| self.last(byte, time)).max().unwrap())
    }
}

/// Asks about memory that the process touched, and beside it, at times around its accesses.
fn check_status(recording: &Path, reader: &Reader, records: &[Record]) {
    let uuid = Recording::open(recording).unwrap().meta().uuid;
    let index = reader.recordings().iter().find(|known| known.uuid == uuid).unwrap().index;
    let own: Vec<&Record> = records.iter().filter(|record| record.recording == index).collect();
    let touched = Touched::new(&own, reader.mappings());
    let mut addresses: Vec<u64> = touched.bytes.keys().copied().collect();
    addresses.sort();
    let (mut replay, mut random) = (open(recording), Random::new(7));
    let mut seen = [0; 2];
    for _ in 0..60 {
        let time = touched.times[random.below(touched.times.len())];
        replay.seek(time.bbcount, Some(time.pc)).unwrap();
        if random.below(2) == 0 {
            replay.step(Direction::Forward).unwrap();
        }
        let now = replay.now();
        for _ in 0..20 {
            let (address, length) = (addresses[random.below(addresses.len())], 1 + random.below(12) as u64);
            let (expected, found) = (touched.status(address, length, now), replay.shared_status(address, length).unwrap());
            assert_eq!(found, expected, "{}: {length} bytes at {address:#x}, {now}", recording.display());
            seen[usize::from(expected == SharedStatus::NeverAccessed)] += 1;
        }
    }
    assert!(seen.iter().all(|count| *count > 0), "{seen:?}");
    let stack = replay.registers().unwrap().gpr[4];
    assert_eq!(replay.shared_status(stack, 8).unwrap(), SharedStatus::Private);
}

#[test]
fn what_is_known_of_shared_memory_is_what_the_log_says() {
    for (name, arguments, count) in [("shmem_producer_consumer", ["100"], 2), ("shmem_stress", ["60"], 4)] {
        let example = Example::build(name);
        example.run(&arguments);
        let [log] = &example.files(".shmem")[..] else { panic!("{:?}", example.files(".shmem")) };
        let reader = Reader::open(log).unwrap();
        let records = naive::all(&reader);
        let recordings = example.files(".undo");
        assert_eq!(recordings.len(), count);
        recordings.iter().for_each(|recording| check_status(recording, &reader, &records));
    }
}

/// At any time the events are found that lie at it, before it and behind it.
#[test]
fn events_are_found_by_time() {
    let directory = tempfile::tempdir().unwrap();
    let mut replay = open(&record("library/text.c", directory.path()));
    let times: Vec<Time> = (0..replay.event_count()).map(|index| replay.event(index).time).collect();
    assert!(times.len() > 10 && times.is_sorted());
    let mut random = Random::new(3);
    for _ in 0..200 {
        let at = times[random.below(times.len())];
        let time = Time { bbcount: at.bbcount + random.below(3) as u64 - 1, pc: (at.pc + random.below(3) as u64).saturating_sub(1) };
        let index = replay.first_event_at_or_after(time);
        assert!(times[..index].iter().all(|event| *event < time) && times[index..].iter().all(|event| *event >= time), "{time}");
    }
    let middle = times[times.len() / 2];
    replay.seek(middle.bbcount, Some(middle.pc)).unwrap();
    assert_eq!(replay.event(replay.first_event_at_or_after(replay.now())).time, replay.now());
}

/// Whether the instruction at the current time is a control transfer, from its bytes alone.
fn is_transfer(replay: &mut Replay) -> bool {
    let pc = replay.now().pc;
    let mut code = [0; 15];
    let got = replay.read_memory(pc, &mut code).unwrap();
    let instruction = Decoder::with_ip(64, &code[..got], pc, DecoderOptions::NONE).decode();
    assert!(!instruction.is_invalid(), "{pc:#x}: {code:x?}");
    instruction.flow_control() != FlowControl::Next
}

/// Around calls that signals interrupt, made again or not, each step counts as many transfers as the definition says, and both ways lead
/// over the same times.
#[test]
fn interrupted_calls_count_exactly() {
    const AROUND: usize = 12;
    let directory = tempfile::tempdir().unwrap();
    let mut replay = open(&record("signals/restart.c", directory.path()));
    let events: Vec<_> = (0..replay.event_count()).map(|index| replay.event(index)).collect();
    let signals: Vec<Time> = events.iter().filter(|event| event.signum != 0).map(|event| event.time).collect();
    let interrupted = |result: i64| events.iter().filter(|event| event.syscall.is_some() && event.result == result).count();
    assert!(signals.len() > 20 && interrupted(-4) > 3, "{} signals, {} calls", signals.len(), interrupted(-4));
    let mut at_calls = 0;
    for signal in signals.iter().step_by(signals.len() / 20) {
        replay.seek(signal.bbcount, Some(signal.pc)).unwrap();
        // Natively the call was interrupted there and not made.
        at_calls += usize::from(is_transfer(&mut replay));
        for _ in 0..AROUND {
            replay.step(Direction::Backward).unwrap();
        }
        let mut times = vec![replay.now()];
        for _ in 0..5 * AROUND {
            let here = replay.now();
            let is_delivery = signals.contains(&here);
            let counts = is_delivery || is_transfer(&mut replay);
            let there = replay.step(Direction::Forward).unwrap().time;
            assert_eq!(there.bbcount - here.bbcount, u64::from(counts), "from {here} to {there}, a delivery: {is_delivery}");
            times.push(there);
        }
        for time in times.iter().rev().skip(1) {
            assert_eq!(replay.step(Direction::Backward).unwrap().time, *time);
        }
    }
    assert!(at_calls > 0, "no call was to be made again");
}
