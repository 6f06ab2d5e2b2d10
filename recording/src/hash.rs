//! The validator's three hashes: of a register set and of all events so far, noted with every event, and of memory, noted at intervals and
//! at the end.
//!
//! They detect a replay that went another way; they resist accidents, not attackers. Their definitions are part of the file format
//! (`docs/undo-format.md`): a change of either is a new format version, and the tests below pin values.
//!
//! H1. [`state_hash`] depends on all general registers, `rip`, `fs_base`, `gs_base` and the bits [`RFLAGS_COMPARED`] of `rflags`.
//!     The other bits of `rflags` may differ between recording and replay (the resume flag is set by whoever faulted last).
//!     Vector and x87 state is not part of it; a wrong vector value shows in the next memory hash.
//! H2. [`state_hash`] is never 0, which in an event means "not taken".
//! H3. [`MemoryHasher`] gives the same hash in whatever order pages are added. A page of zeroes counts as nothing, like a page that is not
//!     mapped, so it does not matter whether an untouched page was looked at.
//! H4. Taking a page out ([`MemoryHasher::remove_page`]) undoes adding it, so a hash can be kept up to date page by page.
//! H5. [`RunningHash`] depends on every bit of every event before the one that it is noted in.

use crate::Registers;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// The unit of memory hashes and of the pages section.
pub const PAGE_BYTES: usize = 4096;

/// CF PF AF ZF SF DF OF: what a program computes. Not TF, IF, RF, AC, ID and the rest, which belong to debuggers and the kernel.
pub const RFLAGS_COMPARED: u64 = 0x0cd5;

/// Odd random numbers (the fractional part of the square roots of the first twenty primes): one per register.
const KEYS: [u64; 20] = [
    0x6a09_e667_f3bc_c909,
    0xbb67_ae85_84ca_a73b,
    0x3c6e_f372_fe94_f82b,
    0xa54f_f53a_5f1d_36f1,
    0x510e_527f_ade6_82d1,
    0x9b05_688c_2b3e_6c1f,
    0x1f83_d9ab_fb41_bd6b,
    0x5be0_cd19_137e_2179,
    0xcbbb_9d5d_c105_9ed9,
    0x629a_292a_367c_d507,
    0x9159_015a_3070_dd17,
    0x152f_ecd8_f70e_5939,
    0x6733_2667_ffc0_0b31,
    0x8eb4_4a87_6858_1511,
    0xdb0c_2e0d_64f9_8fa7,
    0x47b5_481d_befa_4fa5,
    0xae5f_9156_e7b6_d99b,
    0xcf6c_85d3_9d1a_1e15,
    0x2f73_477d_6a45_63cb,
    0x6d18_26ca_fd82_e1ed,
];

/// Both halves of the 128-bit product folded into one word.
#[inline]
fn fold_multiply(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ ((product >> 64) as u64)
}

/// xxh3's final mix: every input bit reaches every output bit.
#[inline]
fn avalanche(mut h: u64) -> u64 {
    h ^= h >> 37;
    h = h.wrapping_mul(0x1656_6791_9e37_79f9);
    h ^ (h >> 32)
}

/// The hash of a register set (H1, H2).
///
/// Ten independent multiplications of keyed pairs, summed: about as long as two of them one after the other.
#[inline]
pub fn state_hash(registers: &Registers) -> u64 {
    let gpr = &registers.gpr;
    let pair = |i: usize, a: u64, b: u64| fold_multiply(a ^ KEYS[2 * i], b ^ KEYS[2 * i + 1]);
    let mut sum = pair(8, registers.rip, registers.rflags & RFLAGS_COMPARED);
    sum = sum.wrapping_add(pair(9, registers.fs_base, registers.gs_base));
    for i in 0..8 {
        sum = sum.wrapping_add(pair(i, gpr[2 * i], gpr[2 * i + 1]));
    }
    avalanche(sum).max(1)
}

/// The hash of a log's events up to some point (H5): what an event says of all those before it.
///
/// An event's state hash has two halves: the lower is that of [`state_hash`], the upper that of this. 0 in a half, or in both, means "not
/// taken"; until version 2 all of it was [`state_hash`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunningHash(u64);

impl RunningHash {
    /// Before the first event.
    pub const fn new() -> Self {
        Self(0)
    }

    /// What [`Self::value`] gave, to go on from there.
    pub const fn from_value(value: u64) -> Self {
        Self(value)
    }

    /// The state hash of the next event, whose registers have the hash `registers` (0: not taken).
    #[inline]
    pub const fn note(self, registers: u64) -> u64 {
        registers & 0xffff_ffff | self.0 >> 32 << 32
    }

    /// Whether an event with this state hash can come next.
    pub const fn agrees(self, state_hash: u64) -> bool {
        state_hash >> 32 == 0 || state_hash >> 32 == self.0 >> 32
    }

    /// All of it, as META has it of the last event.
    pub const fn value(self) -> u64 {
        self.0
    }

    /// Goes on behind an event, whose bytes are complete.
    #[inline]
    pub fn add(&mut self, event: &[u8]) {
        self.0 = xxh3_64_with_seed(event, self.0);
    }
}

/// Memory that should have been whole, aligned pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{len:#x} bytes at {addr:#x} are not whole pages of {PAGE_BYTES:#x} bytes")]
pub struct NotWholePages {
    pub addr: u64,
    pub len: u64,
}

impl NotWholePages {
    /// Whether `len` bytes at `addr` are whole pages.
    pub(crate) fn check(addr: u64, len: usize) -> Result<(), Self> {
        if addr.is_multiple_of(PAGE_BYTES as u64) && len.is_multiple_of(PAGE_BYTES) && addr.checked_add(len as u64).is_some() {
            Ok(())
        } else {
            Err(Self { addr, len: len as u64 })
        }
    }
}

/// Whether a page holds nothing but zeroes.
#[inline]
pub(crate) fn is_zero(bytes: &[u8]) -> bool {
    // Word by word: without vector registers a loop over bytes would be eight times as long.
    let (words, rest) = bytes.as_chunks::<8>();
    words.iter().all(|word| u64::from_le_bytes(*word) == 0) && rest.iter().all(|byte| *byte == 0)
}

/// Hashes memory page by page (H3, H4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryHasher {
    sum: u64,
    pages: u64,
}

impl MemoryHasher {
    /// The hash of no memory at all.
    pub const fn new() -> Self {
        Self { sum: 0, pages: 0 }
    }

    /// What a page adds to the sum; nothing if it is zero.
    fn term(addr: u64, page: &[u8; PAGE_BYTES]) -> Option<u64> {
        (!is_zero(page)).then(|| avalanche(fold_multiply(addr ^ KEYS[0], xxh3_64(page) ^ KEYS[1])))
    }

    /// Adds the page at the guest address `addr`.
    pub fn add_page(&mut self, addr: u64, page: &[u8; PAGE_BYTES]) {
        if let Some(term) = Self::term(addr, page) {
            self.sum = self.sum.wrapping_add(term);
            self.pages = self.pages.wrapping_add(1);
        }
    }

    /// Takes out a page that was added with these contents.
    pub fn remove_page(&mut self, addr: u64, page: &[u8; PAGE_BYTES]) {
        if let Some(term) = Self::term(addr, page) {
            self.sum = self.sum.wrapping_sub(term);
            self.pages = self.pages.wrapping_sub(1);
        }
    }

    /// Adds all pages of `bytes`, the first of which lies at the guest address `addr`.
    pub fn add_range(&mut self, addr: u64, bytes: &[u8]) -> Result<(), NotWholePages> {
        NotWholePages::check(addr, bytes.len())?;
        let (pages, _) = bytes.as_chunks::<PAGE_BYTES>();
        let mut addr = addr;
        for page in pages {
            self.add_page(addr, page);
            addr = addr.wrapping_add(PAGE_BYTES as u64);
        }
        Ok(())
    }

    /// Pages that were not zero.
    pub const fn pages(&self) -> u64 {
        self.pages
    }

    /// The hash of all that was added.
    pub const fn finish(&self) -> u64 {
        self.sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn sample() -> Registers {
        let mut registers = Registers { rip: 0x5555_5555_4000, rflags: 0x246, fs_base: 0x7fff_f7d8_a740, ..Registers::default() };
        for (i, gpr) in registers.gpr.iter_mut().enumerate() {
            *gpr = i as u64 * 0x1111;
        }
        registers
    }

    #[test]
    fn every_bit_of_the_events_before_matters() {
        let log: Vec<u8> = (0..480u32).map(|i| (i * 7) as u8).collect();
        let running = |log: &[u8]| {
            let mut running = RunningHash::new();
            log.chunks(48).for_each(|event| running.add(event));
            running
        };
        let good = running(&log);
        assert_eq!(good.note(0x1_2345_6789), PINNED_RUNNING << 32 | 0x2345_6789);
        assert!(good.agrees(good.note(7)) && good.agrees(0) && good.agrees(7) && !good.agrees(1 << 32));
        for bit in 0..8 * log.len() {
            let mut flipped = log.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(!running(&flipped).agrees(good.note(7)), "bit {bit}");
        }
    }

    #[test]
    fn every_bit_of_every_register_matters() {
        let mut seen = HashSet::from([state_hash(&sample())]);
        let mut expect_new = |change: &dyn Fn(&mut Registers)| {
            let mut registers = sample();
            change(&mut registers);
            assert!(seen.insert(state_hash(&registers)), "{registers:x?} hashes like another");
        };
        for bit in 0..64 {
            for i in 0..16 {
                expect_new(&|r| r.gpr[i] ^= 1 << bit);
            }
            expect_new(&|r| r.rip ^= 1 << bit);
            expect_new(&|r| r.fs_base ^= 1 << bit);
            expect_new(&|r| r.gs_base ^= 1 << bit);
        }
    }

    #[test]
    fn registers_are_not_interchangeable() {
        for i in 0..16 {
            for j in 0..i {
                let mut swapped = sample();
                swapped.gpr.swap(i, j);
                assert_ne!(state_hash(&swapped), state_hash(&sample()), "{i} and {j}");
            }
        }
    }

    #[test]
    fn only_flags_that_programs_compute_matter() {
        for bit in 0..64 {
            let mut registers = sample();
            registers.rflags ^= 1 << bit;
            let counts = [0, 2, 4, 6, 7, 10, 11].contains(&bit);
            assert_eq!(state_hash(&registers) != state_hash(&sample()), counts, "bit {bit}");
        }
    }

    #[test]
    fn the_hashes_are_part_of_the_format() {
        assert_eq!(state_hash(&Registers::default()), PINNED_EMPTY);
        assert_eq!(state_hash(&sample()), PINNED_SAMPLE);
        let mut hasher = MemoryHasher::new();
        hasher.add_page(0x1000, &[0xa5; PAGE_BYTES]);
        assert_eq!(hasher.finish(), PINNED_PAGE);
    }

    const PINNED_RUNNING: u64 = 0x44a72c44;
    const PINNED_EMPTY: u64 = 0xc2f2_3f6c_6dd8_c24d;
    const PINNED_SAMPLE: u64 = 0xc9ad_7ac7_3e94_1322;
    const PINNED_PAGE: u64 = 0x3c99_78cc_b4bb_21a6;

    #[test]
    fn memory_hash_depends_on_contents_and_place_but_not_on_order() {
        let (a, b) = ([1; PAGE_BYTES], [2; PAGE_BYTES]);
        let hash = |pages: &[(u64, &[u8; PAGE_BYTES])]| {
            let mut hasher = MemoryHasher::new();
            pages.iter().for_each(|(addr, page)| hasher.add_page(*addr, page));
            hasher.finish()
        };
        assert_eq!(hash(&[(0x1000, &a), (0x2000, &b)]), hash(&[(0x2000, &b), (0x1000, &a)]));
        assert_ne!(hash(&[(0x1000, &a), (0x2000, &b)]), hash(&[(0x1000, &b), (0x2000, &a)]));
        assert_ne!(hash(&[(0x1000, &a)]), hash(&[(0x3000, &a)]));
        assert_eq!(hash(&[(0x1000, &a), (0x2000, &[0; PAGE_BYTES])]), hash(&[(0x1000, &a)]));
        let mut changed = a;
        changed[PAGE_BYTES - 1] ^= 0x80;
        assert_ne!(hash(&[(0x1000, &a)]), hash(&[(0x1000, &changed)]));
    }

    #[test]
    fn a_range_is_its_pages_and_removal_undoes() {
        let mut bytes = [0; 3 * PAGE_BYTES];
        bytes[0] = 1;
        bytes[3 * PAGE_BYTES - 1] = 2;
        let mut hasher = MemoryHasher::new();
        hasher.add_range(0x7000, &bytes).unwrap();
        assert_eq!(hasher.pages(), 2);
        for (i, page) in bytes.as_chunks::<PAGE_BYTES>().0.iter().enumerate() {
            hasher.remove_page(0x7000 + (i * PAGE_BYTES) as u64, page);
        }
        assert_eq!(hasher, MemoryHasher::new());
    }

    #[test]
    fn parts_of_pages_are_refused() {
        let mut hasher = MemoryHasher::new();
        let bytes = [1; PAGE_BYTES];
        assert_eq!(hasher.add_range(8, &bytes), Err(NotWholePages { addr: 8, len: 4096 }));
        assert!(hasher.add_range(0, &bytes[1..]).is_err());
        assert!(hasher.add_range(u64::MAX - 4095, &bytes).is_err());
        assert_eq!(hasher, MemoryHasher::new());
    }
}
