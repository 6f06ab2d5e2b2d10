//! A timeline of a few moments for unit tests: every instruction counts one byte up.

use replayer::{
    Cancel, Direction, Error, Event, FileInRecording, MappingInfo, Points, Registers, SharedStatus, Stop, StopReason, Time, Timeline,
    WatchKind,
};

use crate::correlate::{NoLog, Recording};
use crate::open::Opened;

/// Moments there are; two in each block.
pub const LENGTH: u64 = 10;
pub const MEMORY: u64 = 0x1000;
pub const MEMORY_SIZE: u64 = 16;
/// The byte that each instruction counts up.
pub const COUNTER: u64 = MEMORY;

pub struct Fake {
    at: u64,
    pub events: Vec<Event>,
}

pub fn pc(moment: u64) -> u64 {
    0x40_0000 + moment
}

pub fn time(moment: u64) -> Time {
    Time { bbcount: 1 + moment / 2, pc: pc(moment) }
}

pub fn event(moment: u64, name: &str) -> Event {
    Event {
        time: time(moment),
        name: name.into(),
        result: moment as i64,
        syscall: Some(0),
        signum: 0,
        address: 0,
        tid: 0,
        timestamp: 0,
        size: 10,
    }
}

pub fn opened() -> Opened {
    let events = (0..LENGTH).map(|moment| event(moment, if moment % 3 == 0 { "write" } else { "read" })).collect();
    opened_with(events)
}

pub fn opened_with(events: Vec<Event>) -> Opened {
    let loaded = Recording { uuid: [7; 16], pid: 1, path: Some("/x.undo".into()) };
    Opened {
        timeline: Box::new(Fake { at: 0, events }),
        correlate: Box::new(NoLog { loaded, warning: None }),
        wallclock: None,
        origin: crate::open::Origin::default(),
    }
}

impl Fake {
    fn stop(&self, reason: StopReason) -> Stop {
        Stop { time: time(self.at), reason }
    }
}

impl Timeline for Fake {
    fn begin(&self) -> Time {
        time(0)
    }

    fn end(&self) -> Time {
        time(LENGTH - 1)
    }

    fn now(&self) -> Time {
        time(self.at)
    }

    fn seek(&mut self, bbcount: u64, pc: Option<u64>) -> Result<Stop, Error> {
        let fits = |moment: &u64| time(*moment).bbcount == bbcount && pc.is_none_or(|pc| time(*moment).pc == pc);
        match ((0..LENGTH).find(fits), pc) {
            (Some(moment), _) => self.at = moment,
            (None, Some(pc)) if (1..=time(LENGTH - 1).bbcount).contains(&bbcount) => return Err(Error::NoSuchTime { bbcount, pc }),
            (None, _) => return Err(Error::OutOfRange { wanted: bbcount, begin: self.begin(), end: self.end() }),
        }
        Ok(self.stop(StopReason::Arrived))
    }

    fn step(&mut self, direction: Direction) -> Result<Stop, Error> {
        match direction {
            Direction::Forward if self.at == LENGTH - 1 => return Ok(self.stop(StopReason::End)),
            Direction::Backward if self.at == 0 => return Ok(self.stop(StopReason::Begin)),
            Direction::Forward => self.at += 1,
            Direction::Backward => self.at -= 1,
        }
        Ok(self.stop(StopReason::Arrived))
    }

    fn resume(&mut self, direction: Direction, points: &Points, cancel: &Cancel) -> Result<Stop, Error> {
        loop {
            if cancel.is_cancelled() {
                return Ok(self.stop(StopReason::Cancelled));
            }
            let stop = self.step(direction)?;
            if stop.reason != StopReason::Arrived {
                return Ok(stop);
            }
            if let Some(point) = points.watchpoints.iter().find(|point| point.address == COUNTER && point.kind != WatchKind::Read) {
                return Ok(self.stop(StopReason::Watchpoint(*point)));
            }
            // A condition holds here unless it begins with 0.
            let mut conditions = points.conditions.iter().filter(|condition| condition.pc == stop.time.pc).peekable();
            let holds = conditions.peek().is_none() || conditions.any(|condition| condition.code.first() != Some(&0));
            if holds && points.breakpoints.contains(&stop.time.pc) {
                return Ok(self.stop(StopReason::Breakpoint));
            }
        }
    }

    fn registers(&mut self) -> Result<Registers, Error> {
        Ok(Registers { rip: pc(self.at), ..Registers::default() })
    }

    fn xsave(&mut self) -> Result<Vec<u8>, Error> {
        Ok(Vec::new())
    }

    fn read_memory(&mut self, address: u64, buffer: &mut [u8]) -> Result<usize, Error> {
        if !(MEMORY..MEMORY + MEMORY_SIZE).contains(&address) {
            return Err(Error::Unmapped { address });
        }
        let count = buffer.len().min((MEMORY + MEMORY_SIZE - address) as usize);
        buffer[..count].fill(0);
        if address == COUNTER && count > 0 {
            buffer[0] = self.at as u8;
        }
        Ok(count)
    }

    fn mappings(&mut self) -> Result<Vec<MappingInfo>, Error> {
        let code = MappingInfo { start: 0x40_0000, end: 0x40_1000, prot: 5, shared: false, offset: 0, name: "/recorded/program".into() };
        let data = MappingInfo { start: MEMORY, end: MEMORY + MEMORY_SIZE, prot: 3, shared: true, offset: 0, name: String::new() };
        Ok(if self.at < 5 { vec![code, data] } else { vec![data] })
    }

    fn shared_status(&mut self, address: u64, _length: u64) -> Result<SharedStatus, Error> {
        Ok(match (address, self.at) {
            (COUNTER, 0) => SharedStatus::NeverAccessed,
            (COUNTER, at) => SharedStatus::LastAccessed(time(at - 1)),
            _ => SharedStatus::Private,
        })
    }

    fn auxv(&self) -> Vec<u8> {
        vec![0; 16]
    }

    fn executable(&self) -> String {
        "/recorded/program".into()
    }

    fn pid(&self) -> i32 {
        1
    }

    fn recording_uuid(&self) -> [u8; 16] {
        [7; 16]
    }

    fn files(&self) -> Vec<FileInRecording> {
        vec![FileInRecording { path: "/recorded/program".into(), size: 8 }]
    }

    fn file_contents(&self, path: &str) -> Option<Vec<u8>> {
        (path == "/recorded/program").then(|| b"contents".to_vec())
    }

    fn event_count(&self) -> usize {
        self.events.len()
    }

    fn event(&self, index: usize) -> Event {
        self.events[index].clone()
    }

    fn first_event_at_or_after(&self, time: Time) -> usize {
        self.events.partition_point(|event| event.time < time)
    }
}
