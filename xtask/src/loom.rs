//! `cargo xtask loom [--slow]`: the models of the access log's algorithms, in every interleaving.
//!
//! They are built into a target directory of their own, as `--cfg loom` changes what every crate in them is.

use anyhow::Result;

use crate::workspace::{Workspace, cargo, run};

#[derive(clap::Args)]
pub struct Options {
    /// Those too that take long
    #[arg(long)]
    slow: bool,
}

pub fn run_models(workspace: &Workspace, options: &Options) -> Result<()> {
    let mut models = cargo();
    models.args(["test", "--release", "--package", "shmem-log", "--lib", "models::", "--", "--format", "pretty"]);
    models.args(options.slow.then_some("--include-ignored"));
    models.env("RUSTFLAGS", "--cfg loom").env("CARGO_TARGET_DIR", workspace.target.join("loom")).current_dir(&workspace.root);
    run(&mut models)
}
