//! What the algorithms need of the memory they run on, so that loom can run them on a few modelled words and production on a
//! mapped file.
//!
//! I1. An address comes from a [`crate::layout::Layout`] (a section's start plus an index below its count times the entry size,
//! plus a word within the entry), so it is 8-aligned and inside the memory. Nothing read from the memory becomes an address
//! without such a bound: a file that another process scribbles over can make this process log nonsense, not touch foreign memory.
use crate::sync::AtomicU64;

pub(crate) trait Memory: Clone {
    /// Slots in a block.
    const SLOTS: usize;

    /// The word at an address that fulfils I1.
    fn word(&self, at: usize) -> &AtomicU64;

    /// Zeroes `bytes` (a multiple of 8) from `at`; nobody else may write them meanwhile.
    fn clear(&self, at: usize, bytes: usize);

    /// Sees to it that whole pages can be written without a fault that would kill the process (no room on the disk). False if
    /// they cannot.
    fn populate(&self, at: usize, bytes: usize) -> bool;

    /// A clock that all processes share and that is cheap to read; rough order for people, never used to claim one.
    fn ticks(&self) -> u64;
}

/// Words on the heap, for tests: loom's under loom, real ones otherwise (and then Miri can watch).
#[cfg(test)]
pub(crate) mod model {
    use super::Memory;
    use crate::sync::{AtomicU64, Ordering};
    use std::sync::Arc;

    #[derive(Clone)]
    pub(crate) struct Words<const SLOTS: usize>(pub Arc<Vec<AtomicU64>>);

    impl<const SLOTS: usize> Words<SLOTS> {
        pub fn new(words: usize) -> Self {
            Words(Arc::new((0..words).map(|_| AtomicU64::new(0)).collect()))
        }
    }

    impl<const SLOTS: usize> Memory for Words<SLOTS> {
        const SLOTS: usize = SLOTS;

        fn word(&self, at: usize) -> &AtomicU64 {
            assert!(at.is_multiple_of(8), "I1: {at} is not aligned");
            &self.0[at / 8]
        }

        fn clear(&self, at: usize, bytes: usize) {
            for word in 0..bytes / 8 {
                self.word(at + word * 8).store(0, Ordering::Relaxed);
            }
        }

        fn populate(&self, _at: usize, _bytes: usize) -> bool {
            true
        }

        fn ticks(&self) -> u64 {
            1
        }
    }
}
