//! Where things lie and how other programs are run: what every command of `xtask` starts from.
//!
//! All of it comes from `cargo metadata`, so `CARGO_TARGET_DIR` is respected and a crate or program that does not exist is simply not
//! in the list.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

/// The target for code that runs inside another program's process: no libc, no thread-local storage, no SSE.
pub const GUEST_TARGET: &str = "x86_64-unknown-none";

pub struct Workspace {
    pub root: PathBuf,
    /// Cargo's target directory.
    pub target: PathBuf,
    pub packages: Vec<Package>,
}

pub struct Package {
    pub name: String,
    pub version: String,
    /// Names of its programs.
    pub bins: Vec<String>,
    /// Its test programs, by name and source file.
    pub tests: Vec<(String, PathBuf)>,
    /// Names of the packages of this workspace it uses; those only its tests use are left out.
    pub uses: Vec<String>,
}

impl Workspace {
    pub fn load() -> Result<Workspace> {
        let text = output(cargo().args(["metadata", "--no-deps", "--format-version", "1"]))?;
        let metadata: Value = serde_json::from_str(&text).context("cargo metadata is not JSON")?;
        let packages = array(&metadata["packages"]).map(Package::from_metadata).collect::<Result<_>>()?;
        Ok(Workspace { root: path(&metadata["workspace_root"])?, target: path(&metadata["target_directory"])?, packages })
    }

    /// The tree that `make install` copies.
    pub fn stage(&self) -> PathBuf {
        self.target.join("stage")
    }
}

impl Package {
    fn from_metadata(package: &Value) -> Result<Package> {
        let targets = |kind: &'static str| array(&package["targets"]).filter(move |target| array(&target["kind"]).any(|is| is == kind));
        let is_own = |dependency: &&Value| dependency["path"].is_string() && dependency["kind"] != "dev";
        Ok(Package {
            name: string(&package["name"])?,
            version: string(&package["version"])?,
            bins: targets("bin").map(|target| string(&target["name"])).collect::<Result<_>>()?,
            tests: targets("test").map(|target| Ok((string(&target["name"])?, path(&target["src_path"])?))).collect::<Result<_>>()?,
            uses: array(&package["dependencies"]).filter(is_own).map(|d| string(&d["name"])).collect::<Result<_>>()?,
        })
    }
}

/// The names of the programs in the one package of a manifest.
pub fn binaries(manifest: &Path) -> Result<Vec<String>> {
    let text = output(cargo().args(["metadata", "--no-deps", "--format-version", "1", "--manifest-path"]).arg(manifest))?;
    let metadata: Value = serde_json::from_str(&text).context("cargo metadata is not JSON")?;
    Package::from_metadata(&metadata["packages"][0]).map(|package| package.bins)
}

fn array(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn string(value: &Value) -> Result<String> {
    Ok(value.as_str().context("cargo metadata lacks a string")?.to_owned())
}

fn path(value: &Value) -> Result<PathBuf> {
    string(value).map(PathBuf::from)
}

/// The cargo that runs us.
pub fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// A cargo whose flags for the guest target are those of `.cargo/config.toml`: `RUSTFLAGS` in the environment would replace them.
pub fn guest_cargo() -> Command {
    let mut command = cargo();
    command.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
    command
}

/// Runs a command with our own input and output; anything but success is an error.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot run {}", shown(command)))?;
    ensure!(status.success(), "{} failed: {status}", shown(command));
    Ok(())
}

/// Runs a command and returns what it prints; anything but success is an error.
pub fn output(command: &mut Command) -> Result<String> {
    let done = command.stderr(Stdio::inherit()).output().with_context(|| format!("cannot run {}", shown(command)))?;
    ensure!(done.status.success(), "{} failed: {}", shown(command), done.status);
    String::from_utf8(done.stdout).with_context(|| format!("{} printed something that is not UTF-8", shown(command)))
}

/// The command as one would type it, with the program's name for its path.
pub fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default();
    let word = |word: &OsStr| {
        let word = word.to_string_lossy();
        if word.contains([' ', '*', '$']) { format!("'{word}'") } else { word.into_owned() }
    };
    std::iter::once(program).chain(command.get_args()).map(word).collect::<Vec<_>>().join(" ")
}

/// All files below a directory whose names end in one of `extensions` (any file if there are none), in a stable order. A directory that does not
/// exist has none.
pub fn files(dir: &Path, extensions: &[&str]) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut pending = vec![dir.to_owned()];
    while let Some(dir) = pending.pop() {
        if !dir.exists() {
            continue;
        }
        for entry in std::fs::read_dir(&dir).with_context(|| format!("cannot list {}", dir.display()))? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let is_dir = path.symlink_metadata()?.is_dir();
            if is_dir && !name.starts_with('.') && !["target", "__pycache__"].contains(&name.as_str()) {
                pending.push(path);
            } else if !is_dir && (extensions.is_empty() || extensions.iter().any(|e| path.extension().is_some_and(|have| have == *e))) {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

pub fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// The version of the packages: they carry one number.
pub fn version(workspace: &Workspace) -> Result<&str> {
    match workspace.packages.first() {
        Some(package) => Ok(&package.version),
        None => bail!("the workspace is empty"),
    }
}

/// Where a program is found when it is called by its name.
pub fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file())
}

pub fn is_installed(name: &str) -> bool {
    on_path(name).is_some()
}

/// Of an even number of values, the mean of the middle two.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
    }
}
