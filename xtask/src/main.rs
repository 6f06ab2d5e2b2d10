//! `cargo xtask`: the one front door for habits. The Makefile and CI call nothing else, so that local and CI are the same.
//!
//! Each command is one module; this file only names them.

mod bench_correlate;
mod bench_log;
mod bench_record;
mod bench_replay;
mod bench_udb;
mod build;
mod check;
mod demo;
mod fuzz;
mod install;
mod layers;
mod loom;
mod miri;
mod workspace;

use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::{Parser, Subcommand};
use workspace::Workspace;

#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", about = "Build, install, show, test and measure this project")]
struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Build everything a user gets into target/stage
    Build(build::Options),
    /// Copy target/stage under a prefix
    Install(install::Options),
    /// Remove what install put under a prefix
    Uninstall(install::Options),
    /// Record the example until it fails and walk to the cause, leaving a person at a terminal in udb
    Demo,
    /// Formatting, lints, and what else can be judged without running the product
    Check,
    /// Run all tests, or those of one layer
    Test {
        layer: Option<layers::Layer>,
        /// Only tests whose names contain this
        filter: Option<String>,
    },
    /// Check the models of the access log's algorithms in every interleaving
    Loom {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Measure, against something to compare with, in the same run
    Bench {
        what: Bench,
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// The access log's algorithms under Miri, which needs a nightly toolchain that has it
    Miri,
    /// Run the fuzz targets for a short while
    Fuzz(fuzz::Options),
    /// What CI runs: all tests
    Ci,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Bench {
    /// The cost of an append to the access log
    Log,
    /// What recording costs: slowdown, system calls, start-up, shared accesses
    Record,
    /// Building the index over the access log, and asking it
    Correlate,
    /// Replaying against recording, seeks, and searches backwards against gdb
    Replay,
    /// What a user waits for in the debugger
    Udb,
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
        Command::Build(options) => build::run_build_with(&workspace, &options),
        Command::Install(options) => install::install(&workspace, &options),
        Command::Uninstall(options) => install::uninstall(&options),
        Command::Demo => demo::demo(&workspace),
        Command::Check => {
            let tally = check::run_checks(&workspace);
            ensure!(tally.failed == 0, "{} of {} checks failed", tally.failed, tally.failed + tally.passed);
            Ok(())
        }
        Command::Test { layer, filter } => layers::run_layers(&workspace, layer, filter.as_deref()),
        Command::Loom { arguments } => loom::run(&arguments).map(|_| ()),
        Command::Miri => miri::run(),
        Command::Bench { what: Bench::Log, arguments } => bench_log::run(&arguments),
        Command::Bench { what: Bench::Correlate, arguments } => bench_correlate::run(&arguments),
        Command::Bench { what: Bench::Replay, arguments } => bench_replay::run(&workspace, &arguments),
        Command::Bench { what: Bench::Record, arguments } => bench_record::run(&workspace, &arguments),
        Command::Bench { what: Bench::Udb, arguments } => bench_udb::bench(&workspace, &arguments),
        Command::Fuzz(options) => fuzz::run(&workspace, &options).map(|_| ()),
        Command::Ci => layers::run_layers(&workspace, None, None),
    }
}
