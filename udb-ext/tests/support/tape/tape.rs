//! A timeline over a [`Trace`]: every moment is there, so moving is applying or undoing changes.

use std::collections::BTreeMap;
use std::thread;

use replayer::{
    Cancel, Direction, Error, Event, FileInRecording, MappingInfo, Points, Registers, SharedStatus, Stop, StopReason, Time, Timeline,
    WatchKind, Watchpoint,
};

use crate::trace::{Moment, PAGE, Trace};

pub struct Tape {
    trace: Trace,
    memory: BTreeMap<u64, Vec<u8>>,
    at: usize,
    pid: i32,
    uuid: [u8; 16],
    pub endless: bool,
}

impl Tape {
    pub fn new(mut trace: Trace, pid: i32, uuid: [u8; 16]) -> Self {
        let memory = std::mem::take(&mut trace.pages);
        Tape { trace, memory, at: 0, pid, uuid, endless: false }
    }

    /// As if the program had had another name.
    pub fn rename(&mut self, from: &str, to: &str) {
        self.trace.executable = to.to_owned();
        for (file, _) in &mut self.trace.files {
            if file.path == from {
                file.path = to.to_owned();
            }
        }
    }

    pub fn make_up_events(&mut self, count: usize) {
        let (begin, end) = (self.begin().bbcount, self.end().bbcount);
        let spread = (end - begin) as usize;
        self.trace.events = (0..count)
            .map(|index| Event {
                time: Time { bbcount: begin + (index * spread / count) as u64, pc: u64::MAX },
                name: if index % 1000 == 7 { "openat".into() } else { "read".into() },
                result: index as i64,
                syscall: Some(0),
                signum: 0,
                address: 0,
                tid: 0,
                timestamp: 1000 + (index * 1000 / count) as u64,
                size: 80,
            })
            .collect();
    }

    fn here(&self) -> &Moment {
        &self.trace.moments[self.at]
    }

    fn last(&self) -> usize {
        self.trace.moments.len() - 1
    }

    fn move_to(&mut self, target: usize) {
        while self.at < target {
            for change in &self.trace.moments[self.at].changes {
                poke(&mut self.memory, change.address, &change.new);
            }
            self.at += 1;
        }
        while self.at > target {
            self.at -= 1;
            for change in self.trace.moments[self.at].changes.iter().rev() {
                poke(&mut self.memory, change.address, &change.old);
            }
        }
    }

    fn stop(&self, reason: StopReason) -> Stop {
        Stop { time: self.now(), reason }
    }

    /// The watchpoint that the instruction at `index` touched.
    fn touched(&self, index: usize, points: &Points) -> Option<Watchpoint> {
        let moment = &self.trace.moments[index];
        let overlaps =
            |point: &Watchpoint, address: u64, length: u64| point.address < address + length && address < point.address + point.length;
        let changed = |point: &Watchpoint| {
            moment.changes.iter().any(|change| {
                change
                    .old
                    .iter()
                    .zip(&change.new)
                    .enumerate()
                    .any(|(offset, (old, new))| old != new && overlaps(point, change.address + offset as u64, 1))
            })
        };
        let accessed = |point: &Watchpoint, write: bool| {
            moment.touches.iter().any(|touch| touch.write == write && overlaps(point, touch.address, touch.length))
        };
        points.watchpoints.iter().copied().find(|point| match point.kind {
            WatchKind::Write => changed(point),
            WatchKind::Read => accessed(point, false),
            WatchKind::Access => accessed(point, false) || accessed(point, true),
        })
    }

    fn nothing_found(&self, cancel: &Cancel, reason: StopReason) -> Stop {
        while self.endless && !cancel.is_cancelled() {
            thread::yield_now();
        }
        self.stop(if self.endless { StopReason::Cancelled } else { reason })
    }
}

fn poke(memory: &mut BTreeMap<u64, Vec<u8>>, address: u64, bytes: &[u8]) {
    for (index, &byte) in bytes.iter().enumerate() {
        let at = address + index as u64;
        if let Some(page) = memory.get_mut(&(at / PAGE)) {
            page[(at % PAGE) as usize] = byte;
        }
    }
}

impl Timeline for Tape {
    fn begin(&self) -> Time {
        self.trace.moments[0].time
    }

    fn end(&self) -> Time {
        self.trace.moments[self.last()].time
    }

    fn now(&self) -> Time {
        self.here().time
    }

    fn seek(&mut self, bbcount: u64, pc: Option<u64>) -> Result<Stop, Error> {
        let moments = &self.trace.moments;
        let first = moments.partition_point(|moment| moment.time.bbcount < bbcount);
        let of_block = moments[first..].iter().take_while(|moment| moment.time.bbcount == bbcount);
        if of_block.clone().next().is_none() {
            return Err(Error::OutOfRange { wanted: bbcount, begin: self.begin(), end: self.end() });
        }
        let target = match pc {
            None => first,
            Some(pc) => {
                let offset = of_block.clone().position(|moment| moment.time.pc == pc).ok_or(Error::NoSuchTime { bbcount, pc })?;
                first + offset
            }
        };
        self.move_to(target);
        Ok(self.stop(StopReason::Arrived))
    }

    fn step(&mut self, direction: Direction) -> Result<Stop, Error> {
        match direction {
            Direction::Forward if self.at == self.last() => return Ok(self.stop(StopReason::End)),
            Direction::Backward if self.at == 0 => return Ok(self.stop(StopReason::Begin)),
            Direction::Forward => self.move_to(self.at + 1),
            Direction::Backward => self.move_to(self.at - 1),
        }
        Ok(self.stop(StopReason::Arrived))
    }

    fn resume(&mut self, direction: Direction, points: &Points, cancel: &Cancel) -> Result<Stop, Error> {
        loop {
            if cancel.is_cancelled() {
                return Ok(self.stop(StopReason::Cancelled));
            }
            let executed = match direction {
                Direction::Forward if self.at == self.last() => return Ok(self.nothing_found(cancel, StopReason::End)),
                Direction::Backward if self.at == 0 => return Ok(self.nothing_found(cancel, StopReason::Begin)),
                Direction::Forward => self.at,
                Direction::Backward => self.at - 1,
            };
            self.step(direction)?;
            if let Some(point) = self.touched(executed, points) {
                return Ok(self.stop(StopReason::Watchpoint(point)));
            }
            if points.breakpoints.contains(&self.now().pc) {
                return Ok(self.stop(StopReason::Breakpoint));
            }
        }
    }

    fn registers(&mut self) -> Result<Registers, Error> {
        Ok(self.here().registers)
    }

    fn xsave(&mut self) -> Result<Vec<u8>, Error> {
        Ok(self.here().xsave.to_vec())
    }

    fn read_memory(&mut self, address: u64, buffer: &mut [u8]) -> Result<usize, Error> {
        let mut count = 0;
        for (index, byte) in buffer.iter_mut().enumerate() {
            let at = address.wrapping_add(index as u64);
            let Some(page) = self.memory.get(&(at / PAGE)) else { break };
            *byte = page[(at % PAGE) as usize];
            count += 1;
        }
        if count == 0 && !buffer.is_empty() { Err(Error::Unmapped { address }) } else { Ok(count) }
    }

    fn mappings(&mut self) -> Result<Vec<MappingInfo>, Error> {
        Ok(self.here().mappings.to_vec())
    }

    fn shared_status(&mut self, address: u64, length: u64) -> Result<SharedStatus, Error> {
        let shared = self.here().mappings.iter().any(|mapping| mapping.shared && mapping.start < address + length && address < mapping.end);
        if !shared {
            return Ok(SharedStatus::Private);
        }
        let last = self.trace.moments[..self.at]
            .iter()
            .rev()
            .find(|moment| moment.touches.iter().any(|touch| touch.address < address + length && address < touch.address + touch.length));
        Ok(last.map_or(SharedStatus::NeverAccessed, |moment| SharedStatus::LastAccessed(moment.time)))
    }

    fn auxv(&self) -> Vec<u8> {
        self.trace.auxv.clone()
    }

    fn executable(&self) -> String {
        self.trace.executable.clone()
    }

    fn pid(&self) -> i32 {
        self.pid
    }

    fn recording_uuid(&self) -> [u8; 16] {
        self.uuid
    }

    fn files(&self) -> Vec<FileInRecording> {
        self.trace.files.iter().map(|(file, _)| file.clone()).collect()
    }

    fn file_contents(&self, path: &str) -> Option<Vec<u8>> {
        self.trace.files.iter().find(|(file, _)| file.path == path).map(|(_, contents)| contents.clone())
    }

    fn event_count(&self) -> usize {
        self.trace.events.len()
    }

    fn event(&self, index: usize) -> Event {
        self.trace.events[index].clone()
    }

    fn first_event_at_or_after(&self, time: Time) -> usize {
        self.trace.events.partition_point(|event| event.time < time)
    }
}
