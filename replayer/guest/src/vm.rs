//! What recorded system calls did to the address space, done again: to the [`Space`] and to the real one.
//!
//! A new mapping is anonymous and writable at first, so that the event's memory writes can give it its contents; then it gets its
//! protection. Nothing here ever maps a file of the machine that replays.

use alloc::vec::Vec;

use engine::{arena, sys, sys::raw};

use crate::space::{Map, Space, origin, page_up};

/// The end of what Linux gives to a program.
const USER_END: u64 = 0x7fff_ffff_f000;

/// A change of the address space that could not be done again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    pub what: &'static str,
    pub address: u64,
    pub error: i64,
}

/// What is left to do after the event's writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// Ranges whose code may be another now.
    pub ranges: Vec<(u64, u64)>,
    /// (start, end, protection) to set.
    protect: Vec<(u64, u64, u32)>,
}

pub struct Vm {
    pub space: Space,
    /// Areas of the engine outside its arena.
    pub taken: Vec<(u64, u64)>,
}

const FIXED: u32 = raw::MAP_PRIVATE | raw::MAP_ANONYMOUS | raw::MAP_NORESERVE | raw::MAP_FIXED;
const RW: u32 = raw::PROT_READ | raw::PROT_WRITE;

/// Whether this advice to madvise takes the contents away.
fn empties(advice: u64) -> bool {
    [raw::MADV_DONTNEED, raw::MADV_REMOVE, raw::MADV_DONTNEED_LOCKED].contains(&(advice as u32))
}

/// Fresh zeroed memory at exactly this place.
pub fn map_zero(start: u64, end: u64, prot: u32) -> Result<(), Refused> {
    match sys::mmap(start, end - start, prot, FIXED, -1, 0) {
        got if got == start as i64 => Ok(()),
        error => Err(Refused { what: "mmap", address: start, error }),
    }
}

impl Vm {
    /// Whether [start, end) is the guest's to use.
    fn check(&self, what: &'static str, start: u64, end: u64) -> Result<(), Refused> {
        let overlaps = |low: u64, high: u64| start < high && low < end;
        let bad = !start.is_multiple_of(4096) || end < start || end > USER_END || overlaps(arena::BASE, arena::END);
        if bad || self.taken.iter().any(|&(base, size)| overlaps(base, base + size)) {
            return Err(Refused { what, address: start, error: -(sys::errno::EINVAL as i64) });
        }
        Ok(())
    }

    /// The parts of [start, end) that are the guest's to use: the recorder unmapped those only.
    fn outside(&self, start: u64, end: u64) -> Vec<(u64, u64)> {
        let mut ours: Vec<_> = self.taken.iter().map(|&(base, size)| (base, base + size)).chain([(arena::BASE, arena::END)]).collect();
        ours.sort_unstable();
        arena::outside(start, end.min(USER_END), ours)
    }

    /// Does what system call `nr` did, up to the contents. `event` is its offset in the log.
    pub fn apply(&mut self, nr: u64, args: &[u64; 6], result: i64, event: u64) -> Result<Changed, Refused> {
        let mut changed = Changed::default();
        if (-4095..0).contains(&result) {
            if result == -i64::from(sys::errno::ENOMEM) {
                self.apply_up_to_gap(nr, args, &mut changed)?;
            }
            return Ok(changed);
        }
        let result = result as u64;
        match nr as u32 {
            raw::__NR_mmap => self.map(args, result, event, &mut changed)?,
            raw::__NR_munmap => {
                for (start, end) in self.outside(args[0], page_up(args[0].saturating_add(args[1]))) {
                    self.unmap(start, end, &mut changed)?;
                }
            }
            raw::__NR_mprotect | raw::__NR_pkey_mprotect => {
                let (start, end) = (args[0], page_up(args[0].saturating_add(args[1])));
                self.check("mprotect", start, end)?;
                changed.ranges.push((start, end));
                changed.protect.push((start, end, args[2] as u32 & 7));
            }
            raw::__NR_mremap => self.remap(args, result, &mut changed)?,
            raw::__NR_brk => self.set_brk(result, &mut changed)?,
            raw::__NR_madvise if empties(args[2]) => {
                self.zero(args[0], page_up(args[0].saturating_add(args[1])), &mut changed)?;
            }
            _ => {}
        }
        Ok(changed)
    }

    /// What a call did before it met memory that is not mapped: mprotect stops there, madvise goes on behind.
    fn apply_up_to_gap(&mut self, nr: u64, args: &[u64; 6], changed: &mut Changed) -> Result<(), Refused> {
        let (start, end) = (args[0], page_up(args[0].saturating_add(args[1])));
        match nr as u32 {
            raw::__NR_mprotect | raw::__NR_pkey_mprotect => {
                let end = start + self.space.mapped_length(start, end.saturating_sub(start));
                changed.ranges.push((start, end));
                changed.protect.push((start, end, args[2] as u32 & 7));
            }
            raw::__NR_madvise if empties(args[2]) && start < end => self.zero(start, end, changed)?,
            _ => {}
        }
        Ok(())
    }

    /// To be called when the event's memory writes have been done.
    pub fn finish(&mut self, changed: &Changed) -> Result<(), Refused> {
        for &(start, end, prot) in &changed.protect {
            match sys::mprotect(start, end - start, prot) {
                0 => self.space.protect(start, end, prot),
                error => return Err(Refused { what: "mprotect", address: start, error }),
            }
        }
        Ok(())
    }

    fn map(&mut self, args: &[u64; 6], start: u64, event: u64, changed: &mut Changed) -> Result<(), Refused> {
        let end = page_up(start.saturating_add(args[1]));
        self.check("mmap", start, end)?;
        map_zero(start, end, RW)?;
        let flags = args[3] as u32;
        let file = flags & raw::MAP_ANONYMOUS == 0;
        let shared = flags & (raw::MAP_SHARED | raw::MAP_SHARED_VALIDATE) & 3 != raw::MAP_PRIVATE;
        let origin = if file { origin::EVENT | event } else { origin::ANONYMOUS };
        self.space.insert(Map { start, end, prot: RW, shared: u32::from(shared), offset: if file { args[5] } else { 0 }, origin });
        changed.ranges.push((start, end));
        changed.protect.push((start, end, args[2] as u32 & 7));
        Ok(())
    }

    /// What a call did that reached up to `end`, where its arguments and its result do not say so.
    pub fn apply_up_to(&mut self, nr: u32, args: &[u64; 6], result: i64, end: u64, changed: &mut Changed) -> Result<(), Refused> {
        match nr {
            raw::__NR_shmat if result > 0 => self.attach(result as u64, end, changed),
            // What was one segment may be several mappings by now, and neighbours may be one.
            raw::__NR_shmdt if result == 0 => self.unmap(args[0], end, changed),
            raw::__NR_mprotect | raw::__NR_pkey_mprotect if args[0] < end => {
                self.check("mprotect", args[0], end)?;
                changed.ranges.push((args[0], end));
                changed.protect.push((args[0], end, args[2] as u32 & 7));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// What shmat did: a segment that ends at `end` is at `start`.
    fn attach(&mut self, start: u64, end: u64, changed: &mut Changed) -> Result<(), Refused> {
        self.check("shmat", start, end)?;
        map_zero(start, end, RW)?;
        self.space.insert(Map { start, end, prot: RW, shared: 1, offset: 0, origin: origin::ANONYMOUS });
        changed.ranges.push((start, end));
        Ok(())
    }

    fn unmap(&mut self, start: u64, end: u64, changed: &mut Changed) -> Result<(), Refused> {
        self.check("munmap", start, end)?;
        match sys::munmap(start, end - start) {
            0 => {}
            error => return Err(Refused { what: "munmap", address: start, error }),
        }
        self.space.remove(start, end);
        changed.ranges.push((start, end));
        Ok(())
    }

    /// Memory that is still there but zero now (file contents come as writes).
    fn zero(&mut self, start: u64, end: u64, changed: &mut Changed) -> Result<(), Refused> {
        self.check("madvise", start, end)?;
        let maps: Vec<Map> = self.space.within(start, end).collect();
        for map in maps {
            map_zero(map.start, map.end, map.prot | RW)?;
            changed.ranges.push((map.start, map.end));
            changed.protect.push((map.start, map.end, map.prot));
        }
        Ok(())
    }

    fn set_brk(&mut self, brk: u64, changed: &mut Changed) -> Result<(), Refused> {
        if self.space.brk == 0 {
            // Nothing is known of an earlier heap: this call only asked where it ends.
            self.space.brk = brk;
            return Ok(());
        }
        let (old, new) = (page_up(self.space.brk), page_up(brk));
        self.check("brk", old.min(new), old.max(new))?;
        let (added, removed) = self.space.set_brk(brk);
        if added.0 < added.1 {
            map_zero(added.0, added.1, RW)?;
        }
        if removed.0 < removed.1 {
            sys::munmap(removed.0, removed.1 - removed.0);
            changed.ranges.push(removed);
        }
        Ok(())
    }

    fn remap(&mut self, args: &[u64; 6], new: u64, changed: &mut Changed) -> Result<(), Refused> {
        let (old, old_end, new_end) = (args[0], page_up(args[0].saturating_add(args[1])), page_up(new.saturating_add(args[2])));
        self.check("mremap", old, old_end)?;
        self.check("mremap", new, new_end)?;
        let Some(first) = self.space.find(old).copied() else {
            return Err(Refused { what: "mremap of memory that is not mapped", address: old, error: 0 });
        };
        let template = |start: u64, end: u64| {
            let named = first.origin != origin::ANONYMOUS && first.origin != origin::HEAP;
            let offset = if named { first.offset.saturating_add(old - first.start) } else { 0 };
            Map {
                start,
                end,
                offset,
                prot: first.prot,
                shared: first.shared,
                origin: if first.origin == origin::HEAP { origin::ANONYMOUS } else { first.origin },
            }
        };
        let kept = (old_end - old).min(new_end - new);
        changed.ranges.push((old, old_end));
        if new == old {
            if new_end > old_end {
                map_zero(old_end, new_end, first.prot)?;
            } else if new_end < old_end {
                sys::munmap(new_end, old_end - new_end);
                self.space.remove(new_end, old_end);
            }
            self.space.insert(template(old, new_end));
            return Ok(());
        }
        changed.ranges.push((new, new_end));
        map_zero(new, new_end, RW)?;
        // An old length of 0 makes a second view of shared memory, of which nothing is known yet.
        if kept > 0 && sys::mremap(old, kept, kept, raw::MREMAP_MAYMOVE | raw::MREMAP_FIXED, new) != new as i64 {
            self.copy(old, new, kept);
        }
        self.space.remove(old, old_end);
        if args[3] as u32 & raw::MREMAP_DONTUNMAP != 0 {
            map_zero(old, old_end, first.prot)?;
            self.space.insert(template(old, old_end));
        } else if old_end > old {
            sys::munmap(old, old_end - old);
        }
        self.space.insert(Map { prot: RW, ..template(new, new_end) });
        if kept > 0 {
            sys::mprotect(new, kept, first.prot | RW);
        }
        changed.protect.push((new, new_end, first.prot));
        Ok(())
    }

    fn copy(&self, from: u64, to: u64, length: u64) {
        let mut page = [0u8; 4096];
        for offset in (0..length).step_by(4096) {
            let got = engine::read_guest(from + offset, &mut page);
            engine::write_guest(to + offset, &page[..got]);
        }
    }

    /// Puts `bytes` at `address` as the kernel or the recorder did, whatever the protection there. Returns how many could be put.
    pub fn write(&mut self, address: u64, bytes: &[u8]) -> usize {
        let end = address.saturating_add(bytes.len() as u64);
        if arena::contains(address) || arena::contains(end) || self.taken.iter().any(|&(base, size)| address < base + size && base < end) {
            return 0;
        }
        let mut done = engine::write_guest(address, bytes);
        while done < bytes.len() {
            let at = address + done as u64;
            let Some(map) = self.space.find(at).copied() else { break };
            if map.prot & raw::PROT_WRITE != 0 {
                break;
            }
            let part = ((map.end - at) as usize).min(bytes.len() - done);
            sys::mprotect(map.start, map.end - map.start, RW);
            let put = engine::write_guest(at, &bytes[done..done + part]);
            sys::mprotect(map.start, map.end - map.start, map.prot);
            if put == 0 {
                break;
            }
            done += put;
            if done < bytes.len() {
                done += engine::write_guest(address + done as u64, &bytes[done..]);
            }
        }
        done
    }

    /// Reads guest memory, and only that.
    pub fn read(&self, address: u64, to: &mut [u8]) -> usize {
        let length = self.space.mapped_length(address, to.len() as u64) as usize;
        engine::read_guest(address, &mut to[..length])
    }
}
