//! `shmem-inspect`: an access log, looked at without a debugger.
//!
//! One command is one module. All print a table for people, or with `--json` a value (or a value a line) for programs.
mod blame;
mod dump;
mod export;
mod hot;
mod info;
mod output;
mod parse;
mod races;
mod sql;
mod timeline;
mod verify;

use anyhow::{Context as _, Result, bail};
use clap::{CommandFactory, Parser, Subcommand};
use correlator::{Correlator, Discovery, Options, RecordingIndex, Symbols, Warning};
use shmem_log::Reader;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Look into the access log of processes that share memory: who accessed what, when, and in which order.
///
/// If the recordings lie in the log's directory, program counters are shown as function, file and line.
#[derive(Parser)]
#[command(name = "shmem-inspect", version, subcommand_precedence_over_arg = true)]
#[command(after_help = "Examples:\n  \
    shmem-inspect log.shmem                           what is in it, and where shared memory is mapped\n  \
    shmem-inspect log.shmem blame 0x7f61b0794118      which processes accessed this address, and from which line\n  \
    shmem-inspect log.shmem blame 0x7f61b0794118 -w   who wrote what is still there\n  \
    shmem-inspect log.shmem blame 1+0x118             the same 0x118 bytes into object 1, wherever it is mapped\n  \
    shmem-inspect p1.undo blame 0x7f61b0794118        what led to the value that this process sees in the end\n  \
    shmem-inspect log.shmem dump --kind write --follow\n  \
    shmem-inspect log.shmem timeline -o timeline.html")]
struct Arguments {
    /// The log (.shmem), a recording (.undo) that wrote to one in the same directory, or a directory with one log
    #[arg(value_name = "LOG", default_value = ".")]
    log: PathBuf,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
    /// Neither read nor write the index beside the log
    #[arg(long, global = true)]
    no_cache: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Show recordings, objects, how full the log is and what it lost (the default)
    Info,
    /// List accesses by their place in the log
    Dump(dump::Arguments),
    /// Show which accesses led to the value at an address
    Blame(blame::Arguments),
    /// Show the most contended cache lines, and where fields of different owners share one
    Hot(hot::Arguments),
    /// Show conflicting accesses that no order protects
    Races(races::Arguments),
    /// Write a web page that shows objects over time
    Timeline(timeline::Arguments),
    /// Write all accesses as CSV, JSON lines or Parquet
    Export(export::Arguments),
    /// Check all that the log says
    Verify,
    /// Ask all accesses in SQL; of a folder, those of all its logs
    Sql(sql::Arguments),
}

/// Building an index that takes no longer needs no bar.
const NO_PROGRESS_BEFORE: Duration = Duration::from_millis(300);

/// What the commands work on.
pub struct Session {
    pub discovery: Discovery,
    pub log: PathBuf,
    pub json: bool,
    no_cache: bool,
    /// The recording that was given instead of the log.
    pub loaded: Option<RecordingIndex>,
}

impl Session {
    fn open(path: PathBuf, json: bool, no_cache: bool) -> Result<Session> {
        let path = if path.is_dir() { only_log(&path)? } else { path };
        let is_recording = path.extension().is_some_and(|extension| extension == "undo");
        let discovery = Discovery::from_file(&path)?;
        // A log on its own is no cause for notes.
        let alone = discovery.recordings.iter().all(|found| found.path.is_none());
        let of_interest = |warning: &&Warning| !(alone && matches!(warning, Warning::Missing { .. }));
        for warning in discovery.warnings.iter().filter(of_interest) {
            eprintln!("shmem-inspect: note: {warning}");
        }
        let log = discovery.log.clone().context("there is no access log")?;
        let loaded = discovery.inferior(1).filter(|_| is_recording).map(|found| found.index);
        Ok(Session { discovery, log, json, no_cache, loaded })
    }

    /// The log without an index.
    pub fn reader(&self) -> Result<Reader> {
        Ok(Reader::open(&self.log)?)
    }

    /// The log with its index; shows progress if that takes long and somebody watches.
    pub fn correlator(&self) -> Result<Correlator> {
        let bar = indicatif::ProgressBar::hidden().with_message("indexing");
        let start = Instant::now();
        let style = indicatif::ProgressStyle::with_template("{msg} {wide_bar} {human_pos} of {human_len} accesses");
        bar.set_style(style.unwrap_or_else(|_| indicatif::ProgressStyle::default_bar()));
        let progress = |done: u64, all: u64| {
            if bar.is_hidden() && start.elapsed() > NO_PROGRESS_BEFORE {
                bar.set_draw_target(indicatif::ProgressDrawTarget::stderr());
            }
            bar.set_length(all);
            bar.set_position(done);
        };
        let correlator = Correlator::open_with(&self.log, Options { progress: &progress, cache: !self.no_cache })?;
        bar.finish_and_clear();
        let skipped = correlator.skipped();
        if skipped.records > 0 || skipped.blocks > 0 {
            let first = skipped.first.unwrap_or_default();
            eprintln!(
                "shmem-inspect: warning: {} records and the rest of {} blocks cannot be read and are left out; the first: {first}",
                skipped.records, skipped.blocks
            );
        }
        Ok(correlator)
    }

    pub fn symbols(&self) -> Symbols {
        Symbols::new(&self.discovery)
    }
}

/// The log of a directory that has just one.
fn only_log(directory: &Path) -> Result<PathBuf> {
    let entries = std::fs::read_dir(directory).with_context(|| format!("{}: cannot list", directory.display()))?;
    let mut logs: Vec<PathBuf> = entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
    logs.retain(|path| path.extension().is_some_and(|extension| extension == "shmem"));
    logs.sort();
    match &logs[..] {
        [] => bail!("which log? There is none (.shmem) in {}; see shmem-inspect --help", directory.display()),
        [log] => Ok(log.clone()),
        [first, second, ..] => {
            let (first, second) = (first.display(), second.display());
            bail!("which log? {} has {}, for example {first} and {second}", directory.display(), logs.len())
        }
    }
}

fn main() -> ExitCode {
    if let Some(code) = pages::write_if_asked(Arguments::command) {
        return code;
    }
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        // Whoever read the output has seen enough.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("shmem-inspect: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe))
}

/// Commands may stand before or after the log.
fn arguments() -> Vec<std::ffi::OsString> {
    let mut all: Vec<_> = std::env::args_os().collect();
    let is_log = |argument: &std::ffi::OsString| {
        let text = argument.to_string_lossy();
        text.ends_with(".shmem") || text.ends_with(".undo") || std::path::Path::new(argument).is_dir()
    };
    let is_command = |argument: &std::ffi::OsString| Arguments::command().get_subcommands().any(|known| argument == known.get_name());
    if let Some(log) = all.iter().position(is_log)
        && all.get(1).is_some_and(is_command)
        && !all[log - 1].to_string_lossy().starts_with("-o")
        && all[log - 1] != "--output"
    {
        let log = all.remove(log);
        all.insert(1, log);
    }
    all
}

/// False if all went well and the answer is that something is wrong.
fn run() -> Result<bool> {
    let arguments = Arguments::parse_from(arguments());
    let out = &mut io::stdout().lock();
    let log = arguments.log;
    match &arguments.command {
        Some(Command::Sql(command)) => return sql::query(&log, command, arguments.json),
        Some(Command::Export(command)) if command.is_parquet() => return export::parquet(&log, command),
        _ => {}
    }
    let session = Session::open(log, arguments.json, arguments.no_cache)?;
    match arguments.command.unwrap_or(Command::Info) {
        Command::Info => info::run(&session, out)?,
        Command::Dump(arguments) => dump::run(&session, &arguments, out)?,
        Command::Blame(arguments) => blame::run(&session, &arguments, out)?,
        Command::Hot(arguments) => hot::run(&session, &arguments, out)?,
        Command::Races(arguments) => races::run(&session, &arguments, out)?,
        Command::Timeline(arguments) => timeline::run(&session, &arguments)?,
        Command::Export(arguments) => export::run(&session, &arguments, out)?,
        Command::Verify => return verify::run(&session, out),
        // Answered above: it may be about a folder.
        Command::Sql(_) => {}
    }
    out.flush()?;
    Ok(true)
}
