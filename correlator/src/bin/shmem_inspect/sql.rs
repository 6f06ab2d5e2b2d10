//! `sql`, and `export --format parquet`: handed to `shmem-inspect-sql`, which not every installation has, as its query engine takes
//! minutes to build.
use anyhow::{Context as _, Result, bail};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

const PROGRAM: &str = "shmem-inspect-sql";

/// The table is `accesses`: one row an access, of all recordings; `DESCRIBE accesses` lists its columns.
#[derive(clap::Args)]
pub struct Arguments {
    /// For example: SELECT pid, kind, count(*) FROM accesses GROUP BY pid, kind
    query: String,
}

pub fn query(log: &Path, arguments: &Arguments, json: bool) -> Result<bool> {
    let mut command = program();
    command.arg("query").args(json.then_some("--json")).arg("--").arg(log).arg(&arguments.query);
    run(command)
}

pub fn export_parquet(log: &Path, output: &Path) -> Result<bool> {
    let mut command = program();
    command.arg("parquet").arg("--output").arg(output).arg("--").arg(log);
    run(command)
}

/// The one beside us, else the first on the path.
fn program() -> Command {
    let beside = std::env::current_exe().ok().map(|this| this.with_file_name(PROGRAM)).filter(|program| program.exists());
    Command::new(beside.unwrap_or_else(|| PathBuf::from(PROGRAM)))
}

/// It says itself what is wrong.
fn run(mut command: Command) -> Result<bool> {
    match command.status() {
        Ok(status) => Ok(status.success()),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            bail!("{PROGRAM} is not installed: in the source directory, run `make install WITH_SQL=1` (or `cargo xtask build --with-sql`)")
        }
        Err(error) => Err(error).with_context(|| format!("cannot run {PROGRAM}")),
    }
}
