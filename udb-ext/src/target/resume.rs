//! Movement: gdb's resumptions become [`Action`]s, which the session runs so that a Ctrl-C is seen meanwhile.

use gdbstub::common::{Signal, Tid};
use gdbstub::stub::MultiThreadStopReason;
use gdbstub::target::ext::base::multithread::{
    MultiThreadRangeStepping, MultiThreadRangeSteppingOps, MultiThreadResume, MultiThreadSchedulerLocking, MultiThreadSchedulerLockingOps,
    MultiThreadSingleStep, MultiThreadSingleStepOps,
};
use gdbstub::target::ext::base::reverse_exec::{ReplayLogPosition, ReverseCont, ReverseContOps, ReverseStep, ReverseStepOps};
use replayer::{Direction, Error, Points, Stop, StopReason, Time, WatchKind, Watchpoint};

use super::syscalls::{Caught, Halt};
use super::{Debuggee, gdb_kind, overlaps};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Continue(Direction),
    Step(Direction),
    /// Step forwards until the pc leaves `start..end`.
    Range {
        start: u64,
        end: u64,
    },
}

impl MultiThreadResume for Debuggee {
    fn resume(&mut self) -> Result<(), Self::Error> {
        self.action.get_or_insert(Action::Continue(Direction::Forward));
        Ok(())
    }

    fn clear_resume_actions(&mut self) -> Result<(), Self::Error> {
        self.action = None;
        Ok(())
    }

    fn set_resume_action_continue(&mut self, _tid: Tid, _signal: Option<Signal>) -> Result<(), Self::Error> {
        // A signal to deliver is ignored: what was delivered then is in the recording.
        self.action = Some(Action::Continue(Direction::Forward));
        Ok(())
    }

    fn support_single_step(&mut self) -> Option<MultiThreadSingleStepOps<'_, Self>> {
        Some(self)
    }

    fn support_range_step(&mut self) -> Option<MultiThreadRangeSteppingOps<'_, Self>> {
        Some(self)
    }

    fn support_reverse_step(&mut self) -> Option<ReverseStepOps<'_, Tid, Self>> {
        Some(self)
    }

    fn support_reverse_cont(&mut self) -> Option<ReverseContOps<'_, Tid, Self>> {
        Some(self)
    }

    fn support_scheduler_locking(&mut self) -> Option<MultiThreadSchedulerLockingOps<'_, Self>> {
        Some(self)
    }
}

impl MultiThreadSchedulerLocking for Debuggee {
    fn set_resume_action_scheduler_lock(&mut self) -> Result<(), Self::Error> {
        // The order of threads is the recorded one.
        Ok(())
    }
}

impl MultiThreadSingleStep for Debuggee {
    fn set_resume_action_step(&mut self, _tid: Tid, _signal: Option<Signal>) -> Result<(), Self::Error> {
        self.action = Some(Action::Step(Direction::Forward));
        Ok(())
    }
}

impl MultiThreadRangeStepping for Debuggee {
    fn set_resume_action_range_step(&mut self, _tid: Tid, start: u64, end: u64) -> Result<(), Self::Error> {
        self.action = Some(Action::Range { start, end });
        Ok(())
    }
}

impl ReverseStep<Tid> for Debuggee {
    fn reverse_step(&mut self, _tid: Tid) -> Result<(), Self::Error> {
        self.action = Some(Action::Step(Direction::Backward));
        Ok(())
    }
}

impl ReverseCont<Tid> for Debuggee {
    fn reverse_cont(&mut self) -> Result<(), Self::Error> {
        self.action = Some(Action::Continue(Direction::Backward));
        Ok(())
    }
}

impl Debuggee {
    /// Runs what gdb asked for; why it stopped. A failure is a stop where the timeline is, with the reason in `complaint`.
    pub fn run(&mut self) -> MultiThreadStopReason<u64> {
        let action = self.action.take().unwrap_or(Action::Continue(Direction::Forward));
        self.complaint = None;
        let outcome = match (self.armed.take(), action) {
            (Some(points), Action::Continue(direction)) => self.timeline.resume(direction, &points, &self.cancel.clone()).map(Halt::Stop),
            (_, Action::Continue(direction)) if self.caught != Caught::None => self.resume_to_call(direction),
            (_, Action::Continue(direction)) => self.timeline.resume(direction, &self.points, &self.cancel.clone()).map(Halt::Stop),
            (_, Action::Step(direction)) => self.step(direction).map(Halt::Stop),
            (_, Action::Range { start, end }) => self.step_range(start, end).map(Halt::Stop),
        };
        self.farthest = self.farthest.max(self.timeline.now());
        match outcome {
            Ok(Halt::Stop(stop)) => self.gdb_reason(stop),
            Ok(Halt::Call(call)) => {
                MultiThreadStopReason::CatchSyscall { tid: Some(self.tid()), number: call.number, position: call.position }
            }
            Err(error) => {
                self.complaint = Some(error.to_string());
                self.signal(Signal::SIGTRAP)
            }
        }
    }

    pub(super) fn step(&mut self, direction: Direction) -> Result<Stop, Error> {
        let here = self.timeline.now();
        let before = self.watched_bytes();
        let stop = self.timeline.step(direction)?;
        if stop.reason != StopReason::Arrived {
            return Ok(stop);
        }
        if let Some(point) = self.changed_since(&before) {
            return Ok(Stop { reason: StopReason::Watchpoint(point), ..stop });
        }
        self.touched_between(direction, here, stop)
    }

    fn step_range(&mut self, start: u64, end: u64) -> Result<Stop, Error> {
        loop {
            let stop = self.step(Direction::Forward)?;
            let inside = (start..end).contains(&stop.time.pc);
            if stop.reason != StopReason::Arrived || !inside || self.points.breakpoints.contains(&stop.time.pc) {
                return Ok(stop);
            }
            if self.cancel.is_cancelled() {
                return Ok(Stop { reason: StopReason::Cancelled, ..stop });
            }
        }
    }

    /// A step does not look for watchpoints, so that is done here: what changes shows in the bytes.
    fn watched_bytes(&mut self) -> Vec<(Watchpoint, Vec<u8>)> {
        let points = self.points.watchpoints.clone();
        points.into_iter().filter(|point| point.kind != WatchKind::Read).map(|point| (point, self.bytes_at(&point))).collect()
    }

    fn changed_since(&mut self, before: &[(Watchpoint, Vec<u8>)]) -> Option<Watchpoint> {
        before.iter().find(|(point, bytes)| self.bytes_at(point) != *bytes).map(|(point, _)| *point)
    }

    fn bytes_at(&mut self, point: &Watchpoint) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(point.length).unwrap_or(0)];
        let count = self.timeline.read_memory(point.address, &mut bytes).unwrap_or(0);
        bytes.truncate(count);
        bytes
    }

    /// A touch that changed nothing can only be found by a search over that one step.
    fn touched_between(&mut self, direction: Direction, here: Time, stop: Stop) -> Result<Stop, Error> {
        let watchpoints: Vec<_> = self.points.watchpoints.iter().filter(|point| point.kind != WatchKind::Write).copied().collect();
        if watchpoints.is_empty() {
            return Ok(stop);
        }
        self.timeline.seek(here.bbcount, Some(here.pc))?;
        let points = Points { breakpoints: vec![stop.time.pc], watchpoints, conditions: Vec::new() };
        let found = self.timeline.resume(direction, &points, &self.cancel.clone())?;
        if found.time == stop.time && matches!(found.reason, StopReason::Watchpoint(_)) {
            return Ok(found);
        }
        self.timeline.seek(stop.time.bbcount, Some(stop.time.pc))
    }

    fn gdb_reason(&self, stop: Stop) -> MultiThreadStopReason<u64> {
        let tid = self.tid();
        match stop.reason {
            StopReason::Arrived => self.signal(Signal::SIGTRAP),
            StopReason::Breakpoint if self.placed.has_hardware(stop.time.pc) => MultiThreadStopReason::HwBreak(tid),
            StopReason::Breakpoint => MultiThreadStopReason::SwBreak(tid),
            StopReason::Watchpoint(point) if !self.watches(&point) => self.signal(Signal::SIGTRAP),
            StopReason::Watchpoint(point) => MultiThreadStopReason::Watch { tid, kind: gdb_kind(point.kind), addr: point.address },
            StopReason::Signal(number) => self.signal(u8::try_from(number).map_or(Signal::SIGTRAP, gdb_signal)),
            StopReason::Begin => MultiThreadStopReason::ReplayLog { tid: Some(tid), pos: ReplayLogPosition::Begin },
            StopReason::End => MultiThreadStopReason::ReplayLog { tid: Some(tid), pos: ReplayLogPosition::End },
            StopReason::Cancelled => self.signal(Signal::SIGINT),
        }
    }

    /// Whether gdb knows of a watchpoint there: an armed search has points of its own.
    fn watches(&self, point: &Watchpoint) -> bool {
        self.points.watchpoints.iter().any(|other| overlaps(other, point.address, point.length))
    }

    fn signal(&self, signal: Signal) -> MultiThreadStopReason<u64> {
        MultiThreadStopReason::SignalWithThread { tid: self.tid(), signal }
    }
}

/// gdb's number of a Linux signal: equal up to 6 and for a few more; the rest have numbers of gdb's own.
fn gdb_signal(linux: u8) -> Signal {
    match linux {
        1..=6 | 8 | 9 | 11 | 13..=15 => Signal(linux),
        7 => Signal::SIGBUS,
        10 => Signal::SIGUSR1,
        12 => Signal::SIGUSR2,
        17 => Signal::SIGCHLD,
        18 => Signal::SIGCONT,
        19 => Signal::SIGSTOP,
        20 => Signal::SIGTSTP,
        21 => Signal::SIGTTIN,
        22 => Signal::SIGTTOU,
        23 => Signal::SIGURG,
        24 => Signal::SIGXCPU,
        25 => Signal::SIGXFSZ,
        26 => Signal::SIGVTALRM,
        27 => Signal::SIGPROF,
        28 => Signal::SIGWINCH,
        29 => Signal::SIGIO,
        30 => Signal::SIGPWR,
        31 => Signal::SIGSYS,
        _ => Signal::UNKNOWN,
    }
}
