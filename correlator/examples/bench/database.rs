//! The same questions to a database that holds the same rows with an index: DuckDB if Python has it, else the SQLite that comes with Python.
use correlator::{BlameQuery, Correlator, Moment, Reader, Record, Target};
use serde_json::{Value, json};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::{Command, Stdio};

const SCRIPT: &str = include_str!("database.py");

/// Loads the log's accesses into a database in `dir` and asks; None, with a word why, if there is none to ask.
///
/// Panics if an answer is another one than ours: then the comparison would be of different things.
pub fn compare(correlator: &Correlator, questions: &[BlameQuery], dir: &Path) -> Option<Value> {
    let folder = dir.join(format!("bench-database-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let answer = ask(correlator, questions, &folder);
    // Leftovers of a benchmark do no harm.
    let _ = std::fs::remove_dir_all(&folder);
    match answer {
        Ok(answer) => Some(answer),
        Err(why) => {
            eprintln!("compared with no database: {why}");
            None
        }
    }
}

fn ask(correlator: &Correlator, questions: &[BlameQuery], folder: &Path) -> Result<Value, String> {
    let asked: Vec<Value> = questions.iter().filter_map(|query| question(correlator, query)).collect();
    let file = folder.join("questions.json");
    std::fs::write(&file, Value::from_iter(asked).to_string()).map_err(|error| error.to_string())?;
    let mut child = Command::new("python3")
        .args(["-c", SCRIPT])
        .arg(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("python3: {error}"))?;
    let rows = child.stdin.take().ok_or("no pipe")?;
    // If it ends early, it has said why.
    let _ = write_rows(correlator.reader(), &mut BufWriter::with_capacity(1 << 20, rows));
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(format!("python3 failed: {}", output.status));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())
}

/// What to ask, and what the answer must be: where the recording's own last access is, and how many rows led to it.
fn question(correlator: &Correlator, query: &BlameQuery) -> Option<Value> {
    let (Moment::At(time), Target::Address(address)) = (query.time, query.target) else { return None };
    let blame = correlator.blame(query).expect("an answer");
    let last = blame.rows.last().map(|row| row.record.position.to_bits());
    let offset = address - crate::generate::BASE;
    Some(json!({
        "recording": query.recording.get(), "bbcount": time.bbcount, "line": offset / 64, "from": offset, "to": offset + query.length,
        "limit": query.limit, "last": last, "rows": blame.rows.len(),
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
