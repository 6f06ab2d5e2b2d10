//! A log opened for questions.
use crate::blame::{Blame, BlameQuery, Moment, Target};
use crate::error::Error;
use crate::index::{Index, Kept};
pub use crate::index::{Progress, Skipped};
use crate::merge::Range;
use crate::queries::Filter;
use crate::record::Record;
use crate::scan::{HotLine, Race, Unrecorded};
use crate::source::Source;
use crate::status::SharedStatus;
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

    /// The accesses that led to the value that a recording sees: see `docs/correlation.md`.
    pub fn blame(&self, query: &BlameQuery) -> Result<Blame, Error> {
        self.ask(|view| view.blame(query))
    }

    /// The youngest access to the memory that a recording's value at a time may rest on: of its own the last one before that time;
    /// of others the youngest not known to have come after that.
    ///
    /// None if there is no such access, or if the recording itself has touched the memory not yet and others are asked for.
    pub fn access_before(
        &self,
        recording: RecordingIndex,
        time: Moment,
        target: Target,
        length: u64,
        filter: Filter,
    ) -> Result<Option<Record>, Error> {
        self.ask(|view| view.access_before(recording, time, target, length, filter))
    }

    /// The next access to the memory: of a recording's own the first at or after that time; of others the first that is known to have
    /// come after its last own access before that time.
    pub fn access_after(
        &self,
        recording: RecordingIndex,
        time: Moment,
        target: Target,
        length: u64,
        filter: Filter,
    ) -> Result<Option<Record>, Error> {
        self.ask(|view| view.access_after(recording, time, target, length, filter))
    }

    /// What a recording knows of some memory at a time, byte by byte: what it last saw there or wrote; None where it never did.
    pub fn value_at(&self, recording: RecordingIndex, time: Moment, target: Target, length: u64) -> Result<Vec<Option<u8>>, Error> {
        self.ask(|view| view.value_at(recording, time, target, length))
    }

    /// Everything that anybody did to some memory, to the end of the log: the `limit` youngest accesses, oldest first.
    pub fn history(&self, object: ObjectIndex, offset: u64, length: u64, limit: usize) -> Result<Blame, Error> {
        self.ask(|view| view.history(object, offset, length, limit))
    }

    /// Who read what a write left: the accesses by any recording that saw bytes of it, as far as clocks and values tell, at most `limit`.
    ///
    /// A read counts if it is not known to have come before the write, saw its value in all the bytes they share, and no other write of
    /// these bytes is known to lie between.
    pub fn readers_of(&self, write: &Record, limit: usize) -> Result<Vec<Record>, Error> {
        self.ask(|view| view.readers_of(write, limit))
    }

    /// The most contended lines: used by several recordings and written by one, most accesses by others than the busiest first.
    pub fn hot_lines(&self, limit: usize) -> Result<Vec<HotLine>, Error> {
        self.ask(|view| view.hot_lines(limit))
    }

    /// Pairs of accesses by different recordings to common bytes, at least one a write, whose order no clock tells: they overlapped in
    /// time, so nothing in the program kept them apart. At most `limit`, in the order of objects and offsets.
    pub fn races(&self, limit: usize) -> Result<Vec<Race>, Error> {
        self.ask(|view| view.races(limit))
    }

    /// Reads that saw what no logged access left there, with the interval in which somebody who was not recorded must have written.
    /// At most `limit`.
    ///
    /// A byte is explained if one of the accesses that may have been the last to it before the read wrote that value or saw it. The first
    /// access to a byte explains itself: nobody knows what was there before.
    pub fn unrecorded_writers(&self, limit: usize) -> Result<Vec<Unrecorded>, Error> {
        self.ask(|view| view.unrecorded_writers(limit))
    }

    /// Whether what a recording knows of some memory at a time may be out of date.
    ///
    /// It is if another recording wrote there after this recording's last access before that time, and did not do so only
    /// after its next access. Times of different recordings cannot be compared, so that between these two accesses it stays open
    /// whether the write came before or after the very moment asked about.
    pub fn shared_status(&self, recording: RecordingIndex, time: Moment, target: Target, length: u64) -> Result<SharedStatus, Error> {
        self.ask(|view| view.shared_status(recording, time, target, length))
    }

    /// The object and offset that an address stands for in a recording at a time.
    pub fn resolve(&self, recording: RecordingIndex, time: Moment, address: u64) -> Result<Option<(ObjectIndex, u64)>, Error> {
        self.ask(|view| view.resolve(recording, time, address))
    }

    /// Where a recording has a byte of an object mapped at a time.
    pub fn address_in(&self, recording: RecordingIndex, time: Moment, object: ObjectIndex, offset: u64) -> Option<u64> {
        self.ask(|view| Ok(view.address_in(recording, time, object, offset))).ok().flatten()
    }

    /// Asks; if the index's file turns out not to be what was written, builds the index again and asks once more.
    fn ask<T>(&self, question: impl Fn(&View<'_>) -> Result<T, Error>) -> Result<T, Error> {
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

impl View<'_> {
    /// The bytes that a question is about; None if the recording has no shared memory there at that time.
    ///
    /// A range that goes beyond the mapping is cut at its end.
    pub(crate) fn range(&self, recording: RecordingIndex, time: Moment, target: Target, length: u64) -> Result<Option<Range>, Error> {
        let reader = &self.source.reader;
        if reader.recording(recording).is_none() {
            let path = reader.path().into();
            return Err(Error::NoSuchRecording { path, index: recording, count: reader.recordings().len() });
        }
        if length == 0 {
            return Err(Error::EmptyRange { path: reader.path().into() });
        }
        Ok(match target {
            Target::Object { object, offset } if reader.object(object).is_some() && offset <= OFFSET_MASK => {
                Some(Range { object, offset, len: length.min(OFFSET_MASK + 1 - offset) })
            }
            Target::Object { .. } => None,
            Target::Address(address) => {
                let inside = |mapping: &Mapping| address.wrapping_sub(mapping.address) < mapping.length;
                self.mapping(recording, time, inside).map(|mapping| {
                    let skip = address - mapping.address;
                    Range { object: mapping.object, offset: (mapping.offset + skip) & OFFSET_MASK, len: length.min(mapping.length - skip) }
                })
            }
        })
    }

    pub(crate) fn resolve(&self, recording: RecordingIndex, time: Moment, address: u64) -> Result<Option<(ObjectIndex, u64)>, Error> {
        let range = self.range(recording, time, Target::Address(address), 1)?;
        Ok(range.map(|range| (range.object, range.offset)))
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

    /// An error if one of these was overwritten while it was read.
    pub(crate) fn confirm<'a>(&self, records: impl IntoIterator<Item = &'a Record>) -> Result<(), Error> {
        if self.source.confirm(records.into_iter().map(|record| record.position.ticket()))? {
            return Ok(());
        }
        Err(Error::Overwritten { path: self.source.path().into() })
    }
}

impl BlameQuery {
    /// Only the writes of which a byte is still there.
    pub fn writers(self) -> BlameQuery {
        BlameQuery { writers_only: true, ..self }
    }

    pub fn limit(self, limit: usize) -> BlameQuery {
        BlameQuery { limit, ..self }
    }
}
