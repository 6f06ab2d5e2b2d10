//! Memory: mappings, what is known of shared bytes, and one-off searches for a change.

use replayer::{Points, SharedStatus, Time, WatchKind, Watchpoint};
use serde::{Deserialize, Serialize};

use super::time::{Pair, pair};
use crate::correlate::Query;
use crate::target::Debuggee;

/// Ranges asked about at once at most: gdb prints no more elements than this of anything by default.
const MAX_RANGES: usize = 4096;

/// Bytes whose next change the next resumption is to find.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Watch {
    address: u64,
    length: u64,
}

#[derive(Serialize)]
pub struct Armed {
    armed: bool,
}

/// The next resumption looks for this instead of gdb's own points, which keep their state: no breakpoint is hit on the way.
pub fn arm(debuggee: &mut Debuggee, watch: &Watch) -> Armed {
    let point = Watchpoint { address: watch.address, length: watch.length, kind: WatchKind::Write };
    debuggee.armed = Some(Points { watchpoints: vec![point], ..Points::default() });
    Armed { armed: true }
}

#[derive(Serialize)]
pub struct Mappings {
    mappings: Vec<Mapping>,
}

#[derive(Serialize)]
struct Mapping {
    start: u64,
    end: u64,
    prot: u32,
    shared: bool,
    offset: u64,
    name: String,
}

pub fn mappings(debuggee: &mut Debuggee) -> Result<Mappings, String> {
    let mappings = debuggee.timeline.mappings().map_err(|error| error.to_string())?;
    let mappings = mappings
        .into_iter()
        .map(|info| Mapping {
            start: info.start,
            end: info.end,
            prot: info.prot,
            shared: info.shared,
            offset: info.offset,
            name: info.name,
        })
        .collect();
    Ok(Mappings { mappings })
}

#[derive(Serialize)]
pub struct Statuses {
    statuses: Vec<Status>,
}

/// What is known of some bytes: `private`, `never`, or when they were last accessed.
#[derive(Serialize)]
#[serde(untagged)]
enum Status {
    Word(&'static str),
    Accessed {
        accessed: Pair,
        /// Others may have changed them since.
        stale: bool,
    },
}

pub fn shared(debuggee: &mut Debuggee, ranges: &[(u64, u64)]) -> Result<Statuses, String> {
    let statuses: Result<Vec<Status>, String> =
        ranges.iter().take(MAX_RANGES).map(|&(address, length)| status(debuggee, address, length)).collect();
    Ok(Statuses { statuses: statuses? })
}

/// Whether it takes the log to tell what is known of them.
pub fn ask_the_log(debuggee: &mut Debuggee, ranges: &[(u64, u64)]) -> bool {
    let mut accessed =
        |&(address, length): &(u64, u64)| matches!(debuggee.timeline.shared_status(address, length), Ok(SharedStatus::LastAccessed(_)));
    ranges.iter().take(MAX_RANGES).any(&mut accessed)
}

fn status(debuggee: &mut Debuggee, address: u64, length: u64) -> Result<Status, String> {
    Ok(match debuggee.timeline.shared_status(address, length).map_err(|error| error.to_string())? {
        SharedStatus::Private => Status::Word("private"),
        SharedStatus::NeverAccessed => Status::Word("never"),
        SharedStatus::LastAccessed(time) => Status::Accessed { accessed: pair(time), stale: is_stale(debuggee, address, length, time) },
    })
}

/// By the log, if it can tell; else whatever was not accessed in this very block may be.
fn is_stale(debuggee: &mut Debuggee, address: u64, length: u64, accessed: Time) -> bool {
    let at = debuggee.timeline.now();
    let told = debuggee.correlate.is_stale(&Query { address, length, at, limit: 1, writers_only: false, sources: false });
    told.unwrap_or(accessed.bbcount != at.bbcount)
}
