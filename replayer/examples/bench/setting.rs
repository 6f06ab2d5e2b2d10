//! The programs that are measured: how they are compiled, run, recorded, and taken through gdb.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use recording::Recording;
use replayer::{Replay, Timeline};

pub struct Setting {
    directory: tempfile::TempDir,
    live_record: PathBuf,
    program: PathBuf,
}

/// One recording, and how long the program ran while it was made: from the first recorded instruction to the last, saving not included.
pub struct Made {
    pub path: PathBuf,
    pub took: Duration,
}

impl Setting {
    pub fn new() -> Result<Setting> {
        let stage = PathBuf::from(std::env::var_os("UNDO_STAGE").context("UNDO_STAGE does not say where the programs are")?);
        let directory = tempfile::tempdir().context("no directory to work in")?;
        let program = directory.path().join("work");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/bench/work.c");
        // At a fixed address, so that the watched word's is known.
        let mut gcc = Command::new("gcc");
        gcc.args(["-O1", "-g", "-no-pie", "-fno-pie", "-o"]).arg(&program).arg(source);
        ensure!(gcc.status().context("cannot run gcc")?.success(), "gcc fails");
        Ok(Setting { directory, live_record: stage.join("bin/live-record"), program })
    }

    fn work(&self, kind: &str, rounds: u64) -> Command {
        let mut command = Command::new(&self.program);
        command.args([kind, &rounds.to_string()]).stdout(Stdio::null());
        command
    }

    /// How long it takes natively: user and kernel time.
    pub fn native(&self, kind: &str, rounds: u64) -> Result<Duration> {
        let before = children_time()?;
        ensure!(self.work(kind, rounds).status()?.success(), "the program fails");
        Ok(children_time()? - before)
    }

    pub fn record(&self, kind: &str, rounds: u64) -> Result<Made> {
        let path = self.directory.path().join(format!("{kind}-{rounds}.undo"));
        let mut command = Command::new(&self.live_record);
        command.args(["-q", "-o"]).arg(&path).arg(&self.program).args([kind, &rounds.to_string()]).stdout(Stdio::null());
        ensure!(command.status().context("cannot run live-record")?.success(), "recording fails");
        let recording = Recording::open(&path)?;
        let meta = recording.meta();
        let took = Duration::from_nanos(meta.end_wallclock_ns.saturating_sub(meta.start_wallclock_ns));
        Ok(Made { path, took })
    }

    /// The address of the word that is stored to once.
    pub fn watched(&self) -> Result<u64> {
        let output = Command::new("nm").arg(&self.program).output().context("cannot run nm")?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let line = text.lines().find(|line| line.ends_with(" watched")).context("nm shows no `watched`")?;
        u64::from_str_radix(line.split(' ').next().unwrap_or(""), 16).context("nm's address")
    }

    /// gdb's own recording of `stores`: seconds to record it and to go back to the watched word.
    pub fn gdb(&self, rounds: u64) -> Result<(f64, f64)> {
        let script = [
            "set pagination off",
            "set confirm off",
            // It goes past hardware watchpoints in its own recordings.
            "set can-use-hw-watchpoints 0",
            "break begin_work",
            &format!("run stores {rounds} > /dev/null"),
            "record full",
            "set record full insn-number-max unlimited",
            "delete",
            "break end_work",
            "python import time; t = time.time()",
            "continue",
            "python print('recorded in', time.time() - t)",
            "delete",
            "watch watched",
            "python t = time.time()",
            "reverse-continue",
            "python print('reversed in', time.time() - t)",
            "kill",
        ];
        let mut gdb = Command::new("gdb");
        gdb.args(["-nx", "-q", "--batch"]).stdin(Stdio::null()).stderr(Stdio::null());
        gdb.args(script.iter().flat_map(|line| ["-ex", line]));
        let output = gdb.arg(&self.program).output().context("cannot run gdb")?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let figure = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|rest| rest.trim().parse::<f64>().ok()).with_context(|| format!("gdb does not say `{name}`:\n{text}"))
        };
        // gdb must have come to the loop's end, and back to where the store has not been made yet.
        if !text.contains("Breakpoint 2, end_work") || !text.contains("Old value = 1\nNew value = 0") {
            bail!("gdb does not go back to the store:\n{text}");
        }
        Ok((figure("recorded in")?, figure("reversed in")?))
    }
}

fn children_time() -> Result<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let microseconds = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Ok(Duration::from_micros(microseconds.unsigned_abs()))
}

/// Opens a recording and replays it to its end, compared with the recording at every event; how long the replay takes.
pub fn replay(made: &Made) -> Result<Duration> {
    let mut replay = Replay::open(&made.path)?;
    let verdict = replay.verify(|_| {})?;
    ensure!(verdict.end == replay.end(), "the replay does not reach the end");
    Ok(verdict.took)
}
