//! `info`: what is in a log.
use super::Session;
use super::output::{bytes, count, right, table};
use anyhow::Result;
use serde_json::json;
use shmem_log::layout::SLOTS_PER_BLOCK;
use std::io::Write;

pub fn run(session: &Session, out: &mut impl Write) -> Result<()> {
    let reader = session.reader()?;
    let total = reader.total_counts();
    let capacity = reader.layout().blocks().count;
    let used = reader.blocks().len() as u64;
    let first = reader.blocks().iter().map(|block| block.tsc_first).min();
    let last = reader.blocks().iter().map(|block| block.tsc_last.unwrap_or(block.tsc_first)).max();
    let span_ns = first.zip(last).map(|(first, last)| reader.wallclock_ns(last).saturating_sub(reader.wallclock_ns(first)));
    let writing = reader.recordings().iter().filter(|recording| recording.ended.is_none()).count();
    let found = |index| session.discovery.by_index(index);
    if session.json {
        let recordings: Vec<_> = session
            .discovery
            .recordings
            .iter()
            .map(|found| {
                let counts = reader.counts(found.index);
                let entry = reader.recording(found.index);
                json!({
                    "number": found.inferior, "pid": found.pid, "name": found.name,
                    "uuid": super::output::hex(&found.uuid),
                    "path": found.path.as_ref().map(|path| path.to_string_lossy()),
                    "executable": entry.map(|entry| entry.executable.to_string_lossy().into_owned()),
                    "ended": entry.is_some_and(|entry| entry.ended.is_some()),
                    "accesses": counts.committed, "lost": counts.lost, "unfinished": counts.unfinished, "dropped": counts.dropped,
                })
            })
            .collect();
        let objects: Vec<_> = reader
            .objects()
            .iter()
            .map(|object| {
                json!({
                    "number": object.index.get(), "name": object.name, "size": object.size,
                    "device": object.dev, "inode": object.ino, "complete": object.complete,
                })
            })
            .collect();
        let mappings: Vec<_> = reader
            .mappings()
            .iter()
            .map(|mapping| {
                json!({
                    "recording": found(mapping.recording).map(|found| found.inferior), "object": mapping.object.get(),
                    "address": mapping.address, "length": mapping.length, "offset": mapping.offset,
                    "from_bbcount": mapping.from_bbcount, "to_bbcount": mapping.to_bbcount,
                })
            })
            .collect();
        let value = json!({
            "log": session.log.to_string_lossy(), "uuid": super::output::hex(&reader.uuid()), "size": reader.layout().size,
            "blocks": capacity, "blocks_used": used, "accesses": total.committed, "lost": total.lost, "unfinished": total.unfinished,
            "dropped": total.dropped, "refused": reader.refused(), "span_ns": span_ns,
            "recordings": recordings, "objects": objects, "mappings": mappings,
        });
        writeln!(out, "{value}")?;
        return Ok(());
    }
    writeln!(
        out,
        "{}: access log of {} recordings, {} accesses",
        session.log.display(),
        reader.recordings().len(),
        count(total.committed)
    )?;
    let fill = 100.0 * used as f64 / capacity.max(1) as f64;
    writeln!(
        out,
        "Ring: {} of {} blocks of {SLOTS_PER_BLOCK} slots used ({fill:.0}%); {} lost (overwritten), {} unfinished, {} dropped",
        count(used),
        count(capacity),
        count(total.lost),
        count(total.unfinished),
        count(total.dropped)
    )?;
    if let Some(ns) = span_ns {
        writeln!(
            out,
            "Time span: {:.3} ms{}",
            ns as f64 / 1e6,
            if writing > 0 { format!("; {writing} recordings have not ended") } else { String::new() }
        )?;
    }
    for (what, refused) in ["recordings", "objects", "mappings", "sites"].into_iter().zip(reader.refused()) {
        if refused > 0 {
            writeln!(out, "Registry of {what}: full, {} refused", count(refused))?;
        }
    }
    writeln!(out, "\nRecordings")?;
    let mut recordings = table(&["Num", "PID", "Name", "Accesses", "Lost", "Ended", "File"]);
    for found in &session.discovery.recordings {
        let counts = reader.counts(found.index);
        let ended = reader.recording(found.index).and_then(|entry| entry.ended);
        recordings.add_row([
            found.inferior.to_string(),
            found.pid.to_string(),
            found.name.clone(),
            count(counts.committed),
            count(counts.lost),
            ended.map_or("no".into(), |end| format!("at {}", count(end.bbcount))),
            found.path.as_ref().and_then(|path| path.file_name()).map_or("(not here)".into(), |name| name.to_string_lossy().into_owned()),
        ]);
    }
    right(&mut recordings, &[0, 1, 3, 4]);
    writeln!(out, "{recordings}")?;
    writeln!(out, "\nShared memory objects, and where they are mapped")?;
    let mut objects = table(&["Object", "Size", "Name", "Recording", "Address", "Length", "Offset"]);
    for object in reader.objects() {
        let mut head = [object.index.get().to_string(), bytes(object.size), object.name.clone()];
        let mut mapped = false;
        for mapping in reader.mappings().iter().filter(|mapping| mapping.object == object.index) {
            let place = [
                found(mapping.recording).map_or(String::new(), |found| format!("{} ({})", found.inferior, found.pid)),
                format!("{:#x}", mapping.address),
                format!("{:#x}", mapping.length),
                format!("{:#x}", mapping.offset),
            ];
            objects.add_row(std::mem::take(&mut head).into_iter().chain(place));
            mapped = true;
        }
        if !mapped {
            objects.add_row(head);
        }
    }
    right(&mut objects, &[0]);
    writeln!(out, "{objects}")?;
    Ok(())
}
