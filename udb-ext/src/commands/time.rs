//! Where in history: now, begin, end, and jumps.

use std::time::Instant;

use replayer::{Error, Time};
use serde::Serialize;

use super::{SLICE, hex};
use crate::target::Debuggee;

/// Blocks between two looks at the clock: a few milliseconds of replay.
const STRIDE: u64 = 4_000_000;
/// Blocks in a row that may have no time of their own, as signals came in their place.
const FORESTALLED: u64 = 8;

/// A time as (bbcount, pc).
pub type Pair = (u64, u64);

pub fn pair(time: Time) -> Pair {
    (time.bbcount, time.pc)
}

#[derive(Serialize)]
pub struct Now {
    now: Pair,
    /// Whether a jump is done; else the same request goes on from here.
    arrived: bool,
    begin: Pair,
    end: Pair,
    pid: i32,
    uuid: String,
    executable: String,
    /// Changes whenever the mapped code does: then gdb's list of libraries is out of date.
    code: String,
}

pub fn now(debuggee: &mut Debuggee) -> Now {
    let code = code_mark(debuggee);
    let timeline = &debuggee.timeline;
    Now {
        now: pair(timeline.now()),
        arrived: true,
        begin: pair(timeline.begin()),
        end: pair(timeline.end()),
        pid: timeline.pid(),
        uuid: hex(&timeline.recording_uuid()),
        executable: timeline.executable(),
        code,
    }
}

pub fn begin(debuggee: &mut Debuggee) -> Result<Now, String> {
    let time = debuggee.timeline.begin();
    seek(debuggee, time.bbcount, Some(time.pc))
}

pub fn end(debuggee: &mut Debuggee) -> Result<Now, String> {
    let time = debuggee.timeline.end();
    seek(debuggee, time.bbcount, Some(time.pc))
}

/// Goes to a time, or a part of the way there. A time that does not exist is an error, and nothing is said of where one then is.
pub fn seek(debuggee: &mut Debuggee, bbcount: u64, pc: Option<u64>) -> Result<Now, String> {
    debuggee.complaint = None;
    let end = debuggee.timeline.end().bbcount;
    let begun = Instant::now();
    while bbcount <= end && debuggee.farthest.bbcount.saturating_add(STRIDE) < bbcount {
        let next = debuggee.farthest.bbcount + STRIDE;
        advance(debuggee, next).map_err(|error| error.to_string())?;
        if begun.elapsed() > SLICE {
            return Ok(Now { arrived: false, ..now(debuggee) });
        }
    }
    debuggee.timeline.seek(bbcount, pc).map_err(|error| error.to_string())?;
    debuggee.farthest = debuggee.farthest.max(debuggee.timeline.now());
    Ok(now(debuggee))
}

/// To the block with that number, or the first after it that there is.
fn advance(debuggee: &mut Debuggee, bbcount: u64) -> Result<(), Error> {
    let mut outcome = Ok(());
    for next in bbcount..bbcount + FORESTALLED {
        outcome = debuggee.timeline.seek(next, None).map(|_| ());
        match outcome {
            Err(Error::NoSuchTime { .. }) => {}
            _ => break,
        }
    }
    debuggee.farthest = debuggee.farthest.max(debuggee.timeline.now());
    outcome
}

/// A short mark of which files are mapped executable, and where.
fn code_mark(debuggee: &mut Debuggee) -> String {
    let mappings = debuggee.timeline.mappings().unwrap_or_default();
    let mut mark = 0xcbf2_9ce4_8422_2325u64;
    for mapping in mappings.iter().filter(|mapping| mapping.prot & 4 != 0 && !mapping.name.is_empty() && !mapping.name.starts_with('[')) {
        for byte in mapping.name.bytes().chain(mapping.start.to_le_bytes()) {
            mark = (mark ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
    format!("{mark:016x}")
}
