//! What a debugger shows beside a value in shared memory.
use crate::correlator::Correlator;
use crate::error::Error;
use crate::merge::streams;
use crate::query::Query;
use crate::record::{Record, RecordOrder, order};
use recording::Time;

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

impl Correlator {
    /// Whether what a recording knows of some memory at a time may be out of date.
    ///
    /// It is if another recording wrote there after this recording's last access before that time, and did not do so only
    /// after its next access. Times of different recordings cannot be compared, so that between these two accesses it stays open
    /// whether the write came before or after the very moment asked about.
    pub fn shared_status(&self, query: &Query) -> Result<SharedStatus, Error> {
        self.ask(|view| {
            let Some(range) = view.range(query)? else { return Ok(SharedStatus::NotShared) };
            let mut all = streams(view.index, range, false);
            let Some(last) = view.own_last(&mut all, query)? else { return Ok(SharedStatus::NeverAccessed) };
            let mut stale: Option<Record> = None;
            for stream in streams(view.index, range, true).iter_mut().filter(|stream| stream.recording != query.recording) {
                // On this line: the own next access bounds what may have come before the moment asked about.
                let mut next = None;
                for own in all.iter_mut().filter(|own| own.recording == query.recording && own.line == stream.line) {
                    own.seek_moment(view.source, query.time)?;
                    next = own.following(view.source, &|_| true)?;
                }
                match next.as_ref().and_then(|next| next.interval(stream.line)) {
                    Some(interval) => stream.seek_clock(view.source, interval.end)?,
                    None => stream.seek_end(),
                }
                stream.advance(view.source, &|_| true)?;
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
            view.confirm(stale.iter().chain([&last]))?;
            Ok(match stale {
                Some(by) => SharedStatus::Stale { accessed: last.time, by: Box::new(by) },
                None => SharedStatus::Current { accessed: last.time },
            })
        })
    }
}
