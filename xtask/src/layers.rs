//! `cargo xtask test [LAYER]`: the tests by layer, each with its count and its time, and one line for all.
//!
//! | layer | what it runs |
//! |---|---|
//! | check | formatting, lints and the promises of the architecture page ([`crate::check`]) |
//! | unit | the tests of every crate but `tests` |
//! | loom | the models of the access log's algorithms, the fast ones |
//! | sql | the tests of `sql`, a workspace of its own |
//! | e2e | the build, then the crate `tests`: real programs recorded, replayed and debugged with gdb |
//!
//! The tests of the crate `tests` find what was built in the directory that `UNDO_STAGE` names.
//!
//! A layer that fails does not keep the next from running. A test program that does not build or dies without saying how many tests
//! passed counts as one failure. cargo's own test runner is enough, so a stock toolchain will do.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;

use crate::build::run_build;
use crate::check::run_checks;
use crate::workspace::{Workspace, cargo, shown};

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Layer {
    Check,
    Unit,
    Loom,
    Sql,
    E2e,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub passed: usize,
    pub failed: usize,
}

impl Tally {
    fn add(&mut self, other: Tally) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
}

/// Runs one layer or all of them. `filter` is passed to the tests as the part of the name that they must contain.
pub fn run_layers(workspace: &Workspace, layer: Option<Layer>, filter: Option<&str>) -> Result<()> {
    let layers = Layer::value_variants().iter().filter(|known| layer.is_none_or(|wanted| wanted == **known));
    let mut total = Tally::default();
    let mut summary = Vec::new();
    for layer in layers {
        let name = layer.to_possible_value().context("every layer has a name")?.get_name().to_owned();
        println!("== {name}");
        let start = Instant::now();
        let tally = layer.run(workspace, filter).unwrap_or_else(|error| {
            println!("{name}: {error:#}");
            Tally { passed: 0, failed: 1 }
        });
        summary.push(format!("{name:<6} {:>5} passed {:>3} failed {:>5} s", tally.passed, tally.failed, start.elapsed().as_secs()));
        total.add(tally);
    }
    println!("\n{}", summary.join("\n"));
    println!("{} passed, {} failed", total.passed, total.failed);
    ensure!(total.failed == 0 && total.passed > 0, "not all tests passed");
    Ok(())
}

impl Layer {
    fn run(self, workspace: &Workspace, filter: Option<&str>) -> Result<Tally> {
        let mut tests = cargo();
        tests.args(["test", "--quiet", "--no-fail-fast"]).current_dir(&workspace.root);
        match self {
            Layer::Check => return Ok(run_checks(workspace)),
            Layer::Unit => tests.args(["--workspace", "--exclude", "tests"]),
            Layer::Loom => return Ok(Tally { passed: crate::loom::run(&[])?, failed: 0 }),
            Layer::Sql => tests.arg("--target-dir").arg(workspace.target.join("sql")).current_dir(workspace.root.join("sql")),
            Layer::E2e => {
                run_build(workspace)?;
                tests.env("UNDO_STAGE", workspace.stage()).args(["-p", "tests"])
            }
        };
        run_tests(tests.args(filter))
    }
}

/// Runs `cargo test`, shows what it prints and counts.
fn run_tests(command: &mut Command) -> Result<Tally> {
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().with_context(|| format!("cannot run {}", shown(command)))?;
    let mut tally = Tally::default();
    for line in BufReader::new(child.stdout.take().context("its output is piped")?).split(b'\n') {
        let line = String::from_utf8_lossy(&line?).into_owned();
        println!("{line}");
        tally.add(counts(&line));
    }
    let status = child.wait()?;
    if !status.success() && tally.failed == 0 {
        println!("{} failed: {status}", shown(command));
        tally.failed = 1;
    }
    Ok(tally)
}

/// What a line `test result: ok. 3 passed; 0 failed; …` says; nothing for any other.
fn counts(line: &str) -> Tally {
    let Some((_, result)) = line.split_once("test result: ") else { return Tally::default() };
    let count = |of: &str| {
        let words: Vec<&str> = result.split([' ', ';']).collect();
        words.windows(2).find(|pair| pair[1] == of).and_then(|pair| pair[0].parse().ok()).unwrap_or(0)
    };
    Tally { passed: count("passed"), failed: count("failed") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_counted() {
        let line = "test result: FAILED. 12 passed; 3 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s";
        assert_eq!(counts(line), Tally { passed: 12, failed: 3 });
        assert_eq!(counts("test passed ... ok"), Tally::default());
    }

    #[test]
    fn a_test_program_that_dies_counts_as_a_failure() {
        let tally = run_tests(Command::new("sh").args(["-c", "echo 'test result: ok. 2 passed; 0 failed; 0 ignored'; exit 101"])).unwrap();
        assert_eq!(tally, Tally { passed: 2, failed: 1 });
    }
}
