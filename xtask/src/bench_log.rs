//! `cargo xtask bench log [--json] [--dir DIR]`: what an append to the access log costs. The measuring is done by a benchmark of
//! `shmem-log` itself, built with optimisation.
use anyhow::{Context, Result, ensure};
use std::process::Command;

pub fn run(args: &[String]) -> Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["bench", "--quiet", "--package", "shmem-log", "--bench", "log", "--"])
        .args(args)
        .status()
        .context("cannot run cargo")?;
    ensure!(status.success(), "the benchmark failed: {status}");
    Ok(())
}
