//! The guest's x87 and vector state, which lives in the processor also while engine code runs.

use alloc::vec::Vec;
use core::arch::asm;

/// Where an xsave image has its header, and the mxcsr in its legacy part.
pub const HEADER: usize = 512;
const MXCSR: usize = 24;
const MXCSR_DEFAULT: u32 = 0x1f80;
/// The component that holds the rights of protection keys.
const PKRU: u32 = 9;
const LEGACY_AND_HEADER: usize = 576;
/// In the legacy part of a signal frame's image: what the kernel wrote about it.
const SOFTWARE_BYTES: usize = 464;
const MAGIC1: u32 = 0x4650_5853;
/// No processor of today needs more; AMX would.
const IMAGE_MAX: usize = 16 << 10;

#[repr(C, align(64))]
struct Image([u8; IMAGE_MAX]);

/// The components that the operating system has enabled.
pub fn xcr0() -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: every processor with AVX has it enabled; the engine needs one.
    unsafe { asm!("xgetbv", in("ecx") 0, out("eax") low, out("edx") high, options(nomem, nostack)) };
    u64::from(high) << 32 | u64::from(low)
}

/// Bytes of an image with all enabled components.
pub fn image_size() -> usize {
    // The engine is asked for this seldom; CPUID leaves the vector state alone.
    (core::arch::x86_64::__cpuid_count(0xd, 0).ebx as usize).clamp(LEGACY_AND_HEADER, IMAGE_MAX)
}

/// The state now, in the standard format.
pub fn save() -> Vec<u8> {
    save_all(image_size())
}

/// As [`save`], for a caller that has remembered [`image_size`].
pub(crate) fn save_all(size: usize) -> Vec<u8> {
    let mut image = Image([0; IMAGE_MAX]);
    // SAFETY: the image is aligned and large enough for every component that xcr0 can name here.
    unsafe { asm!("xsave64 [{}]", in(reg) image.0.as_mut_ptr(), in("eax") u32::MAX, in("edx") u32::MAX, options(nostack)) };
    image.0[..size.min(IMAGE_MAX)].to_vec()
}

/// Makes every component that the image has count, whether the processor had it in use or not.
pub(crate) fn mark_all_valid(image: &mut [u8]) {
    image[HEADER..HEADER + 8].copy_from_slice(&xcr0().to_le_bytes());
}

/// Where component `index` (from 2 on) lies in the standard format, how long it is, and whether the compacted format aligns it.
pub(crate) fn component(index: u32) -> (usize, usize, bool) {
    let leaf = core::arch::x86_64::__cpuid_count(0xd, index);
    (leaf.ebx as usize, leaf.eax as usize, leaf.ecx & 2 != 0)
}

/// The components that differ from their initial values. The processor's own answer (XINUSE) may differ from that, and does after
/// context switches; this one depends on the registers alone.
pub fn in_use() -> u64 {
    in_use_of(&save())
}

const X87: core::ops::Range<usize> = 0..24;
const X87_REGISTERS: core::ops::Range<usize> = 32..160;
const SSE_REGISTERS: core::ops::Range<usize> = 160..416;
const FCW_DEFAULT: u16 = 0x37f;

fn in_use_of(image: &[u8]) -> u64 {
    let zero = |range: core::ops::Range<usize>| image.get(range).is_none_or(|bytes| bytes.iter().all(|&byte| byte == 0));
    let control = u16::from_le_bytes([image[0], image[1]]);
    let mxcsr = u32::from_le_bytes(core::array::from_fn(|index| image[MXCSR + index]));
    // The tag word's byte is zero when all registers are empty.
    let mut used = u64::from(control != FCW_DEFAULT || !zero(2..6) || !zero(X87_REGISTERS));
    used |= u64::from(!zero(SSE_REGISTERS) || mxcsr != MXCSR_DEFAULT) << 1;
    let enabled = xcr0();
    for index in (2..63).filter(|index| enabled >> index & 1 != 0) {
        let (offset, length, _) = component(index);
        used |= u64::from(!zero(offset..offset + length)) << index;
    }
    used
}

/// What xsave (or xsavec, if `compact`) with the mask `wanted` writes, as (offset, bytes). `old` is the image's XSTATE_BV before.
/// Addresses of the last x87 instruction and operand are left out: they would be ours.
pub fn image_for(wanted: u64, compact: bool, old: u64) -> Vec<(usize, Vec<u8>)> {
    let mut image = save();
    image[6..24].fill(0);
    let wanted = wanted & xcr0();
    let used = in_use_of(&image);
    let write = if compact { wanted & used } else { wanted };
    let mut pieces = Vec::new();
    let mut put = |at: usize, bytes: &[u8]| pieces.push((at, bytes.to_vec()));
    if write & 1 != 0 {
        put(X87.start, &image[X87]);
        put(X87_REGISTERS.start, &image[X87_REGISTERS]);
    }
    if write & 2 != 0 || (!compact && wanted & 6 != 0) {
        put(MXCSR, &image[MXCSR..MXCSR + 8]);
    }
    if write & 2 != 0 {
        put(SSE_REGISTERS.start, &image[SSE_REGISTERS]);
    }
    let mut compact_at = LEGACY_AND_HEADER;
    for index in (2..63).filter(|index| wanted >> index & 1 != 0) {
        let (offset, length, aligned) = component(index);
        if aligned {
            compact_at = compact_at.next_multiple_of(64);
        }
        if write >> index & 1 != 0 {
            put(if compact { compact_at } else { offset }, &image[offset..offset + length]);
        }
        compact_at += length;
    }
    if compact {
        put(HEADER, &(wanted & used).to_le_bytes());
        put(HEADER + 8, &(wanted | 1 << 63).to_le_bytes());
    } else {
        put(HEADER, &(old & !wanted | wanted & used).to_le_bytes());
    }
    pieces
}

/// Puts a state back that [`save`] gave, here or in the process that was recorded. `false` if it is not one.
pub fn load(bytes: &[u8]) -> bool {
    if bytes.len() < LEGACY_AND_HEADER || bytes.len() > IMAGE_MAX {
        return false;
    }
    let word = |at: usize| u64::from_le_bytes(core::array::from_fn(|index| bytes[at + index]));
    let mxcsr = u32::from_le_bytes(core::array::from_fn(|index| bytes[MXCSR + index]));
    // What would make xrstor fault.
    let components = word(HEADER);
    if components & !xcr0() != 0 || bytes[HEADER + 8..HEADER + 64].iter().any(|&byte| byte != 0) || mxcsr & !mxcsr_mask() != 0 {
        return false;
    }
    // And what would lock the engine out of its own memory.
    if components >> PKRU & 1 != 0 && bytes.get(component(PKRU).0).is_none_or(|first| first & 3 != 0) {
        return false;
    }
    let mut image = Image([0; IMAGE_MAX]);
    image.0[..bytes.len()].copy_from_slice(bytes);
    restore(&image);
    true
}

/// The bits of mxcsr that this processor knows.
fn mxcsr_mask() -> u32 {
    const MASK: usize = 28;
    /// Of processors that do not tell.
    const DEFAULT: u32 = 0xffbf;
    let mut image = Image([0; IMAGE_MAX]);
    // SAFETY: the image is aligned and longer than the 512 bytes that are stored.
    unsafe { asm!("fxsave64 [{}]", in(reg) image.0.as_mut_ptr(), options(nostack)) };
    match u32::from_le_bytes(core::array::from_fn(|index| image.0[MASK + index])) {
        0 => DEFAULT,
        mask => mask,
    }
}

fn restore(image: &Image) {
    // SAFETY: the image is aligned; its header was checked. Vector registers belong to the guest, engine code has none.
    unsafe { asm!("xrstor64 [{}]", in(reg) image.0.as_ptr(), in("eax") u32::MAX, in("edx") u32::MAX, options(nostack)) };
}

/// The state in which a signal handler starts.
pub fn reset() {
    let mut image = Image([0; IMAGE_MAX]);
    image.0[MXCSR..MXCSR + 4].copy_from_slice(&MXCSR_DEFAULT.to_le_bytes());
    restore(&image);
}

/// Restores the state from a signal frame's image at a guest address; `false` if it is damaged. A null address resets it. `read` fills a
/// buffer from guest memory, or returns `false`.
pub fn load_frame(address: u64, mut read: impl FnMut(u64, &mut [u8]) -> bool) -> bool {
    if address == 0 {
        reset();
        return true;
    }
    let mut image = Image([0; IMAGE_MAX]);
    let size = image_size();
    if !read(address, &mut image.0[..LEGACY_AND_HEADER]) {
        return false;
    }
    let magic = u32::from_le_bytes(core::array::from_fn(|index| image.0[SOFTWARE_BYTES + index]));
    if magic != MAGIC1 {
        // Only the legacy part: x87 and SSE.
        image.0[HEADER..LEGACY_AND_HEADER].fill(0);
        image.0[HEADER] = 3;
    } else if !read(address, &mut image.0[..size]) {
        return false;
    }
    image.0[SOFTWARE_BYTES..HEADER].fill(0);
    load(&image.0[..size])
}
