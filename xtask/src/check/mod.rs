//! `cargo xtask check`: what can be judged without running the product: formatting, lints, and the promises of `docs/architecture.md`
//! that a program can check.

mod api;
mod arrows;
mod instructions;
mod length;
mod merged;

use anyhow::Result;

use crate::build::run_build;
use crate::layers::{Step, run_steps};
use crate::workspace::{GUEST_TARGET, Workspace, cargo, guest_cargo, run};

/// The crates that are built for [`GUEST_TARGET`].
const GUEST_CRATES: [&str; 2] = ["recorder", "replay-guest"];

pub fn run_checks(workspace: &Workspace) -> Result<()> {
    let checks: [Step; 10] = [
        ("crate arrows", Box::new(|| arrows::check(workspace))),
        ("file length", Box::new(|| length::check(workspace))),
        ("merges are finished", Box::new(|| merged::check(workspace))),
        ("format", Box::new(|| run(cargo().args(["fmt", "--all", "--", "--check"]).current_dir(&workspace.root)))),
        ("format, sql", Box::new(|| run(cargo().args(["fmt", "--", "--check"]).current_dir(workspace.root.join("sql"))))),
        ("lints, host", Box::new(|| lint_host(workspace))),
        ("lints, guest", Box::new(|| lint_guest(workspace))),
        ("everything builds", Box::new(|| run_build(workspace))),
        ("no vector registers in guest code", Box::new(|| check_instructions(workspace))),
        ("exports are the header's functions", Box::new(|| api::check(workspace))),
    ];
    run_steps("check", &checks)
}

fn lint_host(workspace: &Workspace) -> Result<()> {
    run(cargo()
        .args(["clippy", "--quiet", "--keep-going", "--workspace", "--all-targets", "--", "-D", "warnings"])
        .current_dir(&workspace.root))
}

fn lint_guest(workspace: &Workspace) -> Result<()> {
    let mut clippy = guest_cargo();
    clippy.args(["clippy", "--quiet", "--keep-going", "--lib", "--target", GUEST_TARGET]).current_dir(&workspace.root);
    for package in GUEST_CRATES {
        clippy.args(["-p", package]);
    }
    run(clippy.args(["--", "-D", "warnings"]))
}

/// On what is linked, since the archives hold support routines of the compiler that nothing of ours calls.
fn check_instructions(workspace: &Workspace) -> Result<()> {
    for linked in ["lib/libundolr.so", "lib/libundolr.a", "libexec/undo/replay-guest"] {
        instructions::check(&workspace.stage().join(linked))?;
    }
    Ok(())
}
