//! `cargo xtask install | uninstall`: the stage, copied under a prefix and removed from it again.
//!
//! What was installed is written down in `share/undo/installed`, a line for each file (`f PATH`) and each directory that was made for it
//! (`d PATH`), relative to the prefix. Uninstalling goes by that list, so a later build that stages other files takes nothing from it.
//!
//! Invariants
//! I1. Uninstalling removes every file that installing put there, what Python caches beside our modules, and every directory that
//!     installing made and that is empty then. It touches nothing else.
//! I2. Installing over an older version removes first what that version installed.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::build::put;
use crate::workspace::{Workspace, files, read};

const LIST: &str = "share/undo/installed";

#[derive(clap::Args)]
pub struct Options {
    /// Where the tree goes
    #[arg(long, default_value = "/usr/local")]
    prefix: PathBuf,
    /// Put before the prefix: for packaging
    #[arg(long, default_value = "")]
    destdir: OsString,
}

impl Options {
    /// The directory of this machine that stands for the prefix.
    fn place(&self) -> Result<PathBuf> {
        ensure!(self.prefix.is_absolute(), "the prefix must be absolute: {}", self.prefix.display());
        if self.destdir.is_empty() {
            return Ok(self.prefix.clone());
        }
        Ok(std::path::absolute(&self.destdir)?.join(self.prefix.strip_prefix("/")?))
    }
}

pub fn install(workspace: &Workspace, options: &Options) -> Result<()> {
    let place = options.place()?;
    let count = install_tree(&workspace.stage(), &place)?;
    println!("{count} files installed under {}", place.display());
    if options.destdir.is_empty() {
        println!(
            "If programs do not find libundolr.so, run ldconfig as root or set LD_LIBRARY_PATH={}",
            options.prefix.join("lib").display()
        );
    }
    Ok(())
}

pub fn uninstall(options: &Options) -> Result<()> {
    let place = options.place()?;
    ensure!(place.join(LIST).exists(), "nothing is installed under {}", place.display());
    uninstall_tree(&place)?;
    println!("removed from {}", place.display());
    Ok(())
}

fn install_tree(stage: &Path, place: &Path) -> Result<usize> {
    let staged = files(stage, &[])?;
    ensure!(!staged.is_empty(), "nothing is built: run `cargo xtask build`");
    if place.join(LIST).exists() {
        uninstall_tree(place)?;
    }
    let mut list = String::new();
    for file in &staged {
        let relative = file.strip_prefix(stage)?;
        list.push_str(&made_directories(place, relative));
        put(file, &place.join(relative), fs::metadata(file)?.permissions().mode() & 0o777)?;
        list.push_str(&format!("f {}\n", relative.display()));
    }
    list.push_str(&made_directories(place, Path::new(LIST)));
    let to = place.join(LIST);
    fs::create_dir_all(to.parent().context("the list has a directory")?)?;
    fs::write(&to, list).with_context(|| format!("cannot write {}", to.display()))?;
    Ok(staged.len())
}

/// The list's lines for the directories that must be made before a file can be put there, outermost first.
fn made_directories(place: &Path, relative: &Path) -> String {
    let mut missing: Vec<&Path> = relative.ancestors().skip(1).filter(|dir| !place.join(dir).exists()).collect();
    missing.reverse();
    missing.iter().map(|dir| format!("d {}\n", dir.display())).collect()
}

fn uninstall_tree(place: &Path) -> Result<()> {
    let list = read(&place.join(LIST))?;
    let entries = |kind: &'static str| list.lines().filter_map(move |line| line.strip_prefix(kind)).map(|relative| place.join(relative));
    for file in entries("f ") {
        remove(&file)?;
        if file.extension().is_some_and(|extension| extension == "py") {
            let cache = file.with_file_name("__pycache__");
            if cache.exists() {
                fs::remove_dir_all(&cache).with_context(|| format!("cannot remove {}", cache.display()))?;
            }
        }
    }
    remove(&place.join(LIST))?;
    let mut made: Vec<PathBuf> = entries("d ").collect();
    made.reverse();
    for dir in made {
        // Refused by the system when something of somebody else's is in it.
        let _ = fs::remove_dir(&dir);
    }
    Ok(())
}

fn remove(file: &Path) -> Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", file.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("xtask-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).unwrap();
        dir
    }

    fn write(path: &Path) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "x").unwrap();
    }

    #[test]
    fn uninstall_leaves_nothing() {
        let dir = scratch("uninstall");
        let (stage, place) = (dir.join("stage"), dir.join("usr"));
        write(&stage.join("bin/udb"));
        write(&stage.join("share/undo/python/undo/a.py"));
        assert_eq!(install_tree(&stage, &place).unwrap(), 2);
        write(&place.join("share/undo/python/undo/__pycache__/a.pyc"));
        uninstall_tree(&place).unwrap();
        assert!(!place.exists());
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn what_others_put_there_stays() {
        let dir = scratch("others");
        let (stage, place) = (dir.join("stage"), dir.join("usr"));
        write(&place.join("bin/other"));
        write(&stage.join("bin/udb"));
        install_tree(&stage, &place).unwrap();
        uninstall_tree(&place).unwrap();
        assert_eq!(files(&place, &[]).unwrap(), [place.join("bin/other")]);
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_file_of_an_older_version_goes_when_a_newer_is_installed() {
        let dir = scratch("older");
        let (stage, place) = (dir.join("stage"), dir.join("usr"));
        write(&stage.join("bin/old"));
        install_tree(&stage, &place).unwrap();
        fs::rename(stage.join("bin/old"), stage.join("bin/new")).unwrap();
        install_tree(&stage, &place).unwrap();
        assert!(place.join("bin/new").exists() && !place.join("bin/old").exists());
        uninstall_tree(&place).unwrap();
        assert!(!place.exists());
        fs::remove_dir_all(&dir).unwrap();
    }
}
