//! The registries, from the writer's side: who records, what is shared, where it is mapped, which instructions touch it.
//!
//! I1. An entry is taken by one atomic step (a shared cursor; for objects, the key) and published by another (its state word, or
//! a site's second word). A process that dies in between leaves an entry that readers skip.
//! I2. An object's index is decided by its key alone, in one step: two processes that register the same object at the same
//! time get the same index, though one of them has yet to write its name.
use crate::layout::*;
use crate::log::Log;
use crate::memory::Memory;
use crate::objects;
use crate::sync::Ordering;
use crate::time;
use crate::types::{Kind, MappingIndex, ObjectIndex, RecordingIndex, RegistryFull, SiteIndex};

/// What a recorder tells about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordingInfo<'a> {
    pub uuid: [u8; 16],
    pub pid: u32,
    /// Field 22 of /proc/PID/stat, in clock ticks since boot: with the pid it identifies the process.
    pub start_time: u64,
    /// When the recording started, CLOCK_REALTIME, ns.
    pub start_wallclock_ns: u64,
    /// Path of the executable; cut after [`REC_EXECUTABLE_MAX`] bytes.
    pub executable: &'a [u8],
    /// Name to show; cut after [`REC_NAME_MAX`] bytes.
    pub name: &'a [u8],
}

/// How a recording ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordingEnd {
    pub bbcount: u64,
    /// CLOCK_REALTIME, ns.
    pub wallclock_ns: u64,
}

/// A piece of memory that processes share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectInfo<'a> {
    /// Device and inode: the identity.
    pub dev: u64,
    pub ino: u64,
    /// Name to show; cut after [`OBJ_NAME_MAX`] bytes. The first registration's counts.
    pub name: &'a [u8],
    /// Bytes; the largest that was registered counts.
    pub size: u64,
}

/// An object's place in the address space of a recorded process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappingInfo {
    pub recording: RecordingIndex,
    pub object: ObjectIndex,
    /// Guest address.
    pub address: u64,
    /// Bytes.
    pub length: u64,
    /// Of the mapping's first byte in the object, bytes.
    pub offset: u64,
    /// When it began.
    pub from_bbcount: u64,
}

impl Log {
    /// Registers a recording. Fails when the registry or the disk is full.
    pub fn register_recording(&self, info: &RecordingInfo) -> Result<RecordingIndex, RegistryFull> {
        let (index, entry) = self.take(HDR_RECORDINGS_CURSOR, self.layout.recordings(), RECORDING_BYTES, 0)?;
        self.put(entry + REC_STATE, ENTRY_WRITING);
        let uuid = u128::from_le_bytes(info.uuid);
        self.put(entry + REC_UUID, uuid as u64);
        self.put(entry + REC_UUID + 8, (uuid >> 64) as u64);
        self.put(entry + REC_PID, info.pid.into());
        self.put(entry + REC_START_TIME, info.start_time);
        self.put(entry + REC_START_NS, info.start_wallclock_ns);
        let (ticks, ns) = time::now();
        self.put(entry + REC_TSC, ticks);
        self.put(entry + REC_TSC_NS, ns);
        let executable = self.put_bytes(entry + REC_EXECUTABLE, info.executable, REC_EXECUTABLE_MAX);
        let name = self.put_bytes(entry + REC_NAME, info.name, REC_NAME_MAX);
        self.put(entry + REC_LENGTHS, executable | name << 32);
        self.publish(entry + REC_STATE, ENTRY_READY);
        RecordingIndex::new(index as u32).ok_or_else(|| self.refuse(self.layout.recordings().count, 0, "recordings"))
    }

    /// Notes that a recording has ended; its writer must have finished.
    pub fn set_recording_ended(&self, recording: RecordingIndex, end: &RecordingEnd) {
        let Some(entry) = self.recording_entry(recording) else { return };
        self.put(entry + REC_END_BBCOUNT, end.bbcount);
        self.put(entry + REC_END_TSC, time::ticks());
        self.put(entry + REC_END_NS, end.wallclock_ns);
        self.publish(entry + REC_ENDED, 1);
    }

    /// Takes [`Self::set_recording_ended`] back: the recording goes on after all.
    pub fn set_recording_resumed(&self, recording: RecordingIndex) {
        if let Some(entry) = self.recording_entry(recording) {
            self.publish(entry + REC_ENDED, 0);
        }
    }

    /// Finds or adds an object, by device and inode; all processes get the same index for it. Fails when the registry or the disk is full.
    ///
    /// A file that is deleted and another that later gets its inode number are one object here.
    pub fn register_object(&self, info: &ObjectInfo) -> Result<ObjectIndex, RegistryFull> {
        let section = self.layout.objects();
        let table = self.address(section);
        let prepare = |at: usize| self.prepare((at - self.base()) as u64, OBJECT_BYTES);
        let fill = |at: usize| {
            let entry = (at - self.base()) as u64;
            let length = self.put_bytes(entry + OBJ_NAME, info.name, OBJ_NAME_MAX);
            self.put(entry + OBJ_NAME_LEN, length);
        };
        let index = objects::register(&self.memory, table, section.count, info.dev, info.ino, prepare, fill);
        let object = index.and_then(|index| ObjectIndex::new(index as u32 + 1));
        let object = object.ok_or_else(|| self.refuse(section.count, 1, "objects"))?;
        self.set_object_size(object, info.size);
        Ok(object)
    }

    /// Notes that an object has grown to `size` bytes.
    pub fn set_object_size(&self, object: ObjectIndex, size: u64) {
        let section = self.layout.objects();
        let index = u64::from(object.get()).wrapping_sub(1);
        if index < section.count {
            let entry = section.offset + index * OBJECT_BYTES;
            self.word(entry + OBJ_SIZE).fetch_max(size, Ordering::Relaxed);
        }
    }

    /// Registers a mapping, in force from now on. Fails when the registry or the disk is full.
    pub fn register_mapping(&self, info: &MappingInfo) -> Result<MappingIndex, RegistryFull> {
        let section = self.layout.mappings();
        let (index, entry) = self.take(HDR_MAPPINGS_CURSOR, section, MAPPING_BYTES, 2)?;
        self.put(entry + MAP_STATE, ENTRY_WRITING);
        self.put(entry + MAP_WHO, u64::from(info.recording.get()) | u64::from(info.object.get()) << 32);
        self.put(entry + MAP_ADDRESS, info.address);
        self.put(entry + MAP_LENGTH, info.length);
        self.put(entry + MAP_OFFSET, info.offset);
        self.put(entry + MAP_FROM, info.from_bbcount);
        self.put(entry + MAP_TO, u64::MAX);
        self.publish(entry + MAP_STATE, ENTRY_READY);
        MappingIndex::new(index as u32).ok_or_else(|| self.refuse(section.count, 2, "mappings"))
    }

    /// Notes that a mapping ended at `bbcount`.
    pub fn end_mapping(&self, mapping: MappingIndex, bbcount: u64) {
        let section = self.layout.mappings();
        if u64::from(mapping.get()) < section.count {
            self.put(section.offset + u64::from(mapping.get()) * MAPPING_BYTES + MAP_TO, bbcount);
        }
    }

    /// Registers an instruction that accesses `length` bytes of shared memory; `length` 0 if it varies. Once per instrumented
    /// instruction: equal ones are not merged. A forked child may go on using its parent's. Fails when the registry or the disk is
    /// full; then log with [`crate::Origin::Pc`].
    pub fn register_site(&self, pc: u64, kind: Kind, length: u32) -> Result<SiteIndex, RegistryFull> {
        let section = self.layout.sites();
        let (index, entry) = self.take(HDR_SITES_CURSOR, section, SITE_BYTES, 3)?;
        self.put(entry + SITE_PC, pc);
        self.publish(entry + SITE_META, u64::from(length) | (kind as u64) << 32);
        SiteIndex::new(index as u32 + 1).ok_or_else(|| self.refuse(section.count, 3, "sites"))
    }

    /// The pc of a registered site, 0 for any other.
    pub(crate) fn site_pc(&self, site: SiteIndex) -> u64 {
        let section = self.layout.sites();
        let index = u64::from(site.get()).wrapping_sub(1);
        if index >= section.count {
            return 0;
        }
        self.word(section.offset + index * SITE_BYTES + SITE_PC).load(Ordering::Relaxed)
    }

    /// Offset of a recording's entry in the file.
    pub(crate) fn recording_entry(&self, recording: RecordingIndex) -> Option<u64> {
        let section = self.layout.recordings();
        (u64::from(recording.get()) < section.count).then(|| section.offset + u64::from(recording.get()) * RECORDING_BYTES)
    }

    /// Takes the next entry of a table, with storage behind it: its index and its offset in the file. `which` counts refusals.
    fn take(&self, cursor: u64, section: Section, entry_bytes: u64, which: u64) -> Result<(u64, u64), RegistryFull> {
        // Relaxed: it only hands out numbers. It may pass the end once per refusal.
        let index = self.word(cursor).fetch_add(1, Ordering::Relaxed);
        if index >= section.count {
            self.word(cursor).store(section.count, Ordering::Relaxed);
        } else if self.prepare(section.offset + index * entry_bytes, entry_bytes) {
            return Ok((index, section.offset + index * entry_bytes));
        }
        let names = ["recordings", "objects", "mappings", "sites"];
        Err(self.refuse(section.count, which, names.get(which as usize).unwrap_or(&"")))
    }

    fn refuse(&self, capacity: u64, which: u64, registry: &'static str) -> RegistryFull {
        self.word(HDR_REFUSED + which * 8).fetch_add(1, Ordering::Relaxed);
        RegistryFull { registry, capacity }
    }

    /// Gives the pages of an entry storage. False if the disk is full: then nothing may be stored there.
    fn prepare(&self, offset: u64, bytes: u64) -> bool {
        let page = offset & !(PAGE_BYTES - 1);
        let end = (offset + bytes).next_multiple_of(PAGE_BYTES);
        self.memory.populate(self.base() + page as usize, (end - page) as usize)
    }

    fn put(&self, offset: u64, word: u64) {
        self.word(offset).store(word, Ordering::Relaxed);
    }

    fn publish(&self, offset: u64, word: u64) {
        // Release: [publish-entry]
        self.word(offset).store(word, Ordering::Release);
    }

    /// Stores at most `max` bytes; tells how many.
    fn put_bytes(&self, offset: u64, bytes: &[u8], max: u64) -> u64 {
        let mut length = 0;
        for (index, chunk) in bytes.chunks(8).take(max as usize / 8).enumerate() {
            let mut word = [0; 8];
            word.iter_mut().zip(chunk).for_each(|(to, from)| *to = *from);
            self.put(offset + index as u64 * 8, u64::from_le_bytes(word));
            length += chunk.len() as u64;
        }
        length
    }
}
