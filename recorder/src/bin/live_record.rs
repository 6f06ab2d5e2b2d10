//! `live-record`: runs a program and records it.
//!
//! It becomes the program (exec), with libundolr preloaded, so process id, parent, descriptors and exit status are the program's own.
//! Only where it runs the program several times (`--retry-for`) does it stay, as the parent.

use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use clap::{CommandFactory, Parser, ValueEnum};
use nix::sys::wait::WaitStatus;
use nix::unistd::ForkResult;
use recorder::launch::{PREFIX, Variable};
use recorder::{executable, sessions};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SaveOn {
    /// If the program exits with a status other than 0 or is ended by a signal.
    Error,
    /// If the program is ended by a signal.
    ExitSignal,
}

impl SaveOn {
    fn is_met(self, status: WaitStatus) -> bool {
        match status {
            WaitStatus::Exited(_, status) => status != 0 && self == SaveOn::Error,
            _ => true,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OnFork {
    /// Record the parent; children run natively.
    Parent,
    /// Record children and what they execute, each in a recording of its own; the parent's ends at the first fork, unsaved.
    Child,
    /// Record both, and what they execute.
    Both,
}

/// Runs PROGRAM and records it into a file that `udb` opens.
#[derive(Debug, Parser)]
#[command(name = "live-record", version)]
struct Arguments {
    /// Where the recording goes [default: PROGRAM-PID-TIMESTAMP.undo]
    #[arg(short = 'o', long, value_name = "FILE")]
    recording_file: Option<PathBuf>,
    /// When to save [default: however the program ends]
    #[arg(long, value_enum, value_name = "WHEN")]
    save_on: Option<SaveOn>,
    /// Record a process that runs already, until it ends
    #[arg(short, long, value_name = "PID", conflicts_with_all = ["program", "disable_aslr", "retry_for", "record_on"])]
    pid: Option<i32>,
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
    /// Start recording when this program is executed, by PROGRAM or by whatever it starts
    #[arg(long, value_name = "program:NAME", value_parser = record_on)]
    record_on: Option<String>,
    /// Run PROGRAM again and again until it fails, for so long at most (30min, 1h); keep only the recording of the failure
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    retry_for: Option<Duration>,
    /// Switch between threads at random times. Without effect: a second thread ends the recording
    #[arg(long)]
    thread_fuzzing: bool,
    /// Run the program without address space randomisation
    #[arg(long)]
    disable_aslr: bool,
    /// Keep the event log in a file in this directory instead of in memory
    #[arg(long, value_name = "DIR")]
    tmpdir_root: Option<PathBuf>,
    /// Say nothing
    #[arg(short, long)]
    quiet: bool,
    /// List the processes that are being recorded, and exit
    #[arg(short, long, exclusive = true)]
    list: bool,
    /// The program and its arguments
    #[arg(required_unless_present_any = ["pid", "list"], trailing_var_arg = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

fn record_on(text: &str) -> Result<String, String> {
    match text.strip_prefix("program:") {
        Some(name) if !name.is_empty() => Ok(name.to_owned()),
        _ => Err(format!("expected program:NAME, found `{text}`")),
    }
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

#[derive(Debug, thiserror::Error)]
#[error("cannot run {}: No such file or directory", .0.display())]
struct NotFound(PathBuf);

fn main() -> ExitCode {
    if let Some(code) = pages::write_if_asked(Arguments::command) {
        return code;
    }
    match run(&Arguments::parse()) {
        Ok(status) => status,
        Err(error) => {
            eprintln!("live-record: {error:#}");
            // What a shell says of a command that it does not find, or cannot run.
            ExitCode::from(if error.is::<NotFound>() { 127 } else { 126 })
        }
    }
}

fn run(arguments: &Arguments) -> Result<ExitCode> {
    if arguments.list {
        return sessions::list().map(|()| ExitCode::SUCCESS);
    }
    if arguments.thread_fuzzing && !arguments.quiet {
        eprintln!("live-record: --thread-fuzzing has no effect: a second thread ends the recording");
    }
    match (arguments.pid, arguments.retry_for) {
        (Some(pid), _) => attach(arguments, pid),
        (None, Some(time)) => retry(arguments, time),
        (None, None) => match launch(arguments, &default_name(Path::new(&arguments.program[0]), own_pid())?, false)? {},
    }
}

/// What the library is told, by variables of the environment.
fn settings(arguments: &Arguments, pid: i32, default_name: &Path) -> Result<(PathBuf, Vec<(OsString, OsString)>)> {
    let mut settings = Vec::new();
    let mut set = |variable: Variable, value: OsString| settings.push((format!("{PREFIX}{}", variable.name()).into(), value));
    let file = arguments.recording_file.as_deref().unwrap_or(default_name);
    ensure!(file.extension().is_some_and(|extension| extension == "undo"), "the recording file {} must end in .undo", file.display());
    let file = std::path::absolute(file).with_context(|| format!("the recording file {}", file.display()))?;
    check_directory(&file)?;
    match &arguments.record_on {
        Some(name) => set(Variable::RecordOn, name.into()),
        None => set(Variable::Pid, pid.to_string().into()),
    }
    set(Variable::First, pid.to_string().into());
    set(Variable::File, file.clone().into_os_string());
    if let Some(log) = &arguments.shmem_log {
        ensure!(log.extension().is_some_and(|extension| extension == "shmem"), "the access log {} must end in .shmem", log.display());
        let log = std::path::absolute(log)?;
        check_directory(&log)?;
        set(Variable::ShmemLog, log.into_os_string());
    }
    if let Some(directory) = &arguments.tmpdir_root {
        let directory = directory.canonicalize().with_context(|| format!("the directory {}", directory.display()))?;
        check_directory(&directory.join("file"))?;
        set(Variable::TemporaryDirectory, directory.into_os_string());
    }
    let mut number = |variable: Variable, value: Option<u64>| {
        if let Some(value) = value {
            set(variable, value.to_string().into());
        }
    };
    number(Variable::ShmemLogSize, arguments.shmem_log_size);
    number(Variable::EventLogSize, arguments.max_event_log_size);
    number(Variable::Quiet, arguments.quiet.then_some(1));
    let save_on = arguments.save_on.or(arguments.retry_for.map(|_| SaveOn::Error));
    number(Variable::SaveOnError, (save_on == Some(SaveOn::Error)).then_some(1));
    number(Variable::SaveOnSignal, (save_on == Some(SaveOn::ExitSignal)).then_some(1));
    let on_fork = match arguments.on_fork {
        OnFork::Parent => "parent",
        OnFork::Child => "child",
        OnFork::Both => "both",
    };
    set(Variable::OnFork, on_fork.into());
    Ok((file, settings))
}

/// Becomes the program.
fn launch(arguments: &Arguments, default_name: &Path, announced: bool) -> Result<std::convert::Infallible> {
    let library = library()?;
    let program = &arguments.program[0];
    let path = executable::find(Path::new(program));
    if arguments.record_on.is_none()
        && let Some(path) = &path
    {
        executable::check(path).with_context(|| format!("cannot record {}", path.display()))?;
    }
    let (file, settings) = settings(arguments, own_pid(), default_name)?;
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
    environment.extend(settings);
    if arguments.disable_aslr {
        use nix::sys::personality::{self, Persona};
        let switched = personality::get().and_then(|now| personality::set(now | Persona::ADDR_NO_RANDOMIZE));
        switched.context("cannot switch off address space randomisation (--disable-aslr), which containers often forbid")?;
    }
    if !arguments.quiet && !announced && path.is_some() {
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
    if error == nix::errno::Errno::ENOENT {
        return Err(NotFound(program.into()).into());
    }
    bail!("cannot run {}: {}", Path::new(program).display(), error.desc())
}

/// Runs the program in children until one fails or the time is over; returns how the last one ended.
fn retry(arguments: &Arguments, time: Duration) -> Result<ExitCode> {
    use nix::sys::signal::{SigHandler, Signal, raise, signal};
    let save_on = arguments.save_on.unwrap_or(SaveOn::Error);
    let start = Instant::now();
    let mut runs = 0u64;
    let default_name = default_name(Path::new(&arguments.program[0]), own_pid())?;
    loop {
        // SAFETY: this process has one thread.
        let child = match unsafe { nix::unistd::fork() }? {
            ForkResult::Parent { child } => child,
            ForkResult::Child => {
                nix::sys::prctl::set_pdeathsig(Signal::SIGTERM)?;
                match launch(arguments, &default_name, runs > 0)? {}
            }
        };
        for keyboard in [Signal::SIGINT, Signal::SIGQUIT] {
            // SAFETY: ignoring is not running a handler. The program gets them as well, and its end is ours.
            unsafe { signal(keyboard, SigHandler::SigIgn) }?;
        }
        let status = nix::sys::wait::waitpid(child, None)?;
        for keyboard in [Signal::SIGINT, Signal::SIGQUIT] {
            // SAFETY: as above.
            unsafe { signal(keyboard, SigHandler::SigDfl) }?;
        }
        runs += 1;
        let failed = save_on.is_met(status);
        if !failed && start.elapsed() < time {
            continue;
        }
        if !arguments.quiet {
            let (runs, took) = (format!("{runs} {}", if runs == 1 { "run" } else { "runs" }), start.elapsed().as_secs());
            let found = if failed { "failed and is recorded after" } else { "did not fail in" };
            eprintln!("live-record: {} {found} {runs}, {took} s", Path::new(&arguments.program[0]).display());
        }
        match status {
            WaitStatus::Exited(_, status) => return Ok(ExitCode::from(status as u8)),
            WaitStatus::Signaled(_, by, _) => {
                nix::sys::resource::setrlimit(nix::sys::resource::Resource::RLIMIT_CORE, 0, 0)?;
                raise(by)?;
                return Ok(ExitCode::from(128u8.wrapping_add(by as u8)));
            }
            other => bail!("the program neither exited nor was ended by a signal: {other:?}"),
        }
    }
}

/// Gets the library into a process that runs already, and waits for that process's end.
fn attach(arguments: &Arguments, pid: i32) -> Result<ExitCode> {
    let name = std::fs::read_link(format!("/proc/{pid}/exe")).with_context(|| format!("cannot record process {pid}"))?;
    let (file, settings) = settings(arguments, pid, &default_name(&name, pid)?)?;
    recorder::attach::attach(&library()?, pid, &settings).with_context(|| format!("cannot record process {pid} ({})", name.display()))?;
    if !arguments.quiet {
        eprintln!("live-record: recording process {pid} to {}; it is saved when the process ends", file.display());
    }
    Ok(ExitCode::SUCCESS)
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

fn default_name(program: &Path, pid: i32) -> Result<PathBuf> {
    let name = program.file_name().with_context(|| format!("{} is not a program", program.display()))?;
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    Ok(format!("{}-{pid}-{seconds}.undo", name.display()).into())
}

fn own_pid() -> i32 {
    std::process::id().cast_signed()
}

/// Says now, not after hours of recording, that there is no place for the file.
fn check_directory(file: &Path) -> Result<()> {
    let directory = file.parent().context("a file needs a directory")?;
    nix::unistd::access(directory, nix::unistd::AccessFlags::W_OK)
        .with_context(|| format!("cannot write to the directory {}", directory.display()))
}
