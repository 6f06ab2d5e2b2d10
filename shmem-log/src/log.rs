//! A log mapped by a process that writes to it.
use crate::clock::ClockIndex;
use crate::create::{OpenError, create_or_join};
use crate::layout::*;
use crate::memory::Memory;
use crate::ring::Ring;
use crate::sync::AtomicU64;
use crate::types::ObjectIndex;
use crate::{slot, sys, time};
use core::ffi::CStr;

/// The words of a mapped log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mapped {
    base: usize,
}

impl Mapped {
    /// `base` is where a log was mapped, and stays mapped for as long as this is used: `Log::unmap` is unsafe for that.
    pub fn new(base: usize) -> Mapped {
        Mapped { base }
    }

    pub fn base(&self) -> usize {
        self.base
    }
}

impl Memory for Mapped {
    const SLOTS: usize = SLOTS_PER_BLOCK;

    #[inline(always)]
    fn word(&self, at: usize) -> &AtomicU64 {
        debug_assert!(at.is_multiple_of(8) && at >= self.base);
        // SAFETY: by memory.rs I1, which every caller in this crate keeps, `at` is aligned and inside the mapping; the mapping
        // lives as long as `self` is used (`Log::unmap` obliges its caller); others only touch these words atomically.
        unsafe { &*core::ptr::with_exposed_provenance::<AtomicU64>(at) }
    }

    #[inline(always)]
    fn clear(&self, at: usize, bytes: usize) {
        // SAFETY: as for `word`, for all of [at, at + bytes); the caller owns the block, so nobody else writes it. Readers in
        // other processes may read it, through the kernel, and discard what they got once they see the state word.
        unsafe {
            core::arch::asm!(
                "rep stosq",
                inout("rcx") bytes / 8 => _,
                inout("rdi") at => _,
                in("rax") 0u64,
                options(nostack, preserves_flags),
            );
        }
    }

    fn populate(&self, at: usize, bytes: usize) -> bool {
        sys::populate(at, bytes)
    }

    #[inline(always)]
    fn ticks(&self) -> u64 {
        time::ticks()
    }
}

/// An access log that this process writes to.
///
/// The mapping lasts until [`Log::unmap`]; copies refer to the same one. It survives fork: the child may go on using it, with
/// recordings and writers of its own.
#[derive(Clone, Copy, Debug)]
pub struct Log {
    pub(crate) memory: Mapped,
    pub(crate) layout: Layout,
    uuid: [u8; 16],
    created: bool,
}

impl Log {
    /// Opens the log `path`, creating it if there is none, and maps it.
    ///
    /// `max_size` (bytes, rounded up to whole pages; 0: [`DEFAULT_SIZE`]) counts only when the file is created; it never grows
    /// beyond it. An existing log is joined whatever its size; a file that is not a log is an error and stays untouched.
    /// `map_at`, a multiple of the page size, is where to map it; that is an error (`EEXIST`) if anything is mapped there.
    ///
    /// Race-free when several processes do so at once. Uses one file descriptor while it runs and none afterwards. The file is
    /// sparse, with mode 0600. Makes raw system calls only, and allocates nothing.
    pub fn create_or_join(path: &CStr, max_size: u64, map_at: Option<usize>) -> Result<Log, OpenError> {
        let (memory, layout, header, created) = create_or_join(path, max_size, map_at)?;
        Ok(Log { memory, layout, uuid: header.uuid, created })
    }

    /// The log's identity; recordings carry it too.
    pub fn uuid(&self) -> [u8; 16] {
        self.uuid
    }

    /// Whether this call of `create_or_join` created the file.
    pub fn was_created(&self) -> bool {
        self.created
    }

    /// Where the log is mapped.
    pub fn base(&self) -> usize {
        self.memory.base()
    }

    /// Bytes mapped, which is the size of the file.
    pub fn size(&self) -> u64 {
        self.layout.size
    }

    /// Whether an address lies in the mapping. A SIGBUS there means that somebody truncated the file: stop logging.
    pub fn contains(&self, address: usize) -> bool {
        address.wrapping_sub(self.base()) < self.size() as usize
    }

    /// Where everything lies.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The first word of a slot for an access at `offset` (bytes) in an object.
    pub const fn place(object: ObjectIndex, offset: u64) -> u64 {
        slot::place(object.get(), offset)
    }

    /// The line clock of such a word.
    pub fn clock(&self, place: u64) -> ClockIndex {
        ClockIndex::of(place, self.layout.clock_shift())
    }

    /// Unmaps the log.
    ///
    /// # Safety
    /// No copy of this `Log`, no [`crate::Writer`] made from one, and no emitted machine code may use it afterwards.
    pub unsafe fn unmap(self) {
        // SAFETY: the caller promises that nothing refers to it.
        unsafe { sys::unmap(self.base(), self.size()) }
    }

    pub(crate) fn address(&self, section: Section) -> usize {
        self.base() + section.offset as usize
    }

    pub(crate) fn word(&self, offset: u64) -> &AtomicU64 {
        self.memory.word(self.base() + offset as usize)
    }

    pub(crate) fn ring(&self) -> Ring {
        Ring {
            cursor: self.base() + HDR_CURSOR as usize,
            headers: self.address(self.layout.block_headers()),
            blocks: self.address(self.layout.blocks()),
            count: self.layout.blocks().count,
        }
    }
}
