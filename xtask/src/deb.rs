//! `cargo xtask deb`: the stage as a Debian package, by cargo-deb. What it says of itself stands in `xtask/Cargo.toml`.

use std::process::Command;

use anyhow::{Result, ensure};

use crate::build::{Options, run_build_with};
use crate::workspace::{Workspace, cargo, run};

pub fn make(workspace: &Workspace, options: &Options) -> Result<()> {
    let installed = Command::new("cargo-deb").arg("--version").output().is_ok_and(|output| output.status.success());
    ensure!(installed, "cargo-deb is not installed: run `cargo install cargo-deb`");
    run_build_with(workspace, options)?;
    let mut deb = cargo();
    deb.args(["deb", "--no-build", "--package", "xtask", "--output"]).arg(workspace.target.join("debian/")).current_dir(&workspace.root);
    run(&mut deb)
}
