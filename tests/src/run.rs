//! Runs a program and notes all that the world sees of it.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context, Result};
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;

use crate::directory::{Tree, read_tree};

/// Generous: only a program that hangs gets to feel it.
pub const WATCHDOG: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    Exit(i32),
    Signal(i32),
    /// Killed by the watchdog.
    Hung,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub ended: Ended,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    /// What the working directory holds afterwards.
    pub files: Tree,
}

/// Runs `argv` in `directory` with `stdin`.
///
/// Output goes to files, not pipes, so a descendant that outlives the program cannot hold us up.
pub fn run(argv: &[OsString], directory: &Path, stdin: &[u8]) -> Result<Outcome> {
    run_within(WATCHDOG, argv, directory, stdin)
}

/// The same for what may take longer.
pub fn run_within(limit: Duration, argv: &[OsString], directory: &Path, stdin: &[u8]) -> Result<Outcome> {
    let (mut input, mut stdout, mut stderr) = (scratch()?, scratch()?, scratch()?);
    input.write_all(stdin)?;
    input.seek(SeekFrom::Start(0))?;
    let mut command = Command::new(&argv[0]);
    command
        .args(&argv[1..])
        .current_dir(directory)
        .stdin(Stdio::from(input))
        .stdout(Stdio::from(stdout.try_clone()?))
        .stderr(Stdio::from(stderr.try_clone()?))
        .process_group(0);
    set_environment(&mut command, directory);
    let ended = watch(&mut command, limit).with_context(|| format!("cannot run {}", argv[0].display()))?;
    Ok(Outcome { ended, stdout: contents(&mut stdout)?, stderr: contents(&mut stderr)?, files: read_tree(directory)? })
}

/// The same for all runs, whoever runs the tests.
pub(crate) fn set_environment(command: &mut Command, directory: &Path) {
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
    command.env_clear().env("PATH", path).env("HOME", directory).env("LC_ALL", "C.UTF-8").env("TZ", "UTC0").env("PYTHONHASHSEED", "0");
    command.env("GIT_CONFIG_NOSYSTEM", "1").env("PYTHONDONTWRITEBYTECODE", "1");
}

fn scratch() -> Result<File> {
    tempfile::tempfile().context("cannot make a file for output")
}

fn contents(file: &mut File) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    std::io::Read::read_to_end(file, &mut bytes)?;
    Ok(bytes)
}

/// Runs the command in a process group of its own, and kills that group if it takes too long.
fn watch(command: &mut Command, limit: Duration) -> Result<Ended> {
    let mut child = command.spawn()?;
    let pid = Pid::from_raw(child.id().cast_signed());
    let (sender, receiver) = mpsc::channel();
    // The process stays a zombie until `wait` below, so its number cannot become another's before we kill.
    let watcher = std::thread::spawn(move || {
        let _ = waitid(Id::Pid(pid), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT);
        let _ = sender.send(());
    });
    let hung = receiver.recv_timeout(limit).is_err();
    if hung {
        killpg(pid, Signal::SIGKILL)?;
    }
    let status = child.wait()?;
    let _ = watcher.join();
    Ok(if hung { Ended::Hung } else { ended(status) })
}

pub(crate) fn ended(status: ExitStatus) -> Ended {
    match (status.code(), status.signal()) {
        (Some(code), _) => Ended::Exit(code),
        (None, Some(signal)) => Ended::Signal(signal),
        (None, None) => Ended::Hung,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Outcome {
        let directory = tempfile::tempdir().unwrap();
        let argv = ["sh", "-c", script].map(OsString::from);
        run(&argv, directory.path(), b"input\n").unwrap()
    }

    #[test]
    fn everything_visible_is_noted() {
        let outcome = shell("cat; echo error >&2; mkdir sub; echo text >sub/file; exit 3");
        assert_eq!(outcome.ended, Ended::Exit(3));
        assert_eq!(outcome.stdout, b"input\n");
        assert_eq!(outcome.stderr, b"error\n");
        assert_eq!(outcome.files.len(), 2);
    }

    #[test]
    fn signals_are_told_from_statuses() {
        assert_eq!(shell("kill -TERM $$").ended, Ended::Signal(15));
    }
}
