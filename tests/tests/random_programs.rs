//! Programs of random instructions, natively, recorded and replayed.
//!
//! `UNDO_SEEDS=FROM-TO` in the environment tries others than the usual few.

use std::fs;

use tests::oracle::Record;
use tests::{Program, check, compile, pool, random_program};

#[test]
fn random_instructions() {
    check_seeds("1-16", false);
}

/// The same with most memory operands in shared memory; the log must explain every value.
#[test]
fn random_instructions_on_shared_memory() {
    check_seeds("1-6", true);
}

fn check_seeds(usual: &str, shared: bool) {
    let seeds = std::env::var("UNDO_SEEDS").unwrap_or_else(|_| usual.into());
    let (from, to) = seeds.split_once('-').expect("UNDO_SEEDS is FROM-TO");
    let seeds: Vec<u64> = (from.parse().unwrap()..=to.parse().unwrap()).collect();
    pool::run_all(&seeds, |seed| format!("seed {seed}"), |&seed| check_seed(seed, shared));
}

fn check_seed(seed: u64, shared: bool) -> Result<(), String> {
    let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
    let source = directory.path().join("random.c");
    fs::write(&source, random_program::source(seed, shared)).map_err(|error| error.to_string())?;
    // Addresses get into registers, so they must be the same in each run.
    let program = compile::compile(&source, &["-O1", "-fno-pie", "-no-pie"], directory.path())?;
    let mut run = Program::new([""]);
    run.argv = vec![program.into()];
    if shared {
        run.record = Record::Family { explained: true };
    }
    check(&run)
}
