//! A log opened for questions.
//!
//! Each question is a method of [`Correlator`] in the module that answers it. It puts a closure to a [`View`], by [`Correlator::ask`].
use crate::error::Error;
use crate::index::{Index, Kept};
pub use crate::index::{Progress, Skipped};
use crate::merge::{Range, Stream, streams};
use crate::query::{Moment, Query, Target};
use crate::record::Record;
use crate::source::Source;
use shmem_log::layout::OFFSET_MASK;
use shmem_log::{Mapping, ObjectIndex, Reader, RecordingIndex};
use std::path::Path;
use std::sync::{PoisonError, RwLock};

/// How to open a log.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// Told while the index is built.
    pub progress: Progress<'a>,
    /// Whether to use, and leave, the index in a file beside the log.
    pub cache: bool,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Options { progress: &|_, _| {}, cache: true }
    }
}

/// Answers questions about a snapshot of a log.
///
/// Opening builds the index, or finds it beside the log. Queries take `&self` and may be asked from several threads.
///
/// # Errors
/// All questions fail if the log cannot be read, a recording is not in it ([`Error::NoSuchRecording`]), no bytes are asked about
/// ([`Error::EmptyRange`]), or an access of the answer was overwritten by a writer meanwhile ([`Error::Overwritten`]: refresh and ask again).
#[derive(Debug)]
pub struct Correlator {
    source: Source,
    kept: RwLock<Kept>,
}

impl Correlator {
    pub fn open(path: impl AsRef<Path>) -> Result<Correlator, Error> {
        Correlator::open_with(path, Options::default())
    }

    pub fn open_with(path: impl AsRef<Path>, options: Options<'_>) -> Result<Correlator, Error> {
        let source = Source::open(path.as_ref())?;
        let kept = RwLock::new(Kept::open(&source, options.cache, options.progress)?);
        Ok(Correlator { source, kept })
    }

    /// Takes a new snapshot of a log that is still being written; only what is new is indexed.
    pub fn refresh(&mut self) -> Result<(), Error> {
        self.source.refresh()?;
        let kept = self.kept.get_mut().unwrap_or_else(PoisonError::into_inner);
        kept.update(&self.source, &|_, _| {})
    }

    /// The log itself: its registries, counts and records.
    pub fn reader(&self) -> &Reader {
        &self.source.reader
    }

    /// What of the log could not be read, and is missing in all answers.
    pub fn skipped(&self) -> Skipped {
        self.kept.read().unwrap_or_else(PoisonError::into_inner).index.skipped()
    }

    /// Bytes of the index.
    pub fn index_bytes(&self) -> u64 {
        self.kept.read().unwrap_or_else(PoisonError::into_inner).index.size_bytes()
    }

    /// The object and offset that an address stands for in a recording at a time.
    pub fn resolve(&self, recording: RecordingIndex, time: Moment, address: u64) -> Result<Option<(ObjectIndex, u64)>, Error> {
        let range = self.ask(|view| view.range(&Query::new(recording, time, Target::Address(address), 1)))?;
        Ok(range.map(|range| (range.object, range.offset)))
    }

    /// Where a recording has a byte of an object mapped at a time.
    pub fn address_in(&self, recording: RecordingIndex, time: Moment, object: ObjectIndex, offset: u64) -> Option<u64> {
        self.ask(|view| Ok(view.address_in(recording, time, object, offset))).ok().flatten()
    }

    /// Asks; if the index's file turns out not to be what was written, builds the index again and asks once more.
    pub(crate) fn ask<T>(&self, question: impl Fn(&View<'_>) -> Result<T, Error>) -> Result<T, Error> {
        {
            let kept = self.kept.read().unwrap_or_else(PoisonError::into_inner);
            let answer = question(&View { source: &self.source, index: &kept.index });
            if !kept.is_broken() {
                return answer;
            }
        }
        let mut kept = self.kept.write().unwrap_or_else(PoisonError::into_inner);
        if kept.is_broken() {
            kept.rebuild(&self.source)?;
        }
        question(&View { source: &self.source, index: &kept.index })
    }
}

/// What the questions are put to.
pub(crate) struct View<'a> {
    pub source: &'a Source,
    pub index: &'a Index,
}

impl<'a> View<'a> {
    /// The bytes that a question is about; None if the recording has no shared memory there at that time.
    pub(crate) fn range(&self, query: &Query) -> Result<Option<Range>, Error> {
        let reader = &self.source.reader;
        if reader.recording(query.recording).is_none() {
            let path = reader.path().into();
            return Err(Error::NoSuchRecording { path, index: query.recording, count: reader.recordings().len() });
        }
        if query.length == 0 {
            return Err(Error::EmptyRange { path: reader.path().into() });
        }
        Ok(match query.target {
            Target::Object { object, offset } if reader.object(object).is_some() && offset <= OFFSET_MASK => {
                Some(Range { object, offset, len: query.length.min(OFFSET_MASK + 1 - offset) })
            }
            Target::Object { .. } => None,
            Target::Address(address) => {
                let inside = |mapping: &Mapping| address.wrapping_sub(mapping.address) < mapping.length;
                self.mapping(query.recording, query.time, inside).map(|mapping| {
                    let skip = address - mapping.address;
                    let len = query.length.min(mapping.length - skip);
                    Range { object: mapping.object, offset: (mapping.offset + skip) & OFFSET_MASK, len }
                })
            }
        })
    }

    pub(crate) fn address_in(&self, recording: RecordingIndex, time: Moment, object: ObjectIndex, offset: u64) -> Option<u64> {
        let inside = |mapping: &Mapping| mapping.object == object && offset.wrapping_sub(mapping.offset) < mapping.length;
        let mapping = self.mapping(recording, time, inside)?;
        mapping.address.checked_add(offset - mapping.offset)
    }

    /// The youngest mapping of a recording in force at a time. At the end it is the last there was.
    fn mapping(&self, recording: RecordingIndex, time: Moment, inside: impl Fn(&Mapping) -> bool) -> Option<&Mapping> {
        let all = self.source.reader.mappings().iter().filter(|mapping| mapping.recording == recording && inside(mapping));
        match time {
            Moment::At(time) => {
                all.filter(|mapping| mapping.from_bbcount <= time.bbcount && mapping.to_bbcount.is_none_or(|to| time.bbcount <= to)).last()
            }
            Moment::End => all.max_by_key(|mapping| (mapping.to_bbcount.unwrap_or(u64::MAX), mapping.index)),
        }
    }

    /// The recording's own accesses to a range, where they stand at the time asked about.
    pub(crate) fn own_streams(&self, query: &Query, range: Range) -> Result<Vec<Stream<'a>>, Error> {
        let mut own = streams(self.index, range, false);
        own.retain(|stream| stream.recording == query.recording);
        own.iter_mut().try_for_each(|stream| stream.seek_moment(self.source, query.time))?;
        Ok(own)
    }

    /// A recording's last access to the range before a moment. Leaves its streams there.
    pub(crate) fn own_last(&self, streams: &mut [Stream<'_>], query: &Query) -> Result<Option<Record>, Error> {
        let mut last: Option<Record> = None;
        for stream in streams.iter_mut().filter(|stream| stream.recording == query.recording) {
            stream.seek_moment(self.source, query.time)?;
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

    /// An error if one of these was overwritten while it was read.
    pub(crate) fn confirm<'r>(&self, records: impl IntoIterator<Item = &'r Record>) -> Result<(), Error> {
        if self.source.confirm(records.into_iter().map(|record| record.position.ticket()))? {
            return Ok(());
        }
        Err(Error::Overwritten { path: self.source.path().into() })
    }
}
