//! Which pages of a mapping this process has of its own.
//!
//! The kernel says so without touching any: PAGEMAP_SCAN walks page tables and skips what was never there, so a mapping of terabytes
//! of which little is used costs little. Kernels before 6.7 are asked page by page.

use alloc::vec;

use engine::read_guest;
use engine::sys::{self, raw};

const PAGE: u64 = 4096;

/// An answer to the ioctl: pages [start, end).
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Region {
    start: u64,
    end: u64,
    categories: u64,
}

/// Regions asked for at once.
const REGIONS: usize = 128;
/// Pages asked for at once where there is no PAGEMAP_SCAN.
const ENTRIES: usize = 256;

/// `_IOWR('f', 16, struct pm_scan_arg)`
const PAGEMAP_SCAN: u64 = 3 << 30 | (size_of::<raw::pm_scan_arg>() as u64) << 16 | (b'f' as u64) << 8 | 16;

/// Which pages are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Of anonymous memory: all that may not be zero.
    Touched,
    /// Of a private file mapping: all that are not the file's any more.
    Changed,
}

/// The process's page tables, as a file.
pub struct Pagemap {
    fd: i32,
}

impl Pagemap {
    /// Those of this process. If they cannot be opened every page is given out.
    pub fn open() -> Self {
        Self { fd: sys::open(b"/proc/self/pagemap\0", raw::O_RDONLY | raw::O_CLOEXEC, 0) as i32 }
    }

    /// Calls `f` with the runs of wanted pages in [start, end), ascending; stops at its first error.
    pub fn runs<E>(&self, start: u64, end: u64, wanted: Wanted, mut f: impl FnMut(u64, u64) -> Result<(), E>) -> Result<(), E> {
        let mut at = start;
        while at < end {
            let mut regions = [Region::default(); REGIONS];
            match self.scan(at, end, wanted, &mut regions) {
                Some((count, reached)) if reached > at => {
                    for region in &regions[..count] {
                        f(region.start, region.end)?;
                    }
                    at = reached;
                }
                _ => return self.one_by_one(at, end, wanted, &mut f),
            }
        }
        Ok(())
    }

    /// How many regions were found, and where the walk ended.
    fn scan(&self, start: u64, end: u64, wanted: Wanted, regions: &mut [Region; REGIONS]) -> Option<(usize, u64)> {
        let not = match wanted {
            Wanted::Touched => raw::PAGE_IS_PFNZERO,
            Wanted::Changed => raw::PAGE_IS_FILE,
        };
        let there = u64::from(raw::PAGE_IS_PRESENT | raw::PAGE_IS_SWAPPED);
        let mut arg = raw::pm_scan_arg {
            size: size_of::<raw::pm_scan_arg>() as u64,
            flags: 0,
            start,
            end,
            walk_end: 0,
            vec: regions.as_mut_ptr() as u64,
            vec_len: REGIONS as u64,
            max_pages: 0,
            category_inverted: not.into(),
            category_mask: not.into(),
            category_anyof_mask: there,
            return_mask: u64::from(not),
        };
        // SAFETY: the kernel writes to the structure and at most `vec_len` regions.
        let found = unsafe { sys::syscall(u64::from(raw::__NR_ioctl), [self.fd as u64, PAGEMAP_SCAN, (&raw mut arg) as u64, 0, 0, 0]) };
        usize::try_from(found).ok().map(|count| (count.min(REGIONS), arg.walk_end.min(end)))
    }

    fn one_by_one<E>(&self, start: u64, end: u64, wanted: Wanted, f: &mut impl FnMut(u64, u64) -> Result<(), E>) -> Result<(), E> {
        /// Bits of an entry: present, swapped, not anonymous.
        const THERE: u64 = 1 << 63 | 1 << 62;
        const FILE: u64 = 1 << 61;
        let mut at = start;
        while at < end {
            let pages = ((end - at) / PAGE).min(ENTRIES as u64) as usize;
            let mut entries = [0u8; 8 * ENTRIES];
            let known = sys::pread(self.fd, &mut entries[..8 * pages], at / PAGE * 8) == 8 * pages as i64;
            let is_wanted = |index: usize| {
                let entry = super::access::word(&entries[8 * index..8 * index + 8]);
                !known || (entry & THERE != 0 && (wanted == Wanted::Touched || entry & FILE == 0))
            };
            let mut index = 0;
            while index < pages {
                let first = index;
                while index < pages && is_wanted(index) {
                    index += 1;
                }
                if first < index {
                    f(at + first as u64 * PAGE, at + index as u64 * PAGE)?;
                }
                index += 1;
            }
            at += pages as u64 * PAGE;
        }
        Ok(())
    }
}

/// Bytes read at once.
const PIECE: u64 = 256 << 10;

/// Calls `f` with the contents of the pages [start, end) that can be read, in runs. Those that cannot (guard pages, pages of a
/// file mapping behind the file's end) are left out.
pub fn read<E>(start: u64, end: u64, mut f: impl FnMut(u64, &[u8]) -> Result<(), E>) -> Result<(), E> {
    let mut buffer = vec![0; PIECE.min(end - start) as usize];
    let mut at = start;
    while at < end {
        let piece = &mut buffer[..PIECE.min(end - at) as usize];
        let got = read_guest(at, piece) as u64 / PAGE * PAGE;
        if got == 0 {
            at += PAGE;
            continue;
        }
        f(at, &piece[..got as usize])?;
        at += got;
    }
    Ok(())
}

impl Drop for Pagemap {
    fn drop(&mut self) {
        if self.fd >= 0 {
            sys::close(self.fd);
        }
    }
}
