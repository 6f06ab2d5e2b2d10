//! The recording's events as a list: when, what, in the words that users know.

use std::fs::File;

use memmap2::Mmap;
use recording::{Body, End, EventKind, EventRef, Events, FIRST_WITH_RUNNING_HASH, Recording, RunningHash, Time, api_name};

use crate::timeline::{Error, Event};

struct Entry {
    offset: u64,
    time: Time,
}

/// The event log in memory, with where each event begins that happened to the program.
pub struct EventList {
    log: Mmap,
    entries: Vec<Entry>,
    /// The time of the End event.
    end: Time,
}

impl EventList {
    /// Checks all events on the way.
    pub fn new(recording: &Recording, file: &File) -> Result<Self, Error> {
        let bad = |what: String| Error::Recording(format!("{}: section EVENTS: {what}", recording.path().display()));
        // SAFETY: the file lies in memory and is this process's own; replay processes only read it.
        let log = unsafe { Mmap::map(file) }.map_err(|error| bad(format!("cannot be mapped: {error}")))?;
        let mut entries: Vec<Entry> = Vec::new();
        let mut end = None;
        let mut last = Time { bbcount: 0, pc: 0 };
        let mut running = RunningHash::new();
        let is_chained = recording.version() >= FIRST_WITH_RUNNING_HASH;
        for (index, event) in Events::new(&log).enumerate() {
            let event = event.map_err(|error| bad(format!("event {index}: {error}")))?;
            event.check().map_err(|error| bad(format!("event {index}: {error}")))?;
            if is_chained && !running.agrees(event.state_hash()) {
                let (expected, found) = (event.state_hash() >> 32, running.note(0) >> 32);
                return Err(bad(format!(
                    "event {index}: running hash: expected {expected:#x}, found {found:#x}: it or an event before it is not as it was recorded"
                )));
            }
            running.add(event.bytes());
            if event.thread() != 0 {
                return Err(bad(format!("event {index}: thread: expected 0, found {}", event.thread())));
            }
            let time = event.time();
            if time < last {
                return Err(bad(format!("event {index}: time: expected at least {last}, found {time}")));
            }
            if end.is_some() {
                return Err(bad(format!("event {index}: expected nothing behind the end of history, found an event at {time}")));
            }
            match event.kind() {
                Some(EventKind::End) => {
                    check_end(recording, &event).map_err(|what| bad(format!("event {index}: {what}")))?;
                    end = Some(time);
                }
                // Notes between recorder and replay; nothing happened to the program.
                Some(EventKind::SitesAdded | EventKind::MemoryHash) => {}
                _ => entries.push(Entry { offset: event.offset(), time }),
            }
            last = time;
        }
        let end = end.ok_or_else(|| bad(format!("expected an END event as the last one, found none among {}", entries.len())))?;
        Ok(Self { log, entries, end })
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn bytes(&self) -> u64 {
        self.log.len() as u64
    }

    pub fn end(&self) -> Time {
        self.end
    }

    pub fn at_or_after(&self, time: Time) -> usize {
        self.entries.partition_point(|entry| entry.time < time)
    }

    fn reference(&self, offset: u64) -> Option<EventRef<'_>> {
        EventRef::parse(self.log.get(usize::try_from(offset).ok()?..)?, offset).ok()
    }

    /// The event that starts at `offset`.
    pub fn at_offset(&self, offset: u64) -> Option<EventRef<'_>> {
        let index = self.entries.binary_search_by_key(&offset, |entry| entry.offset).ok()?;
        self.reference(self.entries[index].offset)
    }

    /// Event number `index`, or an empty one behind the last.
    pub fn get(&self, index: usize) -> Event {
        let found = self.entries.get(index).and_then(|entry| self.reference(entry.offset));
        found.map_or_else(|| blank(self.end), |event| describe(&event))
    }
}

/// The end is told twice: by the last event, and by the metadata. They must agree.
fn check_end(recording: &Recording, event: &EventRef<'_>) -> Result<(), String> {
    let meta = recording.meta();
    let Ok(Body::End(End { reason, status, message })) = event.body() else { return Ok(()) };
    let shown = |reason: &str, status: i32, time: Time| format!("{reason} (status {status}) at {time}");
    let (expected, found) = (shown(meta.end_reason.name(), meta.end_status, meta.end), shown(reason.name(), status, event.time()));
    if expected != found {
        return Err(format!("the end: expected {expected}, as META says, found {found}"));
    }
    if !message.is_empty() && message != meta.end_message {
        return Err(format!("the end's message: expected {:?}, as META says, found {message:?}", meta.end_message));
    }
    Ok(())
}

fn blank(time: Time) -> Event {
    Event { time, name: String::new(), result: 0, syscall: None, signum: 0, address: 0, tid: 0, timestamp: 0, size: 0 }
}

fn describe(event: &EventRef<'_>) -> Event {
    let mut shown = Event { size: event.size(), timestamp: event.timestamp(), ..blank(event.time()) };
    let Ok((body, mut writes)) = event.body_and_writes() else { return shown };
    shown.name = body.kind().name().into();
    match body {
        Body::Syscall(call) => {
            shown.name = syscall_name(call.number);
            shown.result = call.result;
            shown.syscall = Some(call.number.into());
        }
        Body::Nondet(nondet) => shown.name = nondet.instruction.name().into(),
        Body::ShmemFixup => {
            if let Some(Ok(write)) = writes.next() {
                shown.address = write.addr;
            }
        }
        Body::Signal(signal) => shown.signum = signal.number as i32,
        Body::SitesAdded { pc } => shown.address = pc,
        Body::MemoryHash(_) | Body::End(_) => {}
    }
    shown
}

/// A system call's name; numbers that have none are shown as such.
pub fn syscall_name(number: u32) -> String {
    let name = syscalls::Sysno::new(number as usize).map(|known| known.name()).or_else(|| api_name(number));
    name.map_or_else(|| format!("syscall_{number:#x}"), str::to_owned)
}
