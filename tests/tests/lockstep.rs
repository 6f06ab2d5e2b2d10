//! Random programs, natively and replayed, in step: see `tests::lockstep`. `UNDO_SEEDS=FROM-TO` tries others than the usual few.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use tests::lockstep::{Plan, compare};
use tests::{compile, pool, random, stage};

#[test]
fn native_and_translated_execution_agree_in_every_step() {
    // SAFETY: the only test here, and it has started no threads yet.
    unsafe { std::env::set_var("UNDO_REPLAY_GUEST", stage::stage().join("libexec/undo/replay-guest")) };
    let seeds = std::env::var("UNDO_SEEDS").unwrap_or_else(|_| "101-104".into());
    let (from, to) = seeds.split_once('-').expect("UNDO_SEEDS is FROM-TO");
    let seeds: Vec<u64> = (from.parse().unwrap()..=to.parse().unwrap()).collect();
    pool::run_all(&seeds, |seed| format!("seed {seed}"), |&seed| check_seed(seed));
}

fn check_seed(seed: u64) -> Result<(), String> {
    let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
    let source = directory.path().join("random.c");
    fs::write(&source, random::source(seed, false)).map_err(|error| error.to_string())?;
    let program = compile::compile(&source, &["-O1", "-fno-pie", "-no-pie"], directory.path())?;
    let recording = directory.path().join("recording.undo");
    let done = Command::new(stage::program("live-record"))
        .args(["-q", "-o"])
        .arg(&recording)
        .arg(&program)
        .current_dir(directory.path())
        .output()
        .map_err(|error| error.to_string())?;
    if !done.status.success() {
        return Err(format!("live-record: {}", String::from_utf8_lossy(&done.stderr)));
    }
    let symbols = symbols(&program)?;
    let symbol = |name: &str| symbols.get(name).copied().ok_or_else(|| format!("the program has no {name}"));
    let plan = Plan {
        from: symbol("block0")?,
        memory: vec![(symbol("own")?, 2048), (symbol("state")?, 128)],
        steps: 1000,
        stride: 1009,
        strides: 10,
    };
    compare(&program, directory.path(), &recording, &plan).map_err(|error| format!("{error:#}"))?
}

fn symbols(program: &Path) -> Result<HashMap<String, u64>, String> {
    let output = Command::new("nm").arg(program).output().map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let parse = |line: &str| {
        let mut words = line.split_whitespace();
        let address = u64::from_str_radix(words.next()?, 16).ok()?;
        Some((words.nth(1)?.to_owned(), address))
    };
    Ok(text.lines().filter_map(parse).collect())
}
