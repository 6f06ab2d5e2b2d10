//! The other questions: last and next access, value at a time, everything that happened to a range.
use crate::blame::{Blame, BlameQuery, Cut, Moment, Reason, Target};
use crate::correlator::View;
use crate::error::Error;
use crate::merge::{Backward, Range, not_after, streams};
use crate::record::{Record, RecordOrder, order};
use crate::values::{RowsAre, arrange};
use shmem_log::{Kind, ObjectIndex, RecordingIndex};

/// Which accesses count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Made by this recording; None: by any.
    pub by: Option<RecordingIndex>,
    /// Reads, writes or read/writes only; `Write` includes read/writes if `writes` is asked for instead.
    pub kind: Option<Kind>,
    /// Whatever writes, read/writes included.
    pub writes: bool,
}

impl Filter {
    fn accepts(&self, record: &Record) -> bool {
        self.by.is_none_or(|by| record.recording == by)
            && self.kind.is_none_or(|kind| record.kind == kind)
            && (!self.writes || record.kind.writes())
    }
}

impl View<'_> {
    /// See [`crate::Correlator::access_before`].
    pub(crate) fn access_before(
        &self,
        recording: RecordingIndex,
        time: Moment,
        target: Target,
        length: u64,
        filter: Filter,
    ) -> Result<Option<Record>, Error> {
        let Some(range) = self.range(recording, time, target, length)? else { return Ok(None) };
        let mut all = streams(self.index, range, false);
        if filter.by == Some(recording) {
            all.retain(|stream| stream.recording == recording);
            for stream in &mut all {
                if let Moment::At(time) = time {
                    stream.seek_time(self.source, time)?;
                }
            }
            return Backward::new(self.source, all, &|record| filter.accepts(record))?.next();
        }
        let Some(last) = self.own_last(&mut all, recording, time)? else { return Ok(None) };
        if filter.accepts(&last) {
            return Ok(Some(last));
        }
        self.seek_up_to(&mut all, &last)?;
        let accept = |record: &Record| filter.accepts(record) && not_after(record, &last);
        Backward::new(self.source, all, &accept)?.next()
    }

    /// See [`crate::Correlator::access_after`].
    pub(crate) fn access_after(
        &self,
        recording: RecordingIndex,
        time: Moment,
        target: Target,
        length: u64,
        filter: Filter,
    ) -> Result<Option<Record>, Error> {
        let Some(range) = self.range(recording, time, target, length)? else { return Ok(None) };
        let mut all = streams(self.index, range, false);
        let last = self.own_last(&mut all, recording, time)?;
        let mut first: Option<Record> = None;
        for stream in all.iter_mut().filter(|stream| filter.by.is_none_or(|by| stream.recording == by)) {
            match (&last, time) {
                _ if stream.recording == recording => match time {
                    Moment::At(time) => stream.seek_time(self.source, time)?,
                    Moment::End => stream.seek_end(),
                },
                (Some(last), _) => match last.interval(stream.line) {
                    Some(interval) => stream.seek_clock(self.source, interval.end)?,
                    None => continue,
                },
                // The own accesses are all still to come: nothing is known of the others.
                (None, _) => stream.seek_start(),
            }
            let found = stream.following_where(self.source, &|record| filter.accepts(record))?;
            let is_first = |found: &Record, first: &Record| match order(found, first) {
                RecordOrder::Before => true,
                RecordOrder::After => false,
                RecordOrder::Concurrent | RecordOrder::Unrelated => found.tsc < first.tsc,
            };
            if let Some(found) = found
                && first.as_ref().is_none_or(|first| is_first(&found, first))
            {
                first = Some(found);
            }
        }
        Ok(first)
    }

    /// See [`crate::Correlator::value_at`].
    pub(crate) fn value_at(&self, recording: RecordingIndex, time: Moment, target: Target, length: u64) -> Result<Vec<Option<u8>>, Error> {
        let Some(range) = self.range(recording, time, target, length)? else { return Ok(Vec::new()) };
        let mut own = streams(self.index, range, false);
        own.retain(|stream| stream.recording == recording);
        for stream in &mut own {
            if let Moment::At(time) = time {
                stream.seek_time(self.source, time)?;
            }
        }
        let mut bytes = vec![None; range.len as usize];
        let mut unknown = bytes.len();
        let mut backward = Backward::new(self.source, own, &|_| true)?;
        while unknown > 0 {
            let Some(record) = backward.next()? else { break };
            for (offset, value) in (record.offset..).zip(record.value()) {
                let Some(at) = offset.checked_sub(range.offset) else { continue };
                if let Some(byte @ None) = bytes.get_mut(at as usize) {
                    *byte = Some(*value);
                    unknown -= 1;
                }
            }
        }
        Ok(bytes)
    }

    /// See [`crate::Correlator::history`].
    pub(crate) fn history(&self, object: ObjectIndex, offset: u64, length: u64, limit: usize) -> Result<Blame, Error> {
        let lost = self.source.lost();
        if self.source.reader.object(object).is_none() || length == 0 {
            return Ok(Blame { why_empty: Some(Reason::NotShared), lost, ..Blame::default() });
        }
        let range = Range { object, offset, len: length };
        let mut backward = Backward::new(self.source, streams(self.index, range, false), &|_| true)?;
        let mut youngest_first = Vec::new();
        while youngest_first.len() < limit.max(1) {
            match backward.next()? {
                Some(record) => youngest_first.push(record),
                None => break,
            }
        }
        let heads = backward.heads();
        let all: Vec<&Record> = heads.iter().chain(youngest_first.iter().rev()).collect();
        let order = arrange(&all, heads.len(), range, RowsAre::AllToTheEnd);
        let own = |record: &Record| BlameQuery::new(record.recording, Moment::End, Target::Object { object, offset }, length);
        let rows: Vec<_> = order.into_iter().map(|(row, open)| self.row(&own(all[row]), all[row].clone(), open)).collect();
        self.confirm(rows.iter().map(|row| &row.record))?;
        let cut = (!heads.is_empty()).then(|| Cut { older_at_most: backward.remaining() });
        let why_empty = rows.is_empty().then_some(if lost > 0 { Reason::Overwritten { lost } } else { Reason::NeverAccessed });
        Ok(Blame { rows, cut, why_empty, lost })
    }

    /// See [`crate::Correlator::readers_of`].
    pub(crate) fn readers_of(&self, write: &Record, limit: usize) -> Result<Vec<Record>, Error> {
        let range = Range { object: write.object, offset: write.offset, len: write.len.into() };
        let mut readers: Vec<Record> = Vec::new();
        let mut all = streams(self.index, range, false);
        let mut writes = streams(self.index, range, true);
        // For each line, the first write of each recording that is known to be younger: beyond these, nothing sees this write there.
        let mut next: Vec<Record> = Vec::new();
        for stream in &mut writes {
            let Some(interval) = write.interval(stream.line) else { continue };
            stream.seek_clock(self.source, interval.end)?;
            next.extend(stream.following_where(self.source, &|record| order(write, record) == RecordOrder::Before)?);
        }
        for stream in &mut all {
            let Some(interval) = write.interval(stream.line) else { continue };
            stream.seek_clock(self.source, interval.start.saturating_sub(2))?;
            loop {
                let Some(record) = stream.forward(self.source)? else { break };
                let hidden = |record: &Record| {
                    let bytes = record.offset.max(range.offset)..record.end().min(range.end());
                    bytes.into_iter().all(|byte| {
                        next.iter().any(|next| next.overlaps(range.object, byte, 1) && order(next, record) == RecordOrder::Before)
                    })
                };
                let on_line = |record: &Record| record.interval(stream.line);
                if hidden(&record) && next.iter().any(|next| on_line(next).zip(on_line(&record)).is_some_and(|(a, b)| a.precedes(&b))) {
                    break;
                }
                let known_after = !matches!(order(&record, write), RecordOrder::Before) && record.position != write.position;
                let saw = record.part(&record.seen, write.offset, write.len.into());
                let left = write.part(&write.written, record.offset, record.len.into());
                if record.kind.reads() && known_after && saw == left && !readers.iter().any(|old| old.position == record.position) {
                    readers.push(record);
                }
                if readers.len() >= limit {
                    return Ok(readers);
                }
            }
        }
        readers.sort_by_key(|record| (record.lines.first().map(|span| span.interval.start), record.position));
        Ok(readers)
    }
}
