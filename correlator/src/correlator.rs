//! A log opened for questions.
use crate::blame::{BlameQuery, Moment, Target};
use crate::error::Error;
use crate::index::Index;
pub use crate::index::{Progress, Skipped};
use crate::merge::Range;
use crate::record::Record;
use crate::source::Source;
use shmem_log::layout::OFFSET_MASK;
use shmem_log::{Mapping, ObjectIndex, Reader, RecordingIndex};
use std::path::Path;

/// How to open a log.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// Told while the index is built.
    pub progress: Progress<'a>,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Options { progress: &|_, _| {} }
    }
}

/// Answers questions about a snapshot of a log.
///
/// Opening builds the index, or finds it beside the log. Queries take `&self` and may be asked from several threads.
#[derive(Debug)]
pub struct Correlator {
    pub(crate) source: Source,
    pub(crate) index: Index,
}

impl Correlator {
    pub fn open(path: impl AsRef<Path>) -> Result<Correlator, Error> {
        Correlator::open_with(path, Options::default())
    }

    pub fn open_with(path: impl AsRef<Path>, options: Options<'_>) -> Result<Correlator, Error> {
        let source = Source::open(path.as_ref())?;
        let mut index = Index::default();
        index.update(&source, options.progress)?;
        Ok(Correlator { source, index })
    }

    /// Takes a new snapshot of a log that is still being written; only what is new is indexed.
    pub fn refresh(&mut self) -> Result<(), Error> {
        self.source.refresh()?;
        self.index.update(&self.source, &|_, _| {})
    }

    /// The log itself: its registries, counts and records.
    pub fn reader(&self) -> &Reader {
        &self.source.reader
    }

    /// What of the log could not be read, and is missing in all answers.
    pub fn skipped(&self) -> Skipped {
        self.index.skipped()
    }

    /// Bytes of the index.
    pub fn index_bytes(&self) -> u64 {
        self.index.size_bytes()
    }

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

    /// The object and offset that an address stands for in a recording at a time.
    pub fn resolve(&self, recording: RecordingIndex, time: Moment, address: u64) -> Result<Option<(ObjectIndex, u64)>, Error> {
        let range = self.range(recording, time, Target::Address(address), 1)?;
        Ok(range.map(|range| (range.object, range.offset)))
    }

    /// Where a recording has a byte of an object mapped at a time.
    pub fn address_in(&self, recording: RecordingIndex, time: Moment, object: ObjectIndex, offset: u64) -> Option<u64> {
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
