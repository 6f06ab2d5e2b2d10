//! `races`: conflicting accesses that overlapped in time, and values that nobody logged.
use super::Session;
use super::output::{self, place, right, table, values};
use anyhow::Result;
use correlator::Record;
use serde_json::json;
use std::io::Write;

/// Two accesses by different processes to the same bytes, at least one a write, that overlapped in time: nothing in the program kept
/// them apart. Read/write instructions (atomics) are left out unless `--atomics` is given.
#[derive(clap::Args)]
pub struct Arguments {
    /// Pairs
    #[arg(short = 'n', long, default_value_t = 50)]
    limit: usize,
    /// Count read/write instructions too
    #[arg(long)]
    atomics: bool,
    /// Show instead the values that no logged access explains: somebody who was not recorded wrote them
    #[arg(long)]
    unrecorded: bool,
}

pub fn run(session: &Session, arguments: &Arguments, out: &mut impl Write) -> Result<()> {
    let correlator = session.correlator()?;
    let mut symbols = session.symbols();
    if arguments.unrecorded {
        let found = correlator.unrecorded_writers(arguments.limit)?;
        if session.json {
            for this in &found {
                let value = json!({
                    "object": this.seen_by.object.get(), "offset": this.offset, "len": this.len, "certain": this.certain,
                    "after": output::record(&session.discovery, &mut symbols, &this.after),
                    "seen_by": output::record(&session.discovery, &mut symbols, &this.seen_by),
                });
                writeln!(out, "{value}")?;
            }
            return Ok(());
        }
        if found.is_empty() {
            writeln!(out, "Logged accesses explain every value that was read.")?;
            return Ok(());
        }
        let mut table = table(&["Bytes", "", "Num", "PID", "Time in recording", "Type", "Value", "Where"]);
        for this in &found {
            let head = format!("{}+{:#x}…{:#x}", this.seen_by.object.get(), this.offset, this.offset + this.len - 1);
            add(session, &mut symbols, &mut table, [head, "changed after".into()], &this.after);
            add(session, &mut symbols, &mut table, [String::new(), "as seen by".into()], &this.seen_by);
        }
        right(&mut table, &[2, 3]);
        writeln!(out, "{table}")?;
        if found.iter().any(|this| !this.certain) {
            writeln!(out, "This log lost accesses, so that the writer may have been recorded after all.")?;
        }
        return Ok(());
    }
    let is_atomic = |record: &Record| record.kind == correlator::Kind::ReadWrite;
    let mut races = correlator.races(if arguments.atomics { arguments.limit } else { usize::MAX })?;
    races.retain(|race| arguments.atomics || !is_atomic(&race.first) && !is_atomic(&race.second));
    races.truncate(arguments.limit);
    if session.json {
        for race in &races {
            let first = output::record(&session.discovery, &mut symbols, &race.first);
            let second = output::record(&session.discovery, &mut symbols, &race.second);
            writeln!(out, "{}", json!({ "first": first, "second": second }))?;
        }
        return Ok(());
    }
    if races.is_empty() {
        writeln!(out, "No conflicting accesses overlapped in time.")?;
        return Ok(());
    }
    let mut table = table(&["Place", "", "Num", "PID", "Time in recording", "Type", "Value", "Where"]);
    for race in &races {
        let head = format!("{}+{:#x}", race.first.object.get(), race.first.offset.max(race.second.offset));
        add(session, &mut symbols, &mut table, [head, String::new()], &race.first);
        add(session, &mut symbols, &mut table, [String::new(), "and".into()], &race.second);
    }
    right(&mut table, &[2, 3]);
    writeln!(out, "{table}")?;
    Ok(())
}

fn add(session: &Session, symbols: &mut correlator::Symbols, table: &mut comfy_table::Table, head: [String; 2], record: &Record) {
    table.add_row(head.into_iter().chain([
        output::number(&session.discovery, record.recording).to_string(),
        output::pid(&session.discovery, record.recording).to_string(),
        record.time.to_string(),
        output::kind(record.kind).to_string(),
        values(record),
        place(symbols, record),
    ]));
}
