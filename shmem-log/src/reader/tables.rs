//! The registries as the reader shows them.
use super::error::{Damage, ReadError};
use super::file::{LogFile, word};
use crate::layout::*;
use crate::registry::RecordingEnd;
use crate::types::{Kind, MappingIndex, ObjectIndex, RecordingIndex, SiteIndex};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// A recording that takes part in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recording {
    pub index: RecordingIndex,
    pub uuid: [u8; 16],
    pub pid: u32,
    /// Clock ticks since boot: see [`crate::RecordingInfo`].
    pub start_time: u64,
    /// CLOCK_REALTIME, ns.
    pub start_wallclock_ns: u64,
    pub executable: PathBuf,
    pub name: String,
    /// None while it runs, or if it died without saying so.
    pub ended: Option<RecordingEnd>,
    pub(super) appended: u64,
    pub(super) dropped: u64,
    pub(super) clock_pair: (u64, u64),
}

/// A piece of shared memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    pub index: ObjectIndex,
    pub dev: u64,
    pub ino: u64,
    /// Bytes, the largest that anybody registered.
    pub size: u64,
    pub name: String,
    /// False if the process that registered it died before it had written name and, for an unusually large inode, identity.
    pub complete: bool,
}

/// A place where a recording had an object mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    pub index: MappingIndex,
    pub recording: RecordingIndex,
    pub object: ObjectIndex,
    /// Guest address.
    pub address: u64,
    /// Bytes.
    pub length: u64,
    /// Of the first byte in the object.
    pub offset: u64,
    pub from_bbcount: u64,
    /// None while it lasts.
    pub to_bbcount: Option<u64>,
}

/// An instrumented instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    pub index: SiteIndex,
    pub pc: u64,
    pub kind: Kind,
    /// Bytes; 0 if it varies.
    pub len: u32,
}

/// How many entries a cursor stands for. It may run past the end by one for each process that is being refused just now.
pub(super) fn taken(file: &LogFile, cursor: u64, field: &'static str, section: Section) -> Result<u64, ReadError> {
    let found = file.read_word(field, cursor)?;
    if found > section.count + (1 << 22) {
        return Err(file.damaged(Damage::new(field, cursor, format!("at most {}", section.count), found)));
    }
    Ok(found.min(section.count))
}

fn check_state(file: &LogFile, field: &'static str, offset: u64, state: u64) -> Result<bool, ReadError> {
    match state {
        ENTRY_FREE | ENTRY_WRITING => Ok(false),
        ENTRY_READY => Ok(true),
        _ => Err(file.damaged(Damage::new(field, offset, "a state from 0 to 2", state))),
    }
}

fn check_length(file: &LogFile, field: &'static str, offset: u64, length: u64, max: u64) -> Result<usize, ReadError> {
    if length > max {
        return Err(file.damaged(Damage::new(field, offset, format!("at most {max} bytes"), length)));
    }
    Ok(length as usize)
}

fn uuid(bytes: &[u8]) -> [u8; 16] {
    let mut uuid = [0; 16];
    uuid.copy_from_slice(&bytes[REC_UUID as usize..REC_UUID as usize + 16]);
    uuid
}

/// Entries that are complete, by index.
pub(super) fn recordings(file: &LogFile, section: Section) -> Result<Vec<Recording>, ReadError> {
    let count = taken(file, HDR_RECORDINGS_CURSOR, "recordings cursor", section)?;
    let mut all = Vec::new();
    file.entries("recordings", section.offset, RECORDING_BYTES, count, |offset, [seen, entry]| {
        if !check_state(file, "state of a recording", offset + REC_STATE, word(seen, REC_STATE))? {
            return Ok(());
        }
        let lengths = word(entry, REC_LENGTHS);
        let (low, high) = (lengths & 0xffff_ffff, lengths >> 32);
        let at = offset + REC_LENGTHS;
        let executable = check_length(file, "length of an executable's path", at, low, REC_EXECUTABLE_MAX)?;
        let name = check_length(file, "length of a recording's name", at + 4, high, REC_NAME_MAX)?;
        let ended = match word(seen, REC_ENDED) {
            0 => None,
            1 => Some(RecordingEnd { bbcount: word(entry, REC_END_BBCOUNT), wallclock_ns: word(entry, REC_END_NS) }),
            found => {
                let damage = Damage::new("end mark of a recording", offset + REC_ENDED, "0 or 1", found);
                return Err(file.damaged(damage));
            }
        };
        let index = (offset - section.offset) / RECORDING_BYTES;
        let Some(index) = RecordingIndex::new(index as u32) else { return Ok(()) };
        all.push(Recording {
            index,
            uuid: uuid(entry),
            pid: word(entry, REC_PID) as u32,
            start_time: word(entry, REC_START_TIME),
            start_wallclock_ns: word(entry, REC_START_NS),
            executable: OsStr::from_bytes(&entry[REC_EXECUTABLE as usize..][..executable]).into(),
            name: String::from_utf8_lossy(&entry[REC_NAME as usize..][..name]).into_owned(),
            ended,
            appended: word(entry, REC_APPENDED),
            dropped: word(entry, REC_DROPPED),
            clock_pair: (word(entry, REC_TSC), word(entry, REC_TSC_NS)),
        });
        Ok(())
    })?;
    Ok(all)
}

pub(super) fn objects(file: &LogFile, section: Section) -> Result<Vec<Object>, ReadError> {
    let mut all = Vec::new();
    file.entries("objects", section.offset, OBJECT_BYTES, section.count, |offset, [seen, entry]| {
        let key = word(entry, OBJ_KEY);
        let ready = check_state(file, "state of an object", offset + OBJ_STATE, word(seen, OBJ_STATE))?;
        if key == 0 {
            return Ok(());
        }
        let index = (offset - section.offset) / OBJECT_BYTES + 1;
        let Some(index) = ObjectIndex::new(index as u32) else { return Ok(()) };
        let (dev, ino, length) = if ready {
            let at = offset + OBJ_NAME_LEN;
            let length = check_length(file, "length of an object's name", at, word(entry, OBJ_NAME_LEN), OBJ_NAME_MAX)?;
            (word(entry, OBJ_DEV), word(entry, OBJ_INO), length)
        } else if key >> 63 == 0 {
            (key >> 39, (key & ((1 << 39) - 1)).wrapping_sub(1), 0)
        } else {
            (0, 0, 0)
        };
        if ready && crate::objects::key(dev, ino) != key {
            let expected = format!("the key of device {dev:#x}, inode {ino}");
            return Err(file.damaged(Damage::new("key of an object", offset, expected, key)));
        }
        let name = String::from_utf8_lossy(&entry[OBJ_NAME as usize..][..length]).into_owned();
        all.push(Object { index, dev, ino, size: word(entry, OBJ_SIZE), name, complete: ready });
        Ok(())
    })?;
    Ok(all)
}

pub(super) fn mappings(file: &LogFile, section: Section, recordings: &[Recording], objects: &[Object]) -> Result<Vec<Mapping>, ReadError> {
    let count = taken(file, HDR_MAPPINGS_CURSOR, "mappings cursor", section)?;
    let mut all = Vec::new();
    file.entries("mappings", section.offset, MAPPING_BYTES, count, |offset, [seen, entry]| {
        if !check_state(file, "state of a mapping", offset + MAP_STATE, word(seen, MAP_STATE))? {
            return Ok(());
        }
        let who = word(entry, MAP_WHO);
        let (low, high) = (who as u32, (who >> 32) as u32);
        let recording = RecordingIndex::new(low).filter(|index| find(recordings, *index).is_some());
        let object = ObjectIndex::new(high).filter(|index| find(objects, *index).is_some());
        let at = offset + MAP_WHO;
        let Some(recording) = recording else {
            return Err(file.damaged(Damage::new("recording of a mapping", at, "a registered recording", low.into())));
        };
        let Some(object) = object else {
            return Err(file.damaged(Damage::new("object of a mapping", at + 4, "a registered object", high.into())));
        };
        let index = (offset - section.offset) / MAPPING_BYTES;
        let Some(index) = MappingIndex::new(index as u32) else { return Ok(()) };
        let to = word(seen, MAP_TO);
        all.push(Mapping {
            index,
            recording,
            object,
            address: word(entry, MAP_ADDRESS),
            length: word(entry, MAP_LENGTH),
            offset: word(entry, MAP_OFFSET),
            from_bbcount: word(entry, MAP_FROM),
            to_bbcount: (to != u64::MAX).then_some(to),
        });
        Ok(())
    })?;
    Ok(all)
}

/// By index less one; None where a site was taken but never written.
pub(super) fn sites(file: &LogFile, section: Section) -> Result<Vec<Option<Site>>, ReadError> {
    let count = taken(file, HDR_SITES_CURSOR, "sites cursor", section)?;
    let mut all = Vec::with_capacity(count as usize);
    file.entries("sites", section.offset, SITE_BYTES, count, |offset, [seen, entry]| {
        let meta = word(seen, SITE_META);
        if meta == 0 {
            all.push(None);
            return Ok(());
        }
        let kind = Kind::from_bits((meta >> 32) as u8).filter(|_| meta >> 40 == 0);
        let Some(kind) = kind else {
            return Err(file.damaged(Damage::new("kind of a site", offset + SITE_META + 4, "1, 2 or 3", meta >> 32)));
        };
        let index = SiteIndex::new(all.len() as u32 + 1);
        all.push(index.map(|index| Site { index, pc: word(entry, SITE_PC), kind, len: meta as u32 }));
        Ok(())
    })?;
    Ok(all)
}

/// Tables whose entries are in the order of their index.
pub(super) trait Indexed {
    type Index: Ord + Copy;
    fn index(&self) -> Self::Index;
}

impl Indexed for Recording {
    type Index = RecordingIndex;
    fn index(&self) -> RecordingIndex {
        self.index
    }
}

impl Indexed for Object {
    type Index = ObjectIndex;
    fn index(&self) -> ObjectIndex {
        self.index
    }
}

pub(super) fn find<T: Indexed>(table: &[T], index: T::Index) -> Option<&T> {
    table.binary_search_by_key(&index, Indexed::index).ok().map(|at| &table[at])
}
