//! `cargo xtask`: the one front door for habits. The Makefile and CI call nothing else, so that local and CI are the same.
//!
//! Each command is one module; this file only names them.

mod bench_programs;
mod bench_record;
mod bench_udb;
mod build;
mod check;
mod deb;
mod demo;
mod docs;
mod fuzz;
mod install;
mod layers;
mod loom;
mod miri;
mod workspace;

use std::process::ExitCode;

use anyhow::Result;
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
    /// Make a Debian package of everything a user gets, in target/debian
    Deb(build::Options),
    /// Record the example until it fails and walk to the cause, leaving a person at a terminal in udb
    Demo,
    /// Formatting, lints, and what else can be judged without running the product
    Check,
    /// The pages of the crates and of the book: do they build, lead their links somewhere, are their figures those measured
    Docs,
    /// Run all tests, or those of one layer
    Test(layers::Options),
    /// Check the models of the access log's algorithms in every interleaving
    Loom(loom::Options),
    /// Measure, against something to compare with, in the same run
    Bench {
        what: Bench,
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Take a benchmark's output into docs/figures.json, and fill in the figures on the pages
    Figures(docs::figures::Options),
    /// The access log's algorithms under Miri, which needs a nightly toolchain that has it
    Miri,
    /// Run the fuzz targets for a short while
    Fuzz(fuzz::Options),
}

#[derive(Clone, Copy, clap::ValueEnum)]
pub enum Bench {
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
        Command::Deb(options) => deb::make(&workspace, &options),
        Command::Demo => demo::demo(&workspace),
        Command::Check => check::run_checks(&workspace),
        Command::Docs => docs::run_checks(&workspace),
        Command::Test(options) => layers::run_layers(&workspace, &options),
        Command::Loom(options) => loom::run_models(&workspace, &options),
        Command::Miri => miri::run_tests(&workspace),
        Command::Bench { what: Bench::Log, arguments } => bench_programs::log(&arguments),
        Command::Bench { what: Bench::Correlate, arguments } => bench_programs::correlate(&arguments),
        Command::Bench { what: Bench::Replay, arguments } => bench_programs::replay(&workspace, &arguments),
        Command::Bench { what: Bench::Record, arguments } => bench_record::run(&workspace, &arguments),
        Command::Bench { what: Bench::Udb, arguments } => bench_udb::bench(&workspace, &arguments),
        Command::Figures(options) => docs::figures::take_and_fill(&workspace, &options),
        Command::Fuzz(options) => fuzz::run_targets(&workspace, &options),
    }
}
