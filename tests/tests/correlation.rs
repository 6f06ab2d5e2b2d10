//! The logs of real programs: questions are answered as a look at every access answers them, and program counters have names.

#[path = "../../correlator/tests/common/naive.rs"]
mod naive;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use correlator::{BlameOptions, Correlator, Moment, Query, Record, RecordOrder, Target, Time, order};
use naive::{all, naive_blame};
use serde_json::Value;
use tests::example::Example;
use tests::random::Random;
use tests::run::run;
use tests::{Ended, compile, stage};

/// Questions about accesses that there are: by who made them, around their time, at their place or beside it.
fn check(log: &Path, questions: usize) {
    let correlator = Correlator::open(log).unwrap();
    let records = all(correlator.reader());
    assert!(!records.is_empty());
    let mut random = Random::new(1);
    for _ in 0..questions {
        let about = &records[random.below(records.len())];
        let asker = &records[random.below(records.len())];
        let (recording, time) = (asker.recording, asker.time);
        let time = [None, Some(time), Some(Time { pc: time.pc + 1, ..time })][random.below(3)];
        let offset = about.offset.saturating_sub(random.below(9) as u64);
        let len = 1 + random.below(80) as u64;
        let target = Target::Object { object: about.object, offset };
        let query = Query::new(recording, time.map_or(Moment::End, Moment::At), target, len);
        let rows = correlator.blame(&query, &BlameOptions { limit: usize::MAX, ..BlameOptions::default() }).unwrap().rows;
        let naive = naive_blame(&records, recording, time, about.object, offset, len);
        for row in &rows {
            assert!(naive.contains(&row.record), "{query:?}: {row:?} is no row");
        }
        for pair in rows.windows(2) {
            assert_ne!(order(&pair[0].record, &pair[1].record), RecordOrder::After, "{query:?}");
        }
        // What values show to have come later may be left out, if it overlapped the last in time.
        let last = rows.last().map(|row| &row.record);
        let is_row = |record: &&Record| rows.iter().any(|row| row.record.position == record.position);
        for missing in naive.iter().filter(|record| !is_row(record)) {
            let overlapped = last.is_some_and(|last| order(missing, last) == RecordOrder::Concurrent);
            assert!(overlapped, "{query:?}: {missing:?} is missing");
        }
        assert_eq!(last.map(|last| last.recording), naive.first().map(|_| recording), "{query:?}");
    }
}

/// The log that the example left.
fn log_of(example: &Example) -> PathBuf {
    let [log] = &example.files(".shmem")[..] else { panic!("{:?}", example.files(".shmem")) };
    log.clone()
}

#[test]
fn a_pipeline_is_answered_as_a_scan_answers() {
    let example = Example::build("shmem_producer_consumer");
    example.run(&["100"]);
    check(&log_of(&example), 1000);
}

#[test]
fn contention_is_answered_as_a_scan_answers() {
    let example = Example::build("shmem_stress");
    assert_eq!(example.run(&["200"]).ended, Ended::Exit(0));
    check(&log_of(&example), 300);
}

#[test]
fn unrelated_processes_are_answered_as_a_scan_answers() {
    let example = Example::build("shmem_unrelated");
    let name = format!("correlated-{}", std::process::id());
    std::thread::scope(|scope| {
        scope.spawn(|| example.run(&["writer", &name]));
        scope.spawn(|| example.run(&["reader", &name]));
    });
    check(&log_of(&example), 1000);
}

#[test]
fn who_wrote_an_element_is_told_with_function_file_and_line() {
    let example = Example::build("shmem_producer_consumer");
    example.run(&["100"]);
    let log = log_of(&example);
    let ask = |arguments: &[&str]| -> Value {
        let mut argv: Vec<OsString> = vec![stage::program("shmem-inspect").into(), log.clone().into(), "--json".into()];
        argv.extend(arguments.iter().map(OsString::from));
        let outcome = run(&argv, example.path(), b"").unwrap();
        assert_eq!(outcome.ended, Ended::Exit(0), "{}", String::from_utf8_lossy(&outcome.stderr));
        serde_json::from_slice(&outcome.stdout).unwrap()
    };
    let info = ask(&[]);
    let address = info["mappings"][0]["address"].as_u64().unwrap() + 4;
    let blame = ask(&["blame", &address.to_string(), "--writers"]);
    let [write] = &blame["rows"].as_array().unwrap()[..] else { panic!("{blame}") };
    let source = std::fs::read_to_string(Example::source("shmem_producer_consumer")).unwrap();
    let line = 1 + source.lines().position(|line| line.contains("shmem_data_array[index] =")).unwrap();
    assert_eq!(write["kind"], "write");
    assert_eq!(write["function"], "producer_run");
    assert_eq!(write["line"], line);
    assert!(write["file"].as_str().unwrap().ends_with("shmem_producer_consumer.c"));
    let producer =
        info["recordings"].as_array().unwrap().iter().find(|found| found["path"].as_str().is_some_and(|path| path.contains("producer")));
    assert_eq!(write["pid"], producer.unwrap()["pid"]);
    // As the consumer sees it, which is named by the beginning of its file's name.
    let blame = ask(&["blame", &address.to_string(), "--recording", "consumer"]);
    let rows = blame["rows"].as_array().unwrap();
    assert_eq!((&rows[0]["pid"], &rows[0]["own"]), (&write["pid"], &false.into()));
    assert_eq!((&rows[1]["function"], &rows[1]["own"]), (&"consumer_run".into(), &true.into()));
}

/// One process of a family is not recorded: what it wrote, and what the kernel wrote as it died, is told with the interval.
#[test]
fn writes_that_nobody_recorded_are_told_with_their_interval() {
    let directory = tempfile::tempdir().unwrap();
    let source = stage::source().join("guests/half_recorded.c");
    let program = compile::compile(&source, &["-O1", "-pthread"], directory.path()).unwrap();
    let ask = |argv: &[&str]| {
        let argv: Vec<OsString> = argv.iter().map(OsString::from).collect();
        let outcome = run(&argv, directory.path(), b"").unwrap();
        assert_eq!(outcome.ended, Ended::Exit(0), "{}", String::from_utf8_lossy(&outcome.stderr));
        String::from_utf8(outcome.stdout).unwrap()
    };
    let (record, inspect) = (stage::program("live-record"), stage::program("shmem-inspect"));
    let (record, inspect, program) = (record.to_str().unwrap(), inspect.to_str().unwrap(), program.to_str().unwrap());
    assert_eq!(ask(&[record, "-q", "-o", "half.undo", "--shmem-log", "half.shmem", program]), "1 7 1\n");
    let found = ask(&[inspect, "half.shmem", "--json", "races", "--unrecorded"]);
    let found: Vec<Value> = found.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let at = |from: u64| found.iter().filter(|this| (from..from + 64).contains(&this["offset"].as_u64().unwrap())).collect::<Vec<_>>();
    let text = std::fs::read_to_string(&source).unwrap();
    let line = |part: &str| 1 + text.lines().position(|line| line.contains(part)).unwrap();
    // The child may have been quick enough for the first look to see its number.
    let [number] = at(0)[..] else { panic!("{found:?}") };
    let (wrote, looked, saw) = (line("number = 1"), line("number != 0"), line("seen = "));
    let (after, seen_by) = (number["after"]["line"].as_u64().unwrap() as usize, number["seen_by"]["line"].as_u64().unwrap() as usize);
    assert!((after, seen_by) == (looked, saw) || (after, seen_by) == (wrote, looked), "{number}");
    assert_eq!((&number["after"]["pid"], &number["seen_by"]["seen"]), (&number["seen_by"]["pid"], &"07000000".into()));
    // The mark of the kernel, FUTEX_OWNER_DIED, is bit 30 of the mutex's lock word.
    let died = at(64).into_iter().find(|this| this["seen_by"]["len"] == 4 && this["seen_by"]["offset"] == 64).unwrap();
    assert_eq!(died["seen_by"]["seen"], "00000040", "{died}");
    assert_eq!(died["certain"], true);
}
