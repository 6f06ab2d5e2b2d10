//! Runs a program natively and recorded, compares, and replays the recording.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use recording::{EndReason, Recording};

use crate::accesses::check_log;
use crate::diff::differences;
use crate::directory::make_empty;
use crate::run::{Ended, Outcome, run};
use crate::stage;

pub struct Program {
    pub argv: Vec<OsString>,
    pub stdin: Vec<u8>,
    /// What the working directory holds at the start.
    pub files: Vec<(PathBuf, Vec<u8>)>,
    pub ends: Ended,
    /// Recording ends before the program does, with a message on standard error that contains this.
    pub stops: Option<String>,
    /// Whose recordings are made.
    pub record: Record,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// The program's; its children run natively.
    Program,
    /// Those of all processes that it forks as well, with a log of their accesses to shared memory.
    Family {
        /// The log must explain all values that were seen: nobody else writes to the memory.
        explained: bool,
    },
}

impl Program {
    /// A program of the system that ends well.
    pub fn new<const N: usize>(argv: [&str; N]) -> Program {
        Program {
            argv: argv.map(OsString::from).into(),
            stdin: Vec::new(),
            files: Vec::new(),
            ends: Ended::Exit(0),
            stops: None,
            record: Record::Program,
        }
    }
}

/// `Err` says what is wrong, for a person.
pub fn check(program: &Program) -> Result<(), String> {
    compare(program).map_err(|error| format!("{error:#}"))?.map_or(Ok(()), Err)
}

/// A complaint, or `None`.
fn compare(program: &Program) -> Result<Option<String>> {
    let home = tempfile::tempdir().context("no directory to run in")?;
    // One directory for both runs, so that its name, which programs print, is the same.
    let directory = home.path().join("work");
    let recording = home.path().join("recording.undo");
    let native = run_in(program, &program.argv, &directory)?;
    if native.ended != program.ends {
        let stderr = String::from_utf8_lossy(&native.stderr);
        return Ok(Some(format!("natively it should end by {:?}, and ended by {:?}\n{stderr}", program.ends, native.ended)));
    }
    let mut argv: Vec<OsString> = vec![stage::program("live-record").into(), "-o".into(), recording.clone().into()];
    if program.stops.is_none() {
        argv.push("-q".into());
    }
    let log = home.path().join("accesses.shmem");
    if program.record != Record::Program {
        argv.extend(["--on-fork".into(), "both".into(), "--shmem-log".into(), log.clone().into()]);
    }
    argv.extend(program.argv.iter().cloned());
    let mut recorded = run_in(program, &argv, &directory)?;
    if let Some(reason) = &program.stops {
        let said = take_messages(&mut recorded);
        if !said.contains(reason.as_str()) {
            return Ok(Some(format!("should say that recording ends because of `{reason}`, and said:\n{said}")));
        }
    }
    if let Some(difference) = differences(&native, &recorded) {
        return Ok(Some(difference));
    }
    if let Some(wrong) = check_end(program, &last_of_its_process(&recording))? {
        return Ok(Some(wrong));
    }
    for recording in recordings(home.path())? {
        if let Some(wrong) = verify(&recording)? {
            return Ok(Some(wrong));
        }
    }
    if let Record::Family { explained } = program.record {
        return Ok(check_log(&log)?.err().filter(|_| explained));
    }
    Ok(None)
}

/// All recordings there, in a stable order.
fn recordings(directory: &Path) -> Result<Vec<PathBuf>> {
    let paths: std::io::Result<Vec<PathBuf>> = fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect();
    let mut paths = paths?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "undo"));
    paths.sort();
    Ok(paths)
}

/// Of a process that executes programs which are recorded too, the recording of the last of them.
fn last_of_its_process(recording: &Path) -> PathBuf {
    let later = |number: u32| recording.with_file_name(format!("{}.{number}.undo", recording.file_stem().unwrap_or_default().display()));
    (2..).map(later).take_while(|path| path.exists()).last().unwrap_or_else(|| recording.to_owned())
}

/// The recording must reach the program's end, unless the program is one that stops it.
fn check_end(program: &Program, recording: &Path) -> Result<Option<String>> {
    if !recording.exists() {
        return Ok(Some("there is no recording".into()));
    }
    let opened = Recording::open(recording)?;
    let metadata = opened.meta();
    let expected = match (&program.stops, program.ends) {
        (Some(reason), _) => {
            let message = &metadata.end_message;
            return Ok((!message.contains(reason.as_str())).then(|| format!("the recording says that it ends because of `{message}`")));
        }
        (None, Ended::Exit(status)) => (EndReason::Exited, status),
        (None, Ended::Signal(signal)) => (EndReason::Signalled, signal),
        (None, Ended::Hung) => return Ok(None),
    };
    let found = (metadata.end_reason, metadata.end_status);
    Ok((found != expected).then(|| format!("the recording ends with {found:?} ({}), and should with {expected:?}", metadata.end_message)))
}

fn run_in(program: &Program, argv: &[OsString], directory: &Path) -> Result<Outcome> {
    make_empty(directory)?;
    for (name, bytes) in &program.files {
        let path = directory.join(name);
        fs::create_dir_all(path.parent().context("a file needs a directory")?)?;
        fs::write(&path, bytes)?;
    }
    run(argv, directory, &program.stdin)
}

/// Takes the lines that `live-record` and the library wrote out of standard error.
fn take_messages(outcome: &mut Outcome) -> String {
    let (ours, theirs): (Vec<&[u8]>, Vec<&[u8]>) = outcome
        .stderr
        .split_inclusive(|&byte| byte == b'\n')
        .partition(|line| line.starts_with(b"undo: ") || line.starts_with(b"live-record: "));
    let said = String::from_utf8_lossy(&ours.concat()).into_owned();
    outcome.stderr = theirs.concat();
    said
}

/// Replays a recording against itself. A complaint, or `None`.
fn verify(recording: &Path) -> Result<Option<String>> {
    let mode = fs::metadata(recording)?.permissions().mode() & 0o777;
    if mode != 0o600 {
        return Ok(Some(format!("the recording's mode is {mode:o}: it holds what was in memory")));
    }
    let argv = [stage::program("undo-replay").into_os_string(), "verify".into(), recording.into()];
    let directory = recording.parent().context("a file needs a directory")?;
    let outcome = run(&argv, directory, b"")?;
    Ok((outcome.ended != Ended::Exit(0)).then(|| {
        format!("replay: {:?}\n{}{}", outcome.ended, String::from_utf8_lossy(&outcome.stdout), String::from_utf8_lossy(&outcome.stderr))
    }))
}
