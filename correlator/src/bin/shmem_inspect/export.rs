//! `export`: all accesses for other programs.
use super::Session;
use super::output;
use anyhow::Result;
use correlator::{Record, Symbols};
use serde_json::Value;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

#[derive(Clone, Copy, clap::ValueEnum)]
enum Format {
    Csv,
    Jsonl,
}

/// One row or line per access, by place in the log: those of one recording in program order.
#[derive(clap::Args)]
pub struct Arguments {
    #[arg(short, long, value_enum, default_value = "csv")]
    format: Format,
    /// Where to; standard output if not given
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// Leave function, file and line out
    #[arg(long)]
    no_symbols: bool,
}

const COLUMNS: [&str; 18] = [
    "position",
    "recording",
    "pid",
    "time",
    "bbcount",
    "pc",
    "kind",
    "by_kernel",
    "object",
    "offset",
    "len",
    "seen",
    "written",
    "function",
    "file",
    "line",
    "wallclock_ns",
    "contended",
];

pub fn run(session: &Session, arguments: &Arguments, out: &mut impl Write) -> Result<()> {
    match &arguments.output {
        Some(path) => {
            let mut out = BufWriter::new(File::create(path)?);
            write(session, arguments, &mut out)?;
            Ok(out.flush()?)
        }
        None => write(session, arguments, &mut BufWriter::new(out)),
    }
}

fn write(session: &Session, arguments: &Arguments, out: &mut impl Write) -> Result<()> {
    let reader = session.reader()?;
    let mut symbols = if arguments.no_symbols { Symbols::default() } else { session.symbols() };
    let mut cursor = reader.cursor();
    if matches!(arguments.format, Format::Csv) {
        writeln!(out, "{}", COLUMNS.join(","))?;
    }
    loop {
        let (record, contended) = match cursor.next() {
            Ok(Some(access)) => (Record::from(&access), access.is_contended()),
            Ok(None) => break,
            Err(error) => {
                eprintln!("shmem-inspect: warning: skipped: {error}");
                continue;
            }
        };
        let mut value = output::record(&session.discovery, &mut symbols, &record);
        value["wallclock_ns"] = Value::from(reader.wallclock_ns(record.tsc));
        value["contended"] = Value::from(contended);
        match arguments.format {
            Format::Jsonl => writeln!(out, "{value}")?,
            Format::Csv => writeln!(out, "{}", COLUMNS.map(|column| cell(&value[column])).join(","))?,
        }
    }
    out.flush()?;
    Ok(())
}

/// A CSV cell, as RFC 4180 has it.
fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) if text.contains([',', '"', '\n', '\r']) => format!("\"{}\"", text.replace('"', "\"\"")),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
