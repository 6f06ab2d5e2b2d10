//! Debugging a family of processes of which nothing was linked with anything of ours: `live-record --on-fork both --shmem-log`.
//!
//! The guest is deterministic: its child always fails at the value that its parent wrote to element 13.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use tests::debug::{Udb, assert_form, batch, finished, udb, until_gone};
use tests::{compile, stage};

struct Family {
    directory: tempfile::TempDir,
    child: String,
}

fn guest(name: &str, flags: &[&str], directory: &Path) -> PathBuf {
    compile::compile(&stage::source().join("guests").join(name).with_extension("c"), flags, directory).unwrap()
}

fn live_record(directory: &Path, arguments: &[&str]) {
    let mut command = Command::new(stage::program("live-record"));
    let (_, said) = {
        command.current_dir(directory).arg("-q").args(arguments);
        finished(command)
    };
    assert!(!said.contains("live-record:"), "{said}");
}

/// The recordings of both processes and their log.
fn family() -> &'static Family {
    static FAMILY: OnceLock<Family> = OnceLock::new();
    FAMILY.get_or_init(|| {
        let directory = tempfile::tempdir().unwrap();
        guest("family", &[], directory.path());
        live_record(directory.path(), &["--on-fork", "both", "--shmem-log", "L.shmem", "-o", "parent.undo", "./family"]);
        let names = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let child = names.into_iter().find(|name| name.starts_with("parent-")).expect("the child has a recording");
        Family { directory, child }
    })
}

impl Family {
    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn open(&self, recording: &str) -> Udb {
        Udb::open(self.path(), recording).0
    }

    /// In the child, at the failed assertion.
    fn at_the_failure(&self) -> Udb {
        let mut udb = self.open(&self.child);
        // The dynamic linker has one of its own.
        udb.expect("break __assert_fail", &["Breakpoint 1 at 0x…"]);
        let stop = udb.ask("continue");
        assert!(stop.contains("Breakpoint 1") && stop.contains("__assert_fail ("), "{stop}");
        udb.ask("delete 1");
        let caller = udb.ask("reverse-finish");
        assert!(caller.contains("assert(value < 100);"), "{caller}");
        udb
    }
}

const HEADER: &str = "    Num    PID  Time in recording…Type…Address…Len…";
const RULE: &str = "  -----  -----  ----…  ----…  ----…  -----…";

#[test]
fn the_writer_is_found() {
    let family = family();
    let mut udb = family.at_the_failure();
    udb.expect("print value", &["$1 = 100"]);
    udb.expect("print index", &["$2 = 13"]);
    udb.expect("ublame &shared->values[index]", &[HEADER, RULE, "      2  …  write   0x…      4", "*     1  …  read    0x…      4"]);
    // An expression, an address and a range say the same.
    let whole = udb.ask("ublame shared->values[13]");
    let address = udb.ask("print/x &shared->values[13]").split_whitespace().nth(2).unwrap().to_owned();
    assert_eq!(udb.ask(&format!("ublame {address}")), whole);
    assert_eq!(udb.ask(&format!("ublame {address}, 4")), whole);
    assert_eq!(udb.ask("ublame $2 == 13 ? &shared->values[13] : 0"), whole);
    let writers = udb.ask("ublame -w shared->values[13]");
    assert_eq!(writers.lines().count(), 3, "{writers}");
    udb.expect(
        "ublame -v shared->values[13]",
        &[HEADER, RULE, "      2  …  100      main at family.c:…", "*     1  …  100      check at family.c:…"],
    );
    let going = udb.ask("ugo blame shared->values[index]");
    assert_form(
        "ugo blame",
        &going,
        &["Going to: inferior 2, process …, write at …:0x…", "", "0x…\t…\t        shared->values[index] = value;"],
    );
    udb.expect("print value", &["$4 = 100"]);
    assert!(udb.ask("uinfo inferiors").contains("*     2"));
    assert_eq!(udb.quit().0, Some(0));
}

/// gdb's own command crashes where there are several inferiors.
#[test]
fn frames_are_found_by_function() {
    let family = family();
    let mut udb = family.open(&family.child);
    udb.ask("continue");
    udb.expect("frame function check", &["#6  0x… in check () at …family.c:…", "…\t        assert(value < 100);"]);
    udb.expect("frame function main", &["#7  0x… in main () at …family.c:…", "…"]);
    udb.expect("frame function make_value", &["No frame for function \"make_value\"."]);
    assert!(udb.ask("frame").starts_with("#7 "), "a search that fails selects nothing");
    udb.ask("frame 0");
    assert!(udb.ask("info frame function check").contains(" in check ("));
    assert!(udb.ask("frame").starts_with("#0 "));
    udb.expect("select-frame function main", &[]);
    assert!(udb.ask("frame").starts_with("#7 "));
    udb.expect("frame function nosuch", &["Function \"nosuch\" not defined."]);
}

#[test]
fn each_process_keeps_its_own_place() {
    let family = family();
    let mut udb = family.at_the_failure();
    let here = udb.ask("uinfo time -a");
    udb.ask("ubookmark failure");
    udb.expect("break make_value", &["Breakpoint 2 at 0x…"]);
    udb.ask("ugo inferior 2");
    assert!(udb.ask("uinfo time").starts_with("Current time is: 1 (in"));
    udb.expect("uinfo bookmarks", &["No bookmarks; `ubookmark NAME` makes one."]);
    // The breakpoint is the child's, and stops only that.
    let end = udb.ask("continue");
    assert!(end.contains("No more reverse-execution history."), "{end}");
    udb.ask("ugo inferior 1");
    assert_eq!(udb.ask("uinfo time -a"), here);
    assert!(udb.ask("uinfo bookmarks").contains("* failure"));
    // Navigation is each one's own, too.
    udb.ask("ugo start");
    udb.ask("ugo inferior 2");
    udb.ask("ugo undo");
    assert!(udb.ask("uinfo time").starts_with("Current time is: 1 (in"));
    udb.ask("ugo inferior 1");
    udb.ask("ugo undo");
    assert_eq!(udb.ask("uinfo time -a"), here);
    udb.ask("ugo start");
    udb.ask("ugo bookmark failure");
    assert_eq!(udb.ask("uinfo time -a"), here);
    // What was killed is opened again.
    udb.type_line("kill");
    udb.wait_for("(y or n) ");
    udb.ask("y");
    udb.ask("ugo inferior 2");
    udb.ask("ugo inferior 1");
    assert!(udb.ask("uinfo time").starts_with("Current time is: 1 (in"));
}

#[test]
fn another_run_is_loaded_in_place_of_this() {
    let family = family();
    let other = tempfile::tempdir().unwrap();
    guest("long_run", &["-O1"], other.path());
    live_record(other.path(), &["-o", "long.undo", "./long_run"]);
    let long = other.path().join("long.undo");
    let mut udb = family.open(&family.child);
    udb.ask("ugo inferior 2");
    udb.ask("ugo inferior 1");
    let loaded = udb.ask(&format!("uload {}", long.display()));
    assert!(loaded.contains("No more reverse-execution history."), "{loaded}");
    assert!(udb.ask("uinfo inferiors").contains("long.undo"));
    // Its own executable, not the one from before.
    assert!(udb.ask("break turn").starts_with("Breakpoint 1 at "));
    assert!(udb.ask("continue").contains("turn (number=number@entry=0)"));
    udb.expect("print shared", &["No symbol \"shared\" in current context."]);
    let back = udb.ask(&format!("uload -e {}", family.path().join(&family.child).display()));
    assert!(back.contains("Found 1 other recording") && back.contains("pthread_kill"), "{back}");
    udb.expect("uinfo inferiors", &["    Num…", "  -----…", "*     1  …", "      2  …"]);
    udb.ask("ugo inferior 2");
    assert!(udb.ask("uinfo time").starts_with("Current time is: 1 (in"));
    let servers = udb.descendants();
    assert_eq!(udb.quit().0, Some(0));
    until_gone(&servers);
}

#[test]
fn shared_memory_is_printed_as_far_as_it_is_known() {
    let family = family();
    let mut udb = family.at_the_failure();
    // Read once, and not written since; read once, and written since by the other; never touched.
    udb.expect("print shared->touched_once", &["$1 = 42"]);
    udb.expect("print shared->overwritten", &["$2 = 1 <stale>"]);
    udb.expect("print shared->never_touched", &["$3 = <never accessed>"]);
    udb.expect("print/x shared->overwritten", &["$4 = 0x1 <stale>"]);
    udb.expect("p/t shared->touched_once", &["$5 = 101010"]);
    udb.expect("print shared->ratio", &["$6 = 0.5"]);
    udb.expect(
        "print shared->values",
        &["$7 = {0, 7, 14, 21, 28, 35, 42, 49, 56, 63, 70, 77, 84, 100, <never accessed>, <never accessed>, <never accessed>, <never accessed>, <never accessed>, <never accessed>}"],
    );
    udb.expect("p/x shared->values[3]@2", &["$8 = {0x15, 0x1c}"]);
    udb.expect("print shared->inner.low", &["$9 = 7"]);
    let whole = udb.ask("print *shared");
    for part in [
        "{values = {0, 7, ",
        "touched_once = 42, ",
        "overwritten = 1 <stale>, ",
        "never_touched = <never accessed>, ",
        "ratio = 0.5, inner = {low = 7, ",
    ] {
        assert!(whole.contains(part), "{part:?} in {whole}");
    }
    udb.expect("print shared->overwritten + 1", &["$11 = 2"]);
    udb.expect("print $2", &["$12 = 1"]);
    udb.expect("output shared->overwritten", &[]);
    // Options change the form, not what is known.
    udb.expect("print -elements 2 -- shared->values", &["$13 = {0, 7...}"]);
    udb.expect("print -elements 15 -- /x shared->values[13]@3", &["$14 = {0x64, <never accessed>, <never accessed>}"]);
    udb.expect("print -raw-values -- shared->never_touched", &["$15 = <never accessed>"]);
    let pretty = udb.ask("print -pretty -- *shared");
    assert!(pretty.contains("\n  overwritten = 1 <stale>,\n  never_touched = <never accessed>,\n"), "{pretty}");
}

#[test]
fn ublame_says_why_there_is_nothing() {
    let family = family();
    let mut udb = family.at_the_failure();
    udb.expect("ublame shared->never_touched", &["this recording never accesses 0x…"]);
    udb.expect("ublame value", &["0x… is not shared memory at this time: only this process can have written it (`last` finds where)"]);
    udb.expect("ublame nosuch", &["nosuch: No symbol \"nosuch\" in current context."]);
    udb.expect("ublame", &["ublame needs to know what: an expression such as &x, an address, or ADDRESS, LENGTH"]);
    udb.expect("ugo blame shared->never_touched", &["this recording never accesses 0x…"]);
    let address = udb.ask("print/x &shared->values[13]").split_whitespace().nth(2).unwrap().to_owned();
    udb.ask("ugo start");
    udb.expect(&format!("ublame {address}"), &["…not…"]);
}

#[test]
fn a_watchpoint_tells_when_the_value_came_from_elsewhere() {
    let family = family();
    let mut udb = family.at_the_failure();
    udb.expect("watch shared->values[13]", &["Hardware watchpoint 2: shared->values[13]"]);
    let stop = udb.expect(
        "reverse-continue",
        &[
            "Continuing.",
            "",
            "Hardware watchpoint 2: shared->values[13]",
            "",
            "Old value = 100",
            "New value = 0",
            "0x… in check () at …family.c:…",
            "…int value = shared->values[index];",
            "",
            "The value read here was written by inferior 2 at …:0x…: `ugo inferior 2 …:0x…` goes there.",
        ],
    );
    let command = stop.split('`').nth(1).unwrap().to_owned();
    let there = udb.ask(&command);
    assert!(there.contains("shared->values[index] = value;"), "{there}");
}

#[test]
fn a_process_that_was_not_recorded_is_named_as_such() {
    let directory = tempfile::tempdir().unwrap();
    guest("family", &[], directory.path());
    // Only the parent: what its child writes, nobody logs.
    let source = directory.path().join("lone.c");
    fs::write(
        &source,
        "#include <sys/mman.h>\n#include <sys/wait.h>\n#include <unistd.h>\nint seen;\nint main(void)\n{\n    int *cell = mmap(0, 4096, PROT_READ | PROT_WRITE, \
         MAP_SHARED | MAP_ANONYMOUS, -1, 0);\n    *cell = 1;\n    if (fork() == 0)\n    {\n        *cell = 2;\n        _exit(0);\n    }\n    wait(0);\n    seen = *cell;\n    return 0;\n}\n",
    )
    .unwrap();
    compile::compile(&source, &[], directory.path()).unwrap();
    live_record(directory.path(), &["--shmem-log", "L.shmem", "-o", "lone.undo", "./lone"]);
    let (mut udb, _) = Udb::open(directory.path(), "lone.undo");
    udb.ask("break main");
    udb.ask("continue");
    udb.ask("watch seen");
    udb.ask("continue");
    udb.expect(
        "ublame cell",
        &[
            HEADER,
            RULE,
            "*     1  …  write   0x…      4",
            "      ?      ?  (not recorded)  …  write   0x…      4",
            "*     1  …  read    0x…      4",
            "No logged access left the value that was read: a process that was not recorded wrote it.",
        ],
    );
    udb.expect("ugo blame *cell", &["a process that was not recorded wrote this value; `ublame` shows the accesses before and after"]);
}

#[test]
fn every_command_answers_in_both_spellings() {
    let family = family();
    let commands = [
        ("uinfo time", "Current time is: 1 (in recorded range: [1 - …])"),
        ("info time", "Current time is: 1 (in recorded range: [1 - …])"),
        ("uinfo time -a", "Current time is: 1:0x… (in recorded range: [1:0x… - …:0x…])"),
        ("uinfo events -l 3", "time=…:0x…: …. result=0x… size=….…"),
        ("info events -l 3", "time=…:0x…: …. result=0x… size=….…"),
        ("uinfo events name == 'read' and result == 1", "time=…:0x…: read. result=0x1 size=…."),
        ("uinfo events -limit 1000 -min 1 -max 999,999,999 -quiet name == 'SHMEM_FIXUP'", "time=…:0x…: SHMEM_FIXUP. address=0x… size=…."),
        ("uinfo event-stats", "  Event…Count…Size"),
        ("info event-stats", "  Event…Count…Size"),
        ("uinfo event-log-size", "event log size is … bytes (…)"),
        ("info event-log-size", "event log size is … bytes (…)"),
        ("uinfo bookmarks", "No bookmarks; `ubookmark NAME` makes one."),
        ("info bookmarks", "No bookmarks; `ubookmark NAME` makes one."),
        ("uinfo wallclock", "Current wallclock time is: … (in recorded range: [… - …])"),
        ("info wallclock", "Current wallclock time is: … (in recorded range: [… - …])"),
        ("uinfo inferiors", "*     1  …  parent-….undo"),
        ("info inferiors", "* 1    process …"),
        ("ubookmark begun", "Bookmark begun is at 1:0x…."),
        ("ugo end", "udb: Have reached end of recorded history."),
        ("ugo bookmark begun", "…"),
        ("ugo event next name == 'write'", "Going to: time=…:0x…: write. result=0x1 size=…."),
        ("ugo event prev", "Going to: time=…:0x…: …"),
        ("ugo event nosuch == 1", "condition: name 'nosuch' is not defined (there are: …)"),
        ("ugo event next name == 'nosuch'", "No matching event"),
        ("ugo time +5", "…"),
        ("ugo time -5", "…"),
        ("ugo time 1,000", "…"),
        ("print $_undo_time", "$1 = 1000"),
        ("print $_undo_time_max > $_undo_time_min", "$2 = 1"),
        ("ugo undo", "…"),
        ("ugo redo", "…"),
        ("ugo start", "No more reverse-execution history."),
        ("ugo inferior 2", "…"),
        ("ugo inferior 1 500", "…"),
        ("ugo wallclock 1", "\"1\" is not a time of day: write HH:MM:SS, YYYY-MM-DD HH:MM:SS, or seconds since 1970"),
        ("ushow max-event-log-size", "maximum event log size is 1073741824 bytes (1.00G)"),
        ("show max-event-log-size", "maximum event log size is 1073741824 bytes (1.00G)"),
        ("uset max-event-log-size 512M", ""),
        ("set max-event-log-size 256M", ""),
        ("ushow event-log-mode", "event log mode is circular"),
        ("uset event-log-mode straight", ""),
        ("show event-log-mode", "event log mode is straight"),
        ("last counter", "counter: No symbol \"counter\" in current context."),
        ("usave copy.undo", "Saved to copy.undo."),
        ("uload -e copy.undo", "…"),
        ("uinfo nosuch", "there is no command \"uinfo nosuch\": `help uinfo` lists them"),
        ("catch fork", "a recording has no such events; `catch syscall fork vfork clone clone3 execve` stops at the calls"),
    ];
    let mut script = vec!["set width 0".to_owned()];
    for (index, (command, _)) in commands.iter().enumerate() {
        script.extend([format!("echo [{index}]\\n"), (*command).to_owned()]);
    }
    let copied = family.path().join("copy.undo");
    let script: Vec<&str> = script.iter().map(String::as_str).collect();
    let (status, output) = batch(family.path(), &family.child, &script);
    fs::remove_file(copied).unwrap();
    assert_eq!(status, Some(1), "some fail by design: {output}");
    for (index, (command, form)) in commands.iter().enumerate() {
        let from = output.find(&format!("[{index}]\n")).unwrap() + format!("[{index}]\n").len();
        let to = output.find(&format!("[{}]\n", index + 1)).unwrap_or(output.len());
        let answer = &output[from..to];
        let fits = if form.is_empty() { answer.is_empty() } else { answer.lines().any(|line| tests::pattern::like(form, line)) };
        assert!(fits, "{command} should show {form:?} and shows:\n{answer}");
    }
}

#[test]
fn every_command_has_help() {
    let family = family();
    let names = [
        "ugo",
        "ugo start",
        "ugo end",
        "ugo time",
        "ugo event",
        "ugo bookmark",
        "ugo undo",
        "ugo redo",
        "ugo inferior",
        "ugo wallclock",
        "ugo blame",
        "ublame",
        "uinfo",
        "uinfo inferiors",
        "uinfo time",
        "uinfo events",
        "uinfo event-stats",
        "uinfo event-log-size",
        "uinfo bookmarks",
        "uinfo wallclock",
        "last",
        "print",
        "ubookmark",
        "uload",
        "usave",
        "uset",
        "ushow",
        "info time",
        "info events",
        "info bookmarks",
    ];
    let commands: Vec<String> = names.iter().map(|name| format!("help {name}")).collect();
    let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
    let (status, output) = batch(family.path(), "parent.undo", &commands);
    assert_eq!(status, Some(0), "{output}");
    assert!(!output.contains("not documented"), "{output}");
}

#[test]
fn arguments_are_completed() {
    let family = family();
    let (status, output) = batch(
        family.path(),
        "parent.undo",
        &[
            "ubookmark here",
            "complete ugo b",
            "complete ugo bookmark h",
            "complete ugo event n",
            "complete uset m",
            "complete ugo inferior 2",
            "complete ublame sha",
            "complete uinfo e",
        ],
    );
    assert_eq!(status, Some(0), "{output}");
    for line in [
        "ugo bookmark",
        "ugo blame",
        "ugo bookmark here",
        "ugo event next",
        "uset max-event-log-size",
        "ugo inferior 2",
        "ublame shared",
        "uinfo events",
        "uinfo event-stats",
    ] {
        assert!(output.lines().any(|found| found == line), "{line:?} in:\n{output}");
    }
}

#[test]
fn batch_status_tells_whether_all_succeeded() {
    let family = family();
    assert_eq!(batch(family.path(), "parent.undo", &["ugo end", "backtrace"]).0, Some(0));
    assert_eq!(batch(family.path(), "parent.undo", &["ugo time x", "backtrace"]).0, Some(1));
    assert_eq!(batch(family.path(), "parent.undo", &["quit 7"]).0, Some(7));
}

#[test]
fn a_front_end_goes_backwards() {
    let family = family();
    let script = family.path().join("mi");
    fs::write(
        &script,
        "1-list-features\n2-list-target-features\n3-break-insert check\n4-exec-continue\n5-exec-continue --reverse\n6-exec-next\n7-exec-next --reverse\n8-stack-list-frames\n9-interpreter-exec console \"ugo end\"\n10-exec-step --reverse\n12-data-evaluate-expression \"$rax = 1\"\n13-data-write-memory-bytes $sp 00\n14-gdb-set var $rsp = 1\n11-gdb-exit\n",
    )
    .unwrap();
    let mut command = udb(family.path());
    command.args(["-nx", "--interpreter=mi3", &family.child]);
    let mut child = command.stdin(fs::File::open(&script).unwrap()).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut output = String::new();
    std::io::Read::read_to_string(child.stdout.as_mut().unwrap(), &mut output).unwrap();
    assert!(child.wait().unwrap().success());
    for part in [
        "2^done,features=[",
        "\"reverse\"",
        "3^done,bkpt={",
        "4^running",
        "*stopped,reason=\"breakpoint-hit\"",
        "*stopped,reason=\"end-stepping-range\"",
        "5^running",
        "8^done,stack=[frame={level=\"0\"",
        "10^running",
        "11^exit",
    ] {
        assert!(output.contains(part), "{part:?} in:\n{output}");
    }
    let refused = "^error,msg=\"history cannot be changed, so nothing can be assigned, called or jumped to here\"";
    for number in [12, 13, 14] {
        assert!(output.contains(&format!("{number}{refused}")), "{output}");
    }
    assert_eq!(output.matches("^error").count(), 3, "{output}");
}
