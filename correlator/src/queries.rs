//! The other questions about some memory: the last and the next access, the value at a time, who saw a write.
use crate::correlator::{Correlator, View};
use crate::error::Error;
use crate::merge::{Backward, Range, not_after, streams};
use crate::query::{Filter, Query};
use crate::record::{Record, RecordOrder, order};
use shmem_log::ObjectIndex;
use shmem_log::layout::LINE_BYTES;

impl Correlator {
    /// The youngest access to the memory that a recording's value at a time may rest on: of its own the last one before that time;
    /// of others the youngest not known to have come after that. Of accesses that overlap in time, rough time tells.
    ///
    /// None if there is no such access, or if the recording itself has touched the memory not yet and others are asked for.
    pub fn access_before(&self, query: &Query, filter: Filter) -> Result<Option<Record>, Error> {
        self.ask(|view| {
            let Some(range) = view.range(query)? else { return Ok(None) };
            let found = if filter.by == Some(query.recording) {
                let own = view.own_streams(query, range)?;
                Backward::new(view.source, own, &|record| filter.accepts(record))?.next()?
            } else {
                let mut all = streams(view.index, range, false);
                match view.own_last(&mut all, query)? {
                    Some(last) if !filter.accepts(&last) => {
                        view.seek_up_to(&mut all, &last)?;
                        let accept = |record: &Record| filter.accepts(record) && not_after(record, &last);
                        Backward::new(view.source, all, &accept)?.next()?
                    }
                    last => last,
                }
            };
            view.confirm(&found)?;
            Ok(found)
        })
    }

    /// The next access to the memory: of a recording's own the first at or after that time; of others the first that is known to have
    /// come after its last own access before that time.
    pub fn access_after(&self, query: &Query, filter: Filter) -> Result<Option<Record>, Error> {
        self.ask(|view| {
            let Some(range) = view.range(query)? else { return Ok(None) };
            let mut all = streams(view.index, range, false);
            let last = view.own_last(&mut all, query)?;
            let mut firsts: Vec<Record> = Vec::new();
            for stream in all.iter_mut().filter(|stream| filter.by.is_none_or(|by| stream.recording == by)) {
                match &last {
                    _ if stream.recording == query.recording => stream.seek_moment(view.source, query.time)?,
                    Some(last) => match last.interval(stream.line) {
                        Some(interval) => stream.seek_clock(view.source, interval.end)?,
                        None => continue,
                    },
                    // The own accesses are all still to come: nothing is known of the others.
                    None => stream.seek_start(),
                }
                firsts.extend(stream.following(view.source, &|record| filter.accepts(record))?);
            }
            // Where the order is not known, rough time decides.
            let is_free = |record: &&Record| firsts.iter().all(|other| order(other, record) != RecordOrder::Before);
            let first = firsts.iter().filter(is_free).min_by_key(|record| (record.tsc, record.position)).cloned();
            view.confirm(&first)?;
            Ok(first)
        })
    }

    /// What a recording knows of some memory at a time, byte by byte: what it last saw there or wrote; None where it never did.
    ///
    /// Empty if it has no shared memory there at that time.
    pub fn value_at(&self, query: &Query) -> Result<Vec<Option<u8>>, Error> {
        self.ask(|view| {
            let Some(range) = view.range(query)? else { return Ok(Vec::new()) };
            let mut bytes = vec![None; range.len as usize];
            let mut unknown = bytes.len();
            let mut used = Vec::new();
            let mut backward = Backward::new(view.source, view.own_streams(query, range)?, &|_| true)?;
            while unknown > 0
                && let Some(record) = backward.next()?
            {
                for (offset, value) in (record.offset..).zip(record.value()) {
                    let Some(at) = offset.checked_sub(range.offset) else { continue };
                    if let Some(byte @ None) = bytes.get_mut(at as usize) {
                        *byte = Some(*value);
                        unknown -= 1;
                    }
                }
                used.push(record);
            }
            view.confirm(&used)?;
            Ok(bytes)
        })
    }

    /// Who read what a write left: the accesses by any recording that saw bytes of it, as far as clocks and values tell, at most `limit`.
    ///
    /// A read counts if it is not known to have come before the write, saw its value in all the bytes they share, and no other write of
    /// these bytes is known to lie between.
    pub fn readers_of(&self, write: &Record, limit: usize) -> Result<Vec<Record>, Error> {
        self.ask(|view| {
            let range = Range { object: write.object, offset: write.offset, len: write.len.into() };
            let next = view.next_writes(write, range)?;
            let mut readers: Vec<Record> = Vec::new();
            for stream in &mut streams(view.index, range, false) {
                let line = stream.line;
                let Some(interval) = write.interval(line) else { continue };
                stream.seek_overlapping(view.source, interval)?;
                while readers.len() < limit
                    && let Some(record) = stream.forward(view.source)?
                {
                    let is_past = |next: &Record| next.interval(line).zip(record.interval(line)).is_some_and(|(a, b)| a.precedes(&b));
                    let on_line = range.offset.max(line * LINE_BYTES)..range.end().min((line + 1) * LINE_BYTES);
                    if hides(&next, on_line, range.object, is_past) {
                        break;
                    }
                    let common = record.offset.max(range.offset)..record.end().min(range.end());
                    let saw = record.part(&record.seen, write.offset, write.len.into());
                    let left = write.part(&write.written, record.offset, record.len.into());
                    if record.kind.reads()
                        && saw == left
                        && record.position != write.position
                        && order(&record, write) != RecordOrder::Before
                        && !hides(&next, common, range.object, |next| order(next, &record) == RecordOrder::Before)
                        && !readers.iter().any(|old| old.position == record.position)
                    {
                        readers.push(record);
                    }
                }
            }
            readers.sort_by_key(|record| (record.lines.first().map(|span| span.interval.start), record.position));
            view.confirm(readers.iter().chain([write]))?;
            Ok(readers)
        })
    }
}

impl View<'_> {
    /// For each recording and each byte of a write, its first write of that byte known to be younger: beyond these, nothing sees this one.
    fn next_writes(&self, write: &Record, range: Range) -> Result<Vec<Record>, Error> {
        let mut next: Vec<Record> = Vec::new();
        for stream in &mut streams(self.index, range, true) {
            let Some(interval) = write.interval(stream.line) else { continue };
            stream.seek_overlapping(self.source, interval)?;
            let mut left: Vec<u64> = (range.offset..range.end()).filter(|byte| byte / LINE_BYTES == stream.line).collect();
            while !left.is_empty()
                && let Some(record) = stream.forward(self.source)?
            {
                let before = left.len();
                if order(write, &record) == RecordOrder::Before {
                    left.retain(|byte| !record.overlaps(range.object, *byte, 1));
                }
                if left.len() < before {
                    next.push(record);
                }
            }
        }
        Ok(next)
    }
}

/// Whether each of these bytes was overwritten by one of the writes that `counts`.
fn hides(next: &[Record], mut bytes: std::ops::Range<u64>, object: ObjectIndex, counts: impl Fn(&Record) -> bool) -> bool {
    bytes.all(|byte| next.iter().any(|next| next.overlaps(object, byte, 1) && counts(next)))
}
