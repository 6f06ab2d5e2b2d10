//! The timeline of a recording.
//!
//! R1. `current` is a replay process at [`Timeline::now`]; it is never at a time behind an error.
//! R2. An operation that may fail for reasons of its own (a pc that is never reached) runs `current` only if the way back is known:
//!     after a failure a checkpoint is replayed to where the timeline was.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use recording::{EndReason, MappingFlags, Metadata, Recording};
use replay_guest::space::{Map, origin};

use crate::checkpoints::Checkpoints;
use crate::events::EventList;
use crate::process::{Machine, Process, Reply, Run};
use crate::timeline::{
    Cancel, Direction, Error, Event, FileInRecording, MappingInfo, Points, Registers, SharedStatus, Stop, StopReason, Time, Timeline,
};
use crate::{cpu, image};
use replay_guest::control::Reason;

/// See the module's head.
pub struct Replay {
    pub(crate) recording: Recording,
    pub(crate) events: EventList,
    pub(crate) current: Process,
    pub(crate) checkpoints: Checkpoints,
    begin: Time,
    machine: Arc<Machine>,
}

impl Replay {
    /// Opens a recording and stands at its begin.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let recording = Recording::open(path).map_err(|error| Error::Recording(error.to_string()))?;
        cpu::check(&recording)?;
        let events_file = image::events_file(&recording)?;
        let events = EventList::new(&recording, &events_file)?;
        let image = image::image_file(&recording, events.bytes())?;
        let machine = Machine::new(image, events_file)?;
        let mut first = machine.start().map_err(|error| match error {
            Error::Recording(what) => Error::Recording(format!("{}: the state at begin cannot be rebuilt: {what}", path.display())),
            other => other,
        })?;
        let current = first.fork()?;
        let begin = first.time;
        Ok(Self { recording, events, current, checkpoints: Checkpoints::new(first), begin, machine })
    }

    pub fn metadata(&self) -> &Metadata {
        self.recording.meta()
    }

    /// A hash of all memory at the current time.
    pub fn memory_hash(&mut self) -> Result<u64, Error> {
        self.current.hash()
    }

    /// How many checkpoints there are.
    pub fn checkpoint_count(&self) -> usize {
        self.checkpoints.len()
    }

    /// Takes checkpoints so that about this much replay lies between two; it grows by itself when they become too many.
    pub fn set_checkpoint_interval(&mut self, interval: Duration) {
        self.checkpoints.set_interval(interval);
    }

    /// How long a replay process may make no progress at all, whatever it does, before it is ended and what was asked for fails with
    /// [`Error::Process`]. A minute at first.
    pub fn set_patience(&self, patience: Duration) {
        self.machine.set_patience(patience);
    }

    pub(crate) fn stop(&self, reason: StopReason) -> Stop {
        Stop { time: self.current.time, reason }
    }

    /// Runs `process`, leaving checkpoints on its way.
    pub(crate) fn travel(checkpoints: &mut Checkpoints, process: &mut Process, run: &Run, cancel: Option<&Cancel>) -> Result<Reply, Error> {
        let mut run = *run;
        let mut hit = None;
        loop {
            run.budget = Some(checkpoints.budget(process.time, process.cost_ns));
            let mut reply = process.run(&run, cancel)?;
            // A pause begins a new run, which knows nothing of the last one's hits.
            hit = reply.hit.or(hit);
            reply.hit = hit;
            // What has been moved is not to be moved again.
            run.flags &= !replay_guest::control::run_flags::MOVE_FIRST;
            if checkpoints.wants(process.time, process.cost_ns) {
                let checkpoint = process.fork()?;
                checkpoints.add(checkpoint);
            }
            if reply.reason != Reason::Paused {
                return Ok(reply);
            }
            if cancel.is_some_and(Cancel::is_cancelled) {
                return Ok(Reply { reason: Reason::Cancelled, ..reply });
            }
        }
    }

    /// A process at `target` (pc 0: the first time of that bbcount), or `None` if it is never reached. `current` stays.
    pub(crate) fn process_at(&mut self, target: Time) -> Result<Option<Process>, Error> {
        let mut process = self.checkpoints.nearest(target).fork()?;
        let reply = Self::travel(&mut self.checkpoints, &mut process, &Run::to(target), None)?;
        Ok((reply.reason == Reason::Arrived).then_some(process))
    }

    /// Moves to `target`; `false` (and nothing moved) if it is never reached.
    pub(crate) fn go(&mut self, target: Time) -> Result<bool, Error> {
        let here = self.current.time;
        if target == here {
            return Ok(true);
        }
        // Going on from here is shorter unless a checkpoint lies between.
        if here < target && self.checkpoints.nearest(target).time <= here {
            let outcome = Self::travel(&mut self.checkpoints, &mut self.current, &Run::to(target), None);
            if matches!(&outcome, Ok(reply) if reply.reason == Reason::Arrived) {
                return Ok(true);
            }
            return match outcome {
                Ok(_) => self.restore(here).map(|()| false),
                Err(error) => Err(self.restored(here, error)),
            };
        }
        match self.process_at(target)? {
            Some(process) => {
                self.current = process;
                Ok(true)
            }
            None => Ok(false),
        }
    }

    /// Puts `current` back to where it was before it went astray.
    pub(crate) fn restore(&mut self, time: Time) -> Result<(), Error> {
        match self.process_at(time)? {
            Some(process) => {
                self.current = process;
                Ok(())
            }
            None => Err(Error::Process(format!("the way back to {time} is lost"))),
        }
    }

    /// What to say of a failure after which the timeline goes back to where it was: why, also if there is no way back, as without the
    /// processes that were needed.
    pub(crate) fn restored(&mut self, time: Time, error: Error) -> Error {
        match (self.restore(time), error) {
            (Err(lost), Error::Diverged { .. }) => lost,
            (_, error) => error,
        }
    }

    fn name_of(&self, map: &Map) -> String {
        match map.origin {
            origin::ANONYMOUS => String::new(),
            origin::HEAP => "[heap]".into(),
            made if made & origin::EVENT != 0 => self.name_by_event(made & !origin::EVENT),
            index => {
                let named = usize::try_from(index).ok().and_then(|index| self.recording.mappings().get(index));
                named.map_or_else(String::new, |mapping| String::from_utf8_lossy(&mapping.name).into_owned())
            }
        }
    }

    /// A file mapped while recording: the event has its descriptor, not its path.
    fn name_by_event(&self, offset: u64) -> String {
        let event = self.events.at_offset(offset);
        match event.and_then(|event| event.body().ok()) {
            Some(recording::Body::Syscall(call)) => format!("(file descriptor {})", call.args[4] as i32),
            _ => String::new(),
        }
    }

    fn is_stack(&self, map: &Map) -> bool {
        let mapping = usize::try_from(map.origin).ok().and_then(|index| self.recording.mappings().get(index));
        mapping.is_some_and(|mapping| mapping.flags.contains(MappingFlags::STACK))
    }
}

impl Timeline for Replay {
    fn begin(&self) -> Time {
        self.begin
    }

    fn end(&self) -> Time {
        self.events.end()
    }

    fn now(&self) -> Time {
        self.current.time
    }

    fn seek(&mut self, bbcount: u64, pc: Option<u64>) -> Result<Stop, Error> {
        let (begin, end) = (self.begin, self.end());
        if bbcount < begin.bbcount || bbcount > end.bbcount {
            return Err(Error::OutOfRange { wanted: bbcount, begin, end });
        }
        let target = match pc {
            None if bbcount == begin.bbcount => begin,
            None => Time { bbcount, pc: 0 },
            Some(pc) => Time { bbcount, pc },
        };
        let missing = Error::NoSuchTime { bbcount, pc: pc.unwrap_or(0) };
        if target < begin || target > end {
            return Err(missing);
        }
        let here = self.now();
        if !self.go(target)? {
            return Err(missing);
        }
        // Only a jump leads to pc 0, so it can be no other than the first time of its bbcount; but that may be elsewhere.
        if pc == Some(0) && self.now().pc != 0 {
            self.restore(here)?;
            return Err(missing);
        }
        Ok(self.stop(StopReason::Arrived))
    }

    fn step(&mut self, direction: Direction) -> Result<Stop, Error> {
        match direction {
            Direction::Forward => self.step_forward(),
            Direction::Backward => self.step_backward(),
        }
    }

    fn resume(&mut self, direction: Direction, points: &Points, cancel: &Cancel) -> Result<Stop, Error> {
        match direction {
            Direction::Forward => self.resume_forward(points, cancel),
            Direction::Backward => self.resume_backward(points, cancel),
        }
    }

    fn registers(&mut self) -> Result<Registers, Error> {
        self.current.registers()
    }

    fn xsave(&mut self) -> Result<Vec<u8>, Error> {
        self.current.xsave()
    }

    fn read_memory(&mut self, address: u64, buffer: &mut [u8]) -> Result<usize, Error> {
        match self.current.read(address, buffer)? {
            0 if !buffer.is_empty() => Err(Error::Unmapped { address }),
            got => Ok(got),
        }
    }

    fn mappings(&mut self) -> Result<Vec<MappingInfo>, Error> {
        let maps = self.current.maps()?;
        let mut shown: Vec<MappingInfo> = Vec::with_capacity(maps.len());
        let mut stack_end = None;
        for map in &maps {
            let stack = self.is_stack(map);
            if stack
                && stack_end == Some(map.start)
                && let Some(last) = shown.last_mut()
            {
                // The part that it may grow into.
                last.end = map.end;
                stack_end = Some(map.end);
                continue;
            }
            stack_end = stack.then_some(map.end);
            let name = self.name_of(map);
            shown.push(MappingInfo { start: map.start, end: map.end, prot: map.prot, shared: map.shared != 0, offset: map.offset, name });
        }
        Ok(shown)
    }

    fn shared_status(&mut self, address: u64, length: u64) -> Result<SharedStatus, Error> {
        self.current.shared_status(address, length)
    }

    fn auxv(&self) -> Vec<u8> {
        self.metadata().auxv.clone()
    }

    fn executable(&self) -> String {
        String::from_utf8_lossy(&self.metadata().executable).into_owned()
    }

    fn pid(&self) -> i32 {
        self.metadata().pid as i32
    }

    fn recording_uuid(&self) -> [u8; 16] {
        self.metadata().uuid
    }

    fn files(&self) -> Vec<FileInRecording> {
        let files = self.recording.files().unwrap_or_default();
        files
            .into_iter()
            .map(|file| FileInRecording { path: String::from_utf8_lossy(&file.head.path).into_owned(), size: file.len })
            .collect()
    }

    fn file_contents(&self, path: &str) -> Option<Vec<u8>> {
        self.recording.file_contents(path).ok()
    }

    fn event_count(&self) -> usize {
        self.events.len()
    }

    fn event(&self, index: usize) -> Event {
        self.events.get(index)
    }

    fn first_event_at_or_after(&self, time: Time) -> usize {
        self.events.at_or_after(time)
    }
}

impl Replay {
    /// The signal that ended the recorded process, if one did.
    pub fn fatal_signal(&self) -> Option<i32> {
        let meta = self.metadata();
        (meta.end_reason == EndReason::Signalled).then_some(meta.end_status)
    }

    /// How the recorded process ended, in words.
    pub fn ending(&self) -> String {
        let meta = self.metadata();
        let text = match meta.end_reason {
            EndReason::Exited => format!("exited with status {}", meta.end_status),
            EndReason::Signalled => format!("killed by signal {}", meta.end_status),
            other => other.name().to_owned(),
        };
        if meta.end_message.is_empty() { text } else { format!("{text}: {}", meta.end_message) }
    }
}
