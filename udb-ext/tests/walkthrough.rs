//! From a failed assertion in one process to the line in another that made the bad value: the whole session, line by line.

mod support;

use support::{Bench, Run};

const CONSUMER: i32 = 137;
const PRODUCER: i32 = 133;

/// How many calls abort() is deep differs from one C library to the next.
const OUT_OF_ABORT: &str = "python for _ in range(20): gdb.selected_frame().name() == 'consumer_run' or gdb.execute('reverse-finish')";

struct Scene {
    bench: Bench,
    /// When the consumer read the bad value.
    read: String,
    /// When the producer wrote it.
    write: String,
}

fn fixture(bench: &Bench, role: &str, pid: i32, more: &str) {
    let (program, data) = (bench.path("producer_consumer"), bench.path("data"));
    let text = format!(
        r#"{{"program": "{}", "arguments": ["{role}", "{}"], "start": "record_me", "pid": {pid}{more}}}"#,
        program.display(),
        data.display()
    );
    bench.write(&format!("{role}-133.undo"), &text);
}

/// `BBCOUNT:PC` as a test reads it from `uinfo time -a`.
fn current_time(run: &Run) -> String {
    run.after("Current time is: ").split(' ').next().unwrap().to_owned()
}

fn row(pid: i32, time: &str, kind: &str) -> String {
    let (bbcount, pc) = time.split_once(':').unwrap();
    let pc = u64::from_str_radix(pc.trim_start_matches("0x"), 16).unwrap();
    format!(r#"{{"pid": {pid}, "bbcount": {}, "pc": {pc}, "kind": "{kind}", "length": 4, "value": 100}}"#, bbcount.replace(',', ""))
}

impl Scene {
    /// The fixtures need to know when the accesses happened; the debugger itself can tell.
    fn set(more: &str) -> Self {
        let bench = Bench::new();
        bench.guest("producer_consumer");
        fixture(&bench, "producer", PRODUCER, "");
        fixture(&bench, "consumer", CONSUMER, "");
        let writes = ["break producer_run", "continue", "watch shmem_data_array[11]", "ugo end", "reverse-continue", "uinfo time -a"];
        let write = current_time(bench.batch("producer-133.undo", &writes).status(0));
        let reads = Scene::to_the_read(&["uinfo time -a"]);
        let value = current_time(bench.batch("consumer-133.undo", &reads).status(0));
        // The variable is written by the instruction after the one that reads the array.
        let read = bench.batch("consumer-133.undo", &[&format!("ugo time {value}"), "reverse-stepi", "uinfo time -a"]);
        let read = current_time(read.status(0));
        let accesses = format!(
            r#", "siblings": [{{"path": "producer-133.undo", "pid": {PRODUCER}}}], "accesses": [{}, {}]{more}"#,
            row(PRODUCER, &write, "write"),
            row(CONSUMER, &read, "read")
        );
        fixture(&bench, "consumer", CONSUMER, &accesses);
        Scene { bench, read, write }
    }

    fn to_the_read<'a>(more: &[&'a str]) -> Vec<&'a str> {
        let mut commands = vec!["ugo end"];
        commands.extend([OUT_OF_ABORT, "print value", "watch value", "reverse-continue"]);
        commands.extend(more);
        commands
    }
}

#[test]
fn the_bug_is_found_across_two_processes() {
    let scene = Scene::set("");
    let there = format!("ugo inferior 2 {}", scene.write);
    let commands = Scene::to_the_read(&[
        "ublame &shmem_data_array[index]",
        "uinfo inferiors",
        &there,
        "print new_value",
        "watch new_value",
        "reverse-continue",
        "uinfo inferiors",
        "info breakpoints",
        "ugo inferior 1",
        "print value",
        "uinfo time -a",
        "ugo inferior 2",
        "ublame -v &shmem_data_array[index]",
    ]);
    let run = scene.bench.batch("consumer-133.undo", &commands);
    let (write, read) = (&scene.write, &scene.read);
    let width = write.len().max(read.len()).max(19);
    run.shows_block(&[
        "Found 1 other recording that shared memory with this one (log log.shmem); `uinfo inferiors` lists them.",
        "",
        "No more reverse-execution history.",
        "record_me (process_name=…) at …producer_consumer.c:…",
    ]);
    run.shows(&[
        "udb: Have reached end of recorded history.",
        "Program received signal SIGTRAP, Trace/breakpoint trap.",
        "udb: Have reached end of recorded history.",
        "…pthread_kill…",
        "…\t        assert(value >= 0 && value < 100);",
        "$1 = 100",
        "Hardware watchpoint 1: value",
    ]);
    run.shows_block(&[
        "Hardware watchpoint 1: value",
        "",
        "Old value = 100",
        "New value = …",
        "0x… in consumer_run () at …producer_consumer.c:…",
        "…\t        int value = shmem_data_array[index];",
    ]);
    let rule = "-".repeat(width);
    run.shows_block(&[
        &format!("    Num    PID  {:width$}  Type    Address           Len", "Time in recording"),
        &format!("  -----  -----  {rule}  ------  --------------  -----"),
        &format!("      2    133  {write:width$}  write   0x7ffff7…      4"),
        &format!("*     1    137  {read:width$}  read    0x7ffff7…      4"),
    ]);
    run.shows_block(&[
        "    Num    PID  Recording",
        "  -----  -----  -----------------",
        "*     1    137  consumer-133.undo",
        "      2    133  producer-133.undo",
    ]);
    let address = write.split_once(':').unwrap().1;
    let padded = format!("0x{:0>16}", &address[2..]);
    run.shows_block(&[
        "",
        &format!("{padded}\t…\t        shmem_data_array[index] = new_value;"),
        "$2 = 100",
        "Hardware watchpoint 2: new_value",
        "",
    ]);
    run.shows_block(&["…Hardware watchpoint 2: new_value", "", "Old value = 100", "New value = …"]);
    run.shows(&["…new_value = …"]);
    run.shows_block(&["      1    137  consumer-133.undo", "*     2    133  producer-133.undo"]);
    // Neither moves the other.
    run.shows(&["*     2    133  producer-133.undo", "…\t        int value = shmem_data_array[index];"]);
    run.hides("Switching to").hides("Remote debugging").hides("Added inferior").hides("Traceback");
}

#[test]
fn blame_goes_there_by_itself_and_back() {
    let scene = Scene::set("");
    let commands = Scene::to_the_read(&[
        "ugo undo",
        "ugo blame &shmem_data_array[index]",
        "print new_value",
        "uinfo time",
        "ugo undo",
        "ugo inferior 1",
        "ugo inferior 3",
        "ugo inferior x",
        "ugo inferior",
        "ugo inferior 2 x",
        "uinfo inferiors",
    ]);
    let run = scene.bench.batch("consumer-133.undo", &commands);
    run.status(1).shows(&[
        &format!("Going to: inferior 2, process 133, write at {}", scene.write),
        "0x…\t…\t        shmem_data_array[index] = new_value;",
        "$2 = 100",
        "there is no inferior 3 (there are: 1, 2); `uinfo inferiors` lists them",
        "\"x\" is not an inferior number; `uinfo inferiors` lists them",
        "ugo inferior needs a number",
        "\"x\" is not a time: …",
        "*     1    137  consumer-133.undo",
    ]);
}

#[test]
fn a_watchpoint_tells_that_the_value_came_from_elsewhere() {
    let scene = Scene::set("");
    let commands = ["break consumer_run", "continue", "rwatch -l shmem_data_array[11]", "ugo end", "reverse-continue", "uinfo time -a"];
    let run = scene.bench.batch("consumer-133.undo", &commands);
    let write = &scene.write;
    let hint = format!("The value read here was written by inferior 2 at {write}: `ugo inferior 2 {write}` goes there.");
    run.status(0).shows(&[
        "Hardware read watchpoint 2: -location shmem_data_array[11]",
        &hint,
        &format!("Current time is: {} (…", scene.read),
    ]);
}

#[test]
fn breakpoints_stop_only_where_they_were_set() {
    let scene = Scene::set("");
    let run = scene.bench.batch(
        "consumer-133.undo",
        &[
            "break record_me",
            "break consumer_run",
            "ugo inferior 2",
            "break producer_run",
            "continue",
            "bt 1",
            "ugo inferior 1",
            "continue",
            "continue",
            "bt 1",
        ],
    );
    run.status(0).shows(&["…producer_run () at …", "#0  producer_run () at …", "…consumer_run () at …", "#0  consumer_run () at …"]);
}

#[test]
fn blame_says_why_it_has_nothing() {
    let scene = Scene::set("");
    let run = scene.bench.batch("consumer-133.undo", &["ublame shmem_data_array", "ublame nosuch", "ublame", "ublame &seed"]);
    run.status(1).shows(&[
        "this recording has not accessed that memory yet",
        "nosuch: No symbol \"nosuch\" in current context.",
        "ublame needs to know what: an expression such as &x, an address, or ADDRESS, LENGTH",
    ]);
}

#[test]
fn symbols_come_from_the_recording_when_the_files_are_gone() {
    let bench = Bench::new();
    let program = bench.guest("walk");
    bench.write("walk.undo", &format!(r#"{{"program": "{}", "recorded_as": "/nonexistent/walk"}}"#, program.display()));
    let run = bench.batch("walk.undo", &["break square", "continue", "bt", "finish", "info symbol printf", "info line square"]);
    run.status(0).shows(&["Breakpoint 1, square (x=1) at …walk.c:17", "#1  0x… in main () at …walk.c:26", "Value returned is $1 = 1"]);
    run.hides("warning").hides("Reading");
}
