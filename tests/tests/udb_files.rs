//! What `udb` says to files that it cannot use, and to times that do not exist: one clear line each.

use std::fs;
use std::path::Path;
use std::process::Command;

use tests::debug::{Udb, batch, finished, udb, until_gone};
use tests::{compile, stage};

fn recorded(name: &str, arguments: &[&str], options: &[&str]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let source = stage::source().join("guests").join(name).with_extension("c");
    let program = compile::compile(&source, &["-O1"], directory.path()).unwrap();
    let mut command = Command::new(stage::program("live-record"));
    command.args(["-q", "-o", "a.undo"]).args(options).arg(program).args(arguments).current_dir(directory.path());
    let (_, said) = finished(command);
    assert!(!said.contains("live-record:"), "{said}");
    directory
}

/// Opens a file; the one line that it says, without `udb: `.
#[track_caller]
fn complaint(directory: &Path, file: &str) -> String {
    let (status, output) = batch(directory, file, &["uinfo time"]);
    assert_eq!(status, Some(1), "{output}");
    let line = output.strip_prefix("udb: ").unwrap_or_else(|| panic!("{output}"));
    assert_eq!(line.lines().count(), 1, "{output}");
    assert!(line.contains(file), "the file is named: {line}");
    line.trim_end().to_owned()
}

#[test]
fn what_is_no_recording_is_told_in_one_line() {
    let place = recorded("long_run", &["10"], &[]);
    let write = |name: &str, bytes: &[u8]| fs::write(place.path().join(name), bytes).unwrap();
    let whole = fs::read(place.path().join("a.undo")).unwrap();
    write("text.undo", b"not a recording\n");
    assert!(complaint(place.path(), "text.undo").contains("not a recording"));
    write("log.undo", b"SHMEMLOG and more");
    assert!(complaint(place.path(), "log.undo").contains("that is an access log"));
    write("empty.undo", b"");
    complaint(place.path(), "empty.undo");
    for part in [10, 100, whole.len() / 2, whole.len() - 1] {
        write("half.undo", &whole[..part]);
        complaint(place.path(), "half.undo");
    }
    let mut newer = whole.clone();
    // The version follows the magic number; a checksum of both comes behind.
    newer[8] = 0xee;
    let checksum = xxhash_rust::xxh3::xxh3_64(&newer[..16]).to_le_bytes();
    newer[16..24].copy_from_slice(&checksum);
    write("newer.undo", &newer);
    assert!(complaint(place.path(), "newer.undo").contains("version"));
    complaint(place.path(), "missing.undo");
}

#[test]
fn times_that_do_not_exist_are_told_in_one_line() {
    let place = recorded("long_run", &["10"], &[]);
    let questions = [
        ("ugo time x", "\"x\" is not a time: write BBCOUNT, BBCOUNT:PC, +N or -N, such as 2,822:0x5618d2d15c61"),
        ("ugo time", "ugo time needs a time: BBCOUNT, BBCOUNT:PC, +N or -N"),
        ("ugo time 99,999,999", "time 99999999 is outside the recorded range [1:0x… - …:0x…]"),
        ("ugo time 0", "time 0 is outside the recorded range [1:0x… - …:0x…]"),
        ("ugo time 500:0x1", "pc 0x1 is never reached at bbcount 500"),
        ("ugo time 5:", "\"5:\" is not a time: write BBCOUNT, BBCOUNT:PC, +N or -N, such as 2,822:0x5618d2d15c61"),
        ("print nosuch", "No symbol \"nosuch\" in current context."),
        ("print 1 +", "A syntax error in expression, near `'."),
        ("ublame 1 +", "1 +: A syntax error in expression, near `'."),
        (
            "ublame counter",
            "this recording has no log of shared memory accesses: record with --shmem-log FILE.shmem, and keep the log in the recording's directory",
        ),
        ("uinfo events -l x", "\"x\" is not a number of events"),
        ("uinfo events -a never", "\"never\" is not a bbcount: write a number, now, +N or -N"),
        ("uinfo events name =", "condition: invalid syntax: name ="),
        ("ugo bookmark nosuch", "no bookmark \"nosuch\" (there are: none yet; `ubookmark NAME` makes one)"),
        ("ugo inferior 7", "there is no inferior 7 (there are: 1); `uinfo inferiors` lists them"),
        ("ugo inferior x", "\"x\" is not an inferior number; `uinfo inferiors` lists them"),
        ("ugo undo", "nothing to undo: there was no movement before this one"),
    ];
    let (mut udb, _) = Udb::open(place.path(), "a.undo");
    for (question, answer) in questions {
        udb.expect(question, &[answer]);
    }
    assert!(udb.ask("uinfo time").starts_with("Current time is: 1 (in"), "nothing has moved");
}

/// Whichever command asks for it, and in whatever language the user works.
#[test]
fn changes_of_the_past_are_refused_with_the_reason() {
    const REASON: &str = "history cannot be changed, so nothing can be assigned, called or jumped to here";
    let place = recorded("long_run", &["10"], &[]);
    let changes = [
        "set counter = 1",
        "set var counter = 1",
        "set variable $rax = 1",
        "set $rip = 1",
        "set {char}$rsp = 1",
        "print counter = 1",
        "print $rax = 1",
        "print counter++",
        "print main(1, 0)",
        "call counter = 1",
        "call main(1, 0)",
        "output $rsp = 1",
        "printf \"%d\", main(1, 0)",
        "jump *main",
        "return",
    ];
    for language in [
        &[("LC_ALL", "C.UTF-8")][..],
        &[("LC_ALL", "C")],
        &[("LC_ALL", "C.UTF-8"), ("LANGUAGE", "nl:de")],
        &[("LC_ALL", "C"), ("LANGUAGE", "nl")],
    ] {
        let mut command = udb(place.path());
        command.args(["--batch", "-nx", "-ex", "ugo end", "-ex", "set confirm off", "a.undo"]).envs(language.iter().copied());
        for change in changes {
            command.args(["-ex", &format!("echo [{change}]\\n"), "-ex", change]);
        }
        command.args(["-ex", "set $mine = 3", "-ex", "print $mine"]);
        let (status, output) = finished(command);
        assert_eq!(status, Some(1), "{output}");
        for change in changes {
            let refused = format!("[{change}]\n{REASON}\n");
            assert!(output.contains(&refused), "{language:?}: {refused} in\n{output}");
        }
        assert!(output.ends_with("$1 = 3\n"), "{output}");
    }
}

#[test]
fn a_log_that_is_missing_or_of_another_run_is_told_in_one_line() {
    let place = recorded("family", &[], &["--on-fork", "both", "--shmem-log", "log.shmem"]);
    let other = recorded("family", &[], &["--on-fork", "both", "--shmem-log", "log.shmem"]);
    let log = place.path().join("log.shmem");
    fs::rename(&log, place.path().join("elsewhere")).unwrap();
    let warnings = |expected: &str| {
        let (status, output) = batch(place.path(), "a.undo", &["print 1"]);
        assert_eq!(status, Some(0), "it can be debugged alone: {output}");
        let line = output.lines().next().unwrap_or_default();
        assert!(line.starts_with("udb: ") && line.contains(expected), "{output}");
        assert!(output.lines().nth(1) == Some(""), "one line: {output}");
    };
    warnings("log");
    fs::copy(other.path().join("log.shmem"), &log).unwrap();
    warnings("log");
    fs::write(&log, b"not a log").unwrap();
    warnings("log");
}

/// A stop for gdb to look at the condition takes a millisecond, and here there are a hundred thousand.
#[test]
fn conditions_are_looked_at_where_the_program_is() {
    let place = recorded("long_run", &["100000"], &[]);
    let (mut udb, _) = Udb::open(place.path(), "a.undo");
    udb.ask("break turn if number == 99999");
    let stop = udb.ask("continue");
    assert!(stop.contains("Breakpoint 1, ") && stop.contains("=99999)"), "{stop}");
    let list = udb.ask("info breakpoints");
    assert!(list.contains("stop only if number == 99999 (target evals)") && list.contains("already hit 1 time\n"), "{list}");
    // gdb sends the breakpoint again, with its new condition; then without any.
    udb.ask("condition 1 $rsp != 0 && (number % 1000 == 7 || *(char *)&counter == 300) && counter < 5000");
    assert!(udb.ask("reverse-continue").contains("=4007)"));
    udb.ask("condition 1");
    assert!(udb.ask("reverse-continue").contains("=4006)"));
    // Only gdb knows its own variables.
    udb.ask("set $mine = 4000");
    udb.ask("condition 1 number == $mine");
    assert!(udb.ask("reverse-continue").contains("=4000)"));
    udb.ask("delete 1");
    assert!(udb.ask("continue").contains("No more reverse-execution history."));
}

#[test]
fn a_long_search_is_interrupted_and_nothing_is_left_behind() {
    let place = recorded("long_run", &["400000000"], &[]);
    let (mut udb, _) = Udb::open(place.path(), "a.undo");
    udb.type_line("continue");
    udb.wait_for("Continuing.");
    udb.interrupt();
    let stop = udb.answer();
    assert!(stop.contains("Program received signal SIGINT, Interrupt."), "{stop}");
    // A jump is interrupted between two of its pieces.
    udb.type_line("ugo end");
    udb.interrupt();
    let stop = udb.answer();
    assert!(stop.contains("interrupted on the way, at ") || stop.contains("Quit"), "{stop}");
    assert!(udb.ask("uinfo time").starts_with("Current time is: "));
    let here = udb.ask("uinfo time -a");
    assert!(!here.contains(&format!("is: {}", here.rsplit(" - ").next().unwrap().trim_end_matches("])\n"))), "not the end: {here}");
    let servers = udb.descendants();
    assert!(servers.len() >= 2, "a server and its replay processes: {servers:?}");
    let (status, seen) = udb.quit();
    assert_eq!(status, Some(0), "{seen}");
    assert!(!seen.contains("Quit anyway") && !seen.contains("Traceback"), "{seen}");
    until_gone(&servers);
}

/// gdb would stop waiting for the answer, and take it for that to its next question.
#[test]
fn a_question_to_the_server_is_not_interrupted_half_way() {
    let place = recorded("long_run", &["400000000"], &[]);
    let (mut udb, _) = Udb::open(place.path(), "a.undo");
    for line in [
        "python import signal, threading, undo.startup",
        "python debugger = undo.startup._state['session'].debugger",
        "python reply = debugger._reply",
        "python interrupt = lambda: signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)",
        "python once = lambda question: (setattr(debugger, '_reply', reply), interrupt(), reply(question))[2]",
        "python debugger._reply = once",
    ] {
        udb.expect(line, &[]);
    }
    let end = udb.ask("ugo end");
    assert!(end.starts_with("interrupted on the way, at "), "{end}");
    let here = udb.ask("uinfo time -a");
    let (bbcount, pc) = here.strip_prefix("Current time is: ").and_then(|rest| rest.split_once(' ')).unwrap().0.split_once(':').unwrap();
    udb.expect("print/x $pc", &[&format!("$1 = {pc}")]);
    assert_ne!(bbcount, "1");
    assert!(udb.ask("ugo undo").contains(" at "));
    assert!(udb.ask("uinfo time").starts_with("Current time is: 1 (in"));
}

#[test]
fn a_killed_debugger_leaves_nothing_behind() {
    let place = recorded("long_run", &["400000000"], &[]);
    let (mut udb, _) = Udb::open(place.path(), "a.undo");
    udb.type_line("continue");
    udb.wait_for("Continuing.");
    let servers = udb.descendants();
    assert!(servers.len() >= 2, "a server and its replay processes: {servers:?}");
    udb.kill();
    until_gone(&servers);
}
