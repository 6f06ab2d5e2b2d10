//! The examples: what they record replays, and the log holds each access that their sources make, no more and no fewer.

use std::path::{Path, PathBuf};

use recording::Recording;
use shmem_log::{Kind, Reader};
use tests::accesses::check_log;
use tests::example::Example;
use tests::run::run;
use tests::{Ended, stage};

/// What every test here asks of an example's files.
trait Checked {
    fn verify_all(&self, count: usize);
    fn log(&self) -> PathBuf;
}

impl Checked for Example {
    #[track_caller]
    fn verify_all(&self, count: usize) {
        let recordings = self.files(".undo");
        assert_eq!(recordings.len(), count, "{recordings:?}");
        for recording in recordings {
            let argv = [stage::program("undo-replay").into(), "verify".into(), recording.clone().into()];
            let outcome = run(&argv, self.path(), b"").unwrap();
            let said = [outcome.stdout, outcome.stderr].concat();
            assert_eq!(outcome.ended, Ended::Exit(0), "{}: {}", recording.display(), String::from_utf8_lossy(&said));
        }
    }

    #[track_caller]
    fn log(&self) -> PathBuf {
        let [log] = &self.files(".shmem")[..] else { panic!("{:?}", self.files(".shmem")) };
        check_log(log).unwrap().unwrap();
        log.clone()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// All accesses of one of the recordings, which is found by its UUID: kind, offset, value.
fn accesses(log: &Path, recording: &Path) -> Vec<(Kind, u64, Vec<u8>)> {
    let recording = Recording::open(recording).unwrap();
    let reader = Reader::open(log).unwrap();
    assert_eq!(recording.meta().log_uuid, reader.uuid());
    let index = reader.recordings().iter().find(|known| known.uuid == recording.meta().uuid).unwrap().index;
    assert_eq!(recording.meta().log_index, Some(index.get()));
    let mut cursor = reader.cursor();
    let mut found = Vec::new();
    while let Some(access) = cursor.next().unwrap() {
        if access.recording == index {
            found.push((access.kind, access.offset, access.value().to_vec()));
        }
    }
    found
}

#[test]
fn producer_and_consumer_touch_each_element_once() {
    const ELEMENTS: u64 = 100;
    let example = Example::build("shmem_producer_consumer");
    let outcome = example.run(&["100"]);
    example.verify_all(2);
    let log = example.log();
    let [consumer, producer] = &example.files(".undo")[..] else { panic!("{:?}", example.files(".undo")) };
    let written = accesses(&log, producer);
    let seen = accesses(&log, consumer);
    let expected: Vec<(Kind, u64)> = (0..ELEMENTS).map(|index| (Kind::Write, 4 * index)).collect();
    assert_eq!(written.iter().map(|access| (access.0, access.1)).collect::<Vec<_>>(), expected);
    // The consumer fails at the first value that is out of range.
    let value = |bytes: &[u8]| i32::from_le_bytes(bytes.try_into().unwrap());
    let bad = written.iter().position(|access| value(&access.2) == 100);
    let count = bad.map_or(ELEMENTS as usize, |index| index + 1);
    let expected: Vec<(Kind, u64, Vec<u8>)> = written[..count].iter().map(|access| (Kind::Read, access.1, access.2.clone())).collect();
    assert_eq!(seen, expected);
    assert_eq!(outcome.ended, Ended::Exit(i32::from(bad.is_some())));
    assert_eq!(text(&outcome.stderr).contains("Assertion"), bad.is_some(), "{}", text(&outcome.stderr));
    for name in ["producer-", "consumer-", "log-"] {
        assert!(text(&outcome.stdout).contains(name));
    }
}

#[test]
fn stress_has_the_result_that_never_varies() {
    let example = Example::build("shmem_stress");
    let outcome = example.run(&["200"]);
    assert_eq!(outcome.ended, Ended::Exit(0), "{}", text(&outcome.stderr));
    let expected = "counters 800 3435973837600 32\nspinlock 800\nseqlock  400 199\nturns    80\nbroken   0\n";
    assert_eq!(text(&outcome.stdout), expected);
    example.verify_all(4);
    example.log();
}

#[test]
fn unrelated_processes_meet_in_one_log() {
    let example = Example::build("shmem_unrelated");
    let name = format!("orders-{}", std::process::id());
    let (writer, reader) = std::thread::scope(|scope| {
        let writer = scope.spawn(|| example.run(&["writer", &name]));
        let reader = scope.spawn(|| example.run(&["reader", &name]));
        (writer.join().unwrap(), reader.join().unwrap())
    });
    assert_eq!(writer.ended, Ended::Exit(0), "{}", text(&writer.stderr));
    // The example's bug shows in some runs.
    assert!([Ended::Exit(0), Ended::Signal(6)].contains(&reader.ended), "{:?} {}", reader.ended, text(&reader.stderr));
    example.verify_all(2);
    let log = Reader::open(example.log()).unwrap();
    assert_eq!(log.objects().len(), 1, "one object, wherever it is mapped: {:?}", log.objects());
    let mut addresses: Vec<u64> = log.mappings().iter().map(|mapping| mapping.address).collect();
    addresses.sort();
    assert_eq!(addresses, [0x1000_0000_0000, 0x2000_0000_0000]);
}
