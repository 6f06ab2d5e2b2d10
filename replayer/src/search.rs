//! Stepping and searching, both ways.
//!
//! Backwards means forwards again from an earlier checkpoint: a search replays one segment between checkpoints after the other, the latest
//! first, and remembers the last hit in each; a step replays the last two blocks instruction by instruction.

use std::time::Duration;

use replay_guest::control::{Reason, run_flags};

use crate::process::{LastHit, Process, Run};
use crate::replay::Replay;
use crate::timeline::{Cancel, Error, Points, Stop, StopReason, Time, Timeline, WatchKind};

/// How many blocks before the one stepped back from a near checkpoint is left.
const NEAR_BLOCKS: u64 = 256;
/// No near checkpoint where replaying takes less than this.
const NEAR_COST_NS: u64 = 2_000_000;

fn encode(points: &Points) -> Vec<u8> {
    let kind = |kind: WatchKind| match kind {
        WatchKind::Write => 0,
        WatchKind::Read => 1,
        WatchKind::Access => 2,
    };
    let watches: Vec<_> = points.watchpoints.iter().map(|watch| (watch.address, watch.length, kind(watch.kind))).collect();
    let conditions = points.conditions.iter().map(|condition| (condition.pc, condition.code.as_slice()));
    replay_guest::watch::Points::encode(&points.breakpoints, &watches, conditions)
}

fn reason_of(hit: &LastHit, points: &Points) -> StopReason {
    hit.watchpoint.and_then(|index| points.watchpoints.get(index)).map_or(StopReason::Breakpoint, |watch| StopReason::Watchpoint(*watch))
}

/// What a search of one segment found.
enum Outcome {
    Hit(LastHit),
    Nothing,
    Cancelled,
}

/// How long a segment that has a hit is searched before it is looked at from its other end.
const PATIENCE: Duration = Duration::from_millis(60);
/// Where it is cut for that: blocks before its end.
const CUTS: [u64; 4] = [1 << 21, 1 << 16, 1 << 11, 1 << 6];

/// The last hit before `limit` from where `process` is on.
///
/// Each hit costs a stop of the replay. Where they are many, as in a hot loop, the last of them is found quicker by replaying without looking
/// until shortly before `limit`, and searching the last piece first.
fn last_hit(mut process: Process, limit: Time, points: &[u8], cancel: &Cancel) -> Result<Outcome, Error> {
    process.set_points(points)?;
    let mut hit = None;
    loop {
        let run = Run { budget: Some(PATIENCE), ..Run::to(limit).noting_last() };
        let reply = process.run(&run, Some(cancel))?;
        // A pause begins a new run, which knows nothing of the last one's hits.
        hit = reply.hit.or(hit);
        match reply.reason {
            Reason::Arrived => return Ok(hit.map_or(Outcome::Nothing, Outcome::Hit)),
            Reason::Paused if cancel.is_cancelled() => return Ok(Outcome::Cancelled),
            Reason::Paused => {}
            Reason::Cancelled => return Ok(Outcome::Cancelled),
            _ => return Err(Error::Process(format!("replaying from {} does not lead to {limit}", process.time))),
        }
        let left = limit.bbcount.saturating_sub(process.time.bbcount);
        if let Some(found) = hit
            && CUTS.iter().any(|cut| *cut < left)
        {
            let later = last_hit_in_pieces(process, limit, points, cancel)?;
            return Ok(if matches!(later, Outcome::Nothing) { Outcome::Hit(found) } else { later });
        }
    }
}

fn last_hit_in_pieces(mut process: Process, limit: Time, points: &[u8], cancel: &Cancel) -> Result<Outcome, Error> {
    let mut pieces = vec![process.fork()?];
    process.set_points(&encode(&Points::default()))?;
    for cut in CUTS {
        let start = Time { bbcount: limit.bbcount.saturating_sub(cut), pc: 0 };
        if start <= process.time {
            continue;
        }
        match process.run(&Run::to(start), Some(cancel))?.reason {
            Reason::Cancelled => return Ok(Outcome::Cancelled),
            // A block that a signal forestalled has no time: then this is soon behind it.
            Reason::Arrived | Reason::Missed if process.time < limit => pieces.push(process.fork()?),
            Reason::Arrived | Reason::Missed => {}
            _ => return Err(Error::Process(format!("replaying does not lead to {start}"))),
        }
    }
    let mut end = limit;
    while let Some(piece) = pieces.pop() {
        let start = piece.time;
        match last_hit(piece, end, points, cancel)? {
            Outcome::Nothing => end = start,
            found => return Ok(found),
        }
    }
    Ok(Outcome::Nothing)
}

impl Replay {
    pub(crate) fn step_forward(&mut self) -> Result<Stop, Error> {
        let here = self.now();
        if here >= self.end() {
            return Ok(self.stop(StopReason::End));
        }
        match self.current.step(None) {
            Ok(reply) if reply.reason == Reason::End => Ok(self.stop(StopReason::End)),
            Ok(_) => Ok(self.stop(StopReason::Arrived)),
            Err(error) => Err(self.restored(here, error)),
        }
    }

    pub(crate) fn step_backward(&mut self) -> Result<Stop, Error> {
        let here = self.now();
        if here <= self.begin() {
            return Ok(self.stop(StopReason::Begin));
        }
        self.leave_near(here)?;
        let previous = self.time_before(here)?;
        if !self.go(previous)? {
            return Err(Error::Process(format!("the way back to {previous} is lost")));
        }
        Ok(self.stop(StopReason::Arrived))
    }

    /// Makes sure that a checkpoint is not far before `here`.
    fn leave_near(&mut self, here: Time) -> Result<(), Error> {
        let target = Time { bbcount: here.bbcount.saturating_sub(NEAR_BLOCKS), pc: 0 };
        let nearest = self.checkpoints.nearest(here);
        if target.bbcount <= nearest.time.bbcount {
            return Ok(());
        }
        let from = nearest.cost_ns;
        let mut process = nearest.fork()?;
        let reply = Self::travel(&mut self.checkpoints, &mut process, &Run::to(target), None)?;
        let stands = matches!(reply.reason, Reason::Arrived | Reason::Missed) && process.time < here;
        if stands && process.cost_ns.saturating_sub(from) > NEAR_COST_NS {
            self.checkpoints.add_near(process);
        }
        Ok(())
    }

    /// The time from which a step leads to `here`.
    fn time_before(&mut self, here: Time) -> Result<Time, Error> {
        // Usually the block before has a time; a block that a signal forestalled has none. The bound keeps this from stepping for ever.
        for back in [1, 2, 3, 16, 256, 4096] {
            let start = Time { bbcount: here.bbcount.saturating_sub(back), pc: 0 };
            let mut process = self.process_before(start, here)?;
            if process.time < here {
                let reply = process.step(Some(here))?;
                if let (true, Some(previous)) = (reply.time == here, reply.previous) {
                    return Ok(previous);
                }
            }
        }
        Err(Error::Process(format!("no way leads to {here}")))
    }

    /// A process at or soon behind `start`, which may not exist, or at the checkpoint before it.
    fn process_before(&mut self, start: Time, here: Time) -> Result<Process, Error> {
        let at_most = match here.pc.checked_sub(1) {
            Some(pc) => Time { bbcount: here.bbcount, pc },
            None => Time { bbcount: here.bbcount.saturating_sub(1), pc: u64::MAX },
        };
        let base = if start > self.begin() { start } else { self.begin() };
        let mut process = self.checkpoints.nearest(base.min(at_most)).fork()?;
        if process.time < start {
            Self::travel(&mut self.checkpoints, &mut process, &Run::to(start), None)?;
        }
        Ok(process)
    }

    pub(crate) fn resume_forward(&mut self, points: &Points, cancel: &Cancel) -> Result<Stop, Error> {
        let here = self.now();
        if here >= self.end() {
            return Ok(self.stop(StopReason::End));
        }
        let run = Run { flags: run_flags::POINTS | run_flags::MOVE_FIRST, ..Run::default() };
        let outcome = match self.current.set_points(&encode(points)) {
            Ok(()) => Self::travel(&mut self.checkpoints, &mut self.current, &run, Some(cancel)),
            Err(error) => Err(error),
        };
        let reply = match outcome {
            Ok(reply) => reply,
            Err(error) => return Err(self.restored(here, error)),
        };
        let reason = match reply.reason {
            Reason::Breakpoint => StopReason::Breakpoint,
            Reason::Watchpoint => match points.watchpoints.get(reply.detail as usize) {
                Some(watch) => StopReason::Watchpoint(*watch),
                None => StopReason::Arrived,
            },
            Reason::Cancelled => StopReason::Cancelled,
            _ => self.fatal_signal().map_or(StopReason::End, StopReason::Signal),
        };
        Ok(self.stop(reason))
    }

    pub(crate) fn resume_backward(&mut self, points: &Points, cancel: &Cancel) -> Result<Stop, Error> {
        let here = self.now();
        if here <= self.begin() {
            return Ok(self.stop(StopReason::Begin));
        }
        let data = encode(points);
        let mut limit = here;
        let hit = loop {
            let Some(checkpoint) = self.checkpoints.before(limit) else { break None };
            let start = checkpoint.time;
            match last_hit(checkpoint.fork()?, limit, &data, cancel)? {
                Outcome::Cancelled => return Ok(self.stop(StopReason::Cancelled)),
                Outcome::Hit(hit) => break Some(hit),
                Outcome::Nothing => limit = start,
            }
        };
        let (target, reason) = match &hit {
            Some(hit) => (hit.time, reason_of(hit, points)),
            None => (self.begin(), StopReason::Begin),
        };
        if !self.go(target)? {
            return Err(Error::Process(format!("the way back to {target} is lost")));
        }
        Ok(self.stop(reason))
    }
}
