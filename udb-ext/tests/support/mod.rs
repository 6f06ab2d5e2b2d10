//! What the end-to-end tests share: guests compiled with gcc, fixtures in place of recordings, and `udb` run under a watchdog.
//!
//! Nothing here waits for an amount of time: every wait is for output or an end. The watchdog is only there so that a hang becomes a failed test, and kills only what the test started.
#![allow(dead_code)]

#[path = "../../../tests/src/pattern.rs"]
mod pattern;

use std::fs;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
pub use pattern::like;
use tempfile::TempDir;

/// A hang, not a slow machine.
pub const WATCHDOG: Duration = Duration::from_secs(120);

/// A folder with guests and fixtures.
pub struct Bench {
    folder: TempDir,
}

#[derive(Debug)]
pub struct Run {
    pub output: String,
    pub status: Option<i32>,
}

impl Bench {
    pub fn new() -> Self {
        Bench { folder: TempDir::new().unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Compiles `tests/guests/NAME.c`.
    pub fn guest(&self, name: &str) -> PathBuf {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/guests").join(format!("{name}.c"));
        let program = self.path(name);
        let status = Command::new("gcc").args(["-g", "-O0", "-o"]).arg(&program).arg(source).status().expect("gcc is needed");
        assert!(status.success());
        program
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// `udb --batch FILE -ex …`, to its end.
    pub fn batch(&self, file: &str, commands: &[&str]) -> Run {
        let mut udb = self.udb();
        udb.args(["--batch", "-nx", file]);
        for command in commands {
            udb.args(["-ex", command]);
        }
        run(udb)
    }

    /// A `udb` in the bench's folder, with the tape's server.
    pub fn udb(&self) -> Command {
        let mut udb = Command::new(env!("CARGO_BIN_EXE_udb"));
        udb.current_dir(self.folder.path()).env("UNDO_SERVER", tape_server()).env("HOME", self.folder.path()).env("TERM", "dumb");
        udb.env_remove("UNDO_event_log_max").env_remove("UNDO_event_log_mode").env("LC_ALL", "C.UTF-8").env_remove("DEBUGINFOD_URLS");
        udb
    }
}

fn tape_server() -> PathBuf {
    // …/target/PROFILE/deps/TEST is next to …/target/PROFILE/examples.
    let test = std::env::current_exe().unwrap();
    let server = test.parent().and_then(Path::parent).unwrap().join("examples/tape-server");
    assert!(server.exists(), "{} is missing: `cargo build -p udb-ext --examples` makes it", server.display());
    server
}

/// Runs to the end; output and errors in one stream, as on a terminal.
pub fn run(mut command: Command) -> Run {
    let (mut reader, writer) = std::io::pipe().unwrap();
    let mut child =
        command.stdin(Stdio::null()).stdout(writer.try_clone().unwrap()).stderr(writer).process_group(0).spawn().expect("udb starts");
    drop(command);
    let guard = Watchdog::over(&child);
    let mut bytes = Vec::new();
    reader.read_to_end(&mut bytes).unwrap();
    let status = child.wait().unwrap().code();
    drop(guard);
    let output = String::from_utf8_lossy(&bytes).into_owned();
    Run { output, status }
}

/// Kills the process group of a child that does not end.
pub struct Watchdog {
    done: Option<mpsc::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Watchdog {
    pub fn over(child: &Child) -> Self {
        let group = Pid::from_raw(i32::try_from(child.id()).unwrap());
        let (done, ended) = mpsc::channel();
        let thread = thread::spawn(move || {
            if ended.recv_timeout(WATCHDOG) == Err(mpsc::RecvTimeoutError::Timeout) {
                let _ = killpg(group, Signal::SIGKILL);
            }
        });
        Watchdog { done: Some(done), thread: Some(thread) }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        drop(self.done.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Run {
    /// Asserts that these lines come in this order; other lines may come between. `…` in one stands for any text.
    #[track_caller]
    pub fn shows(&self, expected: &[&str]) -> &Self {
        let mut lines = self.output.lines();
        for pattern in expected {
            assert!(lines.any(|line| like(pattern, line)), "no line like {pattern:?} (in its place) in:\n{}", self.output);
        }
        self
    }

    /// Asserts that these lines follow one another.
    #[track_caller]
    pub fn shows_block(&self, expected: &[&str]) -> &Self {
        let lines: Vec<&str> = self.output.lines().collect();
        let found = lines.windows(expected.len()).any(|window| window.iter().zip(expected).all(|(line, pattern)| like(pattern, line)));
        assert!(found, "no block {expected:#?} in:\n{}", self.output);
        self
    }

    #[track_caller]
    pub fn hides(&self, text: &str) -> &Self {
        assert!(!self.output.contains(text), "{text:?} in:\n{}", self.output);
        self
    }

    #[track_caller]
    pub fn status(&self, expected: i32) -> &Self {
        assert_eq!(self.status, Some(expected), "{}", self.output);
        self
    }

    /// The rest of the first line that starts like this.
    #[track_caller]
    pub fn after(&self, start: &str) -> &str {
        self.output.lines().find_map(|line| line.strip_prefix(start)).unwrap_or_else(|| panic!("no {start:?} in:\n{}", self.output))
    }
}
