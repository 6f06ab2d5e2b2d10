//! `live-record`: runs a program and records it.
//!
//! It becomes the program (exec), with libundolr preloaded, so process id, parent, descriptors and exit status are the program's own.

use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use clap::{CommandFactory, Parser, ValueEnum};
use recorder::executable;
use recorder::launch::{PREFIX, Variable};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SaveOn {
    /// Save if the program exits with a status other than 0 or dies by a signal.
    Error,
    /// Save however the program ends.
    ExitSignal,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OnFork {
    /// Record the parent; children run natively.
    Parent,
    /// Record children, each in a recording of its own beside the parent's.
    Child,
    /// Record both.
    Both,
}

/// Runs PROGRAM and records it into a file that `udb` opens.
#[derive(Debug, Parser)]
#[command(name = "live-record", version)]
struct Arguments {
    /// Where the recording goes [default: PROGRAM-PID-TIMESTAMP.undo]
    #[arg(short = 'o', long, value_name = "FILE")]
    recording_file: Option<PathBuf>,
    /// When to save
    #[arg(long, value_enum, value_name = "WHEN")]
    save_on: Option<SaveOn>,
    /// Bytes of events to keep at most; K, M and G are understood
    #[arg(long, value_name = "SIZE", value_parser = size)]
    max_event_log_size: Option<u64>,
    /// Log every access to shared memory to this file, which several recorded programs may share
    #[arg(long, value_name = "FILE.shmem")]
    shmem_log: Option<PathBuf>,
    /// Largest size of that log; K, M and G are understood
    #[arg(long, value_name = "SIZE", value_parser = size, requires = "shmem_log")]
    shmem_log_size: Option<u64>,
    /// What to record when the program forks
    #[arg(long, value_enum, value_name = "WHICH", default_value = "parent")]
    on_fork: OnFork,
    /// Run the program without address space randomisation
    #[arg(long)]
    disable_aslr: bool,
    /// Say nothing
    #[arg(short, long)]
    quiet: bool,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

/// `64M` → bytes.
fn size(text: &str) -> Result<u64, String> {
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'K' | b'k') => (&text[..text.len() - 1], 10),
        Some(b'M' | b'm') => (&text[..text.len() - 1], 20),
        Some(b'G' | b'g') => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let number: u64 = digits.parse().map_err(|_| format!("expected a number with K, M or G behind it, found `{text}`"))?;
    number.checked_mul(1 << shift).ok_or_else(|| format!("`{text}` is more than 2^64 bytes"))
}

/// Whether SIGPIPE was ignored before Rust's runtime ignored it, which it does ahead of `main`.
static IGNORES_SIGPIPE: AtomicBool = AtomicBool::new(false);

#[used]
#[unsafe(link_section = ".init_array")]
static NOTE_SIGPIPE: extern "C" fn() = note_sigpipe;

extern "C" fn note_sigpipe() {
    use nix::libc::{SIG_IGN, SIGPIPE, sigaction};
    // SAFETY: only reads the disposition, into a structure of plain integers.
    let action = unsafe {
        let mut action: sigaction = std::mem::zeroed();
        sigaction(SIGPIPE, std::ptr::null(), &raw mut action);
        action
    };
    IGNORES_SIGPIPE.store(action.sa_sigaction == SIG_IGN, Ordering::Relaxed);
}

/// The program gets the disposition that it would get natively.
fn restore_sigpipe() -> Result<()> {
    use nix::sys::signal::{SigHandler, Signal, signal};
    if !IGNORES_SIGPIPE.load(Ordering::Relaxed) {
        // SAFETY: sets no handler.
        unsafe { signal(Signal::SIGPIPE, SigHandler::SigDfl) }?;
    }
    Ok(())
}

fn main() -> ExitCode {
    if let Some(code) = pages::write_if_asked(Arguments::command) {
        return code;
    }
    match run(&Arguments::parse()) {
        Ok(never) => match never {},
        Err(error) => {
            eprintln!("live-record: {error:#}");
            // What a shell says of a command that it cannot run.
            ExitCode::from(126)
        }
    }
}

fn run(arguments: &Arguments) -> Result<std::convert::Infallible> {
    let library = library()?;
    let program = &arguments.program[0];
    if let Some(path) = executable::find(Path::new(program)) {
        executable::check(&path).with_context(|| format!("cannot record {}", path.display()))?;
    }
    let file = match &arguments.recording_file {
        Some(file) => file.clone(),
        None => default_name(program)?,
    };
    ensure!(file.extension().is_some_and(|extension| extension == "undo"), "the recording file {} must end in .undo", file.display());
    let file = std::path::absolute(&file).with_context(|| format!("the recording file {}", file.display()))?;
    check_directory(&file)?;
    let mut preload = library.into_os_string();
    if let Some(list) = std::env::var_os("LD_PRELOAD").filter(|list| !list.is_empty()) {
        preload.push(":");
        preload.push(list);
    }
    // In the order that the program would find natively: ours are taken out again before it looks.
    let mut environment: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    match environment.iter_mut().find(|(name, _)| name == "LD_PRELOAD") {
        Some((_, value)) => *value = preload,
        None => environment.push(("LD_PRELOAD".into(), preload)),
    }
    let mut set = |variable: Variable, value: OsString| environment.push((format!("{PREFIX}{}", variable.name()).into(), value));
    set(Variable::Pid, std::process::id().to_string().into());
    set(Variable::File, file.clone().into_os_string());
    if let Some(log) = &arguments.shmem_log {
        ensure!(log.extension().is_some_and(|extension| extension == "shmem"), "the access log {} must end in .shmem", log.display());
        let log = std::path::absolute(log)?;
        check_directory(&log)?;
        set(Variable::ShmemLog, log.into_os_string());
    }
    let mut number = |variable: Variable, value: Option<u64>| {
        if let Some(value) = value {
            set(variable, value.to_string().into());
        }
    };
    number(Variable::ShmemLogSize, arguments.shmem_log_size);
    number(Variable::EventLogSize, arguments.max_event_log_size);
    number(Variable::Quiet, arguments.quiet.then_some(1));
    number(Variable::SaveOnError, (arguments.save_on == Some(SaveOn::Error)).then_some(1));
    let on_fork = match arguments.on_fork {
        OnFork::Parent => "parent",
        OnFork::Child => "child",
        OnFork::Both => "both",
    };
    set(Variable::OnFork, on_fork.into());
    if arguments.disable_aslr {
        use nix::sys::personality::{self, Persona};
        personality::set(personality::get()? | Persona::ADDR_NO_RANDOMIZE).context("cannot switch off address space randomisation")?;
    }
    if !arguments.quiet {
        eprintln!("live-record: recording to {}", file.display());
    }
    let environment = environment.into_iter().map(|(mut name, value)| {
        name.push("=");
        name.push(value);
        c_string(&name)
    });
    let argv: Vec<CString> = arguments.program.iter().map(|argument| c_string(argument)).collect::<Result<_>>()?;
    let environment: Vec<CString> = environment.collect::<Result<_>>()?;
    restore_sigpipe()?;
    let Err(error) = nix::unistd::execvpe(&argv[0], &argv, &environment);
    bail!("cannot run {}: {}", Path::new(program).display(), error.desc())
}

fn c_string(text: &OsStr) -> Result<CString> {
    CString::new(text.as_bytes())
        .with_context(|| format!("{} contains a zero byte", OsString::from_vec(text.as_bytes().to_vec()).display()))
}

/// libundolr.so beside this program: ../lib as installed.
fn library() -> Result<PathBuf> {
    let own = std::env::current_exe().context("cannot find live-record's own directory")?;
    let directory = own.parent().context("live-record has no directory")?;
    let candidate = directory.join("../lib/libundolr.so");
    candidate.canonicalize().with_context(|| format!("cannot find libundolr.so at {}", candidate.display()))
}

fn default_name(program: &OsString) -> Result<PathBuf> {
    let name = Path::new(program).file_name().with_context(|| format!("{} is not a program", Path::new(program).display()))?;
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    Ok(format!("{}-{}-{seconds}.undo", name.display(), std::process::id()).into())
}

/// Says now, not after hours of recording, that there is no place for the file.
fn check_directory(file: &Path) -> Result<()> {
    let directory = file.parent().context("a file needs a directory")?;
    nix::unistd::access(directory, nix::unistd::AccessFlags::W_OK)
        .with_context(|| format!("cannot write to the directory {}", directory.display()))
}
