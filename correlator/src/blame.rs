//! Blame: the accesses, by any process, that led to the value a recording knows at a time.
use crate::correlator::{Correlator, View};
use crate::error::Error;
use crate::merge::{Backward, Range, Stream, not_after, streams};
use crate::query::{Moment, Query};
use crate::record::{Record, RecordOrder, order};
use crate::values::{RowsAre, arrange};
use recording::Time;
use shmem_log::{ObjectIndex, RecordingIndex};

/// Which rows of a blame are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlameOptions {
    /// Only writes of which a byte is still there.
    pub writers_only: bool,
    /// Rows, at least 1: of a longer history the youngest are given, and [`Blame::cut`] says so.
    pub limit: usize,
}

impl BlameOptions {
    /// How many rows suit people.
    pub const DEFAULT_LIMIT: usize = 40;
}

impl Default for BlameOptions {
    fn default() -> Self {
        BlameOptions { writers_only: false, limit: BlameOptions::DEFAULT_LIMIT }
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

/// An access, and whether its order to another one, with which it conflicts, remains open.
type OpenRow = (Record, bool);

impl Backward<'_, '_> {
    /// Reads on until `youngest_first` holds as many as are wanted or there are no more, and puts them into order, oldest first.
    fn arranged(
        &mut self,
        youngest_first: &mut Vec<Record>,
        wanted: usize,
        range: Range,
        rows_are: RowsAre,
    ) -> Result<(Vec<OpenRow>, Option<Cut>), Error> {
        while youngest_first.len() < wanted
            && let Some(record) = self.next()?
        {
            youngest_first.push(record);
        }
        let heads = self.heads();
        let all: Vec<&Record> = heads.iter().chain(youngest_first.iter().rev()).collect();
        let order = arrange(&all, heads.len(), range, rows_are);
        let cut = (!heads.is_empty()).then(|| Cut { older_at_most: self.remaining() });
        Ok((order.into_iter().map(|(row, open)| (all[row].clone(), open)).collect(), cut))
    }
}

impl Correlator {
    /// The accesses that led to the value that a recording sees: see `docs/correlation.md`.
    pub fn blame(&self, query: &Query, options: &BlameOptions) -> Result<Blame, Error> {
        self.ask(|view| {
            let Some(range) = view.range(query)? else { return Ok(view.empty(Reason::NotShared)) };
            let mut all = streams(view.index, range, false);
            let Some(last) = view.own_last(&mut all, query)? else { return Ok(view.empty(view.why_never(&all, query.recording)?)) };
            let (rows, cut) = if options.writers_only {
                (view.remaining_writers(range, query, &last)?, None)
            } else {
                view.up_to(range, all, last, options.limit)?
            };
            let address = |record: &Record| view.address_in(query.recording, query.time, record.object, record.offset);
            view.answer(Some(query.recording), address, rows, cut, options.limit, Reason::NoWriter)
        })
    }

    /// Everything that anybody did to some memory, to the end of the log: the `limit` youngest accesses, oldest first.
    ///
    /// Each row's address is that in the recording that made the access.
    pub fn history(&self, object: ObjectIndex, offset: u64, length: u64, limit: usize) -> Result<Blame, Error> {
        self.ask(|view| {
            if view.source.reader.object(object).is_none() || length == 0 {
                return Ok(view.empty(Reason::NotShared));
            }
            let range = Range { object, offset, len: length };
            let mut backward = Backward::new(view.source, streams(view.index, range, false), &|_| true)?;
            let mut youngest_first = Vec::new();
            let (rows, cut) = backward.arranged(&mut youngest_first, limit.max(1), range, RowsAre::AllToTheEnd)?;
            let address = |record: &Record| view.address_in(record.recording, Moment::End, record.object, record.offset);
            let lost = view.source.lost();
            let why_empty = if lost > 0 { Reason::Overwritten { lost } } else { Reason::NeverAccessed };
            view.answer(None, address, rows, cut, limit, why_empty)
        })
    }
}

impl View<'_> {
    fn empty(&self, reason: Reason) -> Blame {
        Blame { why_empty: Some(reason), lost: self.source.lost(), ..Blame::default() }
    }

    /// The youngest `limit` of these rows, as they are given to whoever asked.
    fn answer(
        &self,
        asker: Option<RecordingIndex>,
        address: impl Fn(&Record) -> Option<u64>,
        mut rows: Vec<OpenRow>,
        mut cut: Option<Cut>,
        limit: usize,
        if_empty: Reason,
    ) -> Result<Blame, Error> {
        let from = rows.len().saturating_sub(limit.max(1));
        if from > 0 {
            cut = Some(Cut { older_at_most: from as u64 + cut.map_or(0, |cut| cut.older_at_most) });
        }
        let row = |(record, concurrent): OpenRow| Row {
            address: address(&record),
            own: asker.is_none_or(|asker| record.recording == asker),
            pid: self.source.reader.recording(record.recording).map_or(0, |recording| recording.pid),
            concurrent,
            record,
        };
        let rows: Vec<Row> = rows.drain(from..).map(row).collect();
        self.confirm(rows.iter().map(|row| &row.record))?;
        Ok(Blame { why_empty: rows.is_empty().then_some(if_empty), rows, cut, lost: self.source.lost() })
    }

    /// At least the `limit` youngest accesses up to `last`, if there are so many.
    fn up_to<'a>(
        &'a self,
        range: Range,
        mut all: Vec<Stream<'a>>,
        last: Record,
        limit: usize,
    ) -> Result<(Vec<OpenRow>, Option<Cut>), Error> {
        let position = last.position;
        let bound = last.clone();
        let accept = move |record: &Record| record.position != position && not_after(record, &bound);
        self.seek_up_to(&mut all, &last)?;
        let mut backward = Backward::new(self.source, all, &accept)?;
        let mut youngest_first = vec![last];
        // Values may show of some that they came later than `last`; then ask for a few more.
        let (mut wanted, mut more) = (limit.max(1), 8usize);
        loop {
            let (rows, cut) = backward.arranged(&mut youngest_first, wanted, range, RowsAre::AllToTheLast)?;
            if rows.len() >= limit || cut.is_none() {
                return Ok((rows, cut));
            }
            wanted = wanted.saturating_add(more);
            more = more.saturating_mul(2);
        }
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
    fn remaining_writers(&self, range: Range, query: &Query, last: &Record) -> Result<Vec<OpenRow>, Error> {
        let accept = |record: &Record| not_after(record, last);
        let mut all = streams(self.index, range, true);
        self.own_last(&mut all, query)?;
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
        Ok(writers.map(|(row, open)| (all[row].clone(), open)).collect())
    }
}
