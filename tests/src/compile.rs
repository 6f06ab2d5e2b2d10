//! Guest programs made by plain gcc.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Lines shown of what the compiler complains about.
const SHOWN: usize = 12;

/// Compiles one source file with a warning-free gcc or g++; the result lies in `directory`.
pub fn compile(source: &Path, flags: &[&str], directory: &Path) -> Result<PathBuf, String> {
    let stem = source.file_stem().unwrap_or_default();
    let compiler = if source.extension().is_some_and(|extension| extension == "cc") { "g++" } else { "gcc" };
    let program = directory.join(stem);
    // Libraries come behind the source that needs them.
    let (libraries, options): (Vec<&str>, Vec<&str>) = flags.iter().partition(|flag| flag.starts_with("-l"));
    let output = Command::new(compiler)
        .args(["-g", "-Wall", "-Werror"])
        .args(options)
        .arg("-o")
        .arg(&program)
        .arg(source)
        .args(libraries)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cannot run {compiler}: {error}"))?;
    if output.status.success() {
        return Ok(program);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{compiler} fails:\n{}", said.lines().take(SHOWN).collect::<Vec<_>>().join("\n")))
}
