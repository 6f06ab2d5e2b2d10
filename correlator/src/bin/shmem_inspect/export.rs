//! `export`: all accesses for other programs.
use super::Session;
use super::output;
use anyhow::{Context as _, Result, bail};
use correlator::{Record, Symbols};
use serde_json::Value;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

#[derive(Clone, Copy, clap::ValueEnum)]
enum Format {
    Csv,
    Jsonl,
    /// A folder, partitioned by log and recording, and sorted
    Parquet,
}

/// One row or line per access, by place in the log: those of one recording in program order.
#[derive(clap::Args)]
pub struct Arguments {
    #[arg(short, long, value_enum, default_value = "csv")]
    format: Format,
    /// Where to; standard output if not given. For Parquet a folder, which must not exist or be empty
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

impl Arguments {
    /// Whether this is for the program that writes Parquet, which takes folders of logs too.
    pub fn is_parquet(&self) -> bool {
        matches!(self.format, Format::Parquet)
    }
}

/// False if the program that writes Parquet failed, and said why.
pub fn parquet(log: &Path, arguments: &Arguments) -> Result<bool> {
    let Some(output) = &arguments.output else { bail!("--output: expected a folder for the Parquet files, found none") };
    super::sql::export_parquet(log, output)
}

pub fn run(session: &Session, arguments: &Arguments, out: &mut impl Write) -> Result<()> {
    match &arguments.output {
        Some(path) => {
            let file = File::create(path).with_context(|| format!("{}: cannot create", path.display()))?;
            write(session, arguments, &mut BufWriter::new(file))?;
        }
        None => write(session, arguments, &mut BufWriter::new(out))?,
    }
    Ok(())
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
            _ => writeln!(out, "{}", COLUMNS.map(|column| cell(&value[column])).join(","))?,
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
