//! `cargo xtask fuzz [--seconds N] [TARGET…]`: every fuzz target for a short while, with a stock compiler.
//!
//! libFuzzer then mutates blindly, as nothing tells it which code an input reached: enough to see that no target has rotted and that
//! near neighbours of good input are survived. `cargo fuzz run TARGET`, with a nightly compiler, goes deeper.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::build::run_build;
use crate::workspace::{Workspace, cargo};

#[derive(clap::Args)]
pub struct Options {
    /// How long each target runs
    #[arg(long, default_value_t = 10)]
    seconds: u32,
    /// Only these
    targets: Vec<String>,
}

/// Runs them; gives how many there were.
pub fn run(workspace: &Workspace, options: &Options) -> Result<usize> {
    let manifest = workspace.root.join("fuzz/Cargo.toml");
    let guest = workspace.stage().join("libexec/undo/replay-guest");
    if !guest.exists() {
        run_build(workspace)?;
    }
    let mut metadata = cargo();
    metadata.args(["metadata", "--no-deps", "--format-version", "1", "--manifest-path"]).arg(&manifest);
    let metadata: Value = serde_json::from_slice(&metadata.output().context("cannot run cargo")?.stdout).context("cargo metadata")?;
    let known: Vec<&str> =
        metadata["packages"][0]["targets"].as_array().into_iter().flatten().filter_map(|target| target["name"].as_str()).collect();
    ensure!(!known.is_empty(), "{} names no targets", manifest.display());
    let unknown = options.targets.iter().find(|wanted| !known.contains(&wanted.as_str()));
    ensure!(unknown.is_none(), "there is no fuzz target {}; there are {}", unknown.map_or("", |name| name), known.join(", "));
    let wanted = |name: &&&str| options.targets.is_empty() || options.targets.iter().any(|wanted| wanted == **name);
    let mut count = 0;
    for name in known.iter().filter(wanted) {
        println!("== {name}");
        let status = cargo()
            .args(["run", "--quiet", "--release", "--bin", name, "--manifest-path"])
            .arg(&manifest)
            .args([
                "--",
                &format!("-max_total_time={}", options.seconds),
                "-len_control=0",
                "-print_final_stats=1",
                "-artifact_prefix=fuzz/",
            ])
            .env("UNDO_REPLAY_GUEST", &guest)
            .current_dir(&workspace.root)
            .status()
            .context("cannot run cargo")?;
        ensure!(status.success(), "fuzz target {name} fails: {status}");
        count += 1;
    }
    Ok(count)
}
