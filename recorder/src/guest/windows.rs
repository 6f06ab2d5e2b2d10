//! Which mapping a shared site touched last, for emitted code that performs its accesses by itself (`engine::inline`).
//!
//! I1. A cell never moves while translated code may refer to it; windows are freed only when no cell points to one.
//! I2. Every change of a mapping, its rights or its object closes all windows ([`Windows::close`]); the next access at a site asks
//! the host and opens one again.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;

use engine::inline::Window;
use shmem_log::layout::{CLOCK_HASH, OFFSET_BITS};
use shmem_log::{ObjectIndex, SiteIndex};

use super::shared::SharedMap;

/// What emitted code reads is the address of the window.
#[derive(Debug)]
struct Cell {
    window: u64,
    number: SiteIndex,
}

#[derive(Debug)]
pub struct Windows {
    /// By pc.
    cells: BTreeMap<u64, Box<Cell>>,
    /// By guest address.
    open: BTreeMap<u64, Box<Window>>,
    none: Box<Window>,
}

impl Default for Windows {
    fn default() -> Self {
        Self { cells: BTreeMap::new(), open: BTreeMap::new(), none: Box::new(Window::NONE) }
    }
}

fn address_of<T>(value: &T) -> u64 {
    core::ptr::from_ref(value) as u64
}

impl Windows {
    /// The address of the cell for `pc` and the site's number; `register` gives it one.
    pub fn cell(&mut self, pc: u64, register: impl FnOnce() -> Option<SiteIndex>) -> Option<(u64, SiteIndex)> {
        let cell = match self.cells.get(&pc) {
            Some(cell) => cell,
            None => {
                let cell = Box::new(Cell { window: address_of(&*self.none), number: register()? });
                self.cells.entry(pc).or_insert(cell)
            }
        };
        Some((address_of(&cell.window), cell.number))
    }

    pub fn number(&self, pc: u64) -> Option<SiteIndex> {
        self.cells.get(&pc).map(|cell| cell.number)
    }

    /// The site at `pc` has touched this mapping, whose rights allow what it does.
    pub fn bind(&mut self, pc: u64, map: &SharedMap, object: ObjectIndex) {
        let Some(cell) = self.cells.get_mut(&pc) else { return };
        let window = self.open.entry(map.start).or_insert_with(|| Box::new(window(map, object)));
        // SAFETY: a word of ours; emitted code that reads it does not run now.
        unsafe { (&raw mut cell.window).write_volatile(address_of(&**window)) };
    }

    /// `false`: none was open.
    pub fn close(&mut self) -> bool {
        if self.open.is_empty() {
            return false;
        }
        let none = address_of(&*self.none);
        for cell in self.cells.values_mut() {
            // SAFETY: as in `bind`.
            unsafe { (&raw mut cell.window).write_volatile(none) };
        }
        self.open.clear();
        true
    }
}

fn window(map: &SharedMap, object: ObjectIndex) -> Window {
    Window {
        start: map.start,
        reach: core::array::from_fn(|power| map.length() - (1 << power)),
        alias: map.alias.wrapping_sub(map.start),
        known: map.known.wrapping_sub(map.start),
        place: (u64::from(object.get()) << OFFSET_BITS | map.offset).wrapping_sub(map.start),
        hash: CLOCK_HASH,
    }
}
