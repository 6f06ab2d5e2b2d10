//! The C API, called from C: results and errors are checked by the programs themselves, what they leave behind is checked here.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

use recording::{EndReason, Recording};
use shmem_log::Reader;
use tests::accesses::check_log;
use tests::run::run;
use tests::{Ended, Outcome, compile, stage};

/// A program of `programs/api`, built against the staged library, and the directory in which it runs.
struct Program {
    _build: tempfile::TempDir,
    work: tempfile::TempDir,
    path: PathBuf,
}

impl Program {
    fn new(name: &str) -> Program {
        let (build, work) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let source = stage::source().join("programs/api").join(name).with_extension("c");
        let (include, library) = (stage::stage().join("include"), stage::stage().join("lib"));
        let flags = [
            format!("-I{}", include.display()),
            format!("-L{}", library.display()),
            format!("-Wl,-rpath,{}", library.display()),
            "-pthread".into(),
            "-O1".into(),
            "-lundolr".into(),
        ];
        let path = compile::compile(&source, &flags.each_ref().map(String::as_str), build.path()).unwrap();
        Program { _build: build, work, path }
    }

    fn run(&self, arguments: &[&str]) -> Outcome {
        let mut argv: Vec<OsString> = vec![self.path.clone().into()];
        argv.extend(arguments.iter().map(OsString::from));
        run(&argv, self.work.path(), b"").unwrap()
    }

    /// Runs the program to a good end, and verifies that these are the recordings it leaves and that they replay.
    #[track_caller]
    fn leaves(&self, expected: &[&str]) -> Outcome {
        let outcome = self.run(&[]);
        assert_eq!(outcome.ended, Ended::Exit(0), "{}{}", text(&outcome.stdout), text(&outcome.stderr));
        self.verify(expected);
        outcome
    }

    #[track_caller]
    fn verify(&self, expected: &[&str]) {
        let names = fs::read_dir(self.work.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.filter(|name| name.contains(".undo")).collect();
        names.sort();
        assert_eq!(names, expected);
        for name in names {
            let argv = [stage::program("undo-replay").into(), "verify".into(), name.clone().into()];
            let outcome = run(&argv, self.work.path(), b"").unwrap();
            assert_eq!(outcome.ended, Ended::Exit(0), "{name}: {}{}", text(&outcome.stdout), text(&outcome.stderr));
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.work.path().join(name)
    }

    fn open(&self, name: &str) -> Recording {
        Recording::open(self.file(name)).unwrap()
    }

    /// Waits for a file that another process writes after the program's end; the test's own time limit guards it.
    fn wait_for(&self, name: &str) {
        while !self.file(name).exists() {
            std::thread::yield_now();
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn filtered() {
    Program::new("filtered").leaves(&["filtered.undo"]);
}

#[test]
fn configuration() {
    Program::new("configuration").leaves(&["large.undo", "small.undo"]);
}

#[test]
fn texts() {
    Program::new("texts").leaves(&["texts.undo"]);
}

#[test]
fn starting_and_stopping() {
    Program::new("starting").leaves(&["after_threads.undo", "deprecated.undo", "goes_on.undo"]);
}

#[test]
fn saving() {
    let program = Program::new("saving");
    program.leaves(&["edge.undo", "first.undo", "second.undo", "third.undo"]);
    // Each is complete in itself, and later ones hold more.
    let end = |name: &str| program.open(name).meta().end.bbcount;
    assert!(end("second.undo") < end("first.undo") && end("first.undo") < end("third.undo"));
    assert_eq!(program.open("third.undo").meta().end_reason, EndReason::Saved);
}

#[test]
fn a_save_that_is_killed() {
    let outcome = Program::new("killed_save").leaves(&["later.undo"]);
    assert!(text(&outcome.stdout).ends_with("and went on\n"));
}

#[test]
fn histories() {
    let names = ["fifth.undo", "first.undo", "fourth.undo", "outer.undo", "second.undo", "sixth.undo", "third.undo"];
    let program = Program::new("histories");
    program.leaves(&names);
    assert_eq!(program.open("first.undo").meta().end_reason, EndReason::StoppedByApi);
    // The same history twice; only when they were saved differs.
    let (first, third) = (program.open("first.undo"), program.open("third.undo"));
    assert!(first.events().unwrap() == third.events().unwrap() && first.pages_len() == third.pages_len());
}

#[test]
fn as_many_histories_as_documented() {
    Program::new("many_histories").leaves(&[]);
}

#[test]
fn a_save_that_is_given_up_leaves_no_file() {
    Program::new("discarding").leaves(&[]);
}

#[test]
fn recording_may_start_again() {
    let names: Vec<String> = (0..20).map(|round| format!("round-{round:02}.undo")).collect();
    let program = Program::new("restarting");
    program.leaves(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let reader = Reader::open(program.file("log.shmem")).unwrap();
    assert_eq!(reader.recordings().len(), 20);
    // In each round the source reads and writes `before`, reads its second word, and so on; what it does between recordings is not there.
    let mut cursor = reader.cursor();
    let mut kinds = Vec::new();
    while let Some(access) = cursor.next().unwrap() {
        kinds.push((access.kind, access.offset));
    }
    let writes = kinds.iter().filter(|(kind, _)| kind.writes()).count();
    assert_eq!((kinds.len(), writes), (20 * 5, 20 * 2));
}

#[test]
fn a_process_that_ends_is_saved_as_asked() {
    let program = Program::new("ending");
    let saved = |how: &str, ended: Ended, reason: EndReason| {
        for name in ["ending.undo", "early.undo"] {
            let _ = fs::remove_file(program.file(name));
        }
        let outcome = program.run(&[how]);
        assert_eq!(outcome.ended, ended, "{how}: {}", text(&outcome.stderr));
        assert_eq!(text(&outcome.stdout), format!("handler\n{how}\n"));
        if reason == EndReason::Signalled {
            // Of a process that was killed the snapshot saves what there is, afterwards.
            program.wait_for("ending.undo");
        }
        program.verify(&["early.undo", "ending.undo"]);
        assert_eq!(program.open("ending.undo").meta().end_reason, reason, "{how}");
        assert_eq!(program.open("early.undo").meta().end_reason, EndReason::Saved, "{how}");
    };
    saved("return", Ended::Exit(3), EndReason::Exited);
    saved("exit", Ended::Exit(4), EndReason::Exited);
    saved("_exit", Ended::Exit(5), EndReason::Exited);
    saved("abort", Ended::Signal(6), EndReason::Signalled);
    saved("fault", Ended::Signal(11), EndReason::Signalled);
    saved("term", Ended::Signal(15), EndReason::Signalled);
    saved("kill", Ended::Signal(9), EndReason::Signalled);
}

#[test]
fn a_save_on_termination_that_is_cancelled_does_not_happen() {
    for (how, ended) in [
        ("cancel", Ended::Exit(6)),
        ("cancel and kill", Ended::Signal(9)),
        ("stop", Ended::Exit(7)),
        ("stop and kill", Ended::Signal(9)),
        ("restart", Ended::Exit(8)),
    ] {
        let program = Program::new("ending");
        let outcome = program.run(&[how]);
        assert_eq!(outcome.ended, ended, "{how}: {}", text(&outcome.stderr));
        program.verify(&["early.undo"]);
    }
}

#[test]
fn messages_reach_the_original_standard_error_only() {
    let program = Program::new("ending");
    let outcome = program.run(&["closed"]);
    assert_eq!(outcome.ended, Ended::Exit(9));
    assert!(text(&outcome.stderr).contains("cannot save"), "{}", text(&outcome.stderr));
    assert_eq!(fs::read(program.file("data")).unwrap(), b"");
}

#[test]
fn children() {
    let program = Program::new("forking");
    let outcome = program.leaves(&["child.undo", "parent.undo"]);
    assert_eq!(text(&outcome.stdout), "child exited 3\n6\nanother exited 4\n");
    assert_eq!(program.open("child.undo").meta().end_status, 3);
    assert_eq!(Reader::open(program.file("log.shmem")).unwrap().recordings().len(), 2);
    check_log(&program.file("log.shmem")).unwrap().unwrap();
}

#[test]
fn a_recording_that_ended_by_itself_can_be_saved() {
    let program = Program::new("interrupted");
    program.leaves(&["kept.undo", "last.undo", "saved.undo"]);
    for name in ["kept.undo", "saved.undo"] {
        assert_eq!(program.open(name).meta().end_reason, EndReason::Unsupported, "{name}");
    }
}

/// Linked statically, a program has all of the library in itself.
#[test]
fn the_static_library_does_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let source = stage::source().join("programs/api/saving.c");
    let include = format!("-I{}", stage::stage().join("include").display());
    let archive = stage::stage().join("lib/libundolr.a");
    let link = format!("-L{}", archive.parent().unwrap().display());
    let program = compile::compile(&source, &[&include, "-static", &link, "-lundolr"], directory.path()).unwrap();
    let work = tempfile::tempdir().unwrap();
    let outcome = run(&[program.into()], work.path(), b"").unwrap();
    assert_eq!(outcome.ended, Ended::Exit(0), "{}", text(&outcome.stderr));
    let argv = [stage::program("undo-replay").into(), "verify".into(), "third.undo".into()];
    let verdict = run(&argv, work.path(), b"").unwrap();
    assert_eq!(verdict.ended, Ended::Exit(0), "{}", text(&verdict.stdout));
}
