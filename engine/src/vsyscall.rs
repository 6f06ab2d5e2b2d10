//! The page of system calls from before there was a vdso, at an address that never changes. The kernel shows no code there, it acts
//! when somebody jumps to it; here each of its three functions is a little code that makes the system call.

use core::ops::Range;

const BASE: u64 = 0xffff_ffff_ff60_0000;
/// Each function has as many bytes.
const SPACING: u64 = 1 << 10;
/// gettimeofday, time, getcpu.
const CALLS: [u32; 3] = [96, 201, 309];

/// Where the functions are.
pub const PAGE: Range<u64> = BASE..BASE + CALLS.len() as u64 * SPACING;

/// push rcx; push r11; mov eax, CALL; syscall; pop r11; pop rcx; ret: rcx and r11 stay, as with the kernel's own.
const CODE: [u8; 14] = [0x51, 0x41, 0x53, 0xb8, 0, 0, 0, 0, 0x0f, 0x05, 0x41, 0x5b, 0x59, 0xc3];

/// Puts the code from `pc` on into `window` and returns its length; `None` for any other address than those of the functions.
pub fn fetch(pc: u64, window: &mut [u8]) -> Option<usize> {
    if !PAGE.contains(&pc) {
        return None;
    }
    let mut code = CODE;
    code[4..8].copy_from_slice(&CALLS[((pc - BASE) / SPACING) as usize].to_le_bytes());
    let rest = code.get(((pc - BASE) % SPACING) as usize..).unwrap_or_default();
    window[..rest.len()].copy_from_slice(rest);
    Some(rest.len())
}
