//! `udb [options] [FILE.undo]`: gdb, made ready for a recording.

use std::process::ExitCode;

fn main() -> ExitCode {
    // Returns only if gdb could not be started.
    match udb_ext::launch(std::env::args_os()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("udb: {error}");
            ExitCode::FAILURE
        }
    }
}
