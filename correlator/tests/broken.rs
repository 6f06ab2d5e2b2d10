//! Broken logs: an error that names the field, or right answers from what is left and a word on what was skipped. Never a panic.
mod common;
#[path = "../../tests/src/random.rs"]
mod random;
use common::*;
use correlator::*;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use random::Random;
use std::fs;

fn good() -> (History, Vec<u8>) {
    let mut history = History::new(3, 256 << 10);
    let mut runner = TestRunner::deterministic();
    history.run(&prop::collection::vec(step(3), 1500).new_tree(&mut runner).unwrap().current());
    history.finish();
    let bytes = fs::read(&history.path).unwrap();
    (history, bytes)
}

/// Asks everything; whatever there is to say, it is said in time and in bounds.
fn ask(history: &History) -> Result<(), Error> {
    let correlator = Correlator::open_with(&history.path, Options { cache: false, ..Options::default() })?;
    for (number, recording) in history.recordings.iter().enumerate() {
        for offset in [0, 8, 60, 200] {
            let target = Target::Address(address(number, 0) + offset);
            let query = Query::new(*recording, Moment::End, target, 16);
            // Errors are fine here too: they name the file and the field.
            let answers = [limited(40), WRITERS, limited(usize::MAX)].map(|options| correlator.blame(&query, &options));
            for answer in answers.into_iter().flatten() {
                assert_eq!(answer.rows.is_empty(), answer.why_empty.is_some());
            }
            let _ = correlator.value_at(&query);
            let _ = correlator.shared_status(&query);
        }
    }
    let _ = (correlator.hot_lines(5), correlator.races(5), correlator.unrecorded_writers(5));
    Ok(())
}

#[test]
fn a_log_cut_anywhere_is_refused_or_read() {
    let (history, bytes) = good();
    for len in [0, 7, 200, 4095, 4096, bytes.len() / 2, bytes.len() - 4096, bytes.len() - 1] {
        fs::write(&history.path, &bytes[..len]).unwrap();
        let error = ask(&history).expect_err("a log that was cut").to_string();
        assert!(error.contains("test.shmem") && (error.contains("expected") || error.contains("not an access log")), "{error}");
    }
}

#[test]
fn a_damaged_record_costs_itself_only() {
    let (history, bytes) = good();
    let layout = *shmem_log::Reader::open(&history.path).unwrap().layout();
    let before = all(&shmem_log::Reader::open(&history.path).unwrap());
    // The object of the first record: none has number 0xeeee.
    let mut bad = bytes.clone();
    let at = layout.blocks().offset as usize;
    bad[at + 6..at + 8].copy_from_slice(&[0xee; 2]);
    fs::write(&history.path, &bad).unwrap();
    let correlator = Correlator::open_with(&history.path, Options { cache: false, ..Options::default() }).unwrap();
    let rows: usize =
        (0..2).map(|object| correlator.history(history.objects[object], 0, OBJECT_BYTES, usize::MAX).unwrap().rows.len()).sum();
    assert_eq!(rows, before.len() - 1);
}

#[test]
fn random_damage_never_panics() {
    let (history, bytes) = good();
    let mut random = Random::new(1);
    let used: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] != 0).collect();
    for _ in 0..150 {
        let mut bad = bytes.clone();
        for _ in 0..1 + random.below(20) {
            let at = if random.below(2) == 0 { used[random.below(used.len())] } else { random.below(bad.len()) };
            bad[at] = random.bits() as u8;
        }
        fs::write(&history.path, &bad).unwrap();
        let _ = ask(&history);
    }
}
