//! What `live-record` does beside recording: files, options, messages, exit statuses.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use recording::{EndReason, Recording};
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
    place.record("-q --save-on exit-signal -o anyhow.undo true");
    assert_eq!(place.recordings(), ["anyhow.undo", "badly.undo"]);
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
        ("-o a.undo /etc/passwd".into(), "Permission denied"),
        ("-o missing/a.undo true".into(), "cannot write to the directory"),
        ("-o a.txt true".into(), "must end in .undo"),
        ("-o a.undo --shmem-log log.txt true".into(), "must end in .shmem"),
    ] {
        let outcome = place.record(&arguments);
        assert_eq!(outcome.ended, Ended::Exit(126), "{arguments}");
        assert!(text(&outcome.stderr).contains(reason), "{arguments}: {}", text(&outcome.stderr));
    }
    assert!(place.recordings().is_empty());
    for arguments in ["--no-such-option true", "-o a.undo", "--max-event-log-size 5X true", "--on-fork nobody true"] {
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
    assert!(text(&outcome.stderr).contains("cannot save"), "{}", text(&outcome.stderr));
    assert!(place.recordings().is_empty());
}

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
