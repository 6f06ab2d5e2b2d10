//! What a debugger shows beside a value in shared memory.
use crate::blame::{Moment, Target};
use crate::correlator::View;
use crate::error::Error;
use crate::merge::streams;
use crate::record::{Record, RecordOrder, order};
use recording::Time;
use shmem_log::RecordingIndex;

/// How far a recording's view of some shared memory can be believed at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SharedStatus {
    /// It is not shared memory.
    NotShared,
    /// The recording has not touched it yet, so its contents are not known.
    NeverAccessed,
    /// As far as the log knows it still holds what the recording saw or wrote last, at this time.
    Current { accessed: Time },
    /// Another recording may have written to it since.
    Stale { accessed: Time, by: Box<Record> },
}

impl View<'_> {
    /// See [`crate::Correlator::shared_status`].
    pub(crate) fn shared_status(
        &self,
        recording: RecordingIndex,
        time: Moment,
        target: Target,
        length: u64,
    ) -> Result<SharedStatus, Error> {
        let Some(range) = self.range(recording, time, target, length)? else { return Ok(SharedStatus::NotShared) };
        let mut all = streams(self.index, range, false);
        let Some(last) = self.own_last(&mut all, recording, time)? else { return Ok(SharedStatus::NeverAccessed) };
        let mut writes = streams(self.index, range, true);
        let mut stale: Option<Record> = None;
        for stream in writes.iter_mut().filter(|stream| stream.recording != recording) {
            // On this line: the own next access bounds what may have come before the moment asked about.
            let mut next = None;
            for own in all.iter_mut().filter(|own| own.recording == recording && own.line == stream.line) {
                if let Moment::At(time) = time {
                    own.seek_time(self.source, time)?;
                    next = own.following(self.source)?;
                }
            }
            match next.as_ref().and_then(|next| next.interval(stream.line)) {
                Some(interval) => stream.seek_clock(self.source, interval.end)?,
                None => stream.seek_end(),
            }
            stream.advance(self.source, &|_| true)?;
            let Some(write) = stream.current.take() else { continue };
            let is_later = match order(&last, &write) {
                RecordOrder::Before => true,
                RecordOrder::After => false,
                // What was seen is what was written: then it is not out of date, whichever came first.
                RecordOrder::Concurrent => {
                    let known = last.part(last.value(), write.offset, write.len.into());
                    write.part(&write.written, last.offset, last.len.into()) != known
                }
                RecordOrder::Unrelated => write.tsc > last.tsc,
            };
            if is_later && stale.as_ref().is_none_or(|old| old.tsc < write.tsc) {
                stale = Some(write);
            }
        }
        Ok(match stale {
            Some(by) => SharedStatus::Stale { accessed: last.time, by: Box::new(by) },
            None => SharedStatus::Current { accessed: last.time },
        })
    }
}
