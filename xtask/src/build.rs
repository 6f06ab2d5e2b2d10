//! `cargo xtask build`: everything a user gets, laid out as it will be installed.
//!
//! ```text
//!   recorder, replayer/guest ── cargo, x86_64-unknown-none ──► static libraries ── gcc, ld ──► libundolr.so, libundolr.a, replay-guest
//!   recorder, replayer, correlator, udb-ext ── cargo, host ──────────────────────────────────► programs
//!                                                                  target/stage/{bin,lib,libexec/undo,include,share} ◄── all of it
//! ```
//!
//! Invariants
//! I1. `libundolr.so` and `libundolr.a` show `undolr_*` and nothing else, need no other library, and have no text relocations: they carry
//!     their own memcpy, which must neither take the place of the program's nor be replaced by it.
//! I2. `replay-guest` is static, without a dynamic section, and lies at [`REPLAY_GUEST_BASE`] only.
//! I3. Each staged file is replaced by a rename and only if it changed, so a program that is running from the stage keeps running; one
//!     build at a time stages.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::workspace::{GUEST_TARGET, Workspace, files, guest_cargo, output, read, run, version};

/// Where the replay process's own program lies: away from anything Linux gives to a program of its own accord, since the recorded
/// program's mappings are put back at their addresses.
const REPLAY_GUEST_BASE: &str = "0x6b0000000000";

const PROGRAMS: [&str; 5] = ["live-record", "undo-replay", "shmem-inspect", "udb", "udb-server"];

const EXECUTABLE: u32 = 0o755;
const DATA: u32 = 0o644;

/// Those with man pages and shell completions.
const WITH_PAGES: [&str; 4] = ["live-record", "undo-replay", "shmem-inspect", "udb"];

#[derive(clap::Args)]
pub struct Options {
    /// Also build shmem-inspect-sql, for `shmem-inspect sql` and `export --format parquet`: its query engine takes minutes
    #[arg(long)]
    with_sql: bool,
}

/// A file to stage: from, to (relative to the stage), mode.
type Staged = (PathBuf, PathBuf, u32);

pub fn run_build(workspace: &Workspace) -> Result<()> {
    run_build_with(workspace, &Options { with_sql: false })
}

pub fn run_build_with(workspace: &Workspace, options: &Options) -> Result<()> {
    let work = workspace.target.join("guest");
    fs::create_dir_all(&work).with_context(|| format!("cannot create {}", work.display()))?;
    let lock = fs::File::create(work.join("lock"))?;
    lock.lock().context("cannot lock the stage")?;

    let mut staged: Vec<Staged> = Vec::new();
    let recorder = guest_library(workspace, "recorder")?;
    let shared = link_shared(&recorder, &workspace.root.join("recorder/undolr.map"), &work)?;
    let library = link_archive(&recorder, &shared, &work)?;
    staged.push((shared, "lib/libundolr.so".into(), EXECUTABLE));
    staged.push((library, "lib/libundolr.a".into(), DATA));
    staged.push((pkg_config(workspace, &work)?, "lib/pkgconfig/undolr.pc".into(), DATA));
    let replay_guest = link_replay_guest(&guest_library(workspace, "replay-guest")?, &work)?;
    staged.push((replay_guest, "libexec/undo/replay-guest".into(), EXECUTABLE));
    staged.extend(host_programs(workspace)?);
    staged.extend(pages(workspace, &work)?);
    if options.with_sql {
        staged.push((sql_program(workspace)?, "bin/shmem-inspect-sql".into(), EXECUTABLE));
    }
    staged.extend(tree(&workspace.root.join("include"), "include", &["h"])?);
    staged.extend(tree(&workspace.root.join("udb-ext/python"), "share/undo/python", &[])?);
    staged.extend(tree(&workspace.root.join("examples"), "share/undo/examples", &["c", "sh"])?);
    stage(&workspace.stage(), &staged)
}

/// Builds a guest crate as a static library.
fn guest_library(workspace: &Workspace, package: &str) -> Result<PathBuf> {
    run(guest_cargo()
        .args(["rustc", "--quiet", "--lib", "--release", "--crate-type", "staticlib", "--target", GUEST_TARGET, "-p", package])
        .current_dir(&workspace.root))?;
    let name = format!("lib{}.a", package.replace('-', "_"));
    Ok(workspace.target.join(GUEST_TARGET).join("release").join(name))
}

fn link_shared(archive: &Path, map: &Path, work: &Path) -> Result<PathBuf> {
    let library = work.join("libundolr.so");
    run(Command::new("gcc")
        .args(["-shared", "-nostdlib", "-o"])
        .arg(&library)
        .arg("-Wl,--whole-archive")
        .arg(archive)
        .arg("-Wl,--no-whole-archive")
        .args(["-Wl,--gc-sections", "-Wl,-Bsymbolic", "-Wl,-soname,libundolr.so"])
        .args(["-Wl,-z,now", "-Wl,-z,noexecstack", "-Wl,-z,defs", "-Wl,-z,text", "-Wl,--strip-debug"])
        .arg(format!("-Wl,--version-script={}", map.display())))?;
    ensure_self_contained("libundolr.so", &output(Command::new("nm").args(["--dynamic", "--undefined-only"]).arg(&library))?)?;
    let dynamic = output(Command::new("readelf").args(["--dynamic", "--wide"]).arg(&library))?;
    ensure!(!dynamic.contains("TEXTREL") && !dynamic.contains("(NEEDED)"), "libundolr.so is not self-contained:\n{dynamic}");
    // A debugger of the recorded program must not meet our functions: `break write` means the program's. The symbols stay beside.
    let bare = work.join("bare").join("libundolr.so");
    fs::create_dir_all(work.join("bare")).with_context(|| format!("cannot create {}", work.join("bare").display()))?;
    run(Command::new("objcopy").arg("--strip-all").arg(&library).arg(&bare))?;
    Ok(bare)
}

/// The same code as one relocatable object in which only the C API is global.
fn link_archive(archive: &Path, shared: &Path, work: &Path) -> Result<PathBuf> {
    let (object, library) = (work.join("undolr.o"), work.join("libundolr.a"));
    let mut link = Command::new("ld");
    link.args(["-r", "--gc-sections", "-o"]).arg(&object);
    for name in exported(shared)? {
        link.args(["-u", &name]);
    }
    run(link.arg("--whole-archive").arg(archive))?;
    // The compiler's own intermediate form, which Rust's libraries carry along, is dropped by a final link but kept by this one.
    run(Command::new("objcopy")
        .args(["--wildcard", "--keep-global-symbol=undolr_*", "--remove-section=.llvmbc", "--remove-section=.llvmcmd"])
        .args(["--strip-debug", "--strip-unneeded"])
        .arg(&object))?;
    ensure_self_contained("libundolr.a", &output(Command::new("nm").arg("--undefined-only").arg(&object))?)?;
    if library.exists() {
        fs::remove_file(&library)?;
    }
    run(Command::new("ar").arg("rcs").arg(&library).arg(&object))?;
    Ok(library)
}

/// The only symbol that may come from elsewhere, and need not: the C library's place for errno, weak.
fn ensure_self_contained(library: &str, undefined: &str) -> Result<()> {
    let missing: Vec<&str> = undefined.lines().map(str::trim).filter(|line| !line.is_empty() && *line != "w __errno_location").collect();
    ensure!(missing.is_empty(), "{library} needs symbols from elsewhere:\n{}", missing.join("\n"));
    Ok(())
}

fn link_replay_guest(archive: &Path, work: &Path) -> Result<PathBuf> {
    let program = work.join("replay-guest");
    run(Command::new("gcc")
        .args(["-static", "-no-pie", "-nostdlib", "-nostartfiles", "-o"])
        .arg(&program)
        .args(["-Wl,-e,_start", "-Wl,-u,_start"])
        .arg(archive)
        .args(["-Wl,--gc-sections", "-Wl,-z,noexecstack", "-Wl,-z,defs"])
        .arg(format!("-Wl,-Ttext-segment={REPLAY_GUEST_BASE}")))?;
    let segments = output(Command::new("readelf").args(["--segments", "--wide"]).arg(&program))?;
    ensure!(!segments.contains("DYNAMIC") && !segments.contains("INTERP"), "replay-guest is not static:\n{segments}");
    Ok(program)
}

/// The functions a shared library shows, sorted.
pub fn exported(library: &Path) -> Result<BTreeSet<String>> {
    let symbols = output(Command::new("nm").args(["--dynamic", "--defined-only", "--format=posix"]).arg(library))?;
    Ok(symbols.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect())
}

fn pkg_config(workspace: &Workspace, work: &Path) -> Result<PathBuf> {
    let file = work.join("undolr.pc");
    let text = read(&workspace.root.join("recorder/undolr.pc.in"))?.replace("@VERSION@", version(workspace)?);
    fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
    Ok(file)
}

fn host_programs(workspace: &Workspace) -> Result<Vec<Staged>> {
    let mut cargo = crate::workspace::cargo();
    cargo.args(["build", "--quiet", "--release"]).current_dir(&workspace.root);
    let mut staged = Vec::new();
    for program in PROGRAMS {
        let package = workspace.packages.iter().find(|package| package.bins.iter().any(|bin| bin == program));
        let package = package.with_context(|| format!("no crate has a program {program}"))?;
        cargo.args(["-p", &package.name, "--bin", program]);
        staged.push((workspace.target.join("release").join(program), Path::new("bin").join(program), EXECUTABLE));
    }
    if !staged.is_empty() {
        run(&mut cargo)?;
    }
    Ok(staged)
}

/// What the programs say of themselves.
fn pages(workspace: &Workspace, work: &Path) -> Result<Vec<Staged>> {
    let pages = work.join("pages");
    if pages.exists() {
        fs::remove_dir_all(&pages).with_context(|| format!("cannot remove {}", pages.display()))?;
    }
    for program in WITH_PAGES {
        run(Command::new(workspace.target.join("release").join(program)).arg("--write-pages").arg(&pages))?;
    }
    let mut staged = tree(&pages, "share", &[])?;
    staged.iter_mut().for_each(|(_, _, mode)| *mode = DATA);
    Ok(staged)
}

/// Its target directory is its own, so that neither build waits for the other.
fn sql_program(workspace: &Workspace) -> Result<PathBuf> {
    let target = workspace.target.join("sql");
    let mut cargo = crate::workspace::cargo();
    cargo.args(["build", "--quiet", "--release", "--target-dir"]).arg(&target).current_dir(workspace.root.join("sql"));
    run(&mut cargo)?;
    Ok(target.join("release/shmem-inspect-sql"))
}

/// A source directory's files, staged under `to` with the same relative paths.
fn tree(from: &Path, to: &str, extensions: &[&str]) -> Result<Vec<Staged>> {
    files(from, extensions)?
        .into_iter()
        .map(|file| {
            let relative = file.strip_prefix(from)?.to_owned();
            let mode = if fs::metadata(&file)?.permissions().mode() & 0o100 == 0 { DATA } else { EXECUTABLE };
            Ok((file, Path::new(to).join(relative), mode))
        })
        .collect()
}

/// Makes the stage hold these files and no others (I3).
fn stage(stage: &Path, staged: &[Staged]) -> Result<()> {
    let wanted: BTreeSet<PathBuf> = staged.iter().map(|(_, to, _)| stage.join(to)).collect();
    for (from, to, mode) in staged {
        put(from, &stage.join(to), *mode)?;
    }
    for file in files(stage, &[])? {
        if !wanted.contains(&file) {
            fs::remove_file(&file).with_context(|| format!("cannot remove {}", file.display()))?;
        }
    }
    Ok(())
}

/// Copies a file into place by a rename, creating the directories it needs.
pub fn put(from: &Path, to: &Path, mode: u32) -> Result<()> {
    let dir = to.parent().context("a file needs a directory")?;
    fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    let new = fs::read(from).with_context(|| format!("cannot read {}", from.display()))?;
    if fs::read(to).is_ok_and(|old| old == new) && fs::metadata(to)?.permissions().mode() & 0o777 == mode {
        return Ok(());
    }
    let temporary = dir.join(format!(".{}.{}", std::process::id(), to.file_name().unwrap_or_default().to_string_lossy()));
    fs::write(&temporary, new)
        .and_then(|()| fs::set_permissions(&temporary, fs::Permissions::from_mode(mode)))
        .and_then(|()| fs::rename(&temporary, to))
        .with_context(|| format!("cannot write {}", to.display()))
}
