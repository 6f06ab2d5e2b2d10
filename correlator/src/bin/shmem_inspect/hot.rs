//! `hot`: the most contended cache lines.
use super::Session;
use super::output::{self, count, right, table};
use anyhow::Result;
use correlator::{HotLine, Share};
use serde_json::json;
use std::io::Write;

/// A line is contended if several processes use it and at least one writes it. If they touch different bytes of it, they get into each
/// other's way for nothing: false sharing, which padding to 64 bytes cures.
#[derive(clap::Args)]
pub struct Arguments {
    /// Lines
    #[arg(short = 'n', long, default_value_t = 10)]
    limit: usize,
}

pub fn run(session: &Session, arguments: &Arguments, out: &mut impl Write) -> Result<()> {
    let lines = session.correlator()?.hot_lines(arguments.limit)?;
    if session.json {
        let share = |share: &Share| {
            json!({
                "recording": output::number(&session.discovery, share.recording), "pid": output::pid(&session.discovery, share.recording),
                "accesses": share.accesses, "writes": share.writes, "touched": ranges(share.touched), "written": ranges(share.written),
            })
        };
        let line = |line: &HotLine| {
            json!({
                "object": line.object.get(), "offset": line.offset, "accesses": line.accesses, "alternations": line.alternations,
                "looked_at": line.looked_at, "false_sharing": line.is_false_sharing(), "recordings": line.shares.iter().map(share).collect::<Vec<_>>(),
            })
        };
        writeln!(out, "{}", json!(lines.iter().map(line).collect::<Vec<_>>()))?;
        return Ok(());
    }
    if lines.is_empty() {
        writeln!(out, "No cache line is used by several recordings and written by one.")?;
        return Ok(());
    }
    let mut table = table(&["Line", "Owner changes", "Num", "PID", "Accesses", "Writes", "Bytes touched", "Bytes written", ""]);
    for line in &lines {
        let changes = format!("{} of {}", count(line.alternations), count(line.looked_at));
        let note = if line.is_false_sharing() { "likely false sharing" } else { "" };
        let mut head = [format!("{}+{:#x}", line.object.get(), line.offset), changes];
        let mut note = note.to_owned();
        for share in &line.shares {
            let [first, second] = std::mem::take(&mut head);
            table.add_row([
                first,
                second,
                output::number(&session.discovery, share.recording).to_string(),
                output::pid(&session.discovery, share.recording).to_string(),
                count(share.accesses),
                count(share.writes),
                ranges(share.touched),
                ranges(share.written),
                std::mem::take(&mut note),
            ]);
        }
    }
    right(&mut table, &[1, 2, 3, 4, 5]);
    writeln!(out, "{table}")?;
    Ok(())
}

/// `0-3 8-15` of a mask of bytes.
fn ranges(mask: u64) -> String {
    let mut parts = Vec::new();
    let mut bit = 0;
    while bit < 64 {
        let run = (mask >> bit).trailing_ones().min(64 - bit);
        if run > 0 {
            parts.push(format!("{bit}-{}", bit + run - 1));
        }
        bit += run.max(1);
    }
    parts.join(" ")
}
