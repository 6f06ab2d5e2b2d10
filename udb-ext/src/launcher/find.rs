//! Where things are: gdb on the path, the rest beside this program, in the installed tree or the build tree.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

/// Older ones lack what the Python side calls.
const OLDEST_GDB: u32 = 12;

/// The gdb to start: `UNDO_GDB` or the first on the path; an error if there is none, or too old a one.
pub fn gdb() -> anyhow::Result<PathBuf> {
    let program = env::var_os("UNDO_GDB").map_or_else(|| PathBuf::from("gdb"), PathBuf::from);
    let output = Command::new(&program)
        .arg("--version")
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("{} cannot be run; install gdb {OLDEST_GDB} or later, or name it in UNDO_GDB", program.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    match major_version(&text) {
        Some(major) if major >= OLDEST_GDB => Ok(program),
        Some(major) => bail!("{} is version {major}; udb needs gdb {OLDEST_GDB} or later (name another in UNDO_GDB)", program.display()),
        None => bail!("{} does not answer --version as gdb does; name a gdb in UNDO_GDB", program.display()),
    }
}

/// From `GNU gdb (Debian 13.1-3) 13.1`: the last word's first number.
fn major_version(text: &str) -> Option<u32> {
    let line = text.lines().next()?;
    if !line.contains("gdb") {
        return None;
    }
    line.rsplit(' ').next()?.split('.').next()?.parse().ok()
}

/// `udb-server`: beside this program, or what `UNDO_SERVER` names.
pub fn server() -> anyhow::Result<String> {
    let path = match env::var_os("UNDO_SERVER") {
        Some(path) => PathBuf::from(path),
        None => beside("udb-server")?,
    };
    if !path.is_file() {
        bail!("udb-server is missing: {} does not exist; reinstall, or run `cargo build`", path.display());
    }
    text(path)
}

/// The folder that holds the Python package `undo`.
pub fn python() -> anyhow::Result<String> {
    let installed = beside("../share/undo/python")?;
    // In a build tree: the sources this program was built from.
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("python");
    for candidate in [installed, sources] {
        if candidate.join("undo/__init__.py").is_file() {
            return text(candidate);
        }
    }
    bail!("udb's Python commands are missing: no ../share/undo/python beside {}; reinstall", env::current_exe()?.display())
}

fn beside(relative: &str) -> anyhow::Result<PathBuf> {
    let program = env::current_exe()?;
    let program = fs::canonicalize(&program).unwrap_or(program);
    Ok(program.parent().unwrap_or(Path::new("/")).join(relative))
}

/// The recording's absolute name, if it can be read at all. What is in it is the server's to judge.
pub fn recording(path: &Path) -> anyhow::Result<String> {
    let absolute = path.canonicalize().with_context(|| format!("{}", path.display())).map_err(one_line)?;
    if absolute.is_dir() {
        bail!("{}: this is a directory; name a recording, FILE.undo", path.display());
    }
    File::open(&absolute).with_context(|| format!("{}", path.display())).map_err(one_line)?;
    text(absolute)
}

/// `name: No such file or directory`, without the operating system's number.
fn one_line(error: anyhow::Error) -> anyhow::Error {
    let line = format!("{error:#}");
    anyhow::anyhow!("{}", line.split(" (os error").next().unwrap_or(&line))
}

fn text(path: PathBuf) -> anyhow::Result<String> {
    path.into_os_string().into_string().map_err(|path| anyhow::anyhow!("{}: the name is not UTF-8", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_as_distributions_print_them() {
        assert_eq!(major_version("GNU gdb (Debian 13.1-3) 13.1\nCopyright"), Some(13));
        assert_eq!(major_version("GNU gdb (Ubuntu 12.1-0ubuntu1~22.04) 12.1"), Some(12));
        assert_eq!(major_version("GNU gdb (GDB) Fedora Linux 14.2-1.fc40"), Some(14));
        assert_eq!(major_version("GNU gdb (GDB) 15.0.50.20240403-git"), Some(15));
        assert_eq!(major_version("something else 1.0"), None);
        assert_eq!(major_version(""), None);
    }

    #[test]
    fn a_missing_file_is_named_without_numbers() {
        let error = recording(Path::new("/nonexistent/x.undo")).unwrap_err().to_string();
        assert_eq!(error, "/nonexistent/x.undo: No such file or directory");
        assert!(recording(Path::new("/")).unwrap_err().to_string().contains("directory"));
    }
}
