//! `undo-replay`: look at a recording and check that it replays.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap::{CommandFactory, Parser, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use recording::{Metadata, Recording};
use replayer::{Error, Event, Replay, Timeline};
use serde::Serialize;

/// Look at recordings and replay them.
#[derive(Parser)]
#[command(name = "undo-replay", version)]
struct Arguments {
    /// Print JSON.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// What a recording says of itself.
    Info { file: PathBuf },
    /// Replay everything once and compare it with the recording; exit status 0: no difference, 1: one was found, 2: it cannot be replayed.
    Verify { file: PathBuf },
    /// List all events.
    Events { file: PathBuf },
}

const DIFFERS: u8 = 1;
const FAILED: u8 = 2;

fn main() -> ExitCode {
    if let Some(code) = pages::write_if_asked(Arguments::command) {
        return code;
    }
    let arguments = Arguments::parse();
    let result = match &arguments.command {
        Command::Info { file } => info(file, arguments.json),
        Command::Verify { file } => verify(file, arguments.json),
        Command::Events { file } => events(file, arguments.json),
    };
    match result {
        Ok(code) => code,
        // Whoever reads the output has seen enough.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            // The recording's errors name their causes themselves.
            eprintln!("undo-replay: {error}");
            ExitCode::from(FAILED)
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[derive(Serialize)]
struct Info {
    file: String,
    uuid: String,
    log_uuid: Option<String>,
    pid: u32,
    executable: String,
    args: Vec<String>,
    begin: String,
    end: String,
    end_reason: &'static str,
    end_status: i32,
    end_message: String,
    bytes: u64,
    event_bytes: u64,
    page_bytes: u64,
    mappings: usize,
    files: Vec<String>,
    recorder: String,
}

fn info(file: &Path, json: bool) -> Result<ExitCode> {
    let recording = Recording::open(file)?;
    let meta: &Metadata = recording.meta();
    let info = Info {
        file: file.display().to_string(),
        uuid: hex(&meta.uuid),
        log_uuid: (meta.log_uuid != [0; 16]).then(|| hex(&meta.log_uuid)),
        pid: meta.pid,
        executable: text(&meta.executable),
        args: meta.args.iter().map(|arg| text(arg)).collect(),
        begin: meta.begin.to_string(),
        end: meta.end.to_string(),
        end_reason: meta.end_reason.name(),
        end_status: meta.end_status,
        end_message: meta.end_message.clone(),
        bytes: recording.len_bytes(),
        event_bytes: recording.events_len(),
        page_bytes: recording.pages_len(),
        mappings: recording.mappings().len(),
        files: recording.files()?.iter().map(|file| text(&file.head.path)).collect(),
        recorder: meta.recorder.clone(),
    };
    let mut out = std::io::stdout().lock();
    if json {
        writeln!(out, "{}", serde_json::to_string_pretty(&info)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(out, "recording   {}", info.uuid)?;
    if let Some(log) = &info.log_uuid {
        writeln!(out, "access log  {log}")?;
    }
    writeln!(out, "process     {} {}", info.pid, info.executable)?;
    writeln!(out, "arguments   {}", info.args.join(" "))?;
    writeln!(out, "range       [{} - {}]", info.begin, info.end)?;
    writeln!(out, "ended       {} (status {}) {}", info.end_reason, info.end_status, info.end_message)?;
    writeln!(out, "size        {} bytes: events {}, pages {}", info.bytes, info.event_bytes, info.page_bytes)?;
    writeln!(out, "recorded by {}", info.recorder)?;
    for file in &info.files {
        writeln!(out, "holds       {file}")?;
    }
    Ok(ExitCode::SUCCESS)
}

#[derive(Serialize)]
struct Verified {
    file: String,
    verdict: &'static str,
    events: u64,
    memory_hashes: u64,
    end: String,
    seconds: f64,
    difference: Option<String>,
}

fn verify(file: &Path, json: bool) -> Result<ExitCode> {
    Recording::open(file)?.verify()?;
    let mut replay = Replay::open(file)?;
    let bar = if std::io::stderr().is_terminal() && !json { ProgressBar::new(replay.event_count() as u64) } else { ProgressBar::hidden() };
    bar.set_style(ProgressStyle::with_template("{bar:40} {pos}/{len} events {msg}")?);
    let mut checked = 0;
    let outcome = replay.verify(|progress| {
        checked = progress.events;
        bar.set_position(progress.events);
        bar.set_message(format!("at {}", progress.time));
    });
    bar.finish_and_clear();
    let shown = file.display().to_string();
    let (verified, code) = match outcome {
        Ok(verdict) => {
            let verified = Verified {
                file: shown,
                verdict: "identical",
                events: verdict.events,
                memory_hashes: verdict.memory_hashes,
                end: verdict.end.to_string(),
                seconds: verdict.took.as_secs_f64(),
                difference: None,
            };
            (verified, ExitCode::SUCCESS)
        }
        Err(Error::Diverged { time, what }) => {
            let verified = Verified {
                file: shown,
                verdict: "diverged",
                // Those since the last progress are not among them; the difference names the very event.
                events: checked,
                memory_hashes: 0,
                end: time.to_string(),
                seconds: 0.0,
                difference: Some(what),
            };
            (verified, ExitCode::from(DIFFERS))
        }
        Err(error) => return Err(error.into()),
    };
    let mut out = std::io::stdout().lock();
    if json {
        writeln!(out, "{}", serde_json::to_string(&verified)?)?;
    } else if let Some(difference) = &verified.difference {
        writeln!(out, "{}: diverged at {}: {difference}", verified.file, verified.end)?;
    } else {
        writeln!(
            out,
            "{}: {} events and {} memory hashes checked up to {} in {:.3} s: identical",
            verified.file, verified.events, verified.memory_hashes, verified.end, verified.seconds
        )?;
    }
    Ok(code)
}

#[derive(Serialize)]
struct Listed<'a> {
    bbcount: u64,
    pc: u64,
    name: &'a str,
    result: i64,
    syscall: Option<u64>,
    signum: i32,
    address: u64,
    tid: i32,
    timestamp: u64,
    size: u64,
}

fn events(file: &Path, json: bool) -> Result<ExitCode> {
    let replay = Replay::open(file)?;
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for index in 0..replay.event_count() {
        let event = replay.event(index);
        if json {
            writeln!(out, "{}", serde_json::to_string(&listed(&event))?)?;
        } else {
            writeln!(out, "{}", line(&event))?;
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn listed(event: &Event) -> Listed<'_> {
    Listed {
        bbcount: event.time.bbcount,
        pc: event.time.pc,
        name: &event.name,
        result: event.result,
        syscall: event.syscall,
        signum: event.signum,
        address: event.address,
        tid: event.tid,
        timestamp: event.timestamp,
        size: event.size,
    }
}

fn line(event: &Event) -> String {
    let mut line = format!("time={}: {}.", event.time, event.name);
    if event.syscall.is_some() {
        line += &format!(" result={:#x}", event.result);
    }
    if event.signum != 0 {
        line += &format!(" signum={}", event.signum);
    }
    if event.address != 0 {
        line += &format!(" address={:#x}", event.address);
    }
    line + &format!(" size={}.", event.size)
}
