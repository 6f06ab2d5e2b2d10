//! What `live-record` does beside recording: files, options, messages, exit statuses.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use recording::{EndReason, EventKind, Events, Recording};
use tests::run::run;
use tests::{Ended, Outcome, compile, stage};

/// A directory to run in.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        Place(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Runs `live-record` with these arguments, by words.
    fn record(&self, arguments: &str) -> Outcome {
        self.run("live-record", &arguments.split(' ').collect::<Vec<_>>())
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Outcome {
        let mut argv: Vec<OsString> = vec![stage::program(program).into()];
        argv.extend(arguments.iter().map(OsString::from));
        run(&argv, self.path(), b"").unwrap()
    }

    fn run_system(&self, program: &str, arguments: &[&str]) -> Outcome {
        run(&[&[program], arguments].concat().iter().map(OsString::from).collect::<Vec<_>>(), self.path(), b"").unwrap()
    }

    fn compile(&self, name: &str, text: &str, flags: &[&str]) -> PathBuf {
        let source = self.path().join(name).with_extension("c");
        fs::write(&source, text).unwrap();
        compile::compile(&source, flags, self.path()).unwrap()
    }

    fn recordings(&self) -> Vec<String> {
        let names = fs::read_dir(self.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.filter(|name| name.ends_with(".undo")).collect();
        names.sort();
        names
    }

    fn open(&self, name: &str) -> Recording {
        Recording::open(self.path().join(name)).unwrap()
    }

    #[track_caller]
    fn verify(&self, name: &str) {
        let outcome = self.run("undo-replay", &["verify", name]);
        assert_eq!(outcome.ended, Ended::Exit(0), "{name}: {}{}", text(&outcome.stdout), text(&outcome.stderr));
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

const FORKS: &str = r#"
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void)
{
    for (int i = 0; i < 3; i++)
    {
        fflush(stdout);
        if (fork() == 0)
        {
            printf("child %d\n", i);
            return i;
        }
        wait(NULL);
    }
    printf("parent\n");
    return 7;
}
"#;

#[test]
fn the_file_is_named_after_program_and_process() {
    let place = Place::new();
    let outcome = place.record("true");
    let [name] = &place.recordings()[..] else { panic!("{:?}", place.recordings()) };
    let pid = place.open(name).meta().pid;
    assert!(name.starts_with(&format!("true-{pid}-")), "{name}");
    assert!(text(&outcome.stderr).contains(name), "the name is printed: {}", text(&outcome.stderr));
    place.verify(name);
}

#[test]
fn quiet_means_not_a_word() {
    let place = Place::new();
    let outcome = place.record("-q -o a.undo true");
    assert_eq!((text(&outcome.stdout), text(&outcome.stderr)), (String::new(), String::new()));
}

#[test]
fn metadata_tells_what_was_run() {
    let place = Place::new();
    place.record("-q -o a.undo sh -c exit\u{a0}7");
    let recording = place.open("a.undo");
    let meta = recording.meta();
    assert_eq!(meta.args, [b"sh".to_vec(), b"-c".to_vec(), "exit\u{a0}7".as_bytes().to_vec()]);
    assert!(meta.executable.starts_with(b"/"), "{}", text(&meta.executable));
    assert_eq!(meta.working_directory, place.path().canonicalize().unwrap().as_os_str().as_encoded_bytes());
}

#[test]
fn only_the_program_is_recorded_unless_asked() {
    let place = Place::new();
    let program = place.compile("forks", FORKS, &[]);
    let outcome = place.record(&format!("-q -o a.undo {}", program.display()));
    assert_eq!(outcome.ended, Ended::Exit(7));
    assert_eq!(place.recordings(), ["a.undo"]);
}

#[test]
fn each_process_of_a_family_has_its_recording() {
    let place = Place::new();
    let program = place.compile("forks", FORKS, &[]);
    let outcome = place.record(&format!("-q --on-fork both -o a.undo {}", program.display()));
    assert_eq!(text(&outcome.stdout), "child 0\nchild 1\nchild 2\nparent\n");
    let names = place.recordings();
    assert_eq!(names.len(), 4);
    let parent = place.open("a.undo").meta().uuid;
    let mut statuses = Vec::new();
    for name in &names {
        place.verify(name);
        let recording = place.open(name);
        let meta = recording.meta();
        statuses.push(meta.end_status);
        if name != "a.undo" {
            assert_eq!(*name, format!("a-{}.undo", meta.pid));
            assert_eq!(meta.parent_uuid, parent);
        }
    }
    statuses.sort();
    assert_eq!(statuses, [0, 1, 2, 7]);
}

#[test]
fn saving_may_depend_on_how_the_program_ends() {
    let place = Place::new();
    place.record("-q --save-on error -o well.undo true");
    place.record("-q --save-on error -o badly.undo false");
    place.record("-q --save-on exit-signal -o status.undo false");
    let outcome = place.run("live-record", &["-q", "--save-on", "exit-signal", "-o", "signal.undo", "sh", "-c", "kill $$"]);
    assert_eq!(outcome.ended, Ended::Signal(15));
    assert_eq!(place.recordings(), ["badly.undo", "signal.undo"]);
}

#[test]
fn a_signal_that_kills_is_an_error() {
    let place = Place::new();
    let program = place.compile("dies", "#include <stdlib.h>\nint main(void) { abort(); }\n", &[]);
    let outcome = place.record(&format!("-q --save-on error -o a.undo {}", program.display()));
    assert_eq!(outcome.ended, Ended::Signal(6));
    let recording = place.open("a.undo");
    assert_eq!((recording.meta().end_reason, recording.meta().end_status), (EndReason::Signalled, 6));
    place.verify("a.undo");
}

#[test]
fn what_cannot_be_recorded_is_refused_with_the_reason() {
    let place = Place::new();
    let program = place.compile("alone", "int main(void) { return 0; }\n", &["-static"]);
    for (arguments, reason) in [
        (format!("-o a.undo {}", program.display()), "statically linked"),
        ("-o a.undo ./nothing-here".into(), "No such file"),
        ("-o a.undo nothing-here".into(), "No such file"),
        ("-o a.undo /etc/passwd".into(), "Permission denied"),
        ("-o missing/a.undo true".into(), "cannot write to the directory"),
        ("-o a.txt true".into(), "must end in .undo"),
        ("-o a.undo --shmem-log log.txt true".into(), "must end in .shmem"),
        ("-o a.undo --tmpdir-root missing true".into(), "No such file"),
        ("-o a.undo --pid 2000000000".into(), "No such file"),
    ] {
        let outcome = place.record(&arguments);
        let status = if arguments.ends_with("nothing-here") { 127 } else { 126 };
        assert_eq!(outcome.ended, Ended::Exit(status), "{arguments}");
        let errors = text(&outcome.stderr);
        assert!(errors.contains(reason) && !errors.contains("recording to"), "{arguments}: {errors}");
    }
    assert!(place.recordings().is_empty());
    for arguments in [
        "--no-such-option true",
        "-o a.undo",
        "--max-event-log-size 5X true",
        "--on-fork nobody true",
        "--record-on true true",
        "--retry-for soon true",
        "--pid x",
        "--pid 1 true",
        "--list true",
    ] {
        assert_eq!(place.record(arguments).ended, Ended::Exit(2), "{arguments}");
    }
}

#[test]
fn an_event_log_that_is_full_ends_the_recording_only() {
    let place = Place::new();
    fs::write(place.path().join("in"), vec![b'x'; 3_000_000]).unwrap();
    let outcome = place.record("--max-event-log-size 64K -o a.undo cat in");
    assert_eq!((outcome.ended, outcome.stdout.len()), (Ended::Exit(0), 3_000_000));
    assert!(text(&outcome.stderr).contains("event log is full"), "{}", text(&outcome.stderr));
    assert_eq!(place.open("a.undo").meta().end_reason, EndReason::LogFull);
    // The history ends before the call whose outcome did not fit, and replays up to there.
    let verdict = place.run("undo-replay", &["verify", "a.undo"]);
    assert_eq!(verdict.ended, Ended::Exit(0), "{}", text(&verdict.stdout));
}

#[test]
fn a_save_that_fails_leaves_nothing_and_harms_nobody() {
    let place = Place::new();
    // The directory vanishes while the program runs. (Many programs close standard error before they end, and with it our voice.)
    fs::create_dir(place.path().join("d")).unwrap();
    let outcome = place.run("live-record", &["-o", "d/a.undo", "sh", "-c", "rmdir d; exit 0"]);
    assert_eq!(outcome.ended, Ended::Exit(0));
    let messages = text(&outcome.stderr);
    assert!(messages.contains("d/a.undo: the file cannot be created: No such file or directory"), "{messages}");
    assert!(place.recordings().is_empty());
}

#[test]
fn a_directory_that_may_not_be_written_is_told() {
    let place = Place::new();
    let program = place.compile("ends", "int main(void) { return 5; }\n", &[]);
    // Not even for root.
    let outcome = place.record(&format!("-o /sys/a.undo {}", program.display()));
    assert_eq!(outcome.ended, Ended::Exit(5));
    let messages = text(&outcome.stderr);
    assert!(messages.contains("cannot save /sys/a.undo: the file cannot be created: Permission denied"), "{messages}");
}

/// Runs a script in which `d` is a file system of 512 KiB, or nothing if that is not allowed here.
fn on_a_small_disk(place: &Place, script: &str) -> Option<Outcome> {
    fs::create_dir(place.path().join("d")).unwrap();
    let allowed = place.run_system("unshare", &["-rm", "mount", "-t", "tmpfs", "none", "d"]);
    if allowed.ended != Ended::Exit(0) {
        eprintln!("no file system can be mounted: {}", text(&allowed.stderr));
        return None;
    }
    let script = format!("mount -t tmpfs -o size=512k none d && {script}");
    Some(place.run_system("unshare", &["-rm", "sh", "-c", &script]))
}

#[test]
fn a_full_disk_is_told_and_keeps_no_half_file() {
    let place = Place::new();
    let program = place.compile("ends", "int main(void) { return 5; }\n", &[]);
    let recorder = stage::program("live-record").display().to_string();
    let script = format!("echo old > d/a.undo; {recorder} -o d/a.undo {}; echo $?; ls -A d; cat d/a.undo", program.display());
    let Some(outcome) = on_a_small_disk(&place, &script) else { return };
    assert_eq!(text(&outcome.stdout), "5\na.undo\nold\n", "{}", text(&outcome.stderr));
    let messages = text(&outcome.stderr);
    assert!(messages.contains("d/a.undo: the file cannot be written: No space left on device"), "{messages}");
}

#[test]
fn a_limit_on_the_size_of_files_is_kept() {
    let place = Place::new();
    let recorder = stage::program("live-record").display().to_string();
    let script = format!("ulimit -f 100; {recorder} -o a.undo true; echo $?; ls -A");
    let outcome = place.run_system("sh", &["-c", &script]);
    assert_eq!(text(&outcome.stdout), "0\n", "{}", text(&outcome.stderr));
    // Standard error may be closed by then, but the file must not be there.
    assert!(place.recordings().is_empty());
}

#[test]
fn a_long_recording_takes_little_of_the_log() {
    let place = Place::new();
    let program =
        place.compile("calls", "#include <unistd.h>\nint main(void) { for (int i = 0; i < 400000; i++) getppid(); return 0; }\n", &[]);
    // 112 bytes for each call would be 45 MB.
    place.record(&format!("-q --max-event-log-size 20M -o a.undo {}", program.display()));
    let recording = place.open("a.undo");
    assert_eq!(recording.meta().end_reason, EndReason::Exited);
    assert!(recording.events_len() > 40 << 20 && recording.len_bytes() < 20 << 20);
    place.verify("a.undo");
}

/// What another mapping of the same memory wrote is found by four reads of 16 bytes: adjacent, or with two unchanged ones between.
#[test]
fn the_pieces_of_a_copy_out_of_shared_memory_are_one_event() {
    const ROUNDS: usize = 1000;
    let place = Place::new();
    let source = r#"
        #define _GNU_SOURCE
        #include <string.h>
        #include <sys/mman.h>
        #include <unistd.h>
        int main(void) {
            int file = memfd_create("pieces", 0);
            if (ftruncate(file, 4096) != 0) return 1;
            char *here = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
            char *there = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
            for (int i = 1; i <= 2 * ROUNDS; i++) {
                memcpy(there, &i, sizeof i);
                memcpy(there + 48, &i, sizeof i);
                if (i % 2) memset(there + 16, i, 1), memset(there + 32, i, 1);
                asm volatile("movups (%0), %%xmm0; movups 16(%0), %%xmm1; movups 32(%0), %%xmm2; movups 48(%0), %%xmm3"
                             : : "r"(here) : "memory", "xmm0", "xmm1", "xmm2", "xmm3");
            }
            return 0;
        }
    "#;
    let program = place.compile("pieces", &source.replace("ROUNDS", &ROUNDS.to_string()), &[]);
    place.record(&format!("-q -o a.undo --shmem-log a.shmem {}", program.display()));
    let events = place.open("a.undo").events().unwrap();
    let fixups = Events::new(&events).map(Result::unwrap).filter(|event| event.kind() == Some(EventKind::ShmemFixup));
    let mut of_size = BTreeMap::new();
    fixups.for_each(|event| *of_size.entry(event.size()).or_insert(0) += 1);
    // Not the first few, which the host performs, and not the one in about 500 where a block of the log ends.
    assert!(of_size[&128] > ROUNDS * 9 / 10 && of_size[&112] > ROUNDS * 9 / 10, "{of_size:?}");
    place.verify("a.undo");
}

#[test]
fn calls_of_any_length_fit_into_the_log() {
    let place = Place::new();
    let program = place.compile("reads", READS, &[]);
    place.record(&format!("-q -o a.undo {}", program.display()));
    assert_eq!(place.open("a.undo").meta().end_reason, EndReason::Exited);
    place.verify("a.undo");
}

/// Reads around the length of the log's segments, and beyond.
const READS: &str = r#"
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
int main(void) {
    int random = open("/dev/urandom", O_RDONLY), zero = open("/dev/zero", O_RDONLY);
    char *buffer = malloc(9 << 20);
    for (int size = (256 << 10) - 200; size <= (256 << 10) + 8; size += 8) read(random, buffer, size);
    for (int size = 1 << 20; size <= 9 << 20; size += (1 << 20) + 1) { read(zero, buffer, size); read(random, buffer + 1, size - 1); getppid(); }
    return 0;
}
"#;

#[test]
fn an_older_recording_is_replaced_as_a_whole() {
    let place = Place::new();
    fs::write(place.path().join("a.undo"), "old").unwrap();
    place.record("-q -o a.undo false");
    assert_eq!(place.open("a.undo").meta().end_status, 1);
    let left: Vec<_> = fs::read_dir(place.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "no temporary file stays: {left:?}");
}

#[test]
fn addresses_can_be_fixed() {
    let place = Place::new();
    let print = r#"#include <stdio.h>
int main(void) { int here; printf("%p %p %p\n", (void *)main, (void *)printf, (void *)&here); return 0; }
"#;
    let program = place.compile("where", print, &[]);
    let arguments = format!("-q --disable-aslr -o a.undo {}", program.display());
    assert_eq!(text(&place.record(&arguments).stdout), text(&place.record(&arguments).stdout));
}

#[test]
fn preloaded_libraries_of_the_user_stay() {
    let place = Place::new();
    let source = "#include <stdio.h>\n__attribute__((constructor)) static void hello(void) { puts(\"preloaded\"); }\n";
    let library = place.compile("mine", source, &["-shared", "-fPIC"]);
    let program = stage::program("live-record");
    let script = format!("LD_PRELOAD={} exec {} -q -o a.undo printenv LD_PRELOAD", library.display(), program.display());
    let outcome = run(&["sh".into(), "-c".into(), script.into()], place.path(), b"").unwrap();
    assert_eq!(text(&outcome.stdout), format!("preloaded\n{}\n", library.display()));
    place.verify("a.undo");
}

#[test]
fn an_ignored_sigpipe_stays_ignored() {
    let place = Place::new();
    let program = stage::program("live-record");
    for (trap, ignored) in [("", "0"), ("trap '' PIPE;", "1")] {
        let look = "grep SigIgn /proc/self/status";
        let script = format!("{trap} exec {} -q -o a.undo {look}", program.display());
        let outcome = run(&["sh".into(), "-c".into(), script.into()], place.path(), b"").unwrap();
        let mask = text(&outcome.stdout).trim().rsplit('\t').next().map(|mask| u64::from_str_radix(mask, 16).unwrap()).unwrap();
        assert_eq!((mask >> 12 & 1).to_string(), ignored, "{trap}");
    }
}

#[test]
fn an_exec_ends_the_recording_and_the_new_program_runs_natively() {
    let place = Place::new();
    let outcome = place.run("live-record", &["-o", "a.undo", "sh", "-c", "exec printenv LD_PRELOAD"]);
    assert_eq!((outcome.ended, text(&outcome.stdout)), (Ended::Exit(1), String::new()));
    assert!(text(&outcome.stderr).contains("executes another program"), "{}", text(&outcome.stderr));
    assert_eq!(place.open("a.undo").meta().end_reason, EndReason::Detached);
    place.verify("a.undo");
}

#[test]
fn programs_that_a_recorded_family_executes_are_recorded_too() {
    let place = Place::new();
    // A child that executes, one that only runs, one made by posix_spawn (env), and the shell itself executes at last.
    let script = "echo a | tr a b; (exit 3); env -i PATH=$PATH X=y printenv; exec printenv LD_PRELOAD";
    let outcome = place.run("live-record", &["-q", "--on-fork", "both", "-o", "a.undo", "sh", "-c", script]);
    assert_eq!(outcome.ended, Ended::Exit(1), "the program sees its own environment: {}", text(&outcome.stdout));
    let told = text(&outcome.stdout);
    assert_eq!(told.lines().next(), Some("b"));
    assert!(!told.contains("UNDO") && !told.contains("libundolr"), "{told}");
    assert_eq!(text(&outcome.stderr), "");
    let mut programs = Vec::new();
    for name in place.recordings() {
        place.verify(&name);
        let recording = place.open(&name);
        programs.push(text(&recording.meta().name));
    }
    programs.sort();
    let count = |wanted: &str| programs.iter().filter(|name| name.contains(wanted)).count();
    // env executes printenv in place.
    assert_eq!((count("tr"), count("env"), count("printenv")), (1, 3, 2), "{programs:?}");
    assert_eq!(place.open("a.2.undo").meta().name, b"printenv");
}

#[test]
fn only_children_if_asked() {
    let place = Place::new();
    let program = place.compile("forks", FORKS, &[]);
    let outcome = place.record(&format!("-q --on-fork child -o a.undo {}", program.display()));
    assert_eq!(outcome.ended, Ended::Exit(7));
    assert_eq!(text(&outcome.stdout), "child 0\nchild 1\nchild 2\nparent\n");
    let [name] = &place.recordings()[..] else { panic!("{:?}", place.recordings()) };
    assert_ne!(name, "a.undo");
    assert_eq!(place.open(name).meta().end_status, 0);
    place.verify(name);
}

#[test]
fn recording_may_begin_with_a_program_that_is_executed_later() {
    let place = Place::new();
    let script = "echo a | tr a b; sort /dev/null; exec printenv LD_PRELOAD";
    for (what, ended) in [("program:tr", Ended::Exit(0)), ("program:printenv", Ended::Exit(1))] {
        let outcome = place.run("live-record", &["-q", "--record-on", what, "-o", "a.undo", "sh", "-c", script]);
        let told = text(&outcome.stdout);
        assert!(told.starts_with("b\n"), "{told}{}", text(&outcome.stderr));
        // What is not recorded keeps what the program needs that is to be.
        assert_eq!(outcome.ended, ended, "{told}");
    }
    let names = place.recordings();
    let [first, second] = &names[..] else { panic!("{names:?}") };
    assert_eq!(place.open(first).meta().name, b"tr");
    // The process that live-record became has the name as it was given.
    assert_eq!((second.as_str(), place.open(second).meta().name.as_slice()), ("a.undo", b"printenv".as_slice()));
    place.verify(first);
    place.verify(second);
}

#[test]
fn a_program_can_be_run_until_it_fails() {
    let place = Place::new();
    // Fails at its third run.
    let script = "echo >> runs; [ $(wc -l < runs) -lt 3 ]";
    let outcome = place.run("live-record", &["--retry-for", "1h", "-o", "a.undo", "sh", "-c", script]);
    assert_eq!(outcome.ended, Ended::Exit(1), "{}", text(&outcome.stderr));
    assert!(text(&outcome.stderr).contains("3 runs"), "{}", text(&outcome.stderr));
    assert_eq!(place.open("a.undo").meta().end_status, 1);
    place.verify("a.undo");
    let outcome = place.run("live-record", &["--retry-for", "1h", "-q", "-o", "b.undo", "sh", "-c", "kill $$"]);
    assert_eq!((outcome.ended, text(&outcome.stderr)), (Ended::Signal(15), String::new()));
    let outcome = place.record("--retry-for 1ns -o c.undo true");
    assert_eq!(outcome.ended, Ended::Exit(0));
    assert!(text(&outcome.stderr).contains("did not fail"), "{}", text(&outcome.stderr));
    assert_eq!(place.recordings(), ["a.undo", "b.undo"]);
}

#[test]
fn the_event_log_may_lie_in_a_directory() {
    let place = Place::new();
    fs::create_dir(place.path().join("d")).unwrap();
    let outcome = place.record("-q --tmpdir-root d --max-event-log-size 1M -o a.undo sort /dev/null");
    assert_eq!((outcome.ended, text(&outcome.stderr)), (Ended::Exit(0), String::new()));
    place.verify("a.undo");
    assert_eq!(fs::read_dir(place.path().join("d")).unwrap().count(), 0);
    // More than any disk has: said at the start, and the program runs.
    let outcome = place.record("--tmpdir-root d --max-event-log-size 64G -o b.undo echo text");
    if text(&outcome.stderr).contains("recording cannot start") {
        assert_eq!((outcome.ended, text(&outcome.stdout)), (Ended::Exit(0), "text\n".into()));
        assert_eq!(place.recordings(), ["a.undo"]);
    }
}

/// A process that waits for a line, and answers.
const WAITS: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    double values[8] = {1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5};
    char line[100];
    write(1, "ready\n", 6);
    ssize_t length = read(0, line, sizeof line);
    for (int i = 0; i < 80000; i++)
    {
        values[i % 8] = values[(i + 1) % 8] * 0.999 + i;
    }
    printf("%zd %.3f\n", length, values[3]);
    return 5;
}
"#;

/// One that never waits, with numbers in its vector registers.
const COMPUTES: &str = r#"
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
int main(void)
{
    double a = 1.5, b = 2.5, c = 3.5, d = 4.5;
    char text[256], copy[256];
    memset(text, 'x', sizeof text);
    struct stat status;
    struct timespec now;
    write(1, "ready\n", 6);
    for (unsigned long i = 0;; i++)
    {
        a = a * 0.5 + b, b = b * 0.25 + c, c = c * 0.125 + d, d = d * 0.5 + 1;
        memcpy(copy, text, sizeof text);
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (copy[i % 256] != 'x' || now.tv_sec == 0 || (i > 100000 && i % 256 == 0 && stat("stop", &status) == 0))
        {
            break;
        }
    }
    printf("%.6f %.6f %.6f %.6f %c\n", a, b, c, d, copy[7]);
    return 6;
}
"#;

/// Starts the program, attaches to it once it is ready, lets it end, and compares with what it does natively.
#[track_caller]
fn attach_to(place: &Place, source: &str, name: &str, status: i32) {
    let program = place.compile(name, source, &["-O2"]);
    let run = |attach: bool| {
        let mut child = Command::new(&program)
            .current_dir(place.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut told = String::new();
        output.read_line(&mut told).unwrap();
        assert_eq!(told, "ready\n");
        if attach {
            let outcome = place.record(&format!("-o {name}.undo --pid {}", child.id()));
            assert_eq!(outcome.ended, Ended::Exit(0), "{}", text(&outcome.stderr));
            let listed = text(&place.record("--list").stdout);
            assert!(listed.lines().any(|line| line.trim_start().starts_with(&child.id().to_string())), "{listed}");
            let again = place.record(&format!("-o again.undo --pid {}", child.id()));
            assert_eq!(again.ended, Ended::Exit(126));
            assert!(text(&again.stderr).contains("recorded already"), "{}", text(&again.stderr));
        }
        fs::write(place.path().join("stop"), "").unwrap();
        child.stdin.take().unwrap().write_all(b"a line\n").unwrap();
        output.read_to_string(&mut told).unwrap();
        let ended = child.wait().unwrap();
        fs::remove_file(place.path().join("stop")).unwrap();
        (ended.code(), told)
    };
    let native = run(false);
    assert_eq!(native.0, Some(status));
    assert_eq!(run(true), native);
    assert_eq!(place.open(&format!("{name}.undo")).meta().end_status, status);
    place.verify(&format!("{name}.undo"));
}

#[test]
fn a_process_that_waits_can_be_attached_to() {
    attach_to(&Place::new(), WAITS, "waits", 5);
}

#[test]
fn a_process_that_computes_can_be_attached_to() {
    attach_to(&Place::new(), COMPUTES, "computes", 6);
}

#[test]
fn attaching_needs_no_loader() {
    let place = Place::new();
    let source = place.path().join("alone.c");
    fs::write(&source, WAITS).unwrap();
    let program = compile::compile(&source, &["-static"], place.path()).unwrap();
    let mut child = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    output.read_line(&mut String::new()).unwrap();
    let outcome = place.record(&format!("-q -o alone.undo -p {}", child.id()));
    assert_eq!((outcome.ended, text(&outcome.stderr)), (Ended::Exit(0), String::new()));
    child.stdin.take().unwrap().write_all(b"a line\n").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(5));
    place.verify("alone.undo");
}

#[test]
fn a_process_with_threads_is_not_attached_to() {
    let place = Place::new();
    let source = r#"
#include <pthread.h>
#include <unistd.h>
static void *wait(void *argument) { char byte; read(0, &byte, 1); return argument; }
int main(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, wait, NULL);
    pthread_setname_np(thread, "helper");
    write(1, "ready\n", 6);
    pthread_join(thread, NULL);
    return 4;
}
"#;
    let program = place.compile("threads", source, &["-pthread", "-D_GNU_SOURCE"]);
    let mut child = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();
    let outcome = place.record(&format!("-o a.undo --pid {}", child.id()));
    assert_eq!(outcome.ended, Ended::Exit(126));
    assert!(text(&outcome.stderr).contains("2 threads: threads, helper"), "{}", text(&outcome.stderr));
    drop(child.stdin.take());
    assert_eq!(child.wait().unwrap().code(), Some(4));
}

/// argv: the log, and where it is cut: while the process sleeps in a system call that is to fill shared memory, or (`E`, `L`, `I`, `S`)
/// before an access across two lines, the same with `lock`, one within a line, a string instruction.
const CUT: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static void wait_until_it_sleeps(int process) {
    char name[64], text[512];
    snprintf(name, sizeof name, "/proc/%d/stat", process);
    for (;;) {
        int file = open(name, O_RDONLY);
        ssize_t length = read(file, text, sizeof text - 1);
        close(file);
        text[length > 0 ? length : 0] = 0;
        char *end = strrchr(text, ')');
        if (!end || end[2] == 'S') return;
    }
}

int main(int count, char **arguments) {
    volatile unsigned char *memory = mmap(0, 65536, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    unsigned long *edge = (unsigned long *)(memory + 60), *within = (unsigned long *)(memory + 128);
    char kind = arguments[2][0];
    int ends[2], process = getpid();
    if (pipe(ends)) return 2;
    memory[0] = 1;
    if (kind == 'K' && !fork()) {
        alarm(60);
        wait_until_it_sleeps(process);
        if (truncate(arguments[1], 0) && strcmp(arguments[1], "none")) _exit(3);
        _exit(write(ends[1], "abcdefghijklmnopqrstuvwx", 24) != 24);
    }
    if (kind == 'K') {
        int status;
        close(ends[1]);
        for (int at = 0; at < 24; at += 8)
            if (read(ends[0], (void *)(memory + 4096 + at), 8) != 8) return 4;
        wait(&status);
        if (status) return 5;
    }
    for (int i = 0; i < 3000; i++) {
        if (i == 1500 && kind != 'K' && truncate(arguments[1], 0) && strcmp(arguments[1], "none")) return 3;
        char bytes[100];
        void *to = (void *)(memory + 1000 + i % 7), *from = bytes;
        long length = sizeof bytes;
        memset(bytes, i, sizeof bytes);
        switch (kind) {
        case 'E': __asm__ volatile("addq $1, %0" : "+m"(*edge)); break;
        case 'L': __asm__ volatile("lock addq $1, %0" : "+m"(*edge)); break;
        case 'S': __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(length) : : "memory"); break;
        default: __asm__ volatile("addq $1, %0" : "+m"(*within)); break;
        }
    }
    unsigned long sum = 0;
    for (int i = 0; i < 65536; i++) sum = sum * 31 + memory[i];
    printf("%lu %lu %lu %.24s\n", *edge, *within, sum, (char *)memory + 4096);
}
"#;

#[test]
fn an_access_log_that_is_cut_ends_the_recording_only() {
    for kind in ["K", "E", "L", "I", "S"] {
        let place = Place::new();
        let program = place.compile("cut", CUT, &[]);
        let program = program.to_str().unwrap();
        let natively = place.run_system(program, &["none", kind]);
        let outcome = place.record(&format!("-o a.undo --shmem-log a.shmem {program} a.shmem {kind}"));
        let message = text(&outcome.stderr);
        assert_eq!((outcome.ended, text(&outcome.stdout)), (Ended::Exit(0), text(&natively.stdout)), "{kind}: {message}");
        assert!(message.contains("the log of shared memory accesses cannot be written"), "{kind}: {message}");
        assert_eq!(place.open("a.undo").meta().end_reason, EndReason::Unsupported, "{kind}");
        place.verify("a.undo");
    }
}
