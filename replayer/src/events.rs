//! The recording's events as a list: when, what, in the words that users know.

use std::fs::File;

use memmap2::Mmap;
use recording::{
    Body, ChunkKind, DecodeError, End, EventKind, EventRef, Events, FIRST_WITH_RUNNING_HASH, Recording, RunningHash, Time, api_name,
};

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
        // SAFETY: the file lies in memory and is this process's own; replay processes only read it.
        let log = unsafe { Mmap::map(file) }.map_err(|error| Error::Process(format!("the event log cannot be mapped: {error}")))?;
        let mut check = Check::new(recording);
        let mut entries: Vec<Entry> = Vec::new();
        for event in Events::new(&log) {
            match event.map_err(|error| check.malformed(&error)).and_then(|event| check.add(&event).map(|()| event)) {
                // Notes between recorder and replay; nothing happened to the program.
                Ok(event) if matches!(event.kind(), Some(EventKind::End | EventKind::SitesAdded | EventKind::MemoryHash)) => {}
                Ok(event) => entries.push(Entry { offset: event.offset(), time: event.time() }),
                Err(error) => return Err(error),
            }
        }
        let end = check.finish()?;
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

/// Whether a log is what was recorded, as far as can be told before anything runs: one event after the other.
struct Check<'a> {
    recording: &'a Recording,
    /// Events behind us, and where the next one starts.
    count: usize,
    offset: u64,
    last: Time,
    end: Option<Time>,
    running: RunningHash,
    is_chained: bool,
}

impl<'a> Check<'a> {
    fn new(recording: &'a Recording) -> Self {
        let is_chained = recording.version() >= FIRST_WITH_RUNNING_HASH;
        Self { recording, count: 0, offset: 0, last: Time { bbcount: 0, pc: 0 }, end: None, running: RunningHash::new(), is_chained }
    }

    /// An error at `offset` of the log.
    fn error(&self, offset: u64, what: std::fmt::Arguments<'_>) -> Error {
        let chunk = self.recording.chunk_at(ChunkKind::Events, offset);
        Error::Recording(format!("{}: section EVENTS, chunk {chunk}: event {}: {what}", self.recording.path().display(), self.count))
    }

    fn malformed(&self, error: &DecodeError) -> Error {
        self.error(error.offset, format_args!("{error}"))
    }

    fn differs(&self, field: &str, expected: impl std::fmt::Display, found: impl std::fmt::Display) -> Error {
        self.error(self.offset, format_args!("offset {:#x}: {field}: expected {expected}, found {found}", self.offset))
    }

    fn add(&mut self, event: &EventRef<'_>) -> Result<(), Error> {
        event.check().map_err(|error| self.malformed(&error))?;
        let (time, hash) = (event.time(), event.state_hash());
        if self.is_chained && !self.running.agrees(hash) {
            let computed = self.running.note(0) >> 32;
            let found = format_args!("{computed:#x}: it or an event before it is not as it was recorded");
            return Err(self.differs("running hash", format_args!("{:#x}", hash >> 32), found));
        }
        if event.thread() != 0 {
            return Err(self.differs("thread", 0, event.thread()));
        }
        if time < self.last {
            return Err(self.differs("time", format_args!("at least {}", self.last), time));
        }
        let meta_end = self.recording.meta().end;
        if time.bbcount > meta_end.bbcount {
            return Err(self.differs("time", format_args!("at most {meta_end}, the end as META says"), time));
        }
        if let Some(end) = self.end {
            return Err(self.differs(
                "kind",
                format_args!("nothing behind the end of history at {end}"),
                format_args!("an event at {time}"),
            ));
        }
        if event.kind() == Some(EventKind::End) {
            self.compare_end(event)?;
            self.end = Some(time);
        }
        self.running.add(event.bytes());
        (self.count, self.offset, self.last) = (self.count + 1, self.offset + event.size(), time);
        Ok(())
    }

    /// The end is told twice: by the last event, and by the metadata. They must agree.
    fn compare_end(&self, event: &EventRef<'_>) -> Result<(), Error> {
        let meta = self.recording.meta();
        let Ok(Body::End(End { reason, status, message })) = event.body() else { return Ok(()) };
        let shown = |reason: &str, status: i32, time: Time| format!("{reason} (status {status}) at {time}");
        let (expected, found) = (shown(meta.end_reason.name(), meta.end_status, meta.end), shown(reason.name(), status, event.time()));
        if expected != found {
            return Err(self.differs("the end", format_args!("{expected}, as META says"), found));
        }
        if !message.is_empty() && message != meta.end_message {
            return Err(self.differs(
                "the end's message",
                format_args!("{:?}, as META says", meta.end_message),
                format_args!("{message:?}"),
            ));
        }
        Ok(())
    }

    /// The time of the end, which must have come.
    fn finish(self) -> Result<Time, Error> {
        let end = self.end.ok_or_else(|| self.differs("kind", "an END event as the last one", "the end of the log"))?;
        if let Some(expected) = self.recording.meta().events_hash
            && self.running.value() != expected
        {
            let found = format_args!("{:#x}: the last one is not as it was recorded", self.running.value());
            return Err(self.differs("the hash of all events", format_args!("{expected:#x}, as META says"), found));
        }
        Ok(end)
    }
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
