//! Real gdb walks through a small program, both ways.

mod support;

use support::{Bench, Run};

fn walk(commands: &[&str]) -> Run {
    let bench = Bench::new();
    let program = bench.guest("walk");
    bench.write("walk.undo", &format!(r#"{{"program": "{}"}}"#, program.display()));
    bench.batch("walk.undo", commands)
}

#[test]
fn loading_shows_the_start() {
    let run = walk(&["uinfo time", "info sharedlibrary", "info inferiors"]);
    run.status(0).shows_block(&["", "No more reverse-execution history.", "main () at …walk.c:23", "23\t{"]);
    run.shows(&["Current time is: 1 (in recorded range: [1 - …])", "…libc.so.6", "* 1    process 137 …"]);
    run.hides("Remote debugging").hides("remote target").hides("warning");
}

#[test]
fn breakpoints_and_steps_go_both_ways() {
    let run = walk(&[
        "break square",
        "continue",
        "continue",
        "print x",
        "finish",
        "next",
        "reverse-next",
        "reverse-step",
        "delete 1",
        "stepi",
        "reverse-stepi",
        "tbreak square if x == 4",
        "continue",
        "print x",
    ]);
    run.status(0).shows(&[
        "Breakpoint 1, square (x=1) at …walk.c:17",
        "Breakpoint 1, square (x=2) at …walk.c:17",
        "$1 = 2",
        "0x… in main () at …walk.c:26",
        "Value returned is $2 = 4",
        "27\t        shared->first = total;",
        // Backwards there is a breakpoint on the way.
        "Breakpoint 1, square (x=2) at …walk.c:17",
        "main () at …walk.c:26",
        "0x…\t26\t        total += square(i);",
        "26\t        total += square(i);",
        "Temporary breakpoint 2, square (x=4) at …walk.c:17",
        "$3 = 4",
    ]);
}

#[test]
fn reverse_finish_comes_to_the_call() {
    let run = walk(&["break square", "continue", "delete", "reverse-finish", "stepi", "stepi 3", "bt"]);
    run.status(0).shows(&[
        "0x… in main () at …walk.c:26",
        "26\t        total += square(i);",
        "#0  square (x=1) at …",
        "#1  0x… in main () at …",
    ]);
}

#[test]
fn watchpoints_tell_old_and_new_both_ways() {
    let run = walk(&["watch total", "continue", "continue", "reverse-continue", "reverse-continue", "reverse-continue"]);
    run.status(0).shows(&[
        "Hardware watchpoint 1: total",
        "Old value = 0",
        "New value = 1",
        "Old value = 1",
        "New value = 5",
        // Just before the instruction that made the 5: one stop, with the value of before.
        "Old value = 5",
        "New value = 1",
        "0x… in main () at …walk.c:26",
        "Old value = 1",
        "New value = 0",
        "No more reverse-execution history.",
        "main () at …walk.c:23",
    ]);
}

#[test]
fn a_watchpoint_is_right_after_a_jump() {
    let run = walk(&["watch total", "ugo end", "reverse-continue", "ugo start", "continue"]);
    run.status(0).shows(&["Old value = 55", "New value = 30", "Old value = 0", "New value = 1"]);
}

#[test]
fn a_watchpoint_through_a_pointer_survives_jumps_quietly() {
    let run = walk(&[
        "break walk.c:27",
        "continue",
        "watch shared->first",
        "continue",
        "ugo time +1",
        "ugo undo",
        "continue",
        "info breakpoints",
        "uinfo time",
    ]);
    run.status(0).shows(&["Old value = 0", "New value = 1", "Breakpoint 1, main () at …"]).hides("warning");
}

#[test]
fn large_and_reading_watchpoints_work() {
    let run = walk(&["break main", "continue", "next", "delete", "watch *shared", "rwatch counter", "continue", "continue"]);
    run.status(0).shows(&[
        "Hardware watchpoint 2: *shared",
        "Hardware read watchpoint 3: counter",
        "Hardware read watchpoint 3: counter",
        "Value = 0",
    ]);
    run.shows(&["Hardware watchpoint 2: *shared", "Old value = {first = 0, second = 0, …", "New value = {first = 1, second = 0, …"]);
}

#[test]
fn stepping_notices_a_touch_that_changes_nothing() {
    // The read of `counter` is stepped over, not run over.
    let run = walk(&["break walk.c:18", "continue", "delete", "rwatch counter", "stepi", "print counter"]);
    run.status(0).shows(&["Hardware read watchpoint 2: counter", "Value = 0", "$1 = 0"]);
}

#[test]
fn history_has_two_ends() {
    let run = walk(&["continue", "uinfo time", "stepi", "ugo start", "reverse-stepi", "reverse-continue", "uinfo time"]);
    run.status(0).shows(&[
        "No more reverse-execution history.",
        "No more reverse-execution history.",
        "…_exit…",
        "No more reverse-execution history.",
        "No more reverse-execution history.",
        "No more reverse-execution history.",
        "Current time is: 1 (in recorded range: [1 - …])",
    ]);
}

#[test]
fn the_end_is_announced_as_users_know_it() {
    let run = walk(&["ugo end", "uinfo time -a"]);
    run.status(0).shows_block(&[
        "udb: Have reached end of recorded history.",
        "",
        "Program received signal SIGTRAP, Trace/breakpoint trap.",
        "udb: Have reached end of recorded history.",
        "0x… in …_exit (…) at …",
    ]);
    run.shows(&["Current time is: …:0x… (in recorded range: [1:0x… - …:0x…])"]);
}

#[test]
fn undo_and_redo_follow_every_movement() {
    let run = walk(&[
        "break square",
        "continue",
        "ugo end",
        "ugo undo",
        "print $_undo_time == $_undo_time_min",
        "ugo undo",
        "print $_undo_time == $_undo_time_min",
        "ugo redo",
        "bt 1",
        "ugo redo",
        "print $_undo_time == $_undo_time_max",
        "ugo redo",
        "ugo undo",
        "ugo undo",
        "ugo undo",
    ]);
    run.status(1).shows(&[
        "udb: Have reached end of recorded history.",
        "square (x=1) at …walk.c:17",
        "$1 = 0",
        "main () at …walk.c:23",
        "$2 = 1",
        "square (x=1) at …walk.c:17",
        "#0  square (x=1) at …walk.c:17",
        "$3 = 1",
        "nothing to redo: `ugo undo` was not the last movement",
        "nothing to undo: there was no movement before this one",
    ]);
}

#[test]
fn bookmarks_keep_times() {
    let run = walk(&[
        "break square",
        "continue",
        "ubookmark here",
        "ugo end",
        "ugo bookmark here",
        "uinfo bookmarks",
        "info bookmarks",
        "ugo bookmark there",
    ]);
    run.status(1).shows_block(&["  Name    Time", "  ------  …", "* here    …:0x…"]);
    run.shows(&["square (x=1) at …walk.c:17", "no bookmark \"there\" (there are: here)"]);
}

#[test]
fn times_are_absolute_or_relative_or_wrong() {
    let run = walk(&[
        "ugo time +10",
        "uinfo time",
        "ugo time -3",
        "uinfo time",
        "ugo time $_undo_time_max",
        "uinfo time",
        "ugo time 1,0",
        "uinfo time",
    ]);
    run.status(0).shows(&["Current time is: 11 (…", "Current time is: 8 (…", "Current time is: …", "Current time is: 10 (…"]);
    let run = walk(&["ugo time x", "ugo time 99999999", "ugo time 5:0x1", "ugo time", "uinfo time"]);
    run.status(1).shows(&[
        "\"x\" is not a time: write BBCOUNT, BBCOUNT:PC, +N or -N, such as 2,822:0x5618d2d15c61",
        "time 99999999 is outside the recorded range […]",
        "pc 0x1 is never reached at bbcount 5",
        "ugo time needs a time: BBCOUNT, BBCOUNT:PC, +N or -N",
        "Current time is: 1 (…",
    ]);
}

#[test]
fn events_are_listed_and_visited() {
    let run = walk(&[
        "uinfo events name == 'write'",
        "uinfo events -l 1",
        "ugo event next name == 'write'",
        "uinfo events -a now -b +1",
        "ugo event prev",
        "ugo event nme == 1",
        "ugo event 1 +",
        "ugo event prev name == 'write'",
        "info event-stats",
        "uinfo event-log-size",
    ]);
    run.status(1).shows(&[
        "time=…:0x…: write. result=0x6 size=80.",
        "time=…:0x…: mmap. result=0x7fff… size=80.",
        "Going to: time=…:0x…: write. result=0x6 size=80.",
        "0x…\t…",
        "time=…:0x…: write. result=0x6 size=80.",
        "Going to: time=…: brk. …",
        "condition: name 'nme' is not defined (there are: address, bbcount, name, pc, result, signum, size, syscall, tid, timestamp)",
        "condition: invalid syntax: 1 +",
        "No matching event",
        "  Event …",
        "event log size is …",
    ]);
}

#[test]
fn last_finds_changes_without_hitting_breakpoints() {
    let run = walk(&[
        "ugo end",
        "break square",
        "watch counter",
        "last total",
        "last",
        "last -f",
        "last nosuch",
        "last 3",
        "last -f total",
        "ugo start",
        "last total",
    ]);
    run.status(1).shows_block(&["    total", "", "Was = 30", "Now = 55", "", "0x… in main () at …walk.c:26"]);
    run.shows_block(&["    total", "", "Was = 14", "Now = 30", ""]);
    run.shows(&[
        "nosuch: No symbol \"nosuch\" in current context.",
        "3 is not in memory, so it has no history; name a variable",
        "total does not change before that in the recorded history",
    ]);
    run.hides("Breakpoint 1, ").hides("Program received signal SIGTRAP, Trace/breakpoint trap.\n0x");
}

#[test]
fn shared_memory_is_marked() {
    let run = walk(&[
        "break walk.c:29",
        "continue",
        "print shared->first",
        "print shared->second",
        "print *shared",
        "print/x shared->first",
        "print total",
        "print $1",
        "print &shared->second",
        "print shared->first + 1",
        "print -pretty -- total",
        "print",
        "print/x",
        "print -total",
    ]);
    run.status(0).shows(&[
        "$1 = 55 <stale>",
        "$2 = <never accessed>",
        "$3 = {first = 55 <stale>, second = <never accessed>, name = …}",
        "$4 = 0x37 <stale>",
        "$5 = 55",
        "$6 = 55",
        "$7 = (int *) 0x7fff…",
        "$8 = 56",
        "$9 = 55",
        "$10 = 55",
        "$11 = 0x37",
        "$12 = -55",
    ]);
}

#[test]
fn history_is_read_only_and_says_so() {
    let run = walk(&["print total = 3", "set variable total = 3", "print square(2)", "run", "print $convenient = 4", "print total"]);
    run.status(1).shows(&[
        "history cannot be changed, so nothing can be assigned, called or jumped to here",
        "history cannot be changed, so nothing can be assigned, called or jumped to here",
        "history cannot be changed, so nothing can be assigned, called or jumped to here",
        "a recording cannot be run again; …",
        "$1 = 4",
        "$2 = 0",
    ]);
}

#[test]
fn registers_of_all_kinds_are_shown() {
    let run = walk(&[
        "break square",
        "continue",
        "info registers rip",
        "print $fs_base != 0",
        "print $xmm0.uint128",
        "print $ymm15.v8_int32",
        "print $mxcsr",
        "print $st0",
        "print $cs",
    ]);
    run.status(0).shows(&["rip …<square+…>", "$1 = 1", "$2 = …", "$3 = {…}", "$4 = [ … ]", "$5 = …", "$6 = 51"]);
}

#[test]
fn settings_answer_in_both_spellings() {
    let run = walk(&[
        "ushow max-event-log-size",
        "uset max-event-log-size 512M",
        "show max-event-log-size",
        "set event-log-mode straight",
        "ushow event-log-mode",
        "uset event-log-mode round",
        "show event-log-mode",
        "uset nosuch 1",
    ]);
    run.status(1).shows(&[
        "maximum event log size is 1073741824 bytes (1.00G)",
        "maximum event log size is 536870912 bytes (512.00M)",
        "event log mode is straight",
        "\"round\" is not an event log mode: write circular or straight",
        "event log mode is straight",
        "there is no setting \"nosuch\" …",
    ]);
}

#[test]
fn times_of_day_are_shown_and_visited() {
    let bench = Bench::new();
    let program = bench.guest("walk");
    bench.write("walk.undo", &format!(r#"{{"program": "{}", "made_up_events": 1000}}"#, program.display()));
    let run = bench.batch(
        "walk.undo",
        &["ugo wallclock 1700000005", "uinfo wallclock", "uinfo events -a now -l 1", "ugo wallclock 1600000000", "ugo wallclock noon"],
    );
    run.status(1).shows(&[
        "Current wallclock time is: 2023-11-1… …:…:24.990000 (in recorded range: [2023-11-1… …:…:20.000000 - 2023-11-1… …:…:30.000000])",
        "time=…: read. result=0x1f… size=80.",
        "2020-09-1… … is outside the recorded range […]",
        "\"noon\" is not a time of day: write HH:MM:SS, YYYY-MM-DD HH:MM:SS, or seconds since 1970",
    ]);
}
