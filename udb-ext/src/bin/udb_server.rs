//! `udb-server --stdio FILE.undo`: one recording over gdb's remote protocol, started by gdb itself.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

/// Serves one recording to gdb over its remote protocol. `udb` starts it; you rarely need to.
#[derive(Parser)]
#[command(name = "udb-server", version)]
struct Arguments {
    /// Speak on standard input and output, and end when they close.
    #[arg(long, required = true)]
    stdio: bool,
    /// The recording.
    #[arg(value_name = "FILE.undo")]
    recording: PathBuf,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    udb_ext::leave_terminal();
    let opened = match udb_ext::open(&arguments.recording) {
        Ok(opened) => opened,
        Err(error) => {
            eprintln!("udb: {error}");
            return ExitCode::FAILURE;
        }
    };
    match udb_ext::serve(opened, io::stdin(), io::stdout()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("udb: connection to gdb lost: {error}");
            ExitCode::FAILURE
        }
    }
}
