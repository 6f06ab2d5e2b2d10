//! A long array of small numbers, in memory.

/// A type that a column can hold.
pub(crate) trait Cell: Copy + Default + Send + Sync + 'static {}

impl Cell for u8 {}
impl Cell for u32 {}
impl Cell for u64 {}

/// An array that may still be on disk.
#[derive(Debug)]
pub(crate) enum Column<T: Cell> {
    Whole(Vec<T>),
}

impl<T: Cell> Column<T> {
    #[inline(always)]
    pub fn get(&self, at: usize) -> T {
        match self {
            Column::Whole(all) => all.get(at).copied().unwrap_or_default(),
        }
    }

    pub fn len(&self) -> usize {
        match self {
            Column::Whole(all) => all.len(),
        }
    }
}
