//! The walkthrough that users know, line for line, on recordings made just now: from the failed assertion in one process to the line in
//! another that made the value. Forms are compared whole; where stock gdb adds a line of its own (`Continuing.`), that is in the form.

use std::fs;
use std::path::Path;

use tests::Outcome;
use tests::debug::{Udb, assert_form};
use tests::example::Example;

/// A run of an example fails with a chance of more than one in ten.
const MOST_RUNS: usize = 200;

/// A source file whose lines are found by what is in them.
struct Source(String);

impl Source {
    fn of(example: &str) -> Source {
        Source(fs::read_to_string(Example::source(example)).unwrap())
    }

    /// `N<tab>TEXT`, as gdb shows it.
    fn line(&self, text: &str) -> String {
        let (index, line) = self.0.lines().enumerate().find(|(_, line)| line.contains(text)).unwrap();
        format!("{}\t{line}", index + 1)
    }

    fn number(&self, text: &str) -> String {
        self.line(text).split('\t').next().unwrap().to_owned()
    }
}

/// Runs until one of the processes ends by a failed assertion.
fn run_until_failure(example: &Example, run: impl Fn() -> Vec<Outcome>) {
    for _ in 0..MOST_RUNS {
        example.clear();
        let outcomes = run();
        if outcomes.iter().any(|outcome| String::from_utf8_lossy(&outcome.stderr).contains("Assertion")) {
            return;
        }
    }
    panic!("no failure in {MOST_RUNS} runs");
}

fn name(path: &Path) -> &str {
    path.file_name().unwrap().to_str().unwrap()
}

/// Goes to the end, and back out of the C library to the line of the failed assertion.
fn back_to_the_assertion(udb: &mut Udb, function: &str, assertion: &str) {
    const REACHED: &str = "udb: Have reached end of recorded history.";
    // The frame of raise() has a source line only where the C library's debug information is at hand.
    udb.expect("ugo end", &[REACHED, "", "Program received signal SIGTRAP, Trace/breakpoint trap.", REACHED, "…", "(…)"]);
    let frames = udb.ask("backtrace");
    let depth = frames.lines().position(|line| line.contains(&format!(" in {function} ("))).unwrap();
    let mut last = String::new();
    // One more where the frame is inlined: that is left to its own begin first.
    for _ in 0..2 * depth {
        if last.ends_with(&format!("{assertion}\n")) {
            break;
        }
        last = udb.ask("reverse-finish");
        assert_form("reverse-finish", &last, &["Run … #0  …", "…", "(…)"]);
    }
    assert!(last.ends_with(&format!("{assertion}\n")), "{last}");
}

/// The rows of a `ublame` table: whether one's own, and the words.
fn rows(table: &str) -> Vec<(bool, Vec<&str>)> {
    table.lines().skip(2).map(|line| (line.starts_with('*'), line[1..].split_whitespace().collect())).collect()
}

const HEADER: &str = "    Num    PID  Time in recording…Type…Address…Len";
const RULE: &str = "  -----  -----  ----…  ----…  ----…  -----";

struct Failure {
    example: Example,
    consumer: String,
    producer: String,
}

fn failed_consumer() -> Failure {
    let example = Example::build("shmem_producer_consumer");
    run_until_failure(&example, || vec![example.run(&[])]);
    let [consumer, producer] = &example.files(".undo")[..] else { panic!("{:?}", example.files(".undo")) };
    let (consumer, producer) = (name(consumer).to_owned(), name(producer).to_owned());
    Failure { example, consumer, producer }
}

fn the_whole_walk(failure: &Failure) {
    let source = Source::of("shmem_producer_consumer");
    let (mut udb, greeting) = Udb::open(failure.example.path(), &failure.consumer);
    let start = source.line("undolr_start(NULL)");
    assert_form(
        "udb",
        &greeting,
        &[
            "Found 1 other recording that shared memory with this one (log log-….shmem); `uinfo inferiors` lists them.",
            "",
            "No more reverse-execution history.",
            &format!(
                "0x… in record_me (process_name=0x… \"consumer\") at …shmem_producer_consumer.c:{}",
                source.number("undolr_start(NULL)")
            ),
            &start,
        ],
    );
    back_to_the_assertion(&mut udb, "consumer_run", &source.line("assert(value"));
    udb.expect("print value", &["$1 = 100"]);
    udb.expect("watch value", &["Hardware watchpoint 1: value"]);
    let read = "int value = shmem_data_array[index];";
    udb.expect(
        "reverse-continue",
        &[
            "Continuing.",
            "",
            "Hardware watchpoint 1: value",
            "",
            "Old value = 100",
            "New value = …",
            &format!("0x… in consumer_run () at …shmem_producer_consumer.c:{}", source.number(read)),
            &source.line(read),
        ],
    );
    let table = udb.expect(
        "ublame &shmem_data_array[index]",
        &[HEADER, RULE, "      2  …  …:0x…  write   0x…      4", "*     1  …  …:0x…  read    0x…      4"],
    );
    let written_at = rows(&table)[0].1[2].to_owned();
    let verbose = udb.ask("ublame -v &shmem_data_array[index]");
    let write = format!("producer_run at shmem_producer_consumer.c:{}", source.number("shmem_data_array[index] = new_value"));
    assert!(verbose.lines().nth(2).unwrap().ends_with(&format!("100      {write}")), "{verbose}");
    let write = source.line("shmem_data_array[index] = new_value");
    udb.expect(&format!("ugo inferior 2 {written_at}"), &["", &format!("0x…\t{write}")]);
    udb.expect("print new_value", &["$2 = 100"]);
    udb.expect("watch new_value", &["Hardware watchpoint 2: new_value"]);
    let made = "int new_value = random_in_range(0, 100);";
    udb.expect(
        "reverse-continue",
        &[
            "Continuing.",
            "",
            // gdb names the thread as soon as it has two.
            "Thread 2.1 hit Hardware watchpoint 2: new_value",
            "",
            "Old value = 100",
            "New value = …",
            &format!("0x… in producer_run () at …shmem_producer_consumer.c:{}", source.number(made)),
            &source.line(made),
        ],
    );
    udb.expect(
        "uinfo inferiors",
        &[
            "    Num    PID  Recording",
            "  -----  -----  ----…",
            &format!("      1  …  {}", failure.consumer),
            &format!("*     2  …  {}", failure.producer),
        ],
    );
    let (status, seen) = udb.quit();
    assert_eq!(status, Some(0), "{seen}");
    for noise in ["warning:", "Remote", "packet", "Error", "Traceback"] {
        assert!(!seen.contains(noise), "{noise:?} in:\n{seen}");
    }
}

#[test]
fn from_the_assertion_to_the_culprit() {
    the_whole_walk(&failed_consumer());
}

#[test]
fn the_executable_is_not_needed() {
    let failure = failed_consumer();
    fs::remove_file(failure.example.program()).unwrap();
    the_whole_walk(&failure);
}

#[test]
fn a_changed_executable_does_not_mislead() {
    let failure = failed_consumer();
    fs::copy("/bin/true", failure.example.program()).unwrap();
    the_whole_walk(&failure);
}

#[test]
fn files_may_be_renamed() {
    let mut failure = failed_consumer();
    let path = |name: &str| failure.example.path().join(name);
    fs::rename(path(&failure.consumer), path("b.undo")).unwrap();
    fs::rename(path(&failure.producer), path("a.undo")).unwrap();
    fs::rename(&failure.example.files(".shmem")[0], path("log-of-both.shmem")).unwrap();
    (failure.consumer, failure.producer) = ("b.undo".into(), "a.undo".into());
    the_whole_walk(&failure);
}

/// Both processes map the object by its name, at different addresses, and neither is the other's child.
#[test]
fn unrelated_processes_at_different_addresses() {
    let example = Example::build("shmem_unrelated");
    let object = format!("walk-{}", std::process::id());
    run_until_failure(&example, || {
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| example.run(&["writer", &object]));
            let reader = scope.spawn(|| example.run(&["reader", &object]));
            vec![writer.join().unwrap(), reader.join().unwrap()]
        })
    });
    let source = Source::of("shmem_unrelated");
    let [reader, _writer] = &example.files(".undo")[..] else { panic!("{:?}", example.files(".undo")) };
    let (mut udb, _) = Udb::open(example.path(), name(reader));
    back_to_the_assertion(&mut udb, "reader_run", &source.line("assert(total =="));
    let order = udb.ask("print order");
    assert!(order.starts_with("$1 = (const struct order *) 0x2000"), "{order}");
    let table = udb.ask("ublame -v &order->price");
    assert_form("ublame", &table, &[&format!("{HEADER}…Value…Source"), &format!("{RULE}…"), "(…)"]);
    let rows = rows(&table);
    // The price, then the end of a name that is too long, then what the reader saw of both; all at the reader's addresses.
    assert!(rows.len() >= 3, "{table}");
    assert!(rows.iter().all(|(_, words)| words[4].starts_with("0x2000")), "{table}");
    let (own, last) = rows.last().unwrap();
    assert!(*own && last[3] == "read", "{table}");
    let culprit = rows.iter().rev().find(|(own, words)| !own && words[3] == "write").unwrap();
    assert_eq!(culprit.1[5], "1", "a character of the name: {table}");
    assert!(table.contains("invent_name at shmem_unrelated.c:"), "{table}");
    let there = udb.ask(&format!("ugo inferior 2 {}", culprit.1[2]));
    assert!(there.contains("name[length"), "{there}");
    let pointer = udb.ask("print name");
    assert!(pointer.contains("0x1000"), "{pointer}");
    let caller = udb.ask("backtrace");
    assert!(caller.contains(" in writer_run () at "), "{caller}");
    // The same by one command from where the value was seen.
    udb.ask("ugo inferior 1");
    let going = udb.ask("ugo blame &order->price");
    assert!(going.starts_with("Going to: inferior 2, process ") && going.contains("name[length"), "{going}");
    assert_eq!(udb.quit().0, Some(0));
}
