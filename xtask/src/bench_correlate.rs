//! `cargo xtask bench correlate [--json] [--accesses N] [--processes P] [--dir DIR]`: building the log's index and asking it, beside a radix
//! sort and a database. The measuring is done by a program of `correlator` itself, built with optimisation.
use anyhow::{Context, Result, ensure};
use std::process::Command;

pub fn run(args: &[String]) -> Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["run", "--quiet", "--release", "--package", "correlator", "--example", "bench", "--"])
        .args(args)
        .status()
        .context("cannot run cargo")?;
    ensure!(status.success(), "the benchmark failed: {status}");
    Ok(())
}
