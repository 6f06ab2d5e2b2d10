//! Runs a workload natively, recorded, and under the tools it is compared with.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use super::workloads::{Measure, Program, Workload};
use crate::workspace::{Workspace, is_installed, median, on_path, output, run, shown};

/// Where compiled programs, inputs and recordings go, and where the recorder is.
pub struct Bench {
    sources: PathBuf,
    work: PathBuf,
    recorder: PathBuf,
    gzip_input: PathBuf,
    python: String,
}

/// The medians of one workload's runs.
pub struct Outcome {
    pub native_ms: f64,
    pub recorded_ms: f64,
    /// As the workload's [`Measure`] defines it.
    pub figure: f64,
    /// Of [`Measure::TwoCores`].
    pub cores: Option<Cores>,
    /// Time under each of [`RIVALS`] / time native; `None`: not installed, or it cannot run the program.
    pub rivals: Vec<Option<f64>>,
}

/// What the recorder is compared with: JSON key, command.
pub const RIVALS: [(&str, &[&str]); 2] = [("valgrind_none", &["valgrind", "--tool=none", "-q"]), ("qemu_user", &["qemu-x86_64"])];

/// Where the two cores were.
pub struct Cores {
    /// Median of a cache line's way from one to the other and back, ns.
    pub round_trip_ns: f64,
    /// Pairs of runs that do not count, as the two were threads of one core.
    pub discarded: usize,
}

/// Work that takes so many times as long when the other core works too is done on a core that they share.
const SHARED_CORE: f64 = 1.25;
/// So many pairs in a row on a shared core end the measurement.
const DISCARDED_MAX: usize = 20;

/// One finished process.
struct Run {
    ms: f64,
    printed: Vec<u8>,
}

impl Bench {
    pub fn new(workspace: &Workspace) -> Result<Self> {
        let work = workspace.target.join("bench-record");
        fs::create_dir_all(&work).with_context(|| format!("cannot create {}", work.display()))?;
        // Not a shim around it: that would measure a shell.
        let python = output(Command::new("python3").args(["-c", "import sys; print(sys.executable)"]))?.trim().to_owned();
        let gzip_input = work.join("text");
        fs::write(&gzip_input, text()).with_context(|| format!("cannot write {}", gzip_input.display()))?;
        let sources = workspace.root.join("xtask/bench/record");
        Ok(Self { sources, recorder: workspace.stage().join("bin/live-record"), work, gzip_input, python })
    }

    /// Runs `workload` in interleaved pairs.
    pub fn measure(&self, workload: &Workload, pairs: usize, with_rivals: bool) -> Result<Outcome> {
        let (command, input) = self.prepare(workload.program)?;
        let recorded_command = self.recorded(workload, &command);
        let (mut native, mut recorded) = (Vec::new(), Vec::new());
        let two_cores = matches!(workload.measure, Measure::TwoCores(_)).then(|| self.compile("cores.c", &[])).transpose()?;
        let mut trips = Vec::new();
        let mut discarded = 0;
        while native.len() < pairs {
            let before = two_cores.as_deref().map(cores).transpose()?;
            native.push(timed(&command, input.as_deref())?);
            // Recorders join a log that exists.
            if let Err(error) = fs::remove_file(self.log())
                && error.kind() != std::io::ErrorKind::NotFound
            {
                return Err(error).with_context(|| format!("cannot remove {}", self.log().display()));
            }
            if !workload.options.is_empty() {
                // What is still to be written to the disk does not count as the log's.
                nix::unistd::sync();
            }
            recorded.push(timed(&recorded_command, input.as_deref())?);
            let (Some(program), Some(before)) = (two_cores.as_deref(), before) else { continue };
            let after = cores(program)?;
            if before.1.max(after.1) > SHARED_CORE {
                discarded += 1;
                ensure!(discarded < DISCARDED_MAX, "{}: cores 0 and 1 are two threads of one core", workload.name);
                native.pop();
                recorded.pop();
            } else {
                trips.extend([before.0, after.0]);
            }
        }
        let printed_ns = !matches!(workload.measure, Measure::Slowdown | Measure::WholeMs(_));
        if !printed_ns {
            let wrong = recorded.iter().any(|run| run.printed != native[0].printed);
            ensure!(!wrong, "{}: recorded, it does not print what it prints natively", workload.name);
        }
        let ms = |runs: &[Run]| median(runs.iter().map(|run| run.ms).collect());
        let (native_ms, recorded_ms) = (ms(&native), ms(&recorded));
        let figure = match workload.measure {
            Measure::Slowdown => median(native.iter().zip(&recorded).map(|(native, recorded)| recorded.ms / native.ms).collect()),
            Measure::Extra(_) => median(numbers(&recorded)?) - median(numbers(&native)?),
            Measure::TwoCores(_) => {
                median(numbers(&native)?.iter().zip(numbers(&recorded)?).map(|(native, recorded)| recorded / native).collect())
            }
            Measure::WholeMs(_) => recorded_ms,
        };
        let rivals = RIVALS.iter().map(|(_, tool)| {
            let with_tool = [tool.iter().map(|&word| word.to_owned()).collect(), command.clone()].concat();
            let comparable = with_rivals && workload.measure == Measure::Slowdown && is_installed(tool[0]);
            comparable.then(|| timed(&with_tool, input.as_deref()).ok().map(|run| run.ms / native_ms)).flatten()
        });
        let cores = two_cores.map(|_| Cores { round_trip_ns: median(trips), discarded });
        Ok(Outcome { native_ms, recorded_ms, figure, cores, rivals: rivals.collect() })
    }

    fn log(&self) -> PathBuf {
        self.work.join("log.shmem")
    }

    fn recorded(&self, workload: &Workload, command: &[String]) -> Vec<String> {
        let log = self.log().display().to_string();
        let mut words = vec![self.recorder.display().to_string(), "-q".into(), "-o".into()];
        words.push(self.work.join("recording.undo").display().to_string());
        words.extend(workload.options.iter().map(|option| option.replace("LOG", &log)));
        words.push("--".into());
        words.extend_from_slice(command);
        words
    }

    fn compile(&self, name: &str, flags: &[String]) -> Result<String> {
        let binary = self.work.join(name.trim_end_matches(".c"));
        let mut gcc = Command::new("gcc");
        run(gcc.args(["-O2", "-pthread", "-o"]).arg(&binary).arg(self.sources.join(name)).args(flags))?;
        Ok(binary.display().to_string())
    }

    /// Runs the program that measures memory, start and save of a process of 1 GiB by itself: keys and numbers.
    pub fn memory(&self) -> Result<Vec<(String, f64)>> {
        let prefix = self.recorder.ancestors().nth(2).context("the recorder lies in a stage")?;
        let library = prefix.join("lib").display().to_string();
        let flags =
            [format!("-I{}", prefix.join("include").display()), format!("-L{library}"), format!("-Wl,-rpath,{library}"), "-lundolr".into()];
        let mut command = Command::new(self.compile("memory.c", &flags)?);
        let file = self.work.join("memory.undo");
        let text = output(command.arg(&file))?;
        fs::remove_file(&file).with_context(|| format!("cannot remove {}", file.display()))?;
        let pair = |line: &str| Some((line.split_once(' ')?.0.to_owned(), line.split_once(' ')?.1.parse().ok()?));
        text.lines().map(|line| pair(line).with_context(|| format!("expected a key and a number, the program printed '{line}'"))).collect()
    }

    /// The command and the file that it reads, compiled if need be.
    fn prepare(&self, program: Program) -> Result<(Vec<String>, Option<PathBuf>)> {
        let source = |name: &str| self.sources.join(name).display().to_string();
        Ok(match program {
            Program::C(name) => (vec![self.compile(name, &[])?], None),
            Program::CWith(name, argument) => (vec![self.compile(name, &[])?, argument.into()], None),
            Program::Python(name) => (vec![self.python.clone(), source(name)], None),
            Program::Sqlite(name) => (vec![find("sqlite3")?, ":memory:".into()], Some(self.sources.join(name))),
            Program::Gzip => (vec![find("gzip")?, "-6".into(), "-c".into()], Some(self.gzip_input.clone())),
            Program::Command(name) => (vec![find(name)?], None),
        })
    }
}

/// Where cores 0 and 1 are now: what `cores.c` prints.
fn cores(program: &str) -> Result<(f64, f64)> {
    let text = output(&mut Command::new(program))?;
    let words: Vec<f64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [trip, at_once] = words[..] else { bail!("expected two numbers, cores.c printed '{}'", text.trim()) };
    Ok((trip, at_once))
}

fn timed(words: &[String], input: Option<&Path>) -> Result<Run> {
    let stdin = match input {
        Some(path) => fs::File::open(path).with_context(|| format!("cannot read {}", path.display()))?.into(),
        None => Stdio::null(),
    };
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).stdin(stdin).stderr(Stdio::inherit());
    let start = Instant::now();
    let done = command.output().with_context(|| format!("cannot run {}", shown(&command)))?;
    let ms = start.elapsed().as_secs_f64() * 1e3;
    if !done.status.success() {
        bail!("{} failed: {}", shown(&command), done.status);
    }
    Ok(Run { ms, printed: done.stdout })
}

/// The number that each run printed.
fn numbers(runs: &[Run]) -> Result<Vec<f64>> {
    let number = |run: &Run| {
        let text = String::from_utf8_lossy(&run.printed);
        text.trim().parse().with_context(|| format!("expected a number of nanoseconds, the program printed '{}'", text.trim()))
    };
    runs.iter().map(number).collect()
}

fn find(name: &str) -> Result<String> {
    Ok(on_path(name).with_context(|| format!("{name} is not installed"))?.display().to_string())
}

/// About 8 MB that compress as prose does.
fn text() -> String {
    let words: Vec<&str> = include_str!("../../../docs/architecture.md").split_whitespace().collect();
    let mut text = String::with_capacity(9 << 20);
    let mut state = 1u64;
    while text.len() < 8 << 20 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        text.push_str(words[(state >> 33) as usize % words.len()]);
        text.push(if state >> 60 == 0 { '\n' } else { ' ' });
    }
    text
}
