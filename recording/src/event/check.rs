//! Whether a whole log is what a finished recording's log must be.

use super::{EventKind, Events};
use crate::wire::{DecodeError, Expected};

/// Checks one event after the other as they stand in a log: each is well formed, time does not run backwards, the last is an
/// [`End`](crate::End) and nothing follows it. Gives how many there are.
pub fn check_events(log: &[u8]) -> Result<u64, DecodeError> {
    let (mut count, mut bbcount, mut ended) = (0, 0, false);
    let mut events = Events::new(log);
    for event in events.by_ref() {
        let event = event?;
        let wrong = |field, expected, found| Err(DecodeError { offset: event.offset(), field, expected, found });
        if ended {
            return wrong("kind", Expected::OneOf("nothing behind the END event"), event.raw_kind().into());
        }
        event.check()?;
        if event.time().bbcount < bbcount {
            return wrong("bbcount", Expected::AtLeast(bbcount), event.time().bbcount);
        }
        bbcount = event.time().bbcount;
        ended = event.kind() == Some(EventKind::End);
        count += 1;
    }
    if ended {
        Ok(count)
    } else {
        let expected = Expected::OneOf("an END event as the last one");
        Err(DecodeError { offset: events.offset(), field: EventKind::End.name(), expected, found: 0 })
    }
}
