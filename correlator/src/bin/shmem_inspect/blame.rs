//! `blame`: which accesses led to the value at an address.
use super::Session;
use super::output::{self, count, place, right, table, values};
use super::parse::{self, Address};
use anyhow::{Result, bail};
use correlator::{Blame, BlameOptions, Correlator, Moment, ObjectIndex, Query, Reason, RecordingIndex, Target, Time};
use serde_json::json;
use std::io::Write;

/// With `--recording`, or if a recording was given in place of the log: what led to the value that this process sees. Without: all that
/// any process did there, to the end. `*` marks accesses by the process whose view counts, `~` those that overlap another one in time,
/// so that it is not known which came first.
#[derive(clap::Args)]
pub struct Arguments {
    /// An address in the recorded process, or OBJECT+OFFSET
    #[arg(value_parser = parse::address)]
    address: Address,
    /// Bytes
    #[arg(short, long, default_value = "4", value_parser = parse::number)]
    len: u64,
    /// Whose view counts: number, process, name or file as `info` lists them
    #[arg(short, long)]
    recording: Option<String>,
    /// When in that recording, as `BB[:PC]`; the end if not given
    #[arg(short, long, value_parser = parse::time)]
    time: Option<Time>,
    /// Only the writes of which bytes are still there
    #[arg(short, long)]
    writers: bool,
    /// Rows, the youngest; 0 for all
    #[arg(short = 'n', long, default_value = "40", value_parser = parse::number)]
    limit: u64,
}

pub fn run(session: &Session, arguments: &Arguments, out: &mut impl Write) -> Result<()> {
    let correlator = session.correlator()?;
    let mut recording = match &arguments.recording {
        Some(text) => Some(parse::recording(&session.discovery, text)?),
        None => session.loaded,
    };
    if recording.is_none() && (arguments.writers || arguments.time.is_some()) && session.discovery.recordings.len() == 1 {
        recording = session.discovery.inferior(1).map(|found| found.index);
    }
    let limit = if arguments.limit == 0 { usize::MAX } else { arguments.limit as usize };
    let moment = arguments.time.map_or(Moment::End, Moment::At);
    let blame = match recording {
        Some(recording) => {
            let target = match arguments.address {
                Address::Guest(address) => Target::Address(address),
                Address::InObject(object, offset) => Target::Object { object, offset },
            };
            let query = Query::new(recording, moment, target, arguments.len);
            correlator.blame(&query, &BlameOptions { writers_only: arguments.writers, limit })?
        }
        None if arguments.time.is_some() => bail!("--time: times of different recordings cannot be compared; say which with --recording"),
        None => {
            let (object, offset) = resolve(session, &correlator, arguments.address)?;
            let mut blame = correlator.history(object, offset, arguments.len, if arguments.writers { usize::MAX } else { limit })?;
            if arguments.writers {
                keep_writers(&mut blame, offset, arguments.len);
            }
            blame
        }
    };
    print(session, recording, &blame, out)
}

/// The object that an address stands for, if it is the same in all recordings that map it.
fn resolve(session: &Session, correlator: &Correlator, address: Address) -> Result<(ObjectIndex, u64)> {
    let Address::Guest(address) = address else {
        let Address::InObject(object, offset) = address else { bail!("an address") };
        return Ok((object, offset));
    };
    let mut found: Option<(ObjectIndex, u64)> = None;
    for recording in &session.discovery.recordings {
        let this = correlator.resolve(recording.index, Moment::End, address)?;
        if found.is_some() && this.is_some() && this != found {
            bail!("{address:#x} is different shared memory in different recordings; say which with --recording");
        }
        found = found.or(this);
    }
    match found {
        Some(found) => Ok(found),
        None => bail!("{address:#x}: no recording has shared memory there; `info` lists where it is mapped"),
    }
}

/// Of a whole history, the writes of which bytes are still there, as far as its order tells.
fn keep_writers(blame: &mut Blame, offset: u64, len: u64) {
    let mut hidden = vec![false; len.min(1 << 20) as usize];
    let mut kept: Vec<_> = Vec::new();
    for row in blame.rows.drain(..).rev().filter(|row| row.record.kind.writes()) {
        let from = row.record.offset.saturating_sub(offset) as usize;
        let to = (row.record.end().saturating_sub(offset) as usize).min(hidden.len());
        let bytes = &mut hidden[from.min(to)..to];
        if bytes.iter().all(|hidden| *hidden) && !row.concurrent {
            continue;
        }
        bytes.fill(true);
        kept.push(row);
    }
    kept.reverse();
    blame.rows = kept;
    if blame.rows.is_empty() {
        blame.why_empty.get_or_insert(Reason::NoWriter);
    }
}

fn print(session: &Session, recording: Option<RecordingIndex>, blame: &Blame, out: &mut impl Write) -> Result<()> {
    let mut symbols = session.symbols();
    if session.json {
        let rows: Vec<_> = blame
            .rows
            .iter()
            .map(|row| {
                let mut value = output::record(&session.discovery, &mut symbols, &row.record);
                value["address"] = json!(row.address);
                value["own"] = json!(recording.is_some() && row.own);
                value["concurrent"] = json!(row.concurrent);
                value
            })
            .collect();
        let reason = blame.why_empty.map(|reason| explain(&reason));
        let value =
            json!({ "rows": rows, "older_at_most": blame.cut.map(|cut| cut.older_at_most), "lost": blame.lost, "why_empty": reason });
        writeln!(out, "{value}")?;
        return Ok(());
    }
    if let Some(reason) = &blame.why_empty {
        writeln!(out, "No accesses: {}.", explain(reason))?;
        return Ok(());
    }
    if let Some(cut) = blame.cut {
        writeln!(out, "({} rows; up to {} older accesses are not shown, see --limit)", blame.rows.len(), count(cut.older_at_most))?;
    } else if blame.lost > 0 {
        writeln!(out, "({} accesses of this log were overwritten: there may have been older ones)", count(blame.lost))?;
    }
    let mut table = table(&["", "Num", "PID", "Time in recording", "Type", "Address", "Len", "Value", "Where"]);
    for row in &blame.rows {
        let record = &row.record;
        let own = if recording.is_some() && row.own { "*" } else { "" };
        table.add_row([
            format!("{own}{}", if row.concurrent { "~" } else { "" }),
            output::number(&session.discovery, record.recording).to_string(),
            row.pid.to_string(),
            record.time.to_string(),
            output::kind(record.kind).to_string(),
            row.address.map_or_else(|| format!("{}+{:#x}", record.object.get(), record.offset), |address| format!("{address:#x}")),
            record.len.to_string(),
            values(record),
            place(&mut symbols, record),
        ]);
    }
    right(&mut table, &[1, 2, 6]);
    writeln!(out, "{table}")?;
    if blame.rows.iter().any(|row| row.concurrent) {
        writeln!(out, "~ overlaps another access in time: neither clocks nor values tell which came first")?;
    }
    Ok(())
}

fn explain(reason: &Reason) -> String {
    match reason {
        Reason::NotShared => "there is no shared memory at that address at that time".into(),
        Reason::NeverAccessed => "it was never accessed by this recording".into(),
        Reason::NotYet { first } => format!("this recording has not accessed it yet; it first does at {first}"),
        Reason::Overwritten { lost } => {
            format!("the log was full, and {} accesses were overwritten; these may have been among them", count(*lost))
        }
        Reason::NoWriter => "the accesses that led here only read".into(),
    }
}
