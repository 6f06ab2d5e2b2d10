//! `cargo xtask miri`: the access log's algorithms under Miri, with real threads on words of the heap: the same models that loom runs, and the
//! unit tests of the format. Needs a nightly toolchain with Miri (`rustup component add miri rust-src --toolchain nightly`); what maps
//! files or makes system calls of its own is beyond Miri.
use anyhow::{Context, Result, ensure};
use std::process::Command;

pub fn run() -> Result<()> {
    let installed = Command::new("cargo").args(["+nightly", "miri", "--version"]).output().is_ok_and(|output| output.status.success());
    ensure!(installed, "Miri is not installed: rustup component add miri rust-src --toolchain nightly");
    let target = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".into());
    let status = Command::new("cargo")
        .args(["+nightly", "miri", "test", "--package", "shmem-log", "--lib"])
        .env("CARGO_TARGET_DIR", format!("{target}/miri"))
        .env("MIRIFLAGS", "-Zmiri-disable-isolation -Zmiri-strict-provenance")
        .status()
        .context("cannot run cargo")?;
    ensure!(status.success(), "Miri: {status}");
    Ok(())
}
