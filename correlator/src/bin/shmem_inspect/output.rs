//! Tables and values as all commands print them.
use comfy_table::{Attribute, Cell, ContentArrangement, Table, presets};
use correlator::{Discovery, Kind, Record, RecordingIndex, Symbols};
use serde_json::{Value, json};
use std::io::IsTerminal;

/// A table that fits the terminal; on one its header is bold.
pub fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    let header = header.iter().map(|text| Cell::new(text).add_attribute(Attribute::Bold));
    table.load_preset(presets::NOTHING).set_header(header);
    if std::io::stdout().is_terminal() {
        table.set_content_arrangement(ContentArrangement::Dynamic);
    }
    table
}

/// Aligns columns to the right, by number.
pub fn right(table: &mut Table, columns: &[usize]) {
    for column in columns {
        if let Some(column) = table.column_mut(*column) {
            column.set_cell_alignment(comfy_table::CellAlignment::Right);
        }
    }
}

pub fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Read => "read",
        Kind::Write => "write",
        Kind::ReadWrite => "read/write",
    }
}

/// `1,234,567`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

pub fn bytes(number: u64) -> String {
    match number {
        0..1024 => format!("{number} bytes"),
        1024..1_048_576 => format!("{:.1} KiB", number as f64 / 1024.0),
        1_048_576..1_073_741_824 => format!("{:.1} MiB", number as f64 / 1_048_576.0),
        _ => format!("{:.1} GiB", number as f64 / 1_073_741_824.0),
    }
}

/// A value of a power of two bytes as a number, anything else as bytes.
pub fn value(bytes: &[u8]) -> String {
    match bytes.len() {
        1 | 2 | 4 | 8 => {
            let number = bytes.iter().rev().fold(0u64, |all, byte| all << 8 | u64::from(*byte));
            if number < 4096 { number.to_string() } else { format!("{number:#x}") }
        }
        0..=16 => hex(bytes),
        _ => format!("{}…", hex(&bytes[..12])),
    }
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What an access saw and left: `7`, or `7 → 8`.
pub fn values(record: &Record) -> String {
    match record.kind {
        Kind::ReadWrite => format!("{} → {}", value(&record.seen), value(&record.written)),
        _ => value(record.value()),
    }
}

/// Where in the program an access was made; `(system call)` if the kernel made it.
pub fn place(symbols: &mut Symbols, record: &Record) -> String {
    let place = symbols.place(record.recording, record.time.pc).map(|place| place.to_string()).unwrap_or_default();
    match (record.by_kernel, place.is_empty()) {
        (true, true) => "(system call)".into(),
        (true, false) => format!("{place} (system call)"),
        (false, _) => place,
    }
}

/// The number of a recording as users know it.
pub fn number(discovery: &Discovery, recording: RecordingIndex) -> u32 {
    discovery.by_index(recording).map_or(0, |found| found.inferior)
}

pub fn pid(discovery: &Discovery, recording: RecordingIndex) -> u32 {
    discovery.by_index(recording).map_or(0, |found| found.pid)
}

/// An access for programs.
pub fn record(discovery: &Discovery, symbols: &mut Symbols, record: &Record) -> Value {
    let place = symbols.place(record.recording, record.time.pc);
    json!({
        "position": record.position.to_string(),
        "recording": number(discovery, record.recording),
        "pid": pid(discovery, record.recording),
        "time": record.time.to_string(),
        "bbcount": record.time.bbcount,
        "pc": record.time.pc,
        "kind": kind(record.kind),
        "by_kernel": record.by_kernel,
        "object": record.object.get(),
        "offset": record.offset,
        "len": record.len,
        "seen": record.kind.reads().then(|| hex(&record.seen)),
        "written": record.kind.writes().then(|| hex(&record.written)),
        "function": place.as_ref().and_then(|place| place.function.clone()),
        "file": place.as_ref().and_then(|place| place.file.clone()),
        "line": place.as_ref().and_then(|place| place.line),
    })
}
