//! Memory: mappings, what is known of shared bytes, and one-off searches for a change.

use replayer::{Points, WatchKind, Watchpoint};
use serde::{Deserialize, Serialize};

use super::time::Status;
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
    debuggee.armed = Some(Points { breakpoints: Vec::new(), watchpoints: vec![point] });
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

pub fn shared(debuggee: &mut Debuggee, ranges: &[(u64, u64)]) -> Result<Statuses, String> {
    let statuses: Result<Vec<Status>, String> = ranges
        .iter()
        .take(MAX_RANGES)
        .map(|&(address, length)| debuggee.timeline.shared_status(address, length).map(Status::from).map_err(|error| error.to_string()))
        .collect();
    Ok(Statuses { statuses: statuses? })
}
