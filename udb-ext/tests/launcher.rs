//! What `udb` says to bad input, and its exit status.

mod support;

use std::process::Command;

use support::{Bench, run};

#[test]
fn bad_files_get_one_clear_line() {
    let bench = Bench::new();
    bench.write("text.undo", "not a recording");
    let text = bench.batch("text.undo", &["uinfo time"]);
    text.status(1).shows(&["udb: …text.undo: not a recording"]).hides("Remote").hides("uinfo");
    assert_eq!(text.output.lines().count(), 1, "{}", text.output);
    let missing = bench.batch("missing.undo", &[]);
    missing.status(1);
    assert_eq!(missing.output, "udb: missing.undo: No such file or directory\n");
    let folder = bench.batch(".", &[]);
    folder.status(1).shows(&["udb: .: this is a directory; name a recording, FILE.undo"]);
}

#[test]
fn the_real_server_tells_why_it_cannot_open() {
    let bench = Bench::new();
    bench.write("text.undo", "not a recording");
    let mut udb = bench.udb();
    udb.env("UNDO_SERVER", env!("CARGO_BIN_EXE_udb-server")).args(["--batch", "text.undo"]);
    let run = run(udb);
    run.status(1).shows(&["udb: …text.undo: …"]);
    assert_eq!(run.output.lines().count(), 1, "{}", run.output);
}

#[test]
fn without_a_recording_commands_say_so() {
    let bench = Bench::new();
    let mut udb = bench.udb();
    udb.args([
        "--batch",
        "-nx",
        "-ex",
        "uinfo time",
        "-ex",
        "ublame 1",
        "-ex",
        "ugo end",
        "-ex",
        "uload nosuch.undo",
        "-ex",
        "print 6 * 7",
    ]);
    let run = run(udb);
    run.status(1).shows(&[
        "no recording is loaded here: `uload FILE.undo` loads one",
        "no recording is loaded here: `uload FILE.undo` loads one",
        "no recording is loaded here: `uload FILE.undo` loads one",
        "…nosuch.undo: No such file or directory",
        "$1 = 42",
    ]);
}

#[test]
fn the_status_tells_whether_all_commands_succeeded() {
    let bench = Bench::new();
    let program = bench.guest("walk");
    bench.write("walk.undo", &format!(r#"{{"program": "{}"}}"#, program.display()));
    bench.write("good.gdb", "print 1\n");
    bench.write("bad.gdb", "print 1\nnosuch\nprint 2\n");
    bench.batch("walk.undo", &["print 1"]).status(0);
    bench.batch("walk.undo", &["nosuch", "print 1"]).status(1).shows(&["Undefined command: \"nosuch\".  Try \"help\".", "$1 = 1"]);
    bench.batch("walk.undo", &["source good.gdb"]).status(0);
    bench.batch("walk.undo", &["source bad.gdb"]).status(1).hides("$2");
    bench.batch("walk.undo", &["quit 3", "print 1"]).status(3).hides("$1");
    let mut udb = bench.udb();
    udb.args(["-batch", "-q", "-x", "good.gdb", "-ex", "print 5", "walk.undo"]);
    run(udb).status(0).shows(&["$1 = 1", "$2 = 5"]);
}

#[test]
fn recordings_are_loaded_and_saved_by_command() {
    let bench = Bench::new();
    let program = bench.guest("walk");
    bench.write("walk.undo", &format!(r#"{{"program": "{}"}}"#, program.display()));
    let run = bench.batch(
        "walk.undo",
        &[
            "usave copy.undo",
            "usave copy.undo",
            "uload -e copy.undo",
            "uinfo inferiors",
            "uinfo time",
            "break square",
            "reverse-continue",
            "usave /nonexistent/x.undo",
        ],
    );
    run.status(1).shows(&[
        "Saved to copy.undo.",
        "copy.undo: there is such a file already; choose another name or remove it",
        "0x… in …_exit (…) at …",
        "*     1    137  copy.undo",
        "Breakpoint 1, square (x=5) at …",
        "/nonexistent/x.undo: No such file or directory",
    ]);
}

#[test]
fn gdb_is_found_or_missed() {
    let bench = Bench::new();
    let missing = |gdb: &str| {
        let mut udb = bench.udb();
        udb.env("UNDO_GDB", gdb);
        run(udb)
    };
    missing("/nonexistent/gdb").status(1).shows(&["udb: /nonexistent/gdb cannot be run; install gdb 12 or later, or name it in UNDO_GDB"]);
    missing("/bin/true").status(1).shows(&["udb: /bin/true does not answer --version as gdb does; name a gdb in UNDO_GDB"]);
    let old = bench.write("old-gdb", "#!/bin/sh\necho 'GNU gdb (GDB) 9.2'\n");
    assert!(Command::new("chmod").arg("+x").arg(&old).status().unwrap().success());
    missing(old.to_str().unwrap()).status(1).shows(&["udb: …old-gdb is version 9; udb needs gdb 12 or later (name another in UNDO_GDB)"]);
}
