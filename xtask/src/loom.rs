//! `cargo xtask loom [--slow]`: the models of the access log's algorithms, in every interleaving. Prints how many passed.
//!
//! They are built into a target directory of their own, as `--cfg loom` changes what every crate in them is.
use anyhow::{Context, Result, bail, ensure};
use std::process::Command;

/// Returns how many models passed.
pub fn run(args: &[String]) -> Result<usize> {
    let mut slow = false;
    for argument in args {
        match argument.as_str() {
            "--slow" => slow = true,
            other => bail!("unknown argument {other}; there is --slow"),
        }
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let target = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".into());
    let mut command = Command::new(cargo);
    command
        .args(["test", "--quiet", "--release", "--package", "shmem-log", "--lib", "models::", "--", "--format", "pretty"])
        .env("RUSTFLAGS", "--cfg loom")
        .env("CARGO_TARGET_DIR", format!("{target}/loom"));
    if slow {
        command.arg("--include-ignored");
    }
    let output = command.output().context("cannot run cargo")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let count = |what: &str| text.lines().filter(|line| line.starts_with("test models::") && line.contains(what)).count();
    let (passed, failed, left_out) = (count("... ok"), count("... FAILED"), count("... ignored"));
    if !output.status.success() {
        print!("{text}");
        eprint!("{}", String::from_utf8_lossy(&output.stderr));
        bail!("{failed} loom models failed, {passed} passed");
    }
    ensure!(passed > 0, "no loom model ran:\n{text}");
    println!("{passed} loom models passed{}", if left_out > 0 { format!(", {left_out} slow ones left out") } else { String::new() });
    Ok(passed)
}
