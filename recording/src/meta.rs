//! What a recording says about itself: the META, MAPPINGS and FILE chunks.
//!
//! Paths and names are bytes, as the kernel has them. The byte tables, with each field's tag, are in `docs/undo-format.md`; a tag
//! is never used again for something else.

use crate::event::EndReason;
use crate::tagged::{Item, tagged_record};
use crate::wire::{Cursor, DecodeError, Expected};
use crate::{PAGE_BYTES, Registers, Time};
use alloc::string::String;
use alloc::vec::Vec;

/// Metadata longer than this is refused by both sides. The longest part is the command line, which the kernel bounds at 2 MiB.
pub const MAX_META_BYTES: usize = 8 << 20;

tagged_record! {
    /// One recording's metadata.
    pub struct Metadata {
        /// Names this recording, for ever.
        required 1 uuid: [u8; 16] = [0; 16],
        /// The access log that it wrote to; zero if none.
        optional 2 log_uuid: [u8; 16] = [0; 16],
        /// The path of that log as the recorder opened it.
        optional 3 log_path: Vec<u8> = Vec::new(),
        /// Its number in that log's registry of recordings.
        optional 4 log_index: Option<u32> = None,
        required 5 pid: u32 = 0,
        required 6 ppid: u32 = 0,
        /// The recording of the process that forked this one; zero if none.
        optional 7 parent_uuid: [u8; 16] = [0; 16],
        /// What users call it, usually the executable's last component.
        optional 8 name: Vec<u8> = Vec::new(),
        required 9 executable: Vec<u8> = Vec::new(),
        optional 10 args: Vec<Vec<u8>> = Vec::new(),
        optional 11 working_directory: Vec<u8> = Vec::new(),
        /// Nanoseconds since 1970 when recording started.
        required 12 start_wallclock_ns: u64 = 0,
        /// The same for its end.
        required 13 end_wallclock_ns: u64 = 0,
        /// Time stamp counters at those two moments: a line through them turns an event's time stamp into a wall clock time.
        optional 14 start_timestamp: u64 = 0,
        optional 15 end_timestamp: u64 = 0,
        /// The first time that can be visited.
        required 16 begin: Time = Time { bbcount: 1, pc: 0 },
        /// The last.
        required 17 end: Time = Time { bbcount: 1, pc: 0 },
        /// The integer registers at [`Self::begin`].
        required 18 begin_registers: Registers = Registers::default(),
        /// The integer registers at [`Self::end`].
        required 19 end_registers: Registers = Registers::default(),
        /// The xsave image at [`Self::begin`], standard format, its XSTATE_BV included.
        required 20 xsave: Vec<u8> = Vec::new(),
        required 21 xcr0: u64 = 0,
        /// What a processor must say of itself to replay this.
        optional 22 cpuid: Vec<CpuidLeaf> = Vec::new(),
        /// Addresses that the engine took for itself and that must be free at replay.
        optional 23 reserved: Vec<Area> = Vec::new(),
        required 24 end_reason: EndReason = EndReason::Detached,
        /// Exit code or signal number, as the reason says.
        optional 25 end_status: i32 = 0,
        optional 26 end_message: String = String::new(),
        optional 27 auxv: Vec<u8> = Vec::new(),
        optional 28 brk_start: u64 = 0,
        /// The program break at [`Self::begin`].
        optional 29 brk: u64 = 0,
        /// For the recorder and the replay host to agree on; this crate gives them no meaning.
        optional 30 flags: u64 = 0,
        /// Which program wrote this, for people.
        optional 31 recorder: String = String::new(),
        /// The [`RunningHash`](crate::RunningHash) behind the last event.
        optional 32 events_hash: Option<u64> = None,
    }
}

tagged_record! {
    /// A file that is kept in the recording, so that its symbols are at hand.
    pub struct FileHead {
        /// Where the recorded program had it.
        required 1 path: Vec<u8> = Vec::new(),
        /// st_mode.
        optional 2 mode: u32 = 0,
        /// st_size when it was copied; its contents may be shorter if it shrank meanwhile.
        required 3 size: u64 = 0,
        /// The ELF build id, if it has one.
        optional 4 build_id: Vec<u8> = Vec::new(),
    }
}

/// What CPUID must answer where `mask` has a bit, in the order eax, ebx, ecx, edx.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuidLeaf {
    pub leaf: u32,
    pub subleaf: u32,
    pub mask: [u32; 4],
    pub value: [u32; 4],
}

impl Item for CpuidLeaf {
    fn put_item(&self, out: &mut Vec<u8>) {
        for word in [self.leaf, self.subleaf].iter().chain(&self.mask).chain(&self.value) {
            out.extend_from_slice(&word.to_le_bytes());
        }
    }

    fn get_item(cursor: &mut Cursor<'_>, name: &'static str) -> Result<Self, DecodeError> {
        let mut these = Self { leaf: cursor.u32(name)?, subleaf: cursor.u32(name)?, ..Self::default() };
        for word in these.mask.iter_mut().chain(&mut these.value) {
            *word = cursor.u32(name)?;
        }
        Ok(these)
    }
}

/// A piece of the guest's address space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Area {
    pub addr: u64,
    pub len: u64,
}

impl Item for Area {
    fn put_item(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.addr.to_le_bytes());
        out.extend_from_slice(&self.len.to_le_bytes());
    }

    fn get_item(cursor: &mut Cursor<'_>, name: &'static str) -> Result<Self, DecodeError> {
        let these = Self { addr: cursor.u64(name)?, len: cursor.u64(name)? };
        match these.addr.checked_add(these.len) {
            Some(_) => Ok(these),
            None => Err(cursor.error_before(8, name, Expected::AtMost(u64::MAX - these.addr), these.len)),
        }
    }
}

/// More about a mapping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MappingFlags(pub u32);

impl MappingFlags {
    pub const NONE: Self = Self(0);
    /// MAP_SHARED: its accesses are in the access log, if there is one.
    pub const SHARED: Self = Self(1);
    pub const STACK: Self = Self(2);
    pub const HEAP: Self = Self(4);
    pub const VDSO: Self = Self(8);
    pub const VVAR: Self = Self(16);
    /// MAP_GROWSDOWN, the first stack among them.
    pub const GROWS_DOWN: Self = Self(32);
    pub const VSYSCALL: Self = Self(64);
    /// A page of it that is in no run has the contents of the FILE of the mapping's name, at the mapping's offset.
    pub const FROM_FILE: Self = Self(128);

    /// Whether all bits of `other` are set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl core::ops::BitOr for MappingFlags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// A mapping of the guest when recording started.
///
/// ```text
///  0 8 start   8 8 end   16 4 prot   20 4 flags   24 8 file offset   32 8 dev   40 8 ino   48 8 name length   56 name, padded
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mapping {
    pub start: u64,
    /// One past its last byte.
    pub end: u64,
    /// PROT_READ 1, PROT_WRITE 2, PROT_EXEC 4.
    pub prot: u32,
    pub flags: MappingFlags,
    pub file_offset: u64,
    pub dev: u64,
    pub ino: u64,
    /// A path, or `[stack]` and the like; empty if it has none.
    pub name: Vec<u8>,
}

/// Longer names are cut by the writer and refused by the reader.
pub(crate) const MAX_NAME_BYTES: usize = 4096;

impl Mapping {
    /// What stands before the name.
    pub(crate) const FIXED_BYTES: usize = 56;

    /// The name as it is written.
    pub(crate) fn written_name(&self) -> &[u8] {
        &self.name[..self.name.len().min(MAX_NAME_BYTES)]
    }

    pub(crate) fn encode_fixed(&self) -> [u8; Self::FIXED_BYTES] {
        let mut bytes = [0; Self::FIXED_BYTES];
        let prot_and_flags = u64::from(self.prot) | u64::from(self.flags.0) << 32;
        let name_len = self.written_name().len() as u64;
        let words = [self.start, self.end, prot_and_flags, self.file_offset, self.dev, self.ino, name_len];
        for (slot, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *slot = word.to_le_bytes();
        }
        bytes
    }

    pub(crate) fn decode(cursor: &mut Cursor<'_>) -> Result<Self, DecodeError> {
        let page = PAGE_BYTES as u64;
        let start = cursor.u64("mapping start")?;
        if !start.is_multiple_of(page) {
            return Err(cursor.error_before(8, "mapping start", Expected::MultipleOf(page), start));
        }
        let end = cursor.u64("mapping end")?;
        if !end.is_multiple_of(page) {
            return Err(cursor.error_before(8, "mapping end", Expected::MultipleOf(page), end));
        }
        if end <= start {
            return Err(cursor.error_before(8, "mapping end", Expected::AtLeast(start.saturating_add(page)), end));
        }
        let prot = cursor.u32("mapping prot")?;
        if prot > 7 {
            return Err(cursor.error_before(4, "mapping prot", Expected::AtMost(7), prot.into()));
        }
        let flags = MappingFlags(cursor.u32("mapping flags")?);
        let file_offset = cursor.u64("mapping file offset")?;
        let dev = cursor.u64("mapping dev")?;
        let ino = cursor.u64("mapping ino")?;
        let name_len = cursor.u64("mapping name length")?;
        if name_len > MAX_NAME_BYTES as u64 {
            return Err(cursor.error_before(8, "mapping name length", Expected::AtMost(MAX_NAME_BYTES as u64), name_len));
        }
        let name = cursor.padded_bytes(name_len, "mapping name")?.to_vec();
        Ok(Self { start, end, prot, flags, file_offset, dev, ino, name })
    }
}

const _: () = assert!(PAGE_BYTES == 4096 && MAX_NAME_BYTES.is_multiple_of(crate::wire::ALIGN));

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tagged::{TagError, put_field};

    #[test]
    fn a_record_without_a_required_field_names_it() {
        assert_eq!(Metadata::decode(&[]), Err(TagError::Missing("uuid")));
        let mut head = Vec::new();
        put_field(1, &b"/bin/true".to_vec(), &mut head);
        assert_eq!(FileHead::decode(&head), Err(TagError::Missing("size")));
    }

    #[test]
    fn unknown_tags_are_skipped_and_known_ones_stand_once() {
        let record = FileHead { path: b"/bin/true".to_vec(), size: 7, ..FileHead::default() };
        let mut bytes = record.encode();
        put_field(999, &String::from("from the future"), &mut bytes);
        assert_eq!(FileHead::decode(&bytes), Ok(record));
        let twice_at = bytes.len() as u64;
        put_field(3, &8u64, &mut bytes);
        let Err(TagError::Decode(error)) = FileHead::decode(&bytes) else { panic!("a tag may stand twice") };
        assert_eq!((error.offset, error.field, error.found), (twice_at, "tag", 3));
    }

    #[test]
    fn values_are_as_long_as_they_should_be() {
        let mut bytes = Vec::new();
        put_field(3, &7u32, &mut bytes);
        let Err(TagError::Decode(error)) = FileHead::decode(&bytes) else { panic!("a short value is taken") };
        assert_eq!((error.field, error.expected, error.found), ("size", Expected::AtLeast(8), 4));
        bytes.clear();
        put_field(3, &[0; 16], &mut bytes);
        let Err(TagError::Decode(error)) = FileHead::decode(&bytes) else { panic!("a long value is taken") };
        assert_eq!((error.field, error.found), ("size", 8));
    }

    #[test]
    fn a_mapping_is_checked() {
        let good = Mapping { start: 0x1000, end: 0x3000, prot: 5, name: b"/lib/libc.so.6".to_vec(), ..Mapping::default() };
        let encode = |mapping: &Mapping| {
            let mut bytes = mapping.encode_fixed().to_vec();
            bytes.extend_from_slice(mapping.written_name());
            bytes.resize(bytes.len().next_multiple_of(8), 0);
            bytes
        };
        let decode = |mapping: &Mapping| Mapping::decode(&mut Cursor::new(&encode(mapping), 0));
        assert_eq!(decode(&good), Ok(good.clone()));
        let field = |mapping: Mapping| decode(&mapping).unwrap_err().field;
        assert_eq!(field(Mapping { start: 0x1001, ..good.clone() }), "mapping start");
        assert_eq!(field(Mapping { end: 0x3001, ..good.clone() }), "mapping end");
        assert_eq!(field(Mapping { end: 0x1000, ..good.clone() }), "mapping end");
        assert_eq!(field(Mapping { prot: 8, ..good.clone() }), "mapping prot");
    }
}
