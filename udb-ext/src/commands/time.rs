//! Where in history: now, begin, end, and jumps.

use replayer::{SharedStatus, Time};
use serde::Serialize;

use super::hex;
use crate::target::Debuggee;

/// A time as (bbcount, pc).
pub type Pair = (u64, u64);

pub fn pair(time: Time) -> Pair {
    (time.bbcount, time.pc)
}

#[derive(Serialize)]
pub struct Now {
    now: Pair,
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

pub fn seek(debuggee: &mut Debuggee, bbcount: u64, pc: Option<u64>) -> Result<Now, String> {
    debuggee.complaint = None;
    debuggee.timeline.seek(bbcount, pc).map_err(|error| error.to_string())?;
    Ok(now(debuggee))
}

/// A short mark of which files are mapped executable, and where.
fn code_mark(debuggee: &mut Debuggee) -> String {
    let mappings = debuggee.timeline.mappings().unwrap_or_default();
    let mut mark = 0xcbf2_9ce4_8422_2325u64;
    for mapping in mappings.iter().filter(|mapping| mapping.prot & 4 != 0 && mapping.name.starts_with('/')) {
        for byte in mapping.name.bytes().chain(mapping.start.to_le_bytes()) {
            mark = (mark ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
    format!("{mark:016x}")
}

/// How a shared status reads in a reply: `private`, `never`, or the time of the last access.
#[derive(Serialize)]
#[serde(untagged)]
pub enum Status {
    Word(&'static str),
    Accessed(Pair),
}

impl From<SharedStatus> for Status {
    fn from(status: SharedStatus) -> Self {
        match status {
            SharedStatus::Private => Status::Word("private"),
            SharedStatus::NeverAccessed => Status::Word("never"),
            SharedStatus::LastAccessed(time) => Status::Accessed(pair(time)),
        }
    }
}
