//! `cargo xtask bench log | correlate | replay`: measured by a program of the crate itself, built with optimisation. Their arguments are
//! its own; it says which there are.

use anyhow::Result;

use crate::build::run_build;
use crate::workspace::{Workspace, cargo, run};

/// The cost of an append to the access log.
pub fn log(arguments: &[String]) -> Result<()> {
    run(cargo().args(["bench", "--quiet", "--package", "shmem-log", "--bench", "log", "--"]).args(arguments))
}

/// Building the log's index and asking it, beside a radix sort and a database.
pub fn correlate(arguments: &[String]) -> Result<()> {
    run(cargo().args(["run", "--quiet", "--release", "--package", "correlator", "--example", "bench", "--"]).args(arguments))
}

/// Replay against recording, seeks, searches backwards; with what was built.
pub fn replay(workspace: &Workspace, arguments: &[String]) -> Result<()> {
    run_build(workspace)?;
    let stage = workspace.stage();
    run(cargo()
        .args(["run", "--quiet", "--release", "--package", "replayer", "--example", "bench", "--"])
        .args(arguments)
        .env("UNDO_REPLAY_GUEST", stage.join("libexec/undo/replay-guest"))
        .env("UNDO_STAGE", stage))
}
