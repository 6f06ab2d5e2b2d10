//! Finds gdb, the server and the Python commands, and turns itself into gdb.
//!
//! Why it becomes gdb (exec) and does not start it: there is then one process to interrupt, suspend or kill, and its exit status is
//! the answer. What is to be done once gdb runs (open the recording, the user's `-ex` and `-x` in their order, the exit status) is the Python side's
//! job; it gets it as one JSON text.

mod arguments;
mod find;

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use serde::Serialize;

use arguments::{Arguments, Mode, Step};

/// What the Python side is told; its twin is `undo/startup.py`.
#[derive(Debug, Serialize)]
struct Startup {
    server: String,
    recording: Option<String>,
    quiet: bool,
    batch: bool,
    steps: Vec<Step>,
    max_event_log_size: Option<String>,
    event_log_mode: Option<String>,
}

/// Becomes gdb. Returns only where there is nothing to start: `--help`, `--write-pages`, or an error to tell.
pub fn launch(arguments: impl Iterator<Item = OsString>) -> anyhow::Result<ExitCode> {
    if let Some(code) = pages::write_if_asked(arguments::command) {
        return Ok(code);
    }
    let arguments = match Arguments::parse(arguments) {
        Ok(arguments) => arguments,
        Err(text) => {
            // Help and version are errors to clap too; only it knows the difference.
            text.print()?;
            return Ok(ExitCode::from(u8::try_from(text.exit_code()).unwrap_or(1)));
        }
    };
    if let Mode::Unsupported(reason) = &arguments.mode {
        anyhow::bail!("{reason}");
    }
    let gdb = find::gdb()?;
    let python = find::python()?;
    let startup = Startup {
        server: find::server()?,
        recording: arguments.recording.as_deref().map(find::recording).transpose()?,
        quiet: arguments.quiet,
        batch: arguments.batch,
        steps: arguments.steps,
        max_event_log_size: arguments.max_event_log_size,
        event_log_mode: arguments.event_log_mode,
    };
    let mut command = Command::new(gdb);
    command.args(["--quiet", "-iex"]).arg(bootstrap(&python, &startup)?);
    if arguments.batch {
        command.arg("--batch");
    }
    command.args(&arguments.for_gdb).args(["-ex", "python undo.run()"]);
    Err(anyhow::Error::new(command.exec()).context("gdb cannot be started"))
}

/// One line of Python: JSON texts are valid Python literals.
fn bootstrap(python: &str, startup: &Startup) -> anyhow::Result<String> {
    let folder = serde_json::to_string(python)?;
    let startup = serde_json::to_string(&serde_json::to_string(startup)?)?;
    Ok(format!("python import sys; sys.dont_write_bytecode = True; sys.path.insert(0, {folder}); import undo; undo.prepare({startup})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bootstrap_is_one_line_whatever_is_in_the_names() {
        let startup = Startup {
            server: "/a b/udb-server".into(),
            recording: Some("we\"ird\n'name.undo".into()),
            quiet: false,
            batch: true,
            steps: vec![Step::Command("print \"x\\n\"".into())],
            max_event_log_size: None,
            event_log_mode: None,
        };
        let line = bootstrap("/python\\dir", &startup).unwrap();
        assert!(!line.contains('\n'), "{line}");
        assert!(line.starts_with("python import sys"), "{line}");
    }
}
