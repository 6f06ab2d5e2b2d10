//! `cargo xtask fuzz [--seconds N] [TARGET…]`: every fuzz target for a short while, with a stock compiler.
//!
//! libFuzzer then mutates blindly, as nothing tells it which code an input reached: enough to see that no target has rotted and that
//! near neighbours of good input are survived. `cargo fuzz run TARGET`, with a nightly compiler, goes deeper.

use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::build::run_build;
use crate::layers::{Step, run_steps};
use crate::workspace::{Workspace, binaries, cargo, run};

#[derive(clap::Args)]
pub struct Options {
    /// How long each target runs
    #[arg(long, default_value_t = 10)]
    seconds: u32,
    /// Only these
    targets: Vec<String>,
}

/// An input that takes longer, in seconds, is a failure.
const LONGEST: u32 = 60;

pub fn run_targets(workspace: &Workspace, options: &Options) -> Result<()> {
    let manifest = workspace.root.join("fuzz/Cargo.toml");
    let known = binaries(&manifest)?;
    ensure!(!known.is_empty(), "{} names no targets", manifest.display());
    if let Some(unknown) = options.targets.iter().find(|wanted| !known.contains(wanted)) {
        anyhow::bail!("there is no fuzz target {unknown}; there are {}", known.join(", "));
    }
    let guest = workspace.stage().join("libexec/undo/replay-guest");
    if !guest.exists() {
        run_build(workspace)?;
    }
    run(&mut on_targets(workspace, &manifest, "build"))?;
    let wanted = |name: &&String| options.targets.is_empty() || options.targets.contains(name);
    let steps: Vec<Step> = known
        .iter()
        .filter(wanted)
        .map(|name| (name.as_str(), Box::new(|| run_target(workspace, &manifest, &guest, name, options.seconds)) as Box<dyn Fn() -> _>))
        .collect();
    run_steps("fuzz", &steps)
}

fn run_target(workspace: &Workspace, manifest: &Path, guest: &Path, name: &str, seconds: u32) -> Result<()> {
    let mut target = on_targets(workspace, manifest, "run");
    target.args(["--bin", name, "--", &format!("-max_total_time={seconds}"), &format!("-timeout={LONGEST}")]);
    target.args(["-len_control=0", "-print_final_stats=1", "-verbosity=0", "-artifact_prefix=fuzz/"]).env("UNDO_REPLAY_GUEST", guest);
    run(&mut target).context("libFuzzer printed why, and which file in fuzz/ holds the input")
}

fn on_targets(workspace: &Workspace, manifest: &Path, command: &str) -> std::process::Command {
    let mut targets = cargo();
    targets.args([command, "--quiet", "--release", "--manifest-path"]).arg(manifest);
    targets.arg("--target-dir").arg(workspace.target.join("fuzz")).current_dir(&workspace.root);
    targets
}
