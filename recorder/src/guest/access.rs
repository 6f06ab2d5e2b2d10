//! This recording's end of the access log.

use core::ffi::CStr;
use core::sync::atomic::{AtomicBool, Ordering};

use engine::inline::LogWords;
use engine::{SiteKind, arena, sys, sys::raw};
use shmem_log::layout::{
    CLOCK_OPEN, GIVE_WAY_PAUSES, LONG_FIRST, LONG_FLAGS_BITS, LONG_KIND_BITS, LONG_LAST, LONG_TOTAL_BITS, SHAPE_BITS, SHAPE_DOUBLE,
    SHAPE_LONG, SLOT_BYTES, SLOT_COMMIT, SLOT_INTERVAL, SLOT_VALUE, SLOT_WHERE, WRITER_BB_BASE, WRITER_CLOCK_SHIFT, WRITER_CLOCKS,
    WRITER_CURSOR, WRITER_EXTRA_SLOTS, WRITER_LIMIT,
};
use shmem_log::{
    Kind, LineTicks, Log, MappingInfo, ObjectIndex, ObjectInfo, Origin, RecordingEnd, RecordingIndex, RecordingInfo, SiteIndex, Token,
    WideToken, Writer,
};

use super::message::report;
use super::shared::SharedMap;
use super::state::Path;

pub struct AccessLog {
    log: Log,
    writer: Writer,
    recording: RecordingIndex,
    /// The file was cut, or its disk is full: what is appended goes nowhere.
    lost: AtomicBool,
}

/// The names by which the log knows a recording.
pub struct Identity<'a> {
    pub uuid: [u8; 16],
    pub executable: &'a [u8],
    pub name: &'a [u8],
    pub start_wallclock_ns: u64,
}

pub const fn kind(kind: SiteKind) -> Kind {
    match kind {
        SiteKind::Read => Kind::Read,
        SiteKind::Write => Kind::Write,
        SiteKind::ReadWrite => Kind::ReadWrite,
    }
}

impl AccessLog {
    /// Opens or creates the log and registers this recording. Failures are reported and leave the recording without a log.
    pub fn open(path: &Path, size: u64, identity: &Identity) -> Option<Self> {
        let name = CStr::from_bytes_with_nul(path.with_zero()).ok()?;
        let log = match Log::create_or_join(name, size, Some(arena::ACCESS_LOG as usize)) {
            Ok(log) => log,
            Err(error) => {
                report(format_args!("cannot log shared memory accesses to {}: {error}", name.to_str().unwrap_or("?")));
                return None;
            }
        };
        Self::register(log, identity)
    }

    /// Registers a new recording with a log that is already mapped: in a forked child, or at a second start.
    pub fn register(log: Log, identity: &Identity) -> Option<Self> {
        let info = RecordingInfo {
            uuid: identity.uuid,
            pid: sys::getpid() as u32,
            start_time: start_time().unwrap_or(0),
            start_wallclock_ns: identity.start_wallclock_ns,
            executable: identity.executable,
            name: identity.name,
        };
        match log.register_recording(&info) {
            Ok(recording) => Writer::new(&log, recording).map(|writer| Self { log, writer, recording, lost: AtomicBool::new(false) }),
            Err(full) => {
                report(format_args!("shared memory accesses are not logged: {full}"));
                None
            }
        }
    }

    /// In signal context, for a SIGBUS at `address`: if it is in the log, memory of our own takes the place of the file, so that whatever
    /// is under way, be it the record of an access that has happened, can go on. All of the log, or others would be told an order by clocks
    /// that are no longer theirs.
    pub fn mend(&self, address: u64) -> bool {
        if !self.log.contains(address as usize) {
            return false;
        }
        let (base, flags) = (self.log.base() as u64, raw::MAP_PRIVATE | raw::MAP_ANONYMOUS | raw::MAP_NORESERVE | raw::MAP_FIXED);
        let mended = sys::mmap(base, self.log.size(), raw::PROT_READ | raw::PROT_WRITE, flags, -1, 0) == base as i64;
        self.lost.store(mended, Ordering::Relaxed);
        mended
    }

    /// Whether it has become memory of our own.
    pub fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }

    pub fn log(&self) -> Log {
        self.log
    }

    pub fn recording(&self) -> RecordingIndex {
        self.recording
    }

    /// Makes a mapping and its object known; sets the map's object.
    pub fn add_mapping(&mut self, map: &mut SharedMap, name: &[u8], from_bbcount: u64) {
        let info = ObjectInfo { dev: map.device, ino: map.inode, name, size: map.offset + map.length() };
        let Ok(object) = self.log.register_object(&info) else { return };
        map.object = Some(object);
        // A full registry is counted in the log.
        let _ = self.log.register_mapping(&MappingInfo {
            recording: self.recording,
            object,
            address: map.start,
            length: map.length(),
            offset: map.offset,
            from_bbcount,
        });
    }

    pub fn register_site(&self, pc: u64, access: SiteKind, length: u32) -> Option<SiteIndex> {
        self.writer.register_site(pc, kind(access), length).ok()
    }

    /// `locked`: the last touch of the memory will be one locked instruction.
    pub fn begin(&mut self, access: Kind, locked: bool, object: ObjectIndex, offset: u64, length: u64) -> Token {
        let begin = if locked { Writer::begin_locked } else { Writer::begin };
        begin(&mut self.writer, access, object, offset, length)
    }

    /// `seen` and `written` as far as the kind has them, at most 64 bytes.
    pub fn commit(&mut self, token: Token, origin: Origin, bbcount: u64, access: Kind, seen: &[u8], written: &[u8]) {
        let Origin::Site(site) = origin else {
            return self.writer.commit_bytes(token, origin, bbcount, seen, written);
        };
        if seen.len().max(written.len()) > 8 {
            return self.writer.commit_bytes(token, Origin::Site(site), bbcount, seen, written);
        }
        match access {
            Kind::Read => self.writer.commit(token, site, bbcount, word(seen)),
            Kind::Write => self.writer.commit(token, site, bbcount, word(written)),
            Kind::ReadWrite => self.writer.commit_rw(token, site, bbcount, word(seen), word(written)),
        }
    }

    /// What emitted code needs to append records by itself, as long as this stays where it is.
    pub fn words(&self) -> LogWords {
        let writer = core::ptr::from_ref(&self.writer) as u64;
        let word = |offset: usize| writer + offset as u64;
        // SAFETY: a word of the writer, at its published offset.
        let clock_shift = unsafe { (word(WRITER_CLOCK_SHIFT) as *const u64).read() };
        LogWords {
            cursor: word(WRITER_CURSOR),
            limit: word(WRITER_LIMIT),
            base: word(WRITER_BB_BASE),
            extra_slots: word(WRITER_EXTRA_SLOTS),
            clocks: word(WRITER_CLOCKS),
            clock_shift: clock_shift as u8,
            clock_open: CLOCK_OPEN as i32,
            slot_place: SLOT_WHERE as i32,
            slot_interval: SLOT_INTERVAL as i32,
            slot_value: SLOT_VALUE as i32,
            slot_commit: SLOT_COMMIT as i32,
            slot_bytes: SLOT_BYTES as i32,
            double: (SHAPE_DOUBLE << SHAPE_BITS) as u32,
            long: (SHAPE_LONG << SHAPE_BITS) as u32,
            pauses: GIVE_WAY_PAUSES,
        }
    }

    /// An access by emitted code has happened and could not be logged.
    pub fn drop_begun(&mut self) {
        self.writer.drop_begun();
    }

    /// An access by emitted code has begun and not happened.
    pub fn abandon_begun(&mut self, object: ObjectIndex) {
        let token = self.writer.begin(Kind::Read, object, 0, 1);
        self.writer.abandon(token);
    }

    pub fn begin_wide(&mut self, access: Kind, object: ObjectIndex, offset: u64, length: u64, scratch: &mut [LineTicks]) -> WideToken {
        self.writer.begin_wide(access, object, offset, length, scratch)
    }

    pub fn abandon_wide(&mut self, token: WideToken) {
        self.writer.abandon_wide(token);
    }

    /// An access by the kernel inside a system call, or by a string instruction.
    pub fn commit_wide(&mut self, token: WideToken, scratch: &mut [LineTicks], origin: Origin, bbcount: u64, seen: &[u8], written: &[u8]) {
        self.writer.commit_wide(token, scratch, origin, bbcount, seen, written);
    }

    pub fn note_time(&mut self, bbcount: u64) {
        self.writer.note_time(bbcount);
    }

    pub fn end(&mut self, bbcount: u64) {
        self.writer.finish();
        let now = sys::clock_gettime(raw::CLOCK_REALTIME);
        self.log.set_recording_ended(self.recording, &RecordingEnd { bbcount, wallclock_ns: now[0] * 1_000_000_000 + now[1] });
    }

    /// After [`Self::end`]: the recording goes on.
    pub fn resume(&mut self) {
        self.log.set_recording_resumed(self.recording);
    }
}

/// Second word of a long record that is a whole access within a line.
pub fn long_head(access: SiteKind, size: u32) -> u64 {
    let size = u64::from(size);
    size | (kind(access) as u64) << LONG_KIND_BITS | (LONG_FIRST | LONG_LAST) << LONG_FLAGS_BITS | size << LONG_TOTAL_BITS
}

/// Little endian, zero-extended.
pub fn word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    let length = bytes.len().min(8);
    word[..length].copy_from_slice(&bytes[..length]);
    u64::from_le_bytes(word)
}

/// Field 22 of /proc/self/stat.
fn start_time() -> Option<u64> {
    let text = super::maps::read_file(b"/proc/self/stat\0")?;
    // The second field is in parentheses and may hold anything.
    let close = text.iter().rposition(|&byte| byte == b')')?;
    let field = text[close + 1..].split(|&byte| byte == b' ').filter(|field| !field.is_empty()).nth(19)?;
    core::str::from_utf8(field).ok()?.parse().ok()
}
