//! The event log, read forwards: which event comes next, and when.

use recording::{Body, DecodeError, EventKind, EventRef, SignalAction, Time};

/// The head of the next event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Next {
    pub kind: EventKind,
    pub time: Time,
    pub state_hash: u64,
    /// For signals: whether a handler runs.
    pub enters_handler: bool,
}

#[derive(Debug)]
pub struct Log {
    bytes: &'static [u8],
    /// Where the next event starts.
    offset: usize,
    consumed: u64,
    next: Option<Next>,
}

impl Log {
    pub fn new(bytes: &'static [u8]) -> Result<Self, DecodeError> {
        let mut log = Self { bytes, offset: 0, consumed: 0, next: None };
        log.look()?;
        Ok(log)
    }

    pub fn next(&self) -> Option<Next> {
        self.next
    }

    /// Events behind us.
    pub fn consumed(&self) -> u64 {
        self.consumed
    }

    /// The next event itself.
    pub fn event(&self) -> Result<Option<EventRef<'static>>, DecodeError> {
        match self.bytes.get(self.offset..) {
            Some(rest) if !rest.is_empty() => EventRef::parse(rest, self.offset as u64).map(Some),
            _ => Ok(None),
        }
    }

    /// Goes on to the next event.
    pub fn advance(&mut self) -> Result<(), DecodeError> {
        if let Some(event) = self.event()? {
            self.offset += event.size() as usize;
            self.consumed += 1;
        }
        self.look()
    }

    /// Finds out what comes next. Announcements of shared sites are passed over: all sites are known from the start.
    fn look(&mut self) -> Result<(), DecodeError> {
        self.next = loop {
            let Some(event) = self.event()? else { break None };
            // A kind without a name is refused by `body`.
            let Some(kind) = event.kind() else {
                event.body()?;
                break None;
            };
            if kind == EventKind::SitesAdded {
                self.offset += event.size() as usize;
                self.consumed += 1;
                continue;
            }
            let enters_handler = match kind {
                EventKind::Signal => matches!(event.body()?, Body::Signal(signal) if signal.action == SignalAction::Handler),
                _ => false,
            };
            break Some(Next { kind, time: event.time(), state_hash: event.state_hash(), enters_handler });
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;
    use recording::{End, EndReason, EventBuilder, EventHeader};

    fn append(log: &mut Vec<u8>, bbcount: u64, body: &Body<'_>) {
        let start = log.len();
        log.resize(start + 1024, 0);
        let header = EventHeader::new(Time { bbcount, pc: 0x1000 }, 0);
        let length = EventBuilder::begin(&mut log[start..], &header, body).unwrap().finish();
        log.truncate(start + length);
    }

    #[test]
    fn announcements_are_passed_over_and_counted() {
        let mut bytes = vec![];
        append(&mut bytes, 1, &Body::SitesAdded { pc: 1 });
        append(&mut bytes, 2, &Body::ShmemFixup);
        append(&mut bytes, 3, &Body::SitesAdded { pc: 2 });
        append(&mut bytes, 4, &Body::End(End { reason: EndReason::Exited, status: 0, message: "" }));
        let mut log = Log::new(bytes.leak()).unwrap();
        assert_eq!(log.next().map(|next| (next.kind, next.time.bbcount)), Some((EventKind::ShmemFixup, 2)));
        log.advance().unwrap();
        assert_eq!(log.next().map(|next| (next.kind, next.time.bbcount)), Some((EventKind::End, 4)));
        assert_eq!(log.consumed(), 3);
        log.advance().unwrap();
        assert_eq!((log.next(), log.consumed()), (None, 4));
    }

    #[test]
    fn damage_is_an_error() {
        let mut bytes = vec![];
        append(&mut bytes, 1, &Body::ShmemFixup);
        bytes[0] = 7;
        assert!(Log::new(bytes.leak()).is_err());
    }
}
