//! Blame: the accesses, by any process, that led to the value a recording knows at a time.
use crate::correlator::View;
use crate::error::Error;
use crate::merge::{Backward, Range, Stream, not_after, streams};
use crate::record::{Record, RecordOrder, order};
use crate::values::{RowsAre, arrange};
use recording::Time;
use shmem_log::{ObjectIndex, RecordingIndex};

/// When a question is asked, in the recording that it is asked of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Just before the instruction at `pc` executes: its own access, or that of its system call, has not happened yet.
    At(Time),
    /// After all that was recorded.
    End,
}

/// Which memory is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// An address in the recording's own address space.
    Address(u64),
    Object {
        object: ObjectIndex,
        offset: u64,
    },
}

/// Who is to blame for some bytes?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlameQuery {
    /// Whose view of the memory counts.
    pub recording: RecordingIndex,
    pub time: Moment,
    pub target: Target,
    /// Bytes, at least 1.
    pub length: u64,
    /// Only writes of which a byte is still there.
    pub writers_only: bool,
    /// Rows, at least 1: of a longer history the youngest are given, and [`Blame::cut`] says so.
    pub limit: usize,
}

impl BlameQuery {
    /// How many rows suit people.
    pub const DEFAULT_LIMIT: usize = 40;

    pub fn new(recording: RecordingIndex, time: Moment, target: Target, length: u64) -> BlameQuery {
        BlameQuery { recording, time, target, length, writers_only: false, limit: BlameQuery::DEFAULT_LIMIT }
    }
}

/// One access of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub record: Record,
    /// Where it was in the address space of the recording that asked; None if that does not map this part of the object.
    pub address: Option<u64>,
    /// Made by the recording that asked.
    pub own: bool,
    pub pid: u32,
    /// Its order to another row with which it conflicts is not known, neither by clocks nor by values.
    pub concurrent: bool,
}

/// Older rows were left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// There is at least one, and there are no more than this.
    pub older_at_most: u64,
}

/// Why there are no rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The recording has no shared memory there at that time.
    NotShared,
    /// The recording never touches it.
    NeverAccessed,
    /// The recording touches it for the first time later, then.
    NotYet { first: Time },
    /// The recording may have touched it: so many of its accesses were overwritten, as the log was full.
    Overwritten { lost: u64 },
    /// The accesses that led here exist, but none of them wrote (only with `writers_only`).
    NoWriter,
}

/// The answer, oldest access first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Blame {
    pub rows: Vec<Row>,
    pub cut: Option<Cut>,
    /// Set if and only if there are no rows.
    pub why_empty: Option<Reason>,
    /// Accesses of the log that were overwritten as it was full: if any, the history may have begun earlier.
    pub lost: u64,
}

/// Rows, oldest first, each with whether its order remains open; and whether there are more.
type Found = (Vec<(Record, bool)>, Option<Cut>);

impl View<'_> {
    /// See [`crate::Correlator::blame`].
    pub(crate) fn blame(&self, query: &BlameQuery) -> Result<Blame, Error> {
        let lost = self.source.lost();
        let empty = |reason| Blame { why_empty: Some(reason), lost, ..Blame::default() };
        let Some(range) = self.range(query.recording, query.time, query.target, query.length)? else {
            return Ok(empty(Reason::NotShared));
        };
        let mut all = streams(self.index, range, false);
        let Some(last) = self.own_last(&mut all, query.recording, query.time)? else {
            return Ok(empty(self.why_never(&all, query.recording)?));
        };
        let found =
            if query.writers_only { self.remaining_writers(range, query.time, &last)? } else { self.up_to(range, all, last, query.limit)? };
        let (rows, mut cut) = found;
        let from = rows.len().saturating_sub(query.limit.max(1));
        if from > 0 {
            cut = Some(Cut { older_at_most: from as u64 + cut.map_or(0, |cut| cut.older_at_most) });
        }
        let rows: Vec<Row> = rows.into_iter().skip(from).map(|(record, open)| self.row(query, record, open)).collect();
        self.confirm(rows.iter().map(|row| &row.record))?;
        let why_empty = rows.is_empty().then_some(Reason::NoWriter);
        Ok(Blame { rows, cut, why_empty, lost })
    }

    /// At least the `limit` youngest accesses up to `last`, if there are so many.
    fn up_to<'a>(&'a self, range: Range, mut all: Vec<Stream<'a>>, last: Record, limit: usize) -> Result<Found, Error> {
        let position = last.position;
        let bound = last.clone();
        let accept = move |record: &Record| record.position != position && not_after(record, &bound);
        self.seek_up_to(&mut all, &last)?;
        let mut backward = Backward::new(self.source, all, &accept)?;
        let mut youngest_first = vec![last];
        // Values may show of some that they came later than `last`; then ask for a few more.
        let (mut wanted, mut more) = (limit.max(1), 8usize);
        loop {
            while youngest_first.len() < wanted {
                match backward.next()? {
                    Some(record) => youngest_first.push(record),
                    None => break,
                }
            }
            let heads = backward.heads();
            let all: Vec<&Record> = heads.iter().chain(youngest_first.iter().rev()).collect();
            let order = arrange(&all, heads.len(), range, RowsAre::AllToTheLast);
            if order.len() < limit && !heads.is_empty() {
                wanted = wanted.saturating_add(more);
                more = more.saturating_mul(2);
                continue;
            }
            let cut = (!heads.is_empty()).then(|| Cut { older_at_most: backward.remaining() });
            return Ok((order.into_iter().map(|(row, open)| (all[row].clone(), open)).collect(), cut));
        }
    }

    pub(crate) fn row(&self, query: &BlameQuery, record: Record, concurrent: bool) -> Row {
        Row {
            address: self.address_in(query.recording, query.time, record.object, record.offset),
            own: record.recording == query.recording,
            pid: self.source.reader.recording(record.recording).map_or(0, |recording| recording.pid),
            concurrent,
            record,
        }
    }

    /// A recording's last access to the range before a moment. Leaves its streams there.
    pub(crate) fn own_last(&self, streams: &mut [Stream<'_>], recording: RecordingIndex, time: Moment) -> Result<Option<Record>, Error> {
        let mut last: Option<Record> = None;
        for stream in streams.iter_mut().filter(|stream| stream.recording == recording) {
            match time {
                Moment::At(time) => stream.seek_time(self.source, time)?,
                Moment::End => stream.seek_end(),
            }
            stream.advance(self.source, &|_| true)?;
            let found = stream.current.take();
            stream.step_back_over(found.is_some());
            if found.as_ref().map(|found| found.position) > last.as_ref().map(|last| last.position) {
                last = found;
            }
        }
        Ok(last)
    }

    /// Puts the streams where accesses begin that may have led up to `last`, which [`View::own_last`] has just found in them.
    pub(crate) fn seek_up_to(&self, streams: &mut [Stream<'_>], last: &Record) -> Result<(), Error> {
        for stream in streams {
            match last.interval(stream.line) {
                _ if stream.recording == last.recording => {}
                Some(interval) => stream.seek_clock(self.source, interval.end)?,
                None => stream.seek_end(),
            }
        }
        Ok(())
    }

    fn why_never(&self, streams: &[Stream<'_>], recording: RecordingIndex) -> Result<Reason, Error> {
        let mut first: Option<Record> = None;
        for stream in streams.iter().filter(|stream| stream.recording == recording) {
            let found = stream.first(self.source)?;
            if let Some(found) = found
                && first.as_ref().is_none_or(|first| found.position < first.position)
            {
                first = Some(found);
            }
        }
        let lost = self.source.reader.counts(recording).lost;
        Ok(match first {
            _ if lost > 0 => Reason::Overwritten { lost },
            Some(first) => Reason::NotYet { first: first.time },
            None => Reason::NeverAccessed,
        })
    }

    /// The writes up to `last` of which a byte may still be there, oldest first.
    fn remaining_writers(&self, range: Range, time: Moment, last: &Record) -> Result<Found, Error> {
        let accept = |record: &Record| not_after(record, last);
        let mut all = streams(self.index, range, true);
        self.own_last(&mut all, last.recording, time)?;
        self.seek_up_to(&mut all, last)?;
        let mut backward = Backward::new(self.source, all, &accept)?;
        // Only a write that is known to have come before the last access hides older ones. A byte is settled once such a write is
        // known to be younger than all that are still to come.
        let mut rows: Vec<Record> = Vec::new();
        let mut hiding: Vec<Record> = Vec::new();
        while let Some(record) = backward.next()? {
            let remains = (record.offset.max(range.offset)..record.end().min(range.end())).any(|byte| {
                !hiding.iter().any(|younger| younger.overlaps(range.object, byte, 1) && order(&record, younger) == RecordOrder::Before)
            });
            if !remains {
                continue;
            }
            if record.position == last.position || order(&record, last) == RecordOrder::Before {
                hiding.push(record.clone());
            }
            rows.push(record);
            if backward.is_settled(range, &hiding) {
                break;
            }
        }
        // The last access takes part, as the last: what it saw tells which write came before it.
        rows.retain(|row| row.position != last.position);
        let all: Vec<&Record> = rows.iter().rev().chain([last]).collect();
        let order = arrange(&all, 0, range, RowsAre::WritesForTheLast);
        let writers = order.into_iter().filter(|(row, _)| all[*row].kind.writes());
        Ok((writers.map(|(row, open)| (all[row].clone(), open)).collect(), None))
    }
}
