//! Code memory: regions, each within reach of the modules it serves, filled from the bottom and emptied only all at once.
//!
//! The only module that writes to executable memory. Nothing else may hold a reference into a region; addresses are plain numbers.

use alloc::vec::Vec;

use crate::emit::Assembler;
use crate::gate::{self, Gate};
use crate::sys::{self, raw};

#[derive(Debug)]
pub struct Region {
    pub base: u64,
    pub size: u64,
    /// Where the first unit goes: behind the gate.
    first: u64,
    cursor: u64,
    pub gate: Gate,
}

impl Region {
    /// Whether code at `pc` and what it refers to is in reach of every instruction of this region.
    pub fn serves(&self, pc: u64) -> bool {
        const REACH: u64 = (1 << 31) - (64 << 20);
        let low = self.base.saturating_sub(REACH - self.size);
        let high = self.base.saturating_add(REACH - self.size);
        (low..high).contains(&pc)
    }

    pub fn contains(&self, address: u64) -> bool {
        (self.base..self.base + self.size).contains(&address)
    }

    pub fn cursor(&self) -> u64 {
        self.cursor
    }
}

#[derive(Debug, Default)]
pub struct Cache {
    pub regions: Vec<Region>,
}

impl Cache {
    /// Maps a region and puts a gate at its start. Returns its index.
    pub fn add(&mut self, base: u64, size: u64) -> Result<usize, i64> {
        let flags = raw::MAP_PRIVATE | raw::MAP_ANONYMOUS | raw::MAP_NORESERVE | raw::MAP_FIXED_NOREPLACE;
        let got = sys::mmap(base, size, raw::PROT_READ | raw::PROT_WRITE | raw::PROT_EXEC, flags, -1, 0);
        if got != base as i64 {
            if got >= 0 {
                sys::munmap(got as u64, size);
            }
            return Err(got);
        }
        let mut asm = Assembler::new(Vec::new(), base);
        let gate = gate::emit(&mut asm);
        asm.align(64);
        let first = asm.here();
        self.write(base, &asm.into_bytes());
        self.regions.push(Region { base, size, first, cursor: first, gate });
        Ok(self.regions.len() - 1)
    }

    pub fn region_serving(&self, pc: u64) -> Option<usize> {
        self.regions.iter().position(|region| region.serves(pc))
    }

    pub fn region_containing(&self, address: u64) -> Option<usize> {
        self.regions.iter().position(|region| region.contains(address))
    }

    /// Whether `length` more bytes fit.
    pub fn has_room(&self, region: usize, length: u64) -> bool {
        let region = &self.regions[region];
        region.cursor + length <= region.base + region.size
    }

    /// Installs code assembled for the region's cursor.
    pub fn install(&mut self, region: usize, bytes: &[u8]) -> u64 {
        assert!(self.has_room(region, bytes.len() as u64));
        let address = self.regions[region].cursor;
        self.write(address, bytes);
        self.regions[region].cursor = (address + bytes.len() as u64 + 15) & !15;
        address
    }

    /// Forgets all code but the gates.
    pub fn clear(&mut self) {
        for region in &mut self.regions {
            region.cursor = region.first;
        }
    }

    /// Makes the 32-bit displacement at `patch` lead to `target`; `false` if that is out of reach.
    pub fn link(&mut self, patch: u64, target: u64) -> bool {
        let distance = target.wrapping_sub(patch + 4) as i64;
        let Ok(distance) = i32::try_from(distance) else { return false };
        self.write(patch, &distance.to_le_bytes());
        true
    }

    /// Overwrites the entry of a unit with a jump to `target` in the same region.
    pub fn redirect(&mut self, entry: u64, target: u64) {
        self.write(entry, &[0xe9]);
        let linked = self.link(entry + 1, target);
        debug_assert!(linked);
    }

    fn write(&mut self, address: u64, bytes: &[u8]) {
        debug_assert!(self.region_containing(address).is_some() || self.regions.iter().all(|region| !region.contains(address)));
        // SAFETY: the address lies in a region of ours (`install` and `add` check the bounds; `link` and `redirect` are given
        // addresses inside installed units), which is mapped writable and which no reference points into.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), address as *mut u8, bytes.len()) };
    }
}
