//! The vdso reads a page that the kernel changes at any time, so in the guest's eyes its functions are system calls.
//!
//! What the guest runs at each function's entry is `mov eax, NR; syscall; ret`: the engine translates that in place of what is there, and
//! the snapshot has it in its memory, so that replay and the debugger see ordinary code. The vdso itself stays as it is. So the host can
//! answer the functions that tell the time by calling them, which costs a tenth of a system call.

use alloc::vec::Vec;

use engine::sys::{self, raw};
use engine::{OVERLAY_BYTES, is_plain};

use super::maps::Map;
use super::shared::SharedMaps;

#[derive(Debug)]
struct Function {
    address: u64,
    code: [u8; OVERLAY_BYTES],
    number: u32,
    /// It may be called from here.
    is_plain: bool,
}

#[derive(Debug, Default)]
pub struct Vdso {
    functions: Vec<Function>,
    range: (u64, u64),
}

/// What a function gave: its result, and the bytes that the guest wants at up to two addresses.
pub struct Answer {
    pub result: i64,
    pub writes: [(u64, [u8; 16], usize); 2],
}

/// The `syscall` in the code.
const SYSCALL_AT: u64 = 5;

const FUNCTIONS: [(&[u8], u32); 5] = [
    (b"clock_gettime", raw::__NR_clock_gettime),
    (b"gettimeofday", raw::__NR_gettimeofday),
    (b"time", raw::__NR_time),
    (b"getcpu", raw::__NR_getcpu),
    (b"clock_getres", raw::__NR_clock_getres),
];

impl Vdso {
    /// Finds the functions of the vdso among `maps`.
    pub fn find(maps: &[Map]) -> Self {
        let mut vdso = Self::default();
        let Some(map) = maps.iter().find(|map| map.name == b"[vdso]") else { return vdso };
        vdso.range = (map.start, map.end);
        // SAFETY: the vdso is mapped readable for the life of the process.
        let image = unsafe { core::slice::from_raw_parts(map.start as *const u8, (map.end - map.start) as usize) };
        for (name, offset) in symbols(image).unwrap_or_default() {
            let address = map.start + offset;
            if vdso.functions.iter().any(|known| known.address == address) {
                continue;
            }
            let bare = name.strip_prefix(b"__vdso_".as_slice()).unwrap_or(&name);
            let (number, code) = match FUNCTIONS.iter().find(|(function, _)| *function == bare) {
                Some(&(_, number)) => {
                    let mut code = [0xb8, 0, 0, 0, 0, 0x0f, 0x05, 0xc3];
                    code[1..5].copy_from_slice(&number.to_le_bytes());
                    (number, code)
                }
                // vgetrandom: ENOSYS makes the C library fall back to the system call. mov rax, -ENOSYS; ret
                None if bare == b"getrandom" => (u32::MAX, [0x48, 0xc7, 0xc0, 0xda, 0xff, 0xff, 0xff, 0xc3]),
                None => continue,
            };
            let tells_time = [raw::__NR_clock_gettime, raw::__NR_gettimeofday, raw::__NR_time].contains(&number);
            vdso.functions.push(Function { address, code, number, is_plain: tells_time && is_plain(image, map.start, address) });
        }
        vdso
    }

    /// What the guest runs at which addresses.
    pub fn overlays(&self) -> impl Iterator<Item = (u64, [u8; OVERLAY_BYTES])> + '_ {
        self.functions.iter().map(|function| (function.address, function.code))
    }

    /// Makes memory what the guest runs. For the snapshot: it changes this process's vdso for good.
    pub fn apply(&self) {
        let (start, end) = self.range;
        if start == end || sys::mprotect(start, end - start, raw::PROT_READ | raw::PROT_WRITE | raw::PROT_EXEC) != 0 {
            return;
        }
        for (address, code) in self.overlays() {
            // SAFETY: inside the vdso, writable now, and private to this process.
            unsafe { (address as *mut [u8; OVERLAY_BYTES]).write(code) };
        }
        sys::mprotect(start, end - start, raw::PROT_READ | raw::PROT_EXEC);
    }

    /// Answers the system call at `pc` without the kernel, if it is a function's and the kernel is not needed.
    #[inline]
    pub fn answer(&self, pc: u64, args: &[u64; 6], shared: &SharedMaps) -> Option<Answer> {
        if pc.wrapping_sub(self.range.0) >= self.range.1 - self.range.0 {
            return None;
        }
        let function = self.functions.iter().find(|function| function.address + SYSCALL_AT == pc && function.is_plain)?;
        // Where the result goes, and how many bytes of it.
        let targets = match function.number {
            raw::__NR_clock_gettime => [(args[1], 16), (0, 0)],
            raw::__NR_gettimeofday => [(args[0], 16), (args[1], 8)],
            _ => [(args[0], 8), (0, 0)],
        };
        if targets.iter().any(|&(address, length)| shared.overlaps(address, address.saturating_add(length))) {
            return None;
        }
        let mut bytes = [[0u64; 2]; 2];
        let slot = |index: usize| if targets[index].0 == 0 { 0 } else { (&raw const bytes[index]) as u64 };
        let (first, second) = match function.number {
            raw::__NR_clock_gettime => (args[0], slot(0)),
            raw::__NR_gettimeofday => (slot(0), slot(1)),
            _ => (slot(0), 0),
        };
        // SAFETY: one of the vdso's functions, with room for what it writes; it keeps to the general registers.
        let result = unsafe { core::mem::transmute::<u64, extern "C" fn(u64, u64) -> i64>(function.address)(first, second) };
        // What the compiler cannot see: the function wrote there.
        let bytes = core::hint::black_box(&mut bytes);
        if result < 0 || function.number == raw::__NR_clock_gettime && targets[0].0 == 0 {
            return None;
        }
        let write = |index: usize| {
            let mut flat = [0; 16];
            flat.copy_from_slice(bytes[index].map(u64::to_le_bytes).as_flattened());
            (targets[index].0, flat, if targets[index].0 == 0 { 0 } else { targets[index].1 as usize })
        };
        Some(Answer { result, writes: [write(0), write(1)] })
    }
}

fn number<const N: usize>(image: &[u8], at: u64) -> Option<u64> {
    let bytes = image.get(usize::try_from(at).ok()?..)?.get(..N)?;
    let mut wide = [0; 8];
    wide[..N].copy_from_slice(bytes);
    Some(u64::from_le_bytes(wide))
}

/// Names and offsets of the functions in an ELF image's dynamic symbol table.
fn symbols(image: &[u8]) -> Option<Vec<(Vec<u8>, u64)>> {
    let (section_at, section_size, sections) = (number::<8>(image, 40)?, number::<2>(image, 58)?, number::<2>(image, 60)?);
    const SHT_DYNSYM: u64 = 11;
    let mut found = Vec::new();
    for index in 0..sections {
        let section = section_at + index * section_size;
        if number::<4>(image, section + 4)? != SHT_DYNSYM {
            continue;
        }
        let (at, size, link) = (number::<8>(image, section + 24)?, number::<8>(image, section + 32)?, number::<4>(image, section + 40)?);
        let strings = number::<8>(image, section_at + link * section_size + 24)?;
        for symbol in (at..at + size).step_by(24) {
            let name_at = (strings + number::<4>(image, symbol)?) as usize;
            let name = image.get(name_at..)?.split(|&byte| byte == 0).next()?.to_vec();
            let (kind, value) = (number::<1>(image, symbol + 4)? & 0xf, number::<8>(image, symbol + 8)?);
            if kind == 2 && value != 0 {
                found.push((name, value));
            }
        }
    }
    Some(found)
}
