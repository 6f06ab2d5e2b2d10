//! Pages of shared objects that the program frees: from then on they are zero, for everybody. That is a write by the kernel.
//!
//! Only what has memory is in the log: what was never touched is zero before and after.

use alloc::vec::Vec;

use engine::sys::{self, raw};
use shmem_log::{Kind, LineTicks, ObjectIndex, Origin, WideToken, Writer};

use super::calls::Turn;
use super::host::{Guest, Recorder};
use super::shared::SharedMap;

const PAGE: u64 = 4096;
const PUNCHES: u64 = (raw::FALLOC_FL_PUNCH_HOLE | raw::FALLOC_FL_ZERO_RANGE) as u64;

/// A write of zeros, begun before the call.
struct Zeros {
    token: WideToken,
    scratch: Vec<LineTicks>,
    length: u64,
}

/// What a call is about to free.
#[derive(Default)]
pub struct Freed {
    zeros: Vec<Zeros>,
}

impl Turn<'_> {
    /// For calls that change the length or the contents of files.
    pub fn frees_of_file(&self, host: &mut Recorder, engine: &Guest) -> Freed {
        let [file, mode, from, length, ..] = self.args;
        let (number, from, to) = match self.number as u32 {
            raw::__NR_fallocate if mode & PUNCHES != 0 => (raw::__NR_fstat, from, from.saturating_add(length)),
            raw::__NR_ftruncate => (raw::__NR_fstat, mode, u64::MAX),
            raw::__NR_truncate => (raw::__NR_stat, mode, u64::MAX),
            _ => return Freed::default(),
        };
        let mut status = [0u64; 18];
        // SAFETY: struct stat is 144 bytes; a path that cannot be read is refused.
        let result = unsafe { sys::syscall(u64::from(number), [file, status.as_mut_ptr() as u64, 0, 0, 0, 0]) };
        let [device, inode, ..] = status;
        if result != 0 {
            return Freed::default();
        }
        let maps = host.shared.iter().filter(|map| (map.device, map.inode) == (device, inode));
        let parts = maps.filter_map(|map| {
            let (low, high) = (map.offset.max(from), (map.offset + map.length()).min(to));
            let at = |offset: u64| offset - map.offset + map.start;
            (low < high).then(|| map.part(at(low), at(high)))
        });
        let parts: Vec<SharedMap> = parts.collect();
        begin(host, engine, &parts)
    }

    /// For memory that is freed by its address.
    pub fn frees(&self, host: &mut Recorder, engine: &Guest, start: u64, end: u64) -> Freed {
        let parts = host.shared.within(start, end);
        begin(host, engine, &parts)
    }

    /// After the call.
    pub fn freed(&self, host: &mut Recorder, engine: &mut Guest, freed: Freed, is_done: bool) {
        let (pc, bbcount) = (engine.context().rip, engine.bbcount());
        let Some(log) = &mut host.log else { return };
        for mut zeros in freed.zeros {
            if is_done {
                let bytes = alloc::vec![0; zeros.length as usize];
                log.commit_wide(zeros.token, &mut zeros.scratch, Origin::Pc { pc, by_kernel: true }, bbcount, &[], &bytes);
            } else {
                log.abandon_wide(zeros.token);
            }
        }
    }
}

/// Parts of one object may be given twice, if it is mapped twice.
fn begin(host: &mut Recorder, engine: &Guest, parts: &[SharedMap]) -> Freed {
    let mut freed = Freed::default();
    let Some(log) = &mut host.log else { return freed };
    log.note_time(engine.bbcount());
    let mut done: Vec<(ObjectIndex, u64, u64)> = Vec::new();
    for part in parts {
        let Some(object) = part.object else { continue };
        for (low, high) in resident(part) {
            let before = done.iter().filter(|&&(of, ..)| of == object).map(|&(_, from, to)| (from, to));
            let mut before: Vec<_> = before.collect();
            before.sort_unstable();
            for (low, high) in engine::arena::outside(low, high, before) {
                done.push((object, low, high));
                let mut scratch = Vec::new();
                scratch.resize(Writer::lines(low, high - low), LineTicks::default());
                let token = log.begin_wide(Kind::Write, object, low, high - low, &mut scratch);
                freed.zeros.push(Zeros { token, scratch, length: high - low });
            }
        }
    }
    freed
}

/// The ranges of the object in `part` that have memory.
fn resident(part: &SharedMap) -> Vec<(u64, u64)> {
    let first = part.alias & !(PAGE - 1);
    let pages = (part.alias + part.length() - first).div_ceil(PAGE);
    let mut there = alloc::vec![0u8; pages as usize];
    // SAFETY: mincore writes a byte for each page.
    unsafe { sys::syscall(u64::from(raw::__NR_mincore), [first, pages * PAGE, there.as_mut_ptr() as u64, 0, 0, 0]) };
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for index in (0..pages).filter(|&index| there[index as usize] & 1 != 0) {
        let page = first + index * PAGE;
        let (low, high) = (page.max(part.alias), (page + PAGE).min(part.alias + part.length()));
        let (low, high) = (low - part.alias + part.offset, high - part.alias + part.offset);
        match runs.last_mut() {
            Some(last) if last.1 == low => last.1 = high,
            _ => runs.push((low, high)),
        }
    }
    runs
}
