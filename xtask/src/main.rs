//! `cargo xtask`: the one front door for habits. The Makefile and CI call nothing else, so that local and CI are the same.
//!
//! Each command is one module; this file only names them.

mod build;
mod workspace;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use workspace::Workspace;

#[derive(Parser)]
#[command(
    name = "cargo xtask",
    bin_name = "cargo xtask",
    about = "Build, install, show, test and measure this project"
)]
struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Build everything a user gets into target/stage
    Build,
}

fn main() -> ExitCode {
    match run(Options::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<()> {
    let workspace = Workspace::load()?;
    match command {
        Command::Build => build::run_build(&workspace),
    }
}
