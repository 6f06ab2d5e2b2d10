//! Code memory: regions, each within reach of the modules it serves, emptied only all at once. A region has three parts, each filled
//! from its bottom: what usually runs, exits, and constants, so that what is used together lies together.
//!
//! The only module that writes to executable memory. Nothing else may hold a reference into a region; addresses are plain numbers.

use alloc::vec::Vec;

use crate::emit::Assembler;
use crate::gate::{self, Gate};
use crate::sys::{self, raw};
use crate::translate::Place;

#[derive(Debug)]
pub struct Region {
    pub base: u64,
    pub size: u64,
    /// Where the first unit goes: behind the gate.
    first: u64,
    cursor: u64,
    cold_cursor: u64,
    constants_cursor: u64,
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

    /// Where the next unit goes.
    pub fn cursor(&self) -> u64 {
        self.cursor
    }

    /// Where what belongs to it but seldom runs goes.
    pub fn cold_cursor(&self) -> u64 {
        self.cold_cursor
    }

    fn cold_start(&self) -> u64 {
        self.base + self.size / 16 * 7
    }

    fn constants_start(&self) -> u64 {
        self.base + self.size / 16 * 15
    }

    /// Empties it.
    fn clear(&mut self) {
        self.cursor = self.first;
        self.cold_cursor = self.cold_start();
        self.constants_cursor = self.constants_start();
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
        let mut region = Region { base, size, first, cursor: 0, cold_cursor: 0, constants_cursor: 0, gate };
        region.clear();
        self.regions.push(region);
        Ok(self.regions.len() - 1)
    }

    pub fn region_serving(&self, pc: u64) -> Option<usize> {
        self.regions.iter().position(|region| region.serves(pc))
    }

    pub fn region_containing(&self, address: u64) -> Option<usize> {
        self.regions.iter().position(|region| region.contains(address))
    }

    /// Whether `length` more bytes fit in each part.
    pub fn has_room(&self, region: usize, length: u64) -> bool {
        let region = &self.regions[region];
        region.cursor + length <= region.cold_start()
            && region.cold_cursor + length <= region.constants_start()
            && region.constants_cursor + length <= region.base + region.size
    }

    /// Where code assembled now must stand, with buffers for it.
    pub fn place(&self, region: usize, buffers: (Vec<u8>, Vec<u8>)) -> Place {
        let region = &self.regions[region];
        Place { base: region.cursor, cold_base: region.cold_cursor, constants_base: region.constants_cursor, buffers }
    }

    /// Installs code assembled for the region's cursor.
    pub fn install(&mut self, region: usize, bytes: &[u8]) -> u64 {
        assert!(self.has_room(region, bytes.len() as u64));
        let address = self.regions[region].cursor;
        self.write(address, bytes);
        self.regions[region].cursor = (address + bytes.len() as u64 + 15) & !15;
        address
    }

    /// Installs code assembled for the region's cold cursor and the constants behind those there are.
    pub fn install_cold(&mut self, region: usize, bytes: &[u8], constants: &[u64]) -> u64 {
        assert!(self.has_room(region, bytes.len().max(8 * constants.len()) as u64));
        for constant in constants {
            let at = self.regions[region].constants_cursor;
            self.write(at, &constant.to_le_bytes());
            self.regions[region].constants_cursor = at + 8;
        }
        let address = self.regions[region].cold_cursor;
        self.write(address, bytes);
        self.regions[region].cold_cursor = address + bytes.len() as u64;
        address
    }

    /// Forgets all code but the gates.
    pub fn clear(&mut self) {
        for region in &mut self.regions {
            region.clear();
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
