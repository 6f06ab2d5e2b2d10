//! `cargo xtask bench replay [--json] [--quick]`: replay against recording, seeks, searches backwards. The measuring is done by a program
//! of `replayer` itself, with what was built.
use anyhow::{Context, Result, ensure};

use crate::build::run_build;
use crate::workspace::{Workspace, cargo};

pub fn run(workspace: &Workspace, args: &[String]) -> Result<()> {
    run_build(workspace)?;
    let stage = workspace.stage();
    let status = cargo()
        .args(["run", "--quiet", "--release", "--package", "replayer", "--example", "bench", "--"])
        .args(args)
        .env("UNDO_REPLAY_GUEST", stage.join("libexec/undo/replay-guest"))
        .env("UNDO_STAGE", stage)
        .status()
        .context("cannot run cargo")?;
    ensure!(status.success(), "the benchmark failed: {status}");
    Ok(())
}
