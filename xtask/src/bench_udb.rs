//! `cargo xtask bench udb [--json]`: how long a user waits in the debugger, on a recording of 10 s of processor time with a log of ten
//! million accesses by two processes.
//!
//! | figure | what it is |
//! |---|---|
//! | `load_s` | from starting `udb` to its prompt; beside it stock gdb on the same executable, which has nothing to load but symbols |
//! | `ublame_ms` | one `ublame` of a random cell at the end, median; `ublame_first_s` is the first of all, which makes or opens the index |
//! | `ugo_end_s` | the first `ugo end`: a replay of everything; beside it the recorded run's processor time |
//! | `ugo_inferior_s` | `ugo inferior 2 TIME` to random times where one has been before, median |
//!
//! The recording is made when it is missing or older than the recorder, under `target/bench`, which takes about half a minute.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::build::run_build;
use crate::workspace::{Workspace, output, run};

const SECONDS: u32 = 10;
/// Of each of the two processes.
const ACCESSES: u32 = 5_000_000;
/// Room for all of them.
const LOG_SIZE: &str = "1G";

pub fn bench(workspace: &Workspace, arguments: &[String]) -> Result<()> {
    ensure!(arguments.iter().all(|argument| argument == "--json"), "bench udb takes only --json");
    run_build(workspace)?;
    let dir = workspace.target.join("bench/udb");
    let recording = recorded(workspace, &dir)?;
    // So that every measurement makes the index itself.
    let _ = fs::remove_file(dir.join("log.shmem.index"));
    let mut figures = measured(workspace, &dir, &recording)?;
    let cached = measured(workspace, &dir, &recording)?;
    figures["ublame_cached_first_s"] = cached["ublame_first_s"].clone();
    figures["gdb_load_s"] = json!(seconds(|| {
        let mut gdb = Command::new("gdb");
        gdb.args(["--batch", "-nx"]).arg(dir.join("workload")).stdout(Stdio::null()).env_remove("DEBUGINFOD_URLS");
        run(&mut gdb)
    })?);
    figures["recorded_cpu_s"] = json!(SECONDS);
    figures["log_accesses"] = json!(2 * ACCESSES);
    if arguments.is_empty() {
        show(&figures);
    } else {
        println!("{figures}");
    }
    Ok(())
}

/// The parent's recording; its child's and their log lie beside it.
fn recorded(workspace: &Workspace, dir: &Path) -> Result<PathBuf> {
    let recording = dir.join("parent.undo");
    let library = workspace.stage().join("lib/libundolr.so");
    let newer = |a: &Path, b: &Path| Some(fs::metadata(a).ok()?.modified().ok()? > fs::metadata(b).ok()?.modified().ok()?);
    if newer(&recording, &library) == Some(true) {
        return Ok(recording);
    }
    let _ = fs::remove_dir_all(dir);
    fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    let program = dir.join("workload");
    run(Command::new("gcc").args(["-g", "-O1", "-o"]).arg(&program).arg(workspace.root.join("xtask/bench/udb_workload.c")))?;
    let mut record = Command::new(workspace.stage().join("bin/live-record"));
    record.args(["-q", "--on-fork", "both", "--shmem-log", "log.shmem", "--shmem-log-size", LOG_SIZE, "-o", "parent.undo"]);
    record.arg(&program).args([SECONDS.to_string(), ACCESSES.to_string()]).current_dir(dir);
    run(&mut record)?;
    Ok(recording)
}

fn measured(workspace: &Workspace, dir: &Path, recording: &Path) -> Result<Value> {
    let mut udb = Command::new(workspace.stage().join("bin/udb"));
    udb.args(["--batch", "-nx", "-x"]).arg(workspace.root.join("xtask/bench/udb_measure.py")).arg(recording).current_dir(dir);
    udb.env_remove("DEBUGINFOD_URLS").env("UNDO_BENCH_START", monotonic_seconds()?);
    let text = output(&mut udb)?;
    let line = text.lines().rev().find(|line| line.starts_with('{')).with_context(|| format!("no figures in:\n{text}"))?;
    serde_json::from_str(line).with_context(|| format!("not JSON: {line}"))
}

/// The clock that Python's `time.monotonic` reads.
fn monotonic_seconds() -> Result<String> {
    output(Command::new("python3").args(["-c", "import time; print(time.monotonic(), end='')"]))
}

fn seconds(work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let begun = Instant::now();
    work()?;
    Ok(begun.elapsed().as_secs_f64())
}

fn show(figures: &Value) {
    let number = |name: &str| figures[name].as_f64().unwrap_or(f64::NAN);
    println!("a recording of {SECONDS} s of processor time, a log of {} accesses", 2 * ACCESSES);
    println!("load to the prompt       {:>8.2} s    (stock gdb on the executable: {:.2} s)", number("load_s"), number("gdb_load_s"));
    println!("ublame, median           {:>8.1} ms   (longest {:.1} ms)", number("ublame_ms"), number("ublame_max_ms"));
    println!(
        "first ublame, no index   {:>8.2} s    (index kept from before: {:.2} s)",
        number("ublame_first_s"),
        number("ublame_cached_first_s")
    );
    println!("first ugo end            {:>8.2} s    (recorded processor time: {SECONDS} s)", number("ugo_end_s"));
    println!(
        "ugo inferior, median     {:>8.3} s    (longest {:.3} s, first visit {:.2} s)",
        number("ugo_inferior_s"),
        number("ugo_inferior_max_s"),
        number("ugo_inferior_first_s")
    );
}
