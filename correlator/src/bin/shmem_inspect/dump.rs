//! `dump`: accesses by their place in the log.
use super::Session;
use super::output::{self, place, values};
use super::parse::{self, Address};
use anyhow::{Result, bail};
use correlator::{Kind, ObjectIndex, Record, RecordingIndex, Symbols, Time};
use shmem_log::{Position, Reader};
use std::io::Write;
use std::time::Duration;

/// The accesses of one recording come in program order; those of different recordings follow the order in which blocks of the log
/// were begun, which is only roughly that of time. For the order of accesses to one place ask `blame`.
#[derive(clap::Args)]
pub struct Arguments {
    /// Only of this recording: number, process, name or file as `info` lists them
    #[arg(short, long)]
    recording: Option<String>,
    /// Only to this object
    #[arg(short, long)]
    object: Option<u32>,
    /// Only what touches this place: an address (needs --recording) or OBJECT+OFFSET
    #[arg(short, long, value_parser = parse::address)]
    address: Option<Address>,
    /// Bytes from --address on
    #[arg(short, long, default_value = "1", value_parser = parse::number)]
    len: u64,
    /// read, write or read/write
    #[arg(short, long, value_parser = parse::kind)]
    kind: Option<Kind>,
    /// Not before this time, as `BB[:PC]`
    #[arg(long, value_parser = parse::time)]
    from: Option<Time>,
    /// Before this time
    #[arg(long, value_parser = parse::time)]
    to: Option<Time>,
    /// At most so many
    #[arg(short = 'n', long, value_parser = parse::number)]
    limit: Option<u64>,
    /// Go on with what is being written, until interrupted
    #[arg(short, long)]
    follow: bool,
}

struct Filter {
    recording: Option<RecordingIndex>,
    range: Option<(ObjectIndex, u64, u64)>,
    object: Option<u32>,
    kind: Option<Kind>,
    from: Option<Time>,
    to: Option<Time>,
}

impl Filter {
    fn accepts(&self, record: &Record) -> bool {
        self.recording.is_none_or(|recording| record.recording == recording)
            && self.object.is_none_or(|object| record.object.get() == object)
            && self.range.is_none_or(|(object, offset, len)| record.overlaps(object, offset, len))
            && self.kind.is_none_or(|kind| record.kind == kind)
            && self.from.is_none_or(|from| record.time >= from)
            && self.to.is_none_or(|to| record.time < to)
    }
}

pub fn run(session: &Session, arguments: &Arguments, out: &mut impl Write) -> Result<()> {
    let mut reader = session.reader()?;
    let recording = match &arguments.recording {
        Some(text) => Some(parse::recording(&session.discovery, text)?),
        None => session.loaded,
    };
    let range = match arguments.address {
        None => None,
        Some(Address::InObject(object, offset)) => Some((object, offset, arguments.len)),
        Some(Address::Guest(address)) => {
            let here = |mapping: &&shmem_log::Mapping| {
                recording.is_none_or(|recording| mapping.recording == recording) && address.wrapping_sub(mapping.address) < mapping.length
            };
            match reader.mappings().iter().rev().find(here) {
                Some(mapping) => Some((mapping.object, mapping.offset.saturating_add(address - mapping.address), arguments.len)),
                None => bail!("{address:#x}: no shared memory is mapped there; `info` lists where it is"),
            }
        }
    };
    let (kind, from, to) = (arguments.kind, arguments.from, arguments.to);
    let filter = Filter { recording, range, object: arguments.object, kind, from, to };
    let mut symbols = session.symbols();
    let mut left = arguments.limit.unwrap_or(u64::MAX);
    if !session.json {
        writeln!(
            out,
            "{:>12} {:>4} {:>7} {:<28} {:<10} {:<18} {:>5}  {:<12} Where",
            "Position", "Num", "PID", "Time in recording", "Type", "Place", "Len", "Value"
        )?;
    }
    // By recording: the last that was shown.
    let mut seen: std::collections::HashMap<RecordingIndex, Position> = std::collections::HashMap::new();
    loop {
        let start = seen.values().min().copied();
        dump(session, &reader, &filter, &mut symbols, start, &mut seen, &mut left, out)?;
        out.flush()?;
        if !arguments.follow || left == 0 {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(200));
        reader.refresh()?;
    }
}

#[allow(clippy::too_many_arguments, reason = "the state of one loop")]
fn dump(
    session: &Session,
    reader: &Reader,
    filter: &Filter,
    symbols: &mut Symbols,
    start: Option<Position>,
    seen: &mut std::collections::HashMap<RecordingIndex, Position>,
    left: &mut u64,
    out: &mut impl Write,
) -> Result<()> {
    let mut cursor = reader.cursor();
    if let Some(start) = start {
        cursor.seek(start)?;
    }
    let mut failed = 0;
    while *left > 0 {
        let access = match cursor.next() {
            Ok(Some(access)) => access,
            Ok(None) => break,
            Err(error) => {
                failed += 1;
                if failed <= 3 {
                    eprintln!("shmem-inspect: warning: skipped: {error}");
                }
                continue;
            }
        };
        let record = Record::from(&access);
        if seen.get(&record.recording).is_some_and(|seen| record.position <= *seen) {
            continue;
        }
        seen.insert(record.recording, record.position);
        if filter.accepts(&record) {
            *left -= 1;
            print(session, symbols, &record, out)?;
        }
    }
    if failed > 3 {
        eprintln!("shmem-inspect: warning: skipped {} more", failed - 3);
    }
    Ok(())
}

fn print(session: &Session, symbols: &mut Symbols, record: &Record, out: &mut impl Write) -> Result<()> {
    if session.json {
        writeln!(out, "{}", output::record(&session.discovery, symbols, record))?;
        return Ok(());
    }
    let (number, pid) = (output::number(&session.discovery, record.recording), output::pid(&session.discovery, record.recording));
    let (time, kind, at) = (record.time.to_string(), output::kind(record.kind), format!("{}+{:#x}", record.object.get(), record.offset));
    let (position, len, values) = (record.position.to_string(), record.len, values(record));
    let place = place(symbols, record);
    writeln!(out, "{position:>12} {number:>4} {pid:>7} {time:<28} {kind:<10} {at:<18} {len:>5}  {values:<12} {place}")?;
    Ok(())
}
