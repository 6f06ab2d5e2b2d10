//! The bytes of a `.shmem` file, version 2. `docs/shmem-format.md` has the same tables for people.
//!
//! The positions of all sections follow from the size of the file alone ([`Layout::for_size`]). The header repeats them so that
//! a file describes itself, but nobody follows the header: reader and writer compare it with what the size implies and refuse
//! the file if it differs.
//!
//! ```text
//! header · line clocks · recordings · objects · mappings · sites · block headers · blocks
//! ```
//!
//! I1. Every section starts on a page. I2. Words are 8 bytes, little endian, 8-aligned, and in a live log only accessed atomically.
//! I3. The meaning of a byte never changes within a [`VERSION`]; a new version is due when a word moves, changes its meaning, or
//! when a reader that ignores a new word would claim something false. Words described as reserved are zero and may get a meaning
//! within a version if zero keeps the old one.

/// First eight bytes of the file.
pub const MAGIC: u64 = u64::from_le_bytes(*b"SHMEMLOG");
/// Version of this layout.
pub const VERSION: u32 = 2;
/// Bytes in a page: sections start on one, sizes are multiples of one.
pub const PAGE_BYTES: u64 = 4096;

/// Smallest log that can be created, in bytes.
pub const MIN_SIZE: u64 = 256 << 10;
/// Size of a log for which none was asked, in bytes. The file is sparse: it occupies what was written.
pub const DEFAULT_SIZE: u64 = 256 << 20;
/// Largest log, in bytes: what a recorded process has room for beside its program.
pub const MAX_SIZE: u64 = 1 << 39;

// ---- header: one page ------------------------------------------------------------------------------------------------------
pub const HEADER_BYTES: u64 = PAGE_BYTES;
pub const HDR_MAGIC: u64 = 0;
/// u32 version, u32 bytes of the header.
pub const HDR_VERSION: u64 = 8;
pub const HDR_FILE_SIZE: u64 = 16;
pub const HDR_UUID: u64 = 24;
/// u32 [`CLOCK_KIND_LINES`], u32 [`TIME_KIND_TSC`].
pub const HDR_KINDS: u64 = 40;
/// u32 bytes of a slot, u32 bytes of a block.
pub const HDR_UNITS: u64 = 48;
/// Features that a reader must know; none yet, so 0.
pub const HDR_FLAGS: u64 = 56;
/// Seven times (u64 offset, u64 count), in the order of [`SECTION_NAMES`].
pub const HDR_SECTIONS: u64 = 64;
/// Time stamp counter when the log was created.
pub const HDR_CREATED_TSC: u64 = 176;
/// CLOCK_REALTIME at the same moment, ns.
pub const HDR_CREATED_NS: u64 = 184;
/// Estimated rate of the time stamp counter, ticks per second.
pub const HDR_TSC_HZ: u64 = 192;
/// FNV-1a 64 of the bytes before it.
pub const HDR_CHECKSUM: u64 = 200;
/// Next ticket: how many blocks have been asked for since the beginning. Each cursor has a cache line of its own.
pub const HDR_CURSOR: u64 = 256;
pub const HDR_RECORDINGS_CURSOR: u64 = 320;
pub const HDR_MAPPINGS_CURSOR: u64 = 384;
pub const HDR_SITES_CURSOR: u64 = 448;
/// Registrations refused because a registry was full: recordings, objects, mappings, sites, 8 bytes each.
pub const HDR_REFUSED: u64 = 512;

/// Order is told by line clocks: see `docs/log-ordering.md`.
pub const CLOCK_KIND_LINES: u32 = 1;
/// Rough times are x86 time stamp counters.
pub const TIME_KIND_TSC: u32 = 1;

// ---- line clocks -----------------------------------------------------------------------------------------------------------
/// Bytes of shared memory that share a clock.
pub const LINE_BYTES: u64 = 64;
/// A clock: the ticks so far, and which of them is open.
pub const CLOCK_BYTES: u64 = 16;
pub const CLOCK_TICKS: u64 = 0;
/// What the clock showed after the last tick that is the only one of its access: see `docs/log-ordering.md`.
pub const CLOCK_OPEN: u64 = 8;
/// Clocks in a group: four columns of one clock for each line of a page.
pub const CLOCKS_PER_GROUP: u64 = 256;
pub const CLOCK_GROUP_BYTES: u64 = CLOCKS_PER_GROUP * CLOCK_BYTES;
/// With w the first word of a slot: `h = (w >> 12) * CLOCK_HASH >> clock_shift`, wrapping; the clock of its line is at byte
/// `h >> 2 << 12 | w & 0xfc0 | (h & 3) << 4` of the clocks. clock_shift = 64 - log2(4 * groups).
pub const CLOCK_HASH: u64 = 0x9E37_79B9_7F4A_7C15;

// ---- registries ------------------------------------------------------------------------------------------------------------
/// State of a registry entry: nobody's, being filled in, valid.
pub const ENTRY_FREE: u64 = 0;
pub const ENTRY_WRITING: u64 = 1;
pub const ENTRY_READY: u64 = 2;

pub const RECORDING_BYTES: u64 = 1024;
pub const REC_STATE: u64 = 0;
pub const REC_UUID: u64 = 8;
pub const REC_PID: u64 = 24;
pub const REC_START_TIME: u64 = 32;
pub const REC_START_NS: u64 = 40;
/// Time stamp counter and CLOCK_REALTIME (ns) when registered.
pub const REC_TSC: u64 = 48;
pub const REC_TSC_NS: u64 = 56;
/// 0 while it runs, 1 once ended.
pub const REC_ENDED: u64 = 64;
pub const REC_END_BBCOUNT: u64 = 72;
pub const REC_END_TSC: u64 = 80;
pub const REC_END_NS: u64 = 88;
/// Records in the blocks that this recording has released.
pub const REC_APPENDED: u64 = 96;
/// Records that found no room at all.
pub const REC_DROPPED: u64 = 104;
/// u32 bytes of the executable's path, u32 bytes of the name.
pub const REC_LENGTHS: u64 = 112;
pub const REC_EXECUTABLE: u64 = 128;
pub const REC_EXECUTABLE_MAX: u64 = 640;
pub const REC_NAME: u64 = 768;
pub const REC_NAME_MAX: u64 = 256;

pub const OBJECT_BYTES: u64 = 256;
/// Key of (device, inode), 0 while free: see `docs/shmem-format.md`.
pub const OBJ_KEY: u64 = 0;
pub const OBJ_STATE: u64 = 8;
pub const OBJ_DEV: u64 = 16;
pub const OBJ_INO: u64 = 24;
/// Largest size that anybody has seen, bytes.
pub const OBJ_SIZE: u64 = 32;
pub const OBJ_NAME_LEN: u64 = 40;
pub const OBJ_NAME: u64 = 48;
pub const OBJ_NAME_MAX: u64 = 208;

pub const MAPPING_BYTES: u64 = 64;
pub const MAP_STATE: u64 = 0;
/// u32 recording, u32 object.
pub const MAP_WHO: u64 = 8;
pub const MAP_ADDRESS: u64 = 16;
pub const MAP_LENGTH: u64 = 24;
pub const MAP_OFFSET: u64 = 32;
pub const MAP_FROM: u64 = 40;
/// bbcount at which it ended; `u64::MAX` while it lasts.
pub const MAP_TO: u64 = 48;

pub const SITE_BYTES: u64 = 16;
pub const SITE_PC: u64 = 0;
/// length (low 32 bits) and kind (bits 32–39); 0 while free. Stored last.
pub const SITE_META: u64 = 8;

// ---- ring ------------------------------------------------------------------------------------------------------------------
pub const BLOCK_HEADER_BYTES: u64 = 64;
/// `ticket << 18 | recording << 2 | state`; tickets count from 1, 0 means never used.
pub const BLK_STATE: u64 = 0;
pub const BLK_BB_BASE: u64 = 8;
pub const BLK_TSC_FIRST: u64 = 16;
/// How many records the recording appended before this block.
pub const BLK_FIRST_RECORD: u64 = 24;
/// Written on release; 0 before.
pub const BLK_TSC_LAST: u64 = 32;
/// u32 slots used, u32 records; written on release.
pub const BLK_USED: u64 = 40;

pub const STATE_FREE: u64 = 0;
/// Taken by a writer that has not finished preparing it.
pub const STATE_CLAIMED: u64 = 1;
/// A writer appends to it. It stays so for ever if that writer dies.
pub const STATE_ACTIVE: u64 = 2;
/// Complete: the next to come may overwrite it.
pub const STATE_RELEASED: u64 = 3;

pub const BLOCK_BYTES: u64 = 16 << 10;
pub const SLOT_BYTES: u64 = 32;
pub const SLOTS_PER_BLOCK: usize = (BLOCK_BYTES / SLOT_BYTES) as usize;

// ---- slot ------------------------------------------------------------------------------------------------------------------
/// object << 48 | offset. Stored first, before the access; non-zero without a commit word it marks an unfinished access.
pub const SLOT_WHERE: u64 = 0;
/// start | (end - start) << 48.
pub const SLOT_INTERVAL: u64 = 8;
pub const SLOT_VALUE: u64 = 16;
/// site | shape << 30 | (bbcount - base) << 32. Stored last; never 0 in a committed record.
pub const SLOT_COMMIT: u64 = 24;

pub const OFFSET_BITS: u32 = 48;
pub const OFFSET_MASK: u64 = (1 << OFFSET_BITS) - 1;
pub const INTERVAL_BITS: u32 = 48;
pub const SITE_MASK: u64 = (1 << 30) - 1;
pub const SHAPE_BITS: u32 = 30;
/// One slot: a read or a write of at most 8 bytes within a line.
pub const SHAPE_SINGLE: u64 = 0;
/// Two slots: a read/write of at most 8 bytes within a line; the first word of the second slot is the new value.
pub const SHAPE_DOUBLE: u64 = 1;
/// One slot and a payload: anything else.
pub const SHAPE_LONG: u64 = 2;
/// One slot, no access: the time (word 1) and the new base of bbcount (word 2).
pub const SHAPE_MARK: u64 = 3;

/// Most bytes of memory that one long record describes; longer accesses are logged in pieces.
pub const MAX_PIECE_BYTES: u64 = 1024;
/// Word 1 of a long record: piece length (16 bits), kind (8), flags (8), length of the whole access (32, saturating).
pub const LONG_KIND_BITS: u32 = 16;
pub const LONG_FLAGS_BITS: u32 = 24;
pub const LONG_TOTAL_BITS: u32 = 32;
pub const LONG_BY_KERNEL: u64 = 1;
pub const LONG_FIRST: u64 = 2;
pub const LONG_LAST: u64 = 4;

// ---- writer side: what emitted machine code needs of a `Writer`, bytes from its start ---------------------------------------
/// Address of the next free slot.
pub const WRITER_CURSOR: usize = 0;
/// Largest cursor at which two slots are free; a cursor above it takes the slow path.
pub const WRITER_LIMIT: usize = 8;
/// bbcount from which the block's records count.
pub const WRITER_BB_BASE: usize = 16;
/// Slots of this block that are not the first of a record: add 1 for each double record.
pub const WRITER_EXTRA_SLOTS: usize = 24;
/// Address of the line clocks.
pub const WRITER_CLOCKS: usize = 32;
/// The shift in [`CLOCK_HASH`]'s formula; constant for the life of the log.
pub const WRITER_CLOCK_SHIFT: usize = 40;
/// `pause` instructions after a locked access during which another process ticked its clock: 2.4 µs where one takes 65 cycles.
pub const GIVE_WAY_PAUSES: u32 = 96;

/// Names of the sections in the header's order.
pub const SECTION_NAMES: [&str; 7] = ["clocks", "recordings", "objects", "mappings", "sites", "block headers", "blocks"];
const ENTRY_BYTES: [u64; 7] = [CLOCK_BYTES, RECORDING_BYTES, OBJECT_BYTES, MAPPING_BYTES, SITE_BYTES, BLOCK_HEADER_BYTES, BLOCK_BYTES];

/// A table in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Section {
    /// Bytes from the start of the file.
    pub offset: u64,
    /// Entries.
    pub count: u64,
}

/// Where everything lies in a log of a given size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    pub size: u64,
    /// In the order of [`SECTION_NAMES`].
    pub sections: [Section; 7],
}

const fn clamp(value: u64, low: u64, high: u64) -> u64 {
    if value < low {
        low
    } else if value > high {
        high
    } else {
        value
    }
}

const fn page_up(bytes: u64) -> u64 {
    bytes.div_ceil(PAGE_BYTES) * PAGE_BYTES
}

impl Layout {
    /// The layout of a log of `size` bytes; None unless `size` is a multiple of a page within [`MIN_SIZE`]..=[`MAX_SIZE`].
    pub const fn for_size(size: u64) -> Option<Layout> {
        if size < MIN_SIZE || size > MAX_SIZE || !size.is_multiple_of(PAGE_BYTES) {
            return None;
        }
        // A power of two: 1/32 of the log, at most 1 MiB.
        let groups = 1u64 << (63 - clamp(size / 32 / CLOCK_GROUP_BYTES, 1, 256).leading_zeros());
        let counts = [
            groups * CLOCKS_PER_GROUP,
            clamp(size >> 16, 4, 4096),
            clamp(size >> 16, 16, 4096),
            clamp(size >> 12, 64, 1 << 16),
            clamp(size >> 10, 256, 1 << 20),
        ];
        let mut sections = [Section { offset: 0, count: 0 }; 7];
        let mut at = HEADER_BYTES;
        let mut i = 0;
        while i < counts.len() {
            sections[i] = Section { offset: at, count: counts[i] };
            at += page_up(counts[i] * ENTRY_BYTES[i]);
            i += 1;
        }
        // As many blocks as fit with their headers, the headers rounded up to pages.
        let mut blocks = (size - at) / (BLOCK_BYTES + BLOCK_HEADER_BYTES);
        while at + page_up(blocks * BLOCK_HEADER_BYTES) + blocks * BLOCK_BYTES > size {
            blocks -= 1;
        }
        sections[5] = Section { offset: at, count: blocks };
        sections[6] = Section { offset: at + page_up(blocks * BLOCK_HEADER_BYTES), count: blocks };
        Some(Layout { size, sections })
    }

    pub const fn clocks(&self) -> Section {
        self.sections[0]
    }
    pub const fn recordings(&self) -> Section {
        self.sections[1]
    }
    pub const fn objects(&self) -> Section {
        self.sections[2]
    }
    pub const fn mappings(&self) -> Section {
        self.sections[3]
    }
    pub const fn sites(&self) -> Section {
        self.sections[4]
    }
    pub const fn block_headers(&self) -> Section {
        self.sections[5]
    }
    pub const fn blocks(&self) -> Section {
        self.sections[6]
    }

    /// 64 - log2(4 * groups of clocks).
    pub const fn clock_shift(&self) -> u32 {
        64 - 2 - (self.clocks().count / CLOCKS_PER_GROUP).trailing_zeros()
    }
}

const _: () = {
    assert!(HDR_CREATED_TSC == HDR_SECTIONS + 7 * 16);
    assert!(HDR_CHECKSUM < HDR_CURSOR && HDR_REFUSED + 32 <= HEADER_BYTES);
    assert!(REC_EXECUTABLE + REC_EXECUTABLE_MAX == REC_NAME && REC_NAME + REC_NAME_MAX == RECORDING_BYTES);
    assert!(OBJ_NAME + OBJ_NAME_MAX == OBJECT_BYTES);
    assert!(MAP_TO + 8 <= MAPPING_BYTES && SITE_META + 8 == SITE_BYTES);
    assert!(BLK_USED + 8 <= BLOCK_HEADER_BYTES && SLOT_COMMIT + 8 == SLOT_BYTES);
    assert!(SLOTS_PER_BLOCK == 512);
    assert!(PAGE_BYTES / LINE_BYTES * 4 == CLOCKS_PER_GROUP && CLOCK_GROUP_BYTES == PAGE_BYTES);
    // A long read/write of a whole piece fits into a block with room to spare.
    assert!(SLOT_BYTES + (MAX_PIECE_BYTES / LINE_BYTES + 1) * 16 + 2 * MAX_PIECE_BYTES < BLOCK_BYTES / 4);
    // Every recording may pin one block, alive or dead, and as many remain in use by the others.
    let mut size = MIN_SIZE;
    while size <= MAX_SIZE {
        let layout = match Layout::for_size(size) {
            Some(layout) => layout,
            None => panic!(),
        };
        assert!(layout.blocks().count >= 2 * layout.recordings().count);
        let blocks = layout.blocks();
        assert!(blocks.offset + blocks.count * BLOCK_BYTES <= size);
        assert!(layout.clock_shift() >= 54 && layout.clock_shift() <= 61);
        size *= 2;
    }
};

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Not only powers of two.
    #[test]
    fn every_size_has_a_layout_that_fits_it() {
        let small = (MIN_SIZE..=16 << 20).step_by(PAGE_BYTES as usize);
        let large = (4..=20u64).flat_map(|step| (0..100).map(move |n| ((1 << 20) + n * 0x2_9000) << step >> 12 << 12));
        for size in small.chain(large).chain([MAX_SIZE - PAGE_BYTES, MAX_SIZE]).filter(|size| *size <= MAX_SIZE) {
            let layout = Layout::for_size(size).unwrap();
            let mut at = HEADER_BYTES;
            for (section, entry_bytes) in layout.sections.iter().zip(ENTRY_BYTES) {
                assert_eq!(section.offset, at, "{size:#x}");
                at += page_up(section.count * entry_bytes);
            }
            assert!(at <= size && size - at < 2 * BLOCK_BYTES + PAGE_BYTES, "{size:#x}: {at:#x}");
            assert_eq!(layout.block_headers().count, layout.blocks().count);
            assert!(layout.blocks().count >= 2 * layout.recordings().count, "{size:#x}");
        }
        for size in [0, MIN_SIZE - PAGE_BYTES, MIN_SIZE + 1, MAX_SIZE + PAGE_BYTES, u64::MAX] {
            assert_eq!(Layout::for_size(size), None);
        }
    }
}
