//! What an access log claims, checked against a model of the memory.
//!
//! All accesses to a 64-byte line are put in the order that their clocks give. Those whose intervals overlap make a group. Where a
//! group leaves no doubt (one recording, or only reads) each access must have seen what the one before it left; where it does, the
//! bytes that were written in it are unknown afterwards.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use shmem_log::{Access, Kind, Reader, RecordingIndex};

const LINE_BYTES: u64 = 64;

#[derive(Debug)]
struct Touch {
    /// The clock's interval.
    start: u64,
    end: u64,
    recording: RecordingIndex,
    /// Orders the accesses of one recording.
    sequence: u64,
    kind: Kind,
    /// First byte within the line.
    from: usize,
    seen: Vec<u8>,
    written: Vec<u8>,
    what: String,
}

type Line = [Option<u8>; LINE_BYTES as usize];

/// How many accesses the log has, or what is wrong with it.
pub fn check_log(path: &Path) -> Result<Result<usize, String>> {
    let reader = Reader::open(path)?;
    let mut lines: BTreeMap<(u64, u64), Vec<Touch>> = BTreeMap::new();
    let mut cursor = reader.cursor();
    let mut count = 0;
    while let Some(access) = cursor.next()? {
        count += 1;
        for touch in touches(&access) {
            lines.entry((access.object.get().into(), touch.0)).or_default().push(touch.1);
        }
    }
    let counts = reader.total_counts();
    if counts.lost + counts.unfinished + counts.dropped > 0 {
        return Ok(Err(format!("accesses are missing: {counts:?}")));
    }
    for ((object, line), touches) in &mut lines {
        if let Err(wrong) = check_line(touches) {
            return Ok(Err(format!("object {object}, line {line:#x}: {wrong}")));
        }
    }
    Ok(Ok(count))
}

/// The access cut at line boundaries.
fn touches(access: &Access) -> Vec<(u64, Touch)> {
    let cut = |bytes: &[u8], from: u64, to: u64| {
        if bytes.is_empty() { Vec::new() } else { bytes[(from - access.offset) as usize..(to - access.offset) as usize].to_vec() }
    };
    let make = |line: shmem_log::LineInterval| {
        let (from, to) = (access.offset.max(line.line * LINE_BYTES), access.end().min((line.line + 1) * LINE_BYTES));
        let touch = Touch {
            start: line.interval.start,
            end: line.interval.end,
            recording: access.recording,
            sequence: access.sequence,
            kind: access.kind,
            from: (from % LINE_BYTES) as usize,
            seen: cut(access.seen(), from, to),
            written: cut(access.written(), from, to),
            what: format!(
                "{:?} of recording {} at {}:{:#x}, offset {from:#x}",
                access.kind,
                access.recording.get(),
                access.bbcount,
                access.pc
            ),
        };
        (line.line, touch)
    };
    access.lines().map(make).collect()
}

fn check_line(touches: &mut [Touch]) -> Result<(), String> {
    touches.sort_by_key(|touch| (touch.start, touch.end, touch.recording.get(), touch.sequence));
    let mut model: Line = [None; LINE_BYTES as usize];
    let mut rest = touches;
    while !rest.is_empty() {
        let mut end = rest[0].end;
        let length = rest
            .iter()
            .position(|touch| {
                touch.start > end || {
                    end = end.max(touch.end);
                    false
                }
            })
            .unwrap_or(rest.len());
        let (group, others) = rest.split_at_mut(length);
        check_group(group, &mut model)?;
        rest = others;
    }
    Ok(())
}

fn check_group(group: &mut [Touch], model: &mut Line) -> Result<(), String> {
    let certain = group.iter().all(|touch| touch.recording == group[0].recording) || group.iter().all(|touch| !touch.kind.writes());
    if certain {
        group.sort_by_key(|touch| touch.sequence);
        for touch in group.iter() {
            see(touch, model, &[false; LINE_BYTES as usize])?;
            write(touch, model);
        }
        return Ok(());
    }
    let mut doubtful = [false; LINE_BYTES as usize];
    for touch in group.iter().filter(|touch| touch.kind.writes()) {
        doubtful[touch.from..touch.from + touch.written.len()].fill(true);
    }
    for touch in group.iter() {
        see(touch, model, &doubtful)?;
    }
    for (byte, doubtful) in model.iter_mut().zip(doubtful) {
        if doubtful {
            *byte = None;
        }
    }
    Ok(())
}

fn see(touch: &Touch, model: &mut Line, doubtful: &[bool]) -> Result<(), String> {
    for (index, &seen) in touch.seen.iter().enumerate() {
        let at = touch.from + index;
        match model[at] {
            _ if doubtful[at] => {}
            Some(known) if known != seen => {
                return Err(format!("{} saw {seen:#04x} in byte {index}, and the access before it left {known:#04x}", touch.what));
            }
            _ => model[at] = Some(seen),
        }
    }
    Ok(())
}

fn write(touch: &Touch, model: &mut Line) {
    for (index, &written) in touch.written.iter().enumerate() {
        model[touch.from + index] = Some(written);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touch(start: u64, end: u64, recording: u32, kind: Kind, value: u8) -> Touch {
        let (seen, written) = if kind.writes() { (vec![], vec![value]) } else { (vec![value], vec![]) };
        let recording = RecordingIndex::new(recording).unwrap();
        Touch { start, end, recording, sequence: start, kind, from: 3, seen, written, what: String::new() }
    }

    #[test]
    fn a_read_sees_the_write_before_it() {
        assert!(check_line(&mut [touch(1, 3, 1, Kind::Write, 5), touch(4, 4, 2, Kind::Read, 5)]).is_ok());
        assert!(check_line(&mut [touch(4, 4, 2, Kind::Read, 6), touch(1, 3, 1, Kind::Write, 5)]).is_err());
    }

    #[test]
    fn concurrent_accesses_prove_nothing() {
        let mut line = [touch(1, 5, 1, Kind::Write, 5), touch(3, 7, 2, Kind::Write, 6), touch(8, 8, 1, Kind::Read, 5)];
        assert!(check_line(&mut line).is_ok());
    }

    #[test]
    fn reads_agree_with_each_other() {
        assert!(check_line(&mut [touch(4, 4, 1, Kind::Read, 5), touch(4, 4, 2, Kind::Read, 6)]).is_err());
    }
}
