//! Recordings replay: as often as one likes, anywhere, and compared with memory on the way.

use std::fs;
use std::path::{Path, PathBuf};

use recording::Recording;
use tests::example::Example;
use tests::run::run;
use tests::{Ended, Outcome, compile, stage};

fn text(outcome: &Outcome) -> String {
    String::from_utf8_lossy(&[outcome.stdout.as_slice(), &outcome.stderr].concat()).into_owned()
}

fn program(name: &str, words: &[&str], directory: &Path) -> Outcome {
    let argv: Vec<_> = std::iter::once(stage::program(name).into_os_string()).chain(words.iter().map(Into::into)).collect();
    run(&argv, directory, b"").unwrap()
}

/// What `undo-replay verify` says of a recording that must be good.
#[track_caller]
fn verify(recording: &Path) -> String {
    let outcome = program("undo-replay", &["verify", &recording.to_string_lossy()], recording.parent().unwrap());
    assert_eq!(outcome.ended, Ended::Exit(0), "{}: {}", recording.display(), text(&outcome));
    text(&outcome)
}

/// Compiles a program, records it and gives the recording.
fn record(source: &Path, flags: &[&str], home: &Path) -> PathBuf {
    let directory = source.parent().filter(|parent| parent.starts_with(home)).unwrap_or(home);
    let guest = compile::compile(source, flags, directory).unwrap();
    let recording = home.join("recording.undo");
    let outcome = program("live-record", &["-q", "-o", &recording.to_string_lossy(), &guest.to_string_lossy()], home);
    assert_eq!(outcome.ended, Ended::Exit(0), "{}", text(&outcome));
    recording
}

/// `UNDO_RUNS` in the environment says how often the example runs.
#[test]
fn every_recording_of_the_failing_example_verifies() {
    let runs = std::env::var("UNDO_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(10);
    let example = Example::build("shmem_producer_consumer");
    let mut failed = 0;
    for _ in 0..runs {
        failed += usize::from(example.run(&[]).ended != Ended::Exit(0));
        let recordings = example.files(".undo");
        assert_eq!(recordings.len(), 2);
        recordings.iter().for_each(|recording| drop(verify(recording)));
        for ending in [".undo", ".shmem"] {
            example.files(ending).iter().for_each(|file| fs::remove_file(file).unwrap());
        }
    }
    println!("{failed} of {runs} runs failed, all recordings verify");
}

/// The recording is all that replay needs: not the program, not its libraries, not the directory where they were.
#[test]
fn a_recording_replays_where_the_program_and_its_libraries_are_gone() {
    let home = tempfile::tempdir().unwrap();
    let machine = home.path().join("machine");
    fs::create_dir(&machine).unwrap();
    for library in ["libc.so.6", "ld-linux-x86-64.so.2"] {
        let asked = std::process::Command::new("gcc").arg(format!("-print-file-name={library}")).output().unwrap();
        fs::copy(String::from_utf8(asked.stdout).unwrap().trim(), machine.join(library)).unwrap();
    }
    for name in ["library/text.c", "program.h"] {
        let to = machine.join("programs").join(name);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(stage::source().join("programs").join(name), to).unwrap();
    }
    let flags = [
        format!("-Wl,--dynamic-linker={}/ld-linux-x86-64.so.2", machine.display()),
        format!("-Wl,-rpath={}", machine.display()),
        "-lm".into(),
    ];
    let flags = flags.each_ref().map(String::as_str);
    let recording = record(&machine.join("programs/library/text.c"), &flags, home.path());
    let opened = Recording::open(&recording).unwrap();
    let library = machine.join("libc.so.6");
    let is_used = opened.mappings().iter().any(|mapping| mapping.name == library.as_os_str().as_encoded_bytes());
    assert!(is_used, "the copied library is not the one that was used");
    fs::remove_dir_all(&machine).unwrap();
    verify(&recording);
}

/// Memory is hashed now and then, not only at the end.
#[test]
fn memory_is_compared_on_the_way() {
    let home = tempfile::tempdir().unwrap();
    let source = home.path().join("long.c");
    let program = "#include <stdlib.h>\n#include <unistd.h>\n#include <sys/syscall.h>\n\
        int main(void) {\n    volatile char *p = malloc(8 << 20);\n    unsigned long sum = 0;\n\
        for (int i = 0; i < 700; i++) {\n        for (int j = 0; j < 300000; j++) p[(sum = sum * 5 + j) % (8 << 20)]++;\n\
        syscall(SYS_getppid);\n    }\n    return 0;\n}\n";
    fs::write(&source, program).unwrap();
    let said = verify(&record(&source, &["-O2"], home.path()));
    let (_, rest) = said.split_once(" events and ").unwrap();
    let hashes: u64 = rest.split(' ').next().unwrap().parse().unwrap();
    assert!(hashes > 1, "{said}");
}

/// Neither recording nor replay walks what was never touched. A walk would take longer than the watchdog waits.
#[test]
fn large_empty_mappings_cost_nothing() {
    let home = tempfile::tempdir().unwrap();
    let source = home.path().join("large.c");
    let program = "#include <sys/mman.h>\n\
        int main(void) {\n    unsigned long size = 8ul << 40;\n\
        char *p = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);\n\
        if (p == MAP_FAILED) return 1;\n    for (int i = 0; i < 5000; i++) p[(size / 5000 * i)] = i;\n    return 0;\n}\n";
    fs::write(&source, program).unwrap();
    verify(&record(&source, &["-O1"], home.path()));
}
