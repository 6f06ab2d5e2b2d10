//! `tape-server --stdio FIXTURE`: the server over a [`tape::Tape`], for the end-to-end tests.
//!
//! The fixture stands where a recording will stand: a JSON file that names a program to put on tape, and what its run is to be told
//! about the others. With it everything between gdb and the timeline is the real thing.

mod fixture;
mod syscalls;
mod tape;
mod trace;

use std::io;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [flag, path] = words.as_slice() else {
        // What a test harness that runs every example sees.
        eprintln!("usage: tape-server --stdio FIXTURE");
        return ExitCode::SUCCESS;
    };
    assert_eq!(flag, "--stdio");
    udb_ext::leave_terminal();
    let served =
        fixture::open(Path::new(path)).map_err(anyhow::Error::msg).and_then(|opened| udb_ext::serve(opened, io::stdin(), io::stdout()));
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("udb: {error:#}");
            ExitCode::FAILURE
        }
    }
}
