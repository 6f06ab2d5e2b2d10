//! The event log in pages: ranges and names are filtered here, so that only what may be shown crosses the pipe.

use std::collections::BTreeMap;

use replayer::{Event, Time};
use serde::{Deserialize, Serialize};

use super::time::{Pair, pair};
use crate::target::Debuggee;

/// Rows in one reply at most: about a megabyte.
const MAX_ROWS: usize = 16_384;
/// Events looked at for one reply at most: keeps Ctrl-C quick when a filter matches nothing.
const MAX_SCANNED: usize = 200_000;

/// What to send. All bounds are optional; a page after the first starts at the cursor of the one before.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Page {
    /// First bbcount to show.
    min: Option<u64>,
    /// First bbcount not to show.
    max: Option<u64>,
    /// Only events after (in the direction of travel) this time.
    beyond: Option<Pair>,
    /// Only events with this name.
    name: Option<String>,
    /// Newest first.
    backward: bool,
    /// Look at this many at most, over all pages the caller's business.
    limit: Option<usize>,
    /// Where the page before ended.
    cursor: Option<usize>,
}

#[derive(Serialize)]
pub struct Rows {
    /// bbcount, pc, name, result, syscall, signum, address, tid, timestamp, size
    events: Vec<Row>,
    /// How many events were looked at, shown or not.
    scanned: usize,
    /// The next page's cursor; none at the end.
    cursor: Option<usize>,
}

type Row = (u64, u64, String, i64, Option<u64>, i32, u64, i32, u64, u64);

fn row(event: Event) -> Row {
    let Event { time, name, result, syscall, signum, address, tid, timestamp, size } = event;
    (time.bbcount, time.pc, name, result, syscall, signum, address, tid, timestamp, size)
}

pub fn page(debuggee: &Debuggee, page: &Page) -> Rows {
    let timeline = debuggee.timeline.as_ref();
    let first_at = |bbcount: u64| timeline.first_event_at_or_after(Time { bbcount, pc: 0 });
    let mut low = page.min.map_or(0, first_at);
    let mut high = page.max.map_or_else(|| timeline.event_count(), first_at);
    match page.beyond {
        Some((bbcount, pc)) if page.backward => high = high.min(timeline.first_event_at_or_after(Time { bbcount, pc })),
        Some((bbcount, pc)) => {
            let here = Time { bbcount, pc };
            low = low.max(first_after(here, timeline.first_event_at_or_after(here), |index| timeline.event(index).time, high));
        }
        None => {}
    }
    if let Some(cursor) = page.cursor {
        if page.backward { high = high.min(cursor) } else { low = low.max(cursor) }
    }
    let mut rows = Rows { events: Vec::new(), scanned: 0, cursor: None };
    let allowed = page.limit.unwrap_or(usize::MAX).min(MAX_SCANNED);
    while low < high {
        if rows.scanned == allowed || rows.events.len() == MAX_ROWS {
            rows.cursor = Some(if page.backward { high } else { low });
            break;
        }
        let index = if page.backward { high - 1 } else { low };
        if page.backward {
            high -= 1
        } else {
            low += 1
        }
        rows.scanned += 1;
        let event = timeline.event(index);
        if page.name.as_ref().is_none_or(|name| *name == event.name) {
            rows.events.push(row(event));
        }
    }
    rows
}

/// The first event later than `here`, walking over those exactly there.
fn first_after(here: Time, mut index: usize, time_of: impl Fn(usize) -> Time, end: usize) -> usize {
    while index < end && time_of(index) <= here {
        index += 1;
    }
    index
}

#[derive(Serialize)]
pub struct Stats {
    count: usize,
    size: u64,
    /// Count and size by name.
    names: BTreeMap<String, (usize, u64)>,
    first: Option<Pair>,
    last: Option<Pair>,
}

pub fn stats(debuggee: &Debuggee) -> Stats {
    let timeline = debuggee.timeline.as_ref();
    let count = timeline.event_count();
    let mut names: BTreeMap<String, (usize, u64)> = BTreeMap::new();
    let mut total = 0;
    for index in 0..count {
        let event = timeline.event(index);
        total += event.size;
        let entry = names.entry(event.name).or_default();
        entry.0 += 1;
        entry.1 += event.size;
    }
    let time_of = |index: usize| pair(timeline.event(index).time);
    Stats { count, size: total, names, first: (count > 0).then(|| time_of(0)), last: count.checked_sub(1).map(time_of) }
}
