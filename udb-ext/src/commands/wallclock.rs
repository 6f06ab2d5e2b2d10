//! Times of day.

use serde::Serialize;

use super::time::{Now, seek};
use crate::target::Debuggee;
use crate::wallclock::{Nanoseconds, Wallclock};

#[derive(Serialize)]
pub struct Clock {
    now: Nanoseconds,
    begin: Nanoseconds,
    end: Nanoseconds,
}

pub fn clock(debuggee: &Debuggee) -> Result<Clock, String> {
    let wallclock = known(debuggee)?;
    let timeline = debuggee.timeline.as_ref();
    Ok(Clock { now: wallclock.now(timeline, timeline.now()), begin: wallclock.begin, end: wallclock.end })
}

pub fn seek_clock(debuggee: &mut Debuggee, wanted: Nanoseconds) -> Result<Now, String> {
    let wallclock = known(debuggee)?;
    let timeline = debuggee.timeline.as_ref();
    let time = wallclock.event_at(timeline, wanted).unwrap_or_else(|| timeline.end());
    seek(debuggee, time.bbcount, (time.pc != u64::MAX).then_some(time.pc))
}

fn known(debuggee: &Debuggee) -> Result<Wallclock, String> {
    debuggee.wallclock.ok_or_else(|| "this recording holds no times of day; `uinfo time` shows the time in the recording".into())
}
