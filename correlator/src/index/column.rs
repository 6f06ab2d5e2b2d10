//! A long array of small numbers: in memory, or on disk and read as it is needed.
//!
//! I1. A chunk that is read is compared with its checksum before any of it is used. One that is not what was written, or cannot be
//! read, gives zeros and sets the file's `broken` mark; whoever asked the question looks at that mark and builds the index again.
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use xxhash_rust::xxh3::xxh3_64;

/// Bytes that are read and checked at once.
pub(super) const CHUNK_BYTES: usize = 128 << 10;

/// A type that a column can hold.
pub(crate) trait Cell: Copy + Default + Send + Sync + 'static {
    const BYTES: usize;
    fn get(bytes: &[u8]) -> Self;
    fn put(self, out: &mut Vec<u8>);
}

macro_rules! cell {
    ($($type:ty),*) => {$(
        impl Cell for $type {
            const BYTES: usize = size_of::<$type>();

            #[inline(always)]
            fn get(bytes: &[u8]) -> Self {
                bytes.try_into().map_or(0, <$type>::from_le_bytes)
            }

            fn put(self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
        }
    )*};
}
cell!(u8, u16, u32, u64);

/// The index's file.
#[derive(Debug)]
pub(crate) struct Backing {
    pub file: File,
    pub broken: AtomicBool,
}

/// An array that may still be on disk.
#[derive(Debug)]
pub(crate) enum Column<T: Cell> {
    Whole(Vec<T>),
    OnDisk(OnDisk<T>),
}

#[derive(Debug)]
pub(crate) struct OnDisk<T> {
    backing: Arc<Backing>,
    /// Of the first byte in the file.
    offset: u64,
    len: usize,
    checksums: Vec<u64>,
    chunks: Vec<OnceLock<Box<[T]>>>,
}

impl<T: Cell> OnDisk<T> {
    const PER_CHUNK: usize = CHUNK_BYTES / T::BYTES;

    #[inline]
    fn get(&self, at: usize) -> T {
        let Some(chunk) = self.chunks.get(at / Self::PER_CHUNK) else { return T::default() };
        let chunk = chunk.get_or_init(|| self.load(at / Self::PER_CHUNK));
        chunk.get(at % Self::PER_CHUNK).copied().unwrap_or_default()
    }

    #[cold]
    fn load(&self, number: usize) -> Box<[T]> {
        let start = number * Self::PER_CHUNK;
        let count = Self::PER_CHUNK.min(self.len.saturating_sub(start));
        let mut bytes = vec![0; count * T::BYTES];
        let read = self.backing.file.read_exact_at(&mut bytes, self.offset + (start * T::BYTES) as u64);
        if read.is_err() || self.checksums.get(number) != Some(&xxh3_64(&bytes)) {
            self.backing.broken.store(true, Relaxed);
            return vec![T::default(); count].into();
        }
        bytes.chunks_exact(T::BYTES).map(T::get).collect()
    }
}

impl<T: Cell> Column<T> {
    /// One that is read when it is asked for; None unless there is a checksum for each chunk.
    pub fn on_disk(backing: &Arc<Backing>, offset: u64, len: usize, checksums: Vec<u64>) -> Option<Column<T>> {
        let count = len.div_ceil(OnDisk::<T>::PER_CHUNK);
        let mut chunks = Vec::new();
        chunks.resize_with(count, OnceLock::new);
        (checksums.len() == count).then(|| Column::OnDisk(OnDisk { backing: backing.clone(), offset, len, checksums, chunks }))
    }

    #[inline(always)]
    pub fn get(&self, at: usize) -> T {
        match self {
            Column::Whole(all) => all.get(at).copied().unwrap_or_default(),
            Column::OnDisk(on_disk) => on_disk.get(at),
        }
    }

    pub fn len(&self) -> usize {
        match self {
            Column::Whole(all) => all.len(),
            Column::OnDisk(on_disk) => on_disk.len,
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = T> + '_ {
        (0..self.len()).map(|at| self.get(at))
    }

    /// Passes the bytes of each chunk on.
    pub fn for_each_chunk<E>(&self, mut each: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        let per_chunk = CHUNK_BYTES / T::BYTES;
        let mut bytes = Vec::with_capacity(CHUNK_BYTES);
        for start in (0..self.len()).step_by(per_chunk) {
            bytes.clear();
            (start..(start + per_chunk).min(self.len())).for_each(|at| self.get(at).put(&mut bytes));
            each(&bytes)?;
        }
        Ok(())
    }
}
