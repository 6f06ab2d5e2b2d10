//! Runs a command of a layer under a time limit. What its tests say is counted; when the limit is reached everything that the command
//! started is killed, and what hung is named.
//!
//! Invariants
//! I1. Nothing that the command started, however it detached itself, outlives [`watch`]: this process adopts orphans (as a subreaper), so all
//!     of them are its descendants.
//! I2. A command that fails, hangs or dies without saying how many tests failed counts as one failure.
//! I3. What a test prints is shown as it is. Only what the test runner says of tests that pass is left out: one line for each program stands
//!     for it.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, PipeReader};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::family::{adopt_orphans, kill_descendants};
use super::tally::Tally;
use crate::workspace::shown;

/// How often to look whether the command has ended.
const LOOK: Duration = Duration::from_millis(200);
/// How long to read on when it has: what it left in the pipe, not what others that it left behind go on printing.
const REST: Duration = Duration::from_secs(2);

pub fn watch(mut command: Command, deadline: Instant) -> Result<Tally> {
    adopt_orphans()?;
    let name = shown(&command);
    let (reader, writer) = std::io::pipe()?;
    command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
    let mut child = command.spawn().with_context(|| format!("cannot run {name}"))?;
    // It holds the pipe's other end.
    drop(command);
    let lines = read_lines(reader);
    let mut transcript = Transcript::default();
    let mut ended = None;
    loop {
        let now = Instant::now();
        let end = ended.map_or(deadline, |(_, at)| at + REST);
        if now >= end {
            break;
        }
        match lines.recv_timeout(LOOK.min(end - now)) {
            Ok(line) => transcript.take(&line),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) if ended.is_some() => break,
            // It runs on with its output closed.
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(LOOK),
        }
        if ended.is_none() {
            ended = child.try_wait()?.map(|status| (status, Instant::now()));
        }
    }
    kill_descendants()?;
    let Some((status, _)) = ended else {
        let _ = child.wait();
        println!("{name} did not end in time and was killed; it was at: {}", transcript.at());
        transcript.tally.failed += 1;
        return Ok(transcript.tally);
    };
    if !status.success() && transcript.tally.failed == 0 {
        println!("{name} failed: {status}, at: {}", transcript.at());
        transcript.tally.failed = 1;
    }
    Ok(transcript.tally)
}

fn read_lines(reader: PipeReader) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(reader).split(b'\n') {
            let Ok(line) = line else { return };
            if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                return;
            }
        }
    });
    receiver
}

/// What has been said so far.
#[derive(Default)]
struct Transcript {
    tally: Tally,
    /// The test program that runs, as cargo names it.
    program: String,
    /// Tests that run for a minute already, which is when the test runner first names them.
    late: BTreeSet<String>,
    last_line: String,
}

impl Transcript {
    fn take(&mut self, line: &str) {
        if let Some(line) = self.note(line) {
            println!("{line}");
        }
    }

    /// Notes a line; gives what is to be shown in its place.
    fn note(&mut self, line: &str) -> Option<String> {
        let words = line.trim_start();
        if !words.is_empty() {
            self.last_line = words.to_owned();
        }
        if let Some(program) = words.strip_prefix("Running ").or(words.strip_prefix("Doc-tests ")) {
            self.program = program_name(program);
            self.late.clear();
            return None;
        }
        if let Some(tally) = Tally::parse(line) {
            self.tally.add(tally);
            let time = line.rsplit_once("finished in ").map_or(String::new(), |(_, time)| format!(" in {time}"));
            let is_empty = tally == Tally::default();
            return (!is_empty && !self.program.is_empty()).then(|| format!("{}: {}{time}", self.program, counts(tally)));
        }
        if let Some((test, _)) = line.strip_prefix("test ").and_then(|rest| rest.split_once(" has been running for over ")) {
            self.late.insert(test.to_owned());
        }
        if let Some((test, outcome)) = line.strip_prefix("test ").and_then(|rest| rest.split_once(" ... ")) {
            self.late.remove(test);
            if outcome == "ok" {
                return None;
            }
        }
        let is_noise = line.is_empty() || is_build_progress(words) || line.starts_with("running ") && line.contains(" test");
        (!is_noise).then(|| line.to_owned())
    }

    /// Where the command is now, as far as is known.
    fn at(&self) -> String {
        let late: Vec<&str> = self.late.iter().map(String::as_str).collect();
        match (self.program.as_str(), late.as_slice()) {
            ("", _) => self.last_line.clone(),
            (program, []) => format!("{program} (last line: {})", self.last_line),
            (program, late) => format!("{program}: test {}", late.join(", ")),
        }
    }
}

fn counts(tally: Tally) -> String {
    let left_out = if tally.left_out > 0 { format!(", {} left out", tally.left_out) } else { String::new() };
    format!("{} passed, {} failed{left_out}", tally.passed, tally.failed)
}

/// `unittests src/lib.rs (target/debug/deps/engine-0123)` is `engine (src/lib.rs)`; `tests/blame.rs (…/blame-0123)` is `tests/blame.rs`.
fn program_name(running: &str) -> String {
    let Some((source, binary)) = running.split_once(" (") else { return running.to_owned() };
    let binary = binary.trim_end_matches(')').rsplit('/').next().unwrap_or_default();
    match (source.strip_prefix("unittests "), binary.rsplit_once('-')) {
        (Some(source), Some((name, _))) => format!("{name} ({source})"),
        _ => source.to_owned(),
    }
}

fn is_build_progress(words: &str) -> bool {
    ["Compiling ", "Finished ", "Blocking ", "Downloading ", "Downloaded ", "Updating ", "Locking ", "Checking ", "Documenting "]
        .iter()
        .any(|verb| words.starts_with(verb))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// These tests kill all descendants of their process, each other's included.
    static ALONE: Mutex<()> = Mutex::new(());

    fn shell(script: &str, limit: Duration) -> Tally {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        watch(command, Instant::now() + limit).unwrap()
    }

    const LONG: Duration = Duration::from_secs(600);

    #[test]
    fn a_test_program_that_dies_counts_as_a_failure() {
        let _alone = ALONE.lock().unwrap();
        let tally = shell("echo 'test result: ok. 2 passed; 0 failed; 0 ignored'; exit 101", LONG);
        assert_eq!(tally, Tally { passed: 2, failed: 1, left_out: 0 });
    }

    #[test]
    fn failures_that_were_counted_are_not_counted_twice() {
        let _alone = ALONE.lock().unwrap();
        let tally = shell("echo 'test result: FAILED. 2 passed; 3 failed; 0 ignored'; exit 101", LONG);
        assert_eq!(tally, Tally { passed: 2, failed: 3, left_out: 0 });
    }

    #[test]
    fn what_hangs_is_killed_with_all_that_it_started() {
        let _alone = ALONE.lock().unwrap();
        let alive = tempfile::NamedTempFile::new().unwrap();
        // A grandchild in a session of its own, which holds a lock for as long as it lives.
        let script = format!("setsid flock {} sleep 1000 & sleep 1000", alive.path().display());
        let tally = shell(&script, Duration::from_secs(1));
        assert_eq!(tally, Tally { passed: 0, failed: 1, left_out: 0 });
        let status = Command::new("flock").args(["--nonblock"]).arg(alive.path()).arg("true").status().unwrap();
        assert!(status.success(), "the grandchild still holds its lock");
    }

    #[test]
    fn a_test_that_hangs_is_named() {
        let mut transcript = Transcript::default();
        for line in [
            "   Compiling engine v0.1.0 (/project/engine)",
            "     Running unittests src/lib.rs (target/debug/deps/engine-0f3a)",
            "running 3 tests",
            "test cache::one ... ok",
            "test cache::two has been running for over 60 seconds",
            "test cache::three has been running for over 60 seconds",
            "test cache::three ... ok",
        ] {
            transcript.note(line);
        }
        assert_eq!(transcript.at(), "engine (src/lib.rs): test cache::two");
    }

    #[test]
    fn tests_that_pass_are_one_line() {
        let mut transcript = Transcript::default();
        let shown: Vec<String> = [
            "     Running tests/blame.rs (target/debug/deps/blame-0f3a)",
            "",
            "running 3 tests",
            "test one ... ok",
            "test two ... FAILED",
            "test three ... ignored, takes an hour",
            "what test two printed",
            "test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.10s",
        ]
        .iter()
        .filter_map(|line| transcript.note(line))
        .collect();
        assert_eq!(
            shown,
            [
                "test two ... FAILED",
                "test three ... ignored, takes an hour",
                "what test two printed",
                "tests/blame.rs: 1 passed, 1 failed, 1 left out in 0.10s"
            ]
        );
    }
}
