//! `cargo xtask demo`: the main job from end to end, on recordings made just now.
//!
//! ```text
//!   build ─► compile the example with gcc ─► run it until its consumer fails ─► udb + xtask/demo/walk.py ─► on a terminal: udb's prompt
//! ```
//!
//! Nothing is canned: the walk's commands are fixed, but what depends on the run (which process, at what time) it takes from what `ublame`
//! prints. On a terminal this process becomes `udb` and leaves the user in it; else the exit status is 0 only if the walk ended where the
//! bad value was made.

use std::fs;
use std::io::IsTerminal;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::build::run_build;
use crate::workspace::{Workspace, files, run, shown};

const EXAMPLE: &str = "shmem_producer_consumer";
/// The example fails now and then by design; this many successes in a row mean that something else is wrong.
const MOST_RUNS: &str = "200";
/// A run takes well under a second.
const MOST_SECONDS: &str = "300";
/// What `timeout` exits with when it had to end the program.
const TIMED_OUT: i32 = 124;

pub fn demo(workspace: &Workspace) -> Result<()> {
    run_build(workspace)?;
    let dir = workspace.target.join("demo");
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
    compile(&workspace.stage(), &dir)?;
    let recording = record_failure(&workspace.stage(), &dir)?;
    walk(workspace, &dir, &recording)
}

/// Shows a command the way a user would have typed it.
fn announce(command: &Command) {
    println!("$ {}", shown(command));
}

fn compile(stage: &Path, dir: &Path) -> Result<()> {
    let source = format!("{EXAMPLE}.c");
    let from = stage.join("share/undo/examples").join(&source);
    fs::copy(&from, dir.join(&source)).with_context(|| format!("cannot copy {}", from.display()))?;
    let lib = stage.join("lib");
    let mut gcc = Command::new("gcc");
    gcc.args(["-g", &source, "-o", EXAMPLE])
        .arg(format!("-I{}", stage.join("include").display()))
        .arg(format!("-L{}", lib.display()))
        .args(["-lundolr".to_owned(), format!("-Wl,-rpath,{}", lib.display())])
        .current_dir(dir);
    announce(&gcc);
    run(&mut gcc)
}

/// Runs the example until its consumer fails, and returns the consumer's recording.
fn record_failure(stage: &Path, dir: &Path) -> Result<PathBuf> {
    let mut runs = Command::new(stage.join("share/undo/examples/until-failure.sh"));
    runs.args(["-n", MOST_RUNS, &format!("./{EXAMPLE}")]);
    announce(&runs);
    let done = Command::new("timeout")
        .args(["--kill-after=5", MOST_SECONDS])
        .arg(runs.get_program())
        .args(runs.get_args())
        .current_dir(dir)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run timeout")?;
    let printed = String::from_utf8_lossy(&done.stdout);
    println!("{printed}");
    ensure!(done.status.code() != Some(TIMED_OUT), "{EXAMPLE} hangs: it did not fail within {MOST_SECONDS} s");
    ensure!(done.status.success(), "{EXAMPLE} succeeded {MOST_RUNS} times in a row");
    ensure!(printed.contains("Assertion"), "{EXAMPLE} failed in another way than the one to be shown");
    consumer(dir)
}

/// The consumer's recording, by its name; both others must be there too.
fn consumer(dir: &Path) -> Result<PathBuf> {
    let find = |start: &str, extension: &str| -> Result<PathBuf> {
        let all = files(dir, &[extension])?;
        let name = |path: &PathBuf| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        all.into_iter()
            .map(|path| PathBuf::from(name(&path)))
            .find(|path| name(path).starts_with(start))
            .with_context(|| format!("the run left no {start}*.{extension} in {}", dir.display()))
    };
    find("log-", "shmem")?;
    find("producer-", "undo")?;
    find("consumer-", "undo")
}

fn walk(workspace: &Workspace, dir: &Path, recording: &Path) -> Result<()> {
    let stays = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    println!("$ udb {}", recording.display());
    let mut udb = Command::new(workspace.stage().join("bin/udb"));
    udb.arg("--nx").arg("--command").arg(workspace.root.join("xtask/demo/walk.py")).current_dir(dir);
    // Symbols come from this machine: the demo waits for no server.
    udb.env_remove("DEBUGINFOD_URLS");
    if stays {
        let error = udb.env("UNDO_DEMO_STAYS", "1").arg(recording).exec();
        return Err(error).context("cannot run udb");
    }
    run(udb.arg("--batch").arg(recording)).context("the walk did not end in random_in_range")
}
