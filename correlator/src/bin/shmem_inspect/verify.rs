//! `verify`: reads everything, and says what is wrong.
use super::Session;
use super::output::count;
use anyhow::Result;
use correlator::{Record, RecordingIndex, Time};
use serde_json::json;
use shmem_log::Position;
use std::collections::HashMap;
use std::io::Write;

/// False if something is wrong.
pub fn run(session: &Session, out: &mut impl Write) -> Result<bool> {
    let reader = session.reader()?;
    let mut cursor = reader.cursor();
    let mut problems: Vec<String> = Vec::new();
    let (mut records, mut unread) = (0u64, 0u64);
    let mut last: HashMap<RecordingIndex, (Time, Position)> = HashMap::new();
    loop {
        let record = match cursor.next() {
            Ok(Some(access)) => Record::from(&access),
            Ok(None) => break,
            Err(error) => {
                unread += 1;
                problems.push(error.to_string());
                continue;
            }
        };
        records += 1;
        let (time, position) = (record.time, record.position);
        if let Some((before, at)) = last.insert(record.recording, (time, position))
            && time.bbcount < before.bbcount
        {
            problems.push(format!("record {position}: time: expected at least {before} (that of record {at}), found {time}"));
        }
        let object = reader.object(record.object);
        if let Some(size) = object.map(|object| object.size).filter(|size| record.end() > *size) {
            problems.push(format!(
                "record {position}: end: expected at most {size:#x}, the size of object {}, found {:#x}",
                record.object.get(),
                record.end()
            ));
        }
    }
    let missing = session.discovery.recordings.iter().filter(|found| found.path.is_none()).count();
    if session.json {
        writeln!(out, "{}", json!({ "accesses": records, "unreadable": unread, "problems": problems, "recordings_not_here": missing }))?;
        return Ok(problems.is_empty());
    }
    for problem in problems.iter().take(50) {
        writeln!(out, "{problem}")?;
    }
    if problems.len() > 50 {
        writeln!(out, "… and {} more", count(problems.len() as u64 - 50))?;
    }
    let verdict = if problems.is_empty() { "all of it makes sense" } else { "see above" };
    writeln!(out, "{} accesses read, {} unreadable: {verdict}", count(records), count(unread))?;
    Ok(problems.is_empty())
}
