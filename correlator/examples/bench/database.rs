//! The same questions to a database that holds the same rows with an index: DuckDB if Python has it, else the SQLite that comes with Python.
use correlator::{BlameOptions, Correlator, Moment, Query, Reader, Record, Target};
use serde_json::{Value, json};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::{Command, Stdio};

const SCRIPT: &str = include_str!("database.py");

/// Asks the database in `folder`, loading it first if it is not there; None, with a word why, if there is none to ask.
///
/// If its answers are others than ours that is such a word too: then the comparison would be of different things.
pub fn compare(correlator: &Correlator, questions: &[Query], folder: &Path) -> Option<Value> {
    let answer = load(correlator.reader(), folder).and_then(|()| ask(correlator, questions, folder));
    answer.inspect_err(|why| eprintln!("compared with no database: {why}")).ok()
}

/// Loads a log's accesses into a database in `folder`, if they are not there yet.
pub fn load(reader: &Reader, folder: &Path) -> Result<(), String> {
    if folder.join("loaded.json").exists() {
        return Ok(());
    }
    std::fs::create_dir_all(folder).map_err(|error| error.to_string())?;
    let mut child = script(folder, "load").stdin(Stdio::piped()).spawn().map_err(|error| format!("python3: {error}"))?;
    let rows = child.stdin.take().ok_or("no pipe")?;
    // If it ends early, it has said why.
    let _ = write_rows(reader, &mut BufWriter::with_capacity(1 << 20, rows));
    let status = child.wait().map_err(|error| error.to_string())?;
    if status.success() { Ok(()) } else { Err(format!("python3 failed: {status}")) }
}

fn ask(correlator: &Correlator, questions: &[Query], folder: &Path) -> Result<Value, String> {
    let asked: Vec<Value> = questions.iter().filter_map(|query| question(correlator, query)).collect();
    std::fs::write(folder.join("questions.json"), Value::from_iter(asked).to_string()).map_err(|error| error.to_string())?;
    let output = script(folder, "ask").stderr(Stdio::inherit()).output().map_err(|error| format!("python3: {error}"))?;
    if !output.status.success() {
        return Err(format!("python3 failed: {}", output.status));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())
}

fn script(folder: &Path, what: &str) -> Command {
    let mut command = Command::new("python3");
    command.args(["-c", SCRIPT]).arg(folder).arg(what);
    command
}

/// What to ask, and what the answer must be: where the recording's own last access is, and how many rows led to it.
fn question(correlator: &Correlator, query: &Query) -> Option<Value> {
    let (Moment::At(time), Target::Address(address)) = (query.time, query.target) else { return None };
    let options = BlameOptions::default();
    let blame = correlator.blame(query, &options).expect("an answer");
    let last = blame.rows.last().map(|row| row.record.position.to_bits());
    let offset = address - crate::generate::BASE;
    Some(json!({
        "recording": query.recording.get(), "bbcount": time.bbcount, "line": offset / 64, "from": offset, "to": offset + query.length,
        "limit": options.limit, "last": last, "rows": blame.rows.len(),
    }))
}

fn write_rows(reader: &Reader, out: &mut impl Write) -> std::io::Result<()> {
    let mut cursor = reader.cursor();
    while let Some(access) = cursor.next().map_err(std::io::Error::other)? {
        let record = Record::from(&access);
        let Some(span) = record.lines.first() else { continue };
        writeln!(
            out,
            "{},{},{},{},{},{},{},{},{}",
            record.position.to_bits(),
            record.recording.get(),
            record.time.bbcount,
            span.line,
            record.offset,
            record.end(),
            record.kind as u8,
            span.interval.start,
            span.interval.end,
        )?;
    }
    out.flush()
}
