//! `catch syscall`: system calls are events of the recording, so where to stop next is looked up, and only then searched for.

use gdbstub::target::TargetResult;
use gdbstub::target::ext::catch_syscalls::{CatchSyscallPosition, CatchSyscalls, SyscallNumbers};
use replayer::{Direction, Error, Stop, StopReason, Time};

use super::Debuggee;

/// Which system calls stop the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Caught {
    None,
    All,
    Only(Vec<u64>),
}

impl Caught {
    fn includes(&self, number: u64) -> bool {
        match self {
            Caught::None => false,
            Caught::All => true,
            Caught::Only(numbers) => numbers.contains(&number),
        }
    }
}

impl CatchSyscalls for Debuggee {
    fn enable_catch_syscalls(&mut self, filter: Option<SyscallNumbers<'_, u64>>) -> TargetResult<(), Self> {
        self.caught = filter.map_or(Caught::All, |numbers| Caught::Only(numbers.collect()));
        Ok(())
    }

    fn disable_catch_syscalls(&mut self) -> TargetResult<(), Self> {
        self.caught = Caught::None;
        Ok(())
    }
}

/// A system call about to be made, or just made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    pub number: u64,
    pub position: CatchSyscallPosition,
}

/// Where a search ended: as the timeline says, or at a system call.
pub enum Halt {
    Stop(Stop),
    Call(Call),
}

impl Debuggee {
    /// Like the timeline's `resume`, but stops at caught system calls as well.
    pub(super) fn resume_to_call(&mut self, direction: Direction) -> Result<Halt, Error> {
        let here = self.timeline.now();
        let next = match direction {
            Direction::Forward => {
                if let Some(number) = self.call_at(here) {
                    let stop = self.step(direction)?;
                    let made = Call { number, position: CatchSyscallPosition::Return };
                    return Ok(if stop.reason == StopReason::Arrived { Halt::Call(made) } else { Halt::Stop(stop) });
                }
                self.call_after(here).map(|(time, number)| (time, Call { number, position: CatchSyscallPosition::Entry }))
            }
            Direction::Backward => self.call_before(here)?,
        };
        let Some((time, call)) = next else {
            return self.timeline.resume(direction, &self.points, &self.cancel.clone()).map(Halt::Stop);
        };
        let mut points = self.points.clone();
        points.breakpoints.push(time.pc);
        points.conditions.retain(|condition| condition.pc != time.pc);
        loop {
            let stop = self.timeline.resume(direction, &points, &self.cancel.clone())?;
            let passes = match direction {
                Direction::Forward => stop.time < time,
                Direction::Backward => stop.time > time,
            };
            match stop.reason {
                StopReason::Breakpoint if stop.time == time => return Ok(Halt::Call(call)),
                // The same instruction, for another call.
                StopReason::Breakpoint if passes && !self.points.breakpoints.contains(&stop.time.pc) => {}
                _ => return Ok(Halt::Stop(stop)),
            }
        }
    }

    fn caught_call(&self, index: usize) -> Option<(Time, u64)> {
        let event = self.timeline.event(index);
        let number = event.syscall.filter(|number| self.caught.includes(*number))?;
        Some((event.time, number))
    }

    fn call_at(&self, time: Time) -> Option<u64> {
        let first = self.timeline.first_event_at_or_after(time);
        (first < self.timeline.event_count()).then(|| self.caught_call(first)).flatten().filter(|call| call.0 == time).map(|call| call.1)
    }

    fn call_after(&self, time: Time) -> Option<(Time, u64)> {
        let first = self.timeline.first_event_at_or_after(time);
        (first..self.timeline.event_count()).filter_map(|index| self.caught_call(index)).find(|call| call.0 > time)
    }

    /// The return from the last call before `here`, or that call itself if `here` is the return.
    fn call_before(&mut self, here: Time) -> Result<Option<(Time, Call)>, Error> {
        let first = self.timeline.first_event_at_or_after(here);
        let Some((time, number)) = (0..first).rev().find_map(|index| self.caught_call(index)) else { return Ok(None) };
        self.timeline.seek(time.bbcount, Some(time.pc))?;
        let made = self.timeline.step(Direction::Forward)?;
        self.timeline.seek(here.bbcount, Some(here.pc))?;
        Ok(Some(if made.reason == StopReason::Arrived && made.time < here {
            (made.time, Call { number, position: CatchSyscallPosition::Return })
        } else {
            (time, Call { number, position: CatchSyscallPosition::Entry })
        }))
    }
}
