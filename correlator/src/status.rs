//! What a debugger shows beside a value in shared memory.
use crate::correlator::{Correlator, View};
use crate::error::Error;
use crate::merge::{Range, Stream, streams};
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

/// Bytes that are looked at together: a variable is mostly accessed as a whole, and the index tells apart words of a line.
const WORD_BYTES: u64 = 8;

impl Correlator {
    /// Whether what a recording knows of some memory at a time may be out of date.
    ///
    /// It is if another recording wrote to a word of it after this recording's last access to that word before that time, and did not do so
    /// only after its next access. Times of different recordings cannot be compared, so that between these two accesses it stays open
    /// whether the write came before or after the very moment asked about.
    pub fn shared_status(&self, query: &Query) -> Result<SharedStatus, Error> {
        self.ask(|view| {
            let Some(range) = view.range(query)? else { return Ok(SharedStatus::NotShared) };
            let mut accessed: Option<Record> = None;
            for word in range.offset / WORD_BYTES..=(range.end() - 1) / WORD_BYTES {
                let offset = range.offset.max(word * WORD_BYTES);
                let part = Range { offset, len: range.end().min((word + 1) * WORD_BYTES) - offset, ..range };
                let mut own = view.own_streams(query, part)?;
                let Some(last) = view.own_last(&mut own, query)? else { continue };
                if let Some(by) = view.written_since(query, part, &mut own, &last)? {
                    view.confirm([&last, &by])?;
                    return Ok(SharedStatus::Stale { accessed: last.time, by: Box::new(by) });
                }
                if accessed.as_ref().is_none_or(|other| other.position < last.position) {
                    accessed = Some(last);
                }
            }
            view.confirm(&accessed)?;
            Ok(accessed.map_or(SharedStatus::NeverAccessed, |last| SharedStatus::Current { accessed: last.time }))
        })
    }
}

impl View<'_> {
    /// The youngest write by another recording to a word that may have come after the own last access to it and before the moment.
    fn written_since(&self, query: &Query, word: Range, own: &mut [Stream<'_>], last: &Record) -> Result<Option<Record>, Error> {
        // The own next access bounds what may have come before the moment asked about.
        let mut next = None;
        for own in own {
            own.seek_moment(self.source, query.time)?;
            next = own.following(self.source, &|_| true)?;
        }
        let mut since: Option<Record> = None;
        for stream in streams(self.index, word, true).iter_mut().filter(|stream| stream.recording != query.recording) {
            match next.as_ref().and_then(|next| next.interval(stream.line)) {
                Some(interval) => stream.seek_clock(self.source, interval.end)?,
                None => stream.seek_end(),
            }
            stream.advance(self.source, &|_| true)?;
            let Some(write) = stream.current.take() else { continue };
            let is_later = match order(last, &write) {
                RecordOrder::Before => true,
                RecordOrder::After => false,
                // If it left what was seen or written, nothing is out of date, whichever came first.
                RecordOrder::Concurrent | RecordOrder::Unrelated => {
                    let from = write.offset.max(word.offset);
                    let left = write.part(&write.written, from, write.end().min(word.end()).saturating_sub(from));
                    last.part(last.value(), from, left.len() as u64) != left
                }
            };
            if is_later && since.as_ref().is_none_or(|old| old.tsc < write.tsc) {
                since = Some(write);
            }
        }
        Ok(since)
    }
}
