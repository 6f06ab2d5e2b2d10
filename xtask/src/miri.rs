//! `cargo xtask miri`: the access log's algorithms under Miri, with real threads on words of the heap: the same models that loom runs, and the
//! unit tests of the format. Needs a nightly toolchain with Miri (`rustup component add miri rust-src --toolchain nightly`); what maps
//! files or makes system calls of its own is beyond Miri.

use std::process::Command;

use anyhow::{Result, ensure};

use crate::workspace::{Workspace, run};

pub fn run_tests(workspace: &Workspace) -> Result<()> {
    let installed = Command::new("cargo").args(["+nightly", "miri", "--version"]).output().is_ok_and(|output| output.status.success());
    ensure!(installed, "Miri is not installed: rustup component add miri rust-src --toolchain nightly");
    run(Command::new("cargo")
        .args(["+nightly", "miri", "test", "--package", "shmem-log", "--lib"])
        .env("CARGO_TARGET_DIR", workspace.target.join("miri"))
        .env("MIRIFLAGS", "-Zmiri-disable-isolation -Zmiri-strict-provenance")
        .current_dir(&workspace.root))
}
