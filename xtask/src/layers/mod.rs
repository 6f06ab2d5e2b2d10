//! `cargo xtask test [LAYER [NAME]]`: the tests by layer, those that fail quickly first, each layer with its counts and its time.
//!
//! | layer | what it runs |
//! |---|---|
//! | check | formatting, lints, and the promises of the architecture page ([`crate::check`]) |
//! | docs | the pages of the crates and of the book, their links and figures ([`crate::docs`]) |
//! | unit | the tests of every crate but those of the other layers |
//! | filetests | the engine's rules of translation, as text |
//! | loom | the models of the access log's algorithms, the fast ones |
//! | properties | random input against naive models: the test programs that use `proptest!` |
//! | e2e | the build, then the crate `tests`: real programs recorded, replayed and debugged with gdb |
//! | fuzz | every fuzz target for a few seconds |
//! | sql | the tests of `sql`, a workspace of its own |
//!
//! Each layer is one command that a person can type too. It has a time limit, building included; a layer that fails or hangs does not
//! keep the next from running ([`watch()`]). The tests of the crate `tests` find what was built in the directory that `UNDO_STAGE` names.

mod family;
mod tally;
mod watch;

use std::collections::BTreeSet;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use comfy_table::{CellAlignment, Table};

pub use tally::{Step, Tally, run_steps};
use watch::watch;

use crate::workspace::{Workspace, cargo, read};

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Layer {
    Check,
    Docs,
    Unit,
    Filetests,
    Loom,
    Properties,
    E2e,
    Fuzz,
    Sql,
}

#[derive(clap::Args)]
pub struct Options {
    /// Only this layer
    layer: Option<Layer>,
    /// Only tests whose names contain this
    name: Option<String>,
    /// Minutes after which a layer is ended, and what hung is named
    #[arg(long, default_value_t = 30)]
    limit: u64,
}

/// Runs one layer or all of them.
pub fn run_layers(workspace: &Workspace, options: &Options) -> Result<()> {
    let mut total = Tally::default();
    let mut table = Table::new();
    table.load_preset(comfy_table::presets::NOTHING).set_header(["layer", "passed", "failed", "left out", "time"]);
    for layer in Layer::value_variants().iter().filter(|known| options.layer.is_none_or(|wanted| wanted == **known)) {
        let name = layer.to_possible_value().context("every layer has a name")?.get_name().to_owned();
        println!("== {name}");
        let start = Instant::now();
        let tally = layer.run(workspace, options, start).unwrap_or_else(|error| {
            println!("{name}: {error:#}");
            Tally { passed: 0, failed: 1, left_out: 0 }
        });
        let seconds = start.elapsed().as_secs();
        let time = format!("{}:{:02} min", seconds / 60, seconds % 60);
        table.add_row([name, tally.passed.to_string(), tally.failed.to_string(), tally.left_out.to_string(), time]);
        total.add(tally);
    }
    table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    println!("\n{table}");
    println!("{} passed, {} failed", total.passed, total.failed);
    ensure!(total.failed == 0 && total.passed > 0, "not all tests passed");
    Ok(())
}

impl Layer {
    /// Its commands one after the other. If one fails, so would the next.
    fn run(self, workspace: &Workspace, options: &Options, start: Instant) -> Result<Tally> {
        let deadline = start + Duration::from_secs(60 * options.limit);
        let mut tally = Tally::default();
        for command in self.commands(workspace, options.name.as_deref())? {
            tally.add(watch(command, deadline)?);
            if tally.failed > 0 {
                break;
            }
        }
        Ok(tally)
    }

    fn commands(self, workspace: &Workspace, name: Option<&str>) -> Result<Vec<Command>> {
        let own = |command: &str| -> Result<Command> {
            ensure!(name.is_none() || command == "build", "this layer has no tests to choose by name");
            let mut own = Command::new(std::env::current_exe().context("where is this program?")?);
            own.arg(command).current_dir(&workspace.root);
            Ok(own)
        };
        let tests = |arguments: &[&str]| {
            let mut tests = cargo();
            tests.args(["test", "--no-fail-fast", "--color", "never"]).args(arguments).args(name).current_dir(&workspace.root);
            tests
        };
        let crates = |programs: &[&str]| tests(&[&["--workspace", "--exclude", "tests"], programs].concat());
        Ok(match self {
            Layer::Check => vec![own("check")?],
            Layer::Docs => vec![own("docs")?],
            Layer::Loom => vec![own("loom")?],
            Layer::Fuzz => vec![own("fuzz")?],
            Layer::Unit => {
                let (properties, others) = test_programs(workspace)?;
                let mut programs = vec!["--lib", "--bins"];
                programs.extend(others.difference(&properties).flat_map(|name| ["--test", name]));
                let mut unit = crates(&programs);
                unit.args(["--", "--skip", FILETESTS]);
                // Where test programs are chosen by name cargo does not build the examples, among them one that tests of `udb` start.
                let mut examples = cargo();
                examples.args(["build", "--quiet", "-p", "udb-ext", "--examples"]).current_dir(&workspace.root);
                vec![examples, unit]
            }
            Layer::Filetests => {
                ensure!(name.is_none(), "the files are one test");
                vec![crates(&["--lib", FILETESTS])]
            }
            Layer::Properties => {
                let (properties, _) = test_programs(workspace)?;
                let programs: Vec<&str> = properties.iter().flat_map(|name| ["--test", name]).collect();
                vec![crates(&programs)]
            }
            Layer::E2e => {
                let mut e2e = tests(&["-p", "tests"]);
                e2e.env("UNDO_STAGE", workspace.stage());
                vec![own("build")?, e2e]
            }
            Layer::Sql => {
                let target = workspace.target.join("sql");
                let mut sql = tests(&["--target-dir", &target.display().to_string()]);
                sql.current_dir(workspace.root.join("sql"));
                vec![sql]
            }
        })
    }
}

/// The engine's module that runs `engine/filetests`.
const FILETESTS: &str = "filetests::";

/// The names of the crates' test programs: those that test properties, and the others. Names may repeat among crates.
fn test_programs(workspace: &Workspace) -> Result<(BTreeSet<String>, BTreeSet<String>)> {
    let (mut properties, mut others) = (BTreeSet::new(), BTreeSet::new());
    for (name, source) in workspace.packages.iter().filter(|package| package.name != "tests").flat_map(|package| &package.tests) {
        let kind = if read(source)?.contains("proptest!") { &mut properties } else { &mut others };
        kind.insert(name.clone());
    }
    Ok((properties, others))
}
