//! The vdso reads a page that the kernel changes at any time, so its functions are made to enter the kernel instead.
//!
//! Each function's first bytes are replaced by `mov eax, NR; syscall; ret` before recording starts and put back when it ends. The guest,
//! the snapshot and the debugger all see the same, ordinary code.

use alloc::vec::Vec;

use engine::sys::{self, raw};

use super::maps::Map;

#[derive(Debug, Default)]
pub struct Vdso {
    /// Address and original bytes of each changed function.
    saved: Vec<(u64, [u8; PATCH])>,
    range: (u64, u64),
}

const PATCH: usize = 8;

const FUNCTIONS: [(&[u8], u32); 5] = [
    (b"clock_gettime", raw::__NR_clock_gettime),
    (b"gettimeofday", raw::__NR_gettimeofday),
    (b"time", raw::__NR_time),
    (b"getcpu", raw::__NR_getcpu),
    (b"clock_getres", raw::__NR_clock_getres),
];

impl Vdso {
    /// Changes the functions of the vdso among `maps`.
    pub fn patch(maps: &[Map]) -> Self {
        let mut vdso = Self::default();
        let Some(map) = maps.iter().find(|map| map.name == b"[vdso]") else { return vdso };
        vdso.range = (map.start, map.end);
        // SAFETY: the vdso is mapped readable for the life of the process.
        let image = unsafe { core::slice::from_raw_parts(map.start as *const u8, (map.end - map.start) as usize) };
        let symbols = symbols(image).unwrap_or_default();
        if sys::mprotect(map.start, map.end - map.start, raw::PROT_READ | raw::PROT_WRITE | raw::PROT_EXEC) != 0 {
            return vdso;
        }
        for (name, offset) in symbols {
            let address = map.start + offset;
            let bare = name.strip_prefix(b"__vdso_".as_slice()).unwrap_or(&name);
            let Some(&(_, number)) = FUNCTIONS.iter().find(|(function, _)| *function == bare) else {
                // vgetrandom and whatever comes later: ENOSYS makes the C library fall back to the system call.
                if bare == b"getrandom" {
                    vdso.write(address, 0xffff_ffff, true);
                }
                continue;
            };
            vdso.write(address, number, false);
        }
        sys::mprotect(map.start, map.end - map.start, raw::PROT_READ | raw::PROT_EXEC);
        vdso
    }

    fn write(&mut self, address: u64, number: u32, refuse: bool) {
        if self.saved.iter().any(|(known, _)| *known == address) {
            return;
        }
        let mut code = [0xb8, 0, 0, 0, 0, 0x0f, 0x05, 0xc3];
        code[1..5].copy_from_slice(&number.to_le_bytes());
        if refuse {
            // mov rax, -ENOSYS; ret
            code = [0x48, 0xc7, 0xc0, 0xda, 0xff, 0xff, 0xff, 0xc3];
        }
        let at = address as *mut [u8; PATCH];
        // SAFETY: inside the vdso, made writable by `patch`.
        unsafe {
            self.saved.push((address, at.read()));
            at.write(code);
        }
    }

    /// Puts the original functions back.
    pub fn restore(&mut self) {
        let (start, end) = self.range;
        if self.saved.is_empty() || sys::mprotect(start, end - start, raw::PROT_READ | raw::PROT_WRITE | raw::PROT_EXEC) != 0 {
            return;
        }
        for (address, bytes) in self.saved.drain(..) {
            // SAFETY: as in `write`.
            unsafe { (address as *mut [u8; PATCH]).write(bytes) };
        }
        sys::mprotect(start, end - start, raw::PROT_READ | raw::PROT_EXEC);
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
