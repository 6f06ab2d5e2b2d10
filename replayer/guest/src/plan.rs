//! What the replay process must know to start: written by the controlling process at the start of the image file.
//!
//! ```text
//! head (Head, words) │ mappings (Mapping)… │ code regions (address, size)… │ sites (pc)… │ xsave image at a multiple of 64 │ pages…
//! ```
//!
//! P1. The image's pages begin at a multiple of 4096; a mapping whose `image` is not [`NO_IMAGE`] finds its contents there in one piece.
//! P2. The controlling process has checked every address: page-aligned, ascending, disjoint, none in the engine's area.

use recording::Registers;

pub const MAGIC: u64 = u64::from_le_bytes(*b"undoplan");
pub const NO_IMAGE: u64 = u64::MAX;

/// File descriptors that the replay process is started with.
pub const IMAGE_FD: i32 = 3;
pub const EVENTS_FD: i32 = 4;
pub const CONTROL_FD: i32 = 5;

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Head {
    pub magic: u64,
    /// Bytes of everything before the pages, a multiple of 4096.
    pub plan_bytes: u64,
    pub events_bytes: u64,
    pub controller_pid: u64,
    pub registers: Registers,
    pub brk_start: u64,
    pub brk: u64,
    /// The part of an event's state hash that is the registers'.
    pub registers_mask: u64,
    pub mappings: u64,
    pub regions: u64,
    pub sites: u64,
    pub xsave_offset: u64,
    pub xsave_bytes: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mapping {
    pub start: u64,
    pub end: u64,
    pub prot: u64,
    /// [`recording::MappingFlags`].
    pub flags: u64,
    pub file_offset: u64,
    /// Where its contents are in the image file, or [`NO_IMAGE`].
    pub image: u64,
    /// Index among the recording's mappings.
    pub origin: u64,
}

/// Everything of a plan but the pages.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    pub head: Head,
    pub mappings: alloc::vec::Vec<Mapping>,
    pub regions: alloc::vec::Vec<(u64, u64)>,
    pub sites: alloc::vec::Vec<u64>,
    pub xsave: alloc::vec::Vec<u8>,
}

/// Bytes of `T`s before the next part.
const fn bytes_of<T>(count: u64) -> u64 {
    count * size_of::<T>() as u64
}

impl Plan {
    /// Fills in the counts and offsets of the head. The lists must be complete, their contents may still change.
    pub fn seal(&mut self) {
        let head = &mut self.head;
        head.magic = MAGIC;
        (head.mappings, head.regions, head.sites) = (self.mappings.len() as u64, self.regions.len() as u64, self.sites.len() as u64);
        head.xsave_bytes = self.xsave.len() as u64;
        head.xsave_offset = head.sites_offset() + bytes_of::<u64>(head.sites);
        head.xsave_offset = head.xsave_offset.next_multiple_of(64);
        head.plan_bytes = (head.xsave_offset + head.xsave_bytes).next_multiple_of(4096);
    }

    /// The bytes before the pages.
    pub fn encode(&self) -> alloc::vec::Vec<u8> {
        let mut words = alloc::vec::Vec::new();
        let head = &self.head;
        words.extend([head.magic, head.plan_bytes, head.events_bytes, head.controller_pid]);
        words.extend(head.registers.gpr);
        words.extend([head.registers.rip, head.registers.rflags, head.registers.fs_base, head.registers.gs_base]);
        words.extend([
            head.brk_start,
            head.brk,
            head.registers_mask,
            head.mappings,
            head.regions,
            head.sites,
            head.xsave_offset,
            head.xsave_bytes,
        ]);
        for m in &self.mappings {
            words.extend([m.start, m.end, m.prot, m.flags, m.file_offset, m.image, m.origin]);
        }
        words.extend(self.regions.iter().flat_map(|&(base, size)| [base, size]));
        words.extend(&self.sites);
        let mut bytes: alloc::vec::Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.resize(head.xsave_offset as usize, 0);
        bytes.extend_from_slice(&self.xsave);
        bytes.resize(head.plan_bytes as usize, 0);
        bytes
    }
}

impl Head {
    const fn regions_offset(&self) -> u64 {
        size_of::<Head>() as u64 + bytes_of::<Mapping>(self.mappings)
    }

    const fn sites_offset(&self) -> u64 {
        self.regions_offset() + bytes_of::<(u64, u64)>(self.regions)
    }
}

/// A plan where it lies in memory.
#[derive(Clone, Copy)]
pub struct Mapped {
    address: u64,
}

impl Mapped {
    /// # Safety
    /// A whole plan, as [`Plan::encode`] made it, is mapped at `address`, aligned to 4096, and stays there.
    pub const unsafe fn new(address: u64) -> Self {
        Self { address }
    }

    fn list<T>(&self, offset: u64, count: u64) -> &'static [T] {
        // SAFETY: inside the mapped plan (see `new`; the counts are those it was encoded with); all `T` here are plain words.
        unsafe { core::slice::from_raw_parts((self.address + offset) as *const T, count as usize) }
    }

    pub fn head(&self) -> &'static Head {
        &self.list::<Head>(0, 1)[0]
    }

    pub fn mappings(&self) -> &'static [Mapping] {
        self.list(size_of::<Head>() as u64, self.head().mappings)
    }

    pub fn regions(&self) -> &'static [[u64; 2]] {
        self.list(self.head().regions_offset(), self.head().regions)
    }

    pub fn sites(&self) -> &'static [u64] {
        self.list(self.head().sites_offset(), self.head().sites)
    }

    pub fn xsave(&self) -> &'static [u8] {
        self.list(self.head().xsave_offset, self.head().xsave_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_read_as_it_was_written() {
        let mut plan = Plan { xsave: alloc::vec![7; 576], sites: alloc::vec![1, 2, 3], regions: alloc::vec![(4, 5)], ..Plan::default() };
        plan.mappings.push(Mapping { start: 0x1000, end: 0x2000, image: NO_IMAGE, origin: 9, ..Mapping::default() });
        plan.head.registers.rip = 0x1234;
        plan.head.brk = 77;
        plan.seal();
        let bytes = plan.encode();
        assert_eq!(bytes.len() % 4096, 0);
        let mut words = alloc::vec![0u64; bytes.len() / 8];
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        // SAFETY: a whole plan; the test reads no xsave alignment out of it.
        let mapped = unsafe { Mapped::new(words.as_ptr() as u64) };
        assert_eq!((mapped.head().magic, mapped.head().registers.rip, mapped.head().brk), (MAGIC, 0x1234, 77));
        assert_eq!((mapped.mappings(), mapped.sites(), mapped.regions()), (plan.mappings.as_slice(), &[1, 2, 3][..], &[[4, 5]][..]));
        assert_eq!(mapped.xsave(), plan.xsave);
    }
}
