//! Replaying everything once, compared with the recording at every event.

use std::time::{Duration, Instant};

use recording::{EndReason, Registers};
use replay_guest::control::Reason;

use crate::process::Run;
use crate::replay::Replay;
use crate::timeline::{Error, Time, Timeline};

/// How far a verification has come.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    pub time: Time,
    pub events: u64,
    pub events_total: u64,
}

/// What a verification that found nothing wrong has compared.
#[derive(Clone, Copy, Debug)]
pub struct Verdict {
    pub end: Time,
    pub events: u64,
    pub memory_hashes: u64,
    pub took: Duration,
}

impl Replay {
    /// Replays from begin to end. A difference is [`Error::Diverged`]. The timeline stays where it is.
    pub fn verify(&mut self, mut progress: impl FnMut(Progress)) -> Result<Verdict, Error> {
        let start = Instant::now();
        let begin = self.begin();
        let mut process = self.checkpoints.nearest(begin).fork()?;
        let run = Run { budget: Some(Duration::from_millis(100)), ..Run::default() };
        let events_total = self.event_count() as u64;
        let reply = loop {
            let reply = process.run(&run, None)?;
            progress(Progress { time: reply.time, events: reply.events, events_total });
            if reply.reason != Reason::Paused {
                break reply;
            }
        };
        let end = self.end();
        if reply.reason != Reason::End || reply.time != end {
            return Err(Error::Diverged { time: reply.time, what: format!("event {}: the recording ends at {end}", reply.events) });
        }
        self.check_end(process.registers()?, end, reply.events)?;
        // The end itself is an event too.
        Ok(Verdict { end, events: reply.events + 1, memory_hashes: reply.hashes, took: start.elapsed() })
    }

    fn check_end(&self, found: Registers, time: Time, event: u64) -> Result<(), Error> {
        let meta = self.metadata();
        // A program that was killed or detached from outside could not note its registers.
        let noted = meta.end_registers.gpr != [0; 16] && meta.end == time && meta.end_reason != EndReason::Detached;
        let expected = Registers { rflags: found.rflags, ..meta.end_registers };
        if noted && found != expected {
            let what = format!("event {event}: the final registers differ: recorded {expected:x?}, here {found:x?}");
            return Err(Error::Diverged { time, what });
        }
        Ok(())
    }
}
